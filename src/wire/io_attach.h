// What a step I/O client already has, by rank: bytes of output (fd 1) and of errors (fd 2). JSON
// {"have":{"0":[120,0]}}; a rank that is missing has nothing yet.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct IoAttach {
  std::map<std::uint32_t, std::array<std::uint64_t, 2>> have;

  void advance(std::uint32_t rank, std::uint8_t fd, std::uint64_t upto);
  IoAttach only(const std::vector<std::uint32_t>& ranks) const;
};
std::string encode(const IoAttach& attach);
Result<IoAttach> decode_io_attach(std::string_view text);

}  // namespace lockstep
