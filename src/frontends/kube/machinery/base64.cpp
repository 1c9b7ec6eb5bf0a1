#include "frontends/kube/machinery/base64.h"

#include <cstdint>

namespace lockstep::kube {

namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t there = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < there ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) out += k <= there ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  std::size_t digits = 0, padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r')
      continue;
    if (c == '=') {
      ++padding;
      continue;
    }
    const auto digit = kDigits.find(c);
    if (digit == kDigits.npos || padding > 0)
      return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if (++digits % 4 == 0)
      for (int shift = 16; shift >= 0; shift -= 8) out += static_cast<char>(bits >> shift & 255);
  }
  const std::size_t rest = digits % 4;
  if (rest == 1 || padding != (4 - rest) % 4)
    return std::nullopt;
  bits <<= 6 * ((4 - rest) % 4);
  for (std::size_t k = 1; k < rest; ++k) out += static_cast<char>(bits >> (24 - 8 * k) & 255);
  return out;
}

}  // namespace lockstep::kube
