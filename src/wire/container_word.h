// What is told of one life of a container of root's on its node, a line each: by lockstep-container, which makes what
// runc needs, to the container's parent, and by that to the keeper of the sandbox.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace lockstep {

struct ContainerWord {
  enum class What : unsigned char {
    kFetching,   // its image comes from a registry
    kImage,      // it is there: image, fetch_time, and what the parent has to know
    kBegan,      // the program runs: pid
    kCannotYet,  // it will be tried again: reason, message
    kFailed,     // it cannot run as it was asked for: reason, message
    kEnded,      // after its program has ended: oom, message
  } what = What::kImage;
  std::string image;               // "sha256:…"
  Duration fetch_time;             // 0 = it was there
  std::uint32_t uid = 0, gid = 0;  // kImage: who it runs as
  std::vector<std::uint32_t> groups;
  std::string replaced;          // kImage: links of the image that folders have taken the place of: "/dev, /etc"
  std::int32_t stop_signal = 0;  // kImage: by which the image wants to be ended; 0 = as usual
  std::int32_t pid = 0;
  std::string reason, message;
  bool oom = false;
  friend bool operator==(const ContainerWord&, const ContainerWord&) = default;
};

std::string encode_container_word(const ContainerWord& word);  // one line, without its end
Result<ContainerWord> decode_container_word(std::string_view line);

// A record's text has no control characters: what others wrote is made such a text.
std::string as_phrase(std::string_view text, std::size_t bytes_max = 4096);

}  // namespace lockstep
