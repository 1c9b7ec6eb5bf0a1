// A number over a small file that people may copy, edit and lose half of: enough to notice a flipped bit, no secret.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

constexpr std::uint64_t text_check(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

}  // namespace lockstep
