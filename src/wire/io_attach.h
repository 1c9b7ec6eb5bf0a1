// What opens a step's I/O on an attached stream: the output that the client already has.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/ids.h"

namespace lockstep {

// Payload of IoFrame::kAttach: bytes of output (fd 1) and of errors (fd 2) by rank, {"have":{"0":[120,0]}}. A rank that
// is missing has nothing yet. "onlooker": it sees what the tasks say from now on, and may say something to them,
// beside the client whose step it is: nothing waits for it, and nothing is kept for it.

struct IoAttach {
  bool onlooker = false;
  std::map<std::uint32_t, std::array<std::uint64_t, 2>> have;

  void advance(std::uint32_t rank, std::uint8_t fd, std::uint64_t upto);
  // The payload of a kOutput frame that was passed on up to here: takes away what is known and advances. False: nothing
  // of it is new, or it is no such payload.
  bool cut(std::uint32_t rank, std::string& payload);
  IoAttach only(const std::vector<std::uint32_t>& ranks) const;
};
std::string encode(const IoAttach& attach);
Result<IoAttach> decode_io_attach(std::string_view text);

}  // namespace lockstep
