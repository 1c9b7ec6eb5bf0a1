// What a front end gives the node for a sandbox (Sandbox::front_end_files): files of its volumes, variables of its
// containers, and what they still wait for. The answer of GET /v1/front-end-files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct FrontEndFiles {
  struct File {
    std::string path;  // relative, within its volume
    std::uint32_t mode = 0644;
    std::optional<std::uint32_t> uid;
    std::string data;  // base64
    friend bool operator==(const File&, const File&) = default;
  };
  struct Volume {
    std::string name;
    std::vector<File> files;
    friend bool operator==(const Volume&, const Volume&) = default;
  };
  struct Variable {
    std::string container, name, value;
    friend bool operator==(const Variable&, const Variable&) = default;
  };
  // A container that cannot start yet; "" = none can.
  struct Wait {
    std::string container, reason, message;
    friend bool operator==(const Wait&, const Wait&) = default;
  };
  std::string version;  // to ask again with
  std::vector<Volume> volumes;
  std::vector<Variable> variables;
  std::vector<Wait> waits;
  friend bool operator==(const FrontEndFiles&, const FrontEndFiles&) = default;
};

inline constexpr std::size_t kFrontEndFilesMax = 16 << 20;  // bytes of the answer

std::string encode_front_end_files(const FrontEndFiles& files);
Result<FrontEndFiles> decode_front_end_files(std::string_view text);

// Nothing: it is malformed.
std::optional<std::string> bytes_from_base64(std::string_view text);

}  // namespace lockstep
