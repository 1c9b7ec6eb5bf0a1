#include "base/characters.h"

#include <cstdint>
#include <cstring>

namespace lockstep {

namespace {

using Byte = unsigned char;

// Bytes that belong to the character that starts with `first`; 1 where none does. Only the form is looked at: what
// matters is whether a byte from 128 to 159 stands by itself.
std::size_t length_from(std::string_view text, std::size_t at) {
  const Byte first = static_cast<Byte>(text[at]);
  const std::size_t wanted = first >= 0xF0 && first < 0xF8   ? 4
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xC2                 ? 2
                                                             : 1;
  if (first < 0xC2 || first >= 0xF8 || at + wanted > text.size())
    return 1;
  for (std::size_t i = 1; i < wanted; ++i)
    if ((static_cast<Byte>(text[at + i]) & 0xC0) != 0x80)
      return 1;
  return wanted;
}

// Whether the eight bytes are all from 32 to 126, looked at as one number; nearly all text is.
bool all_printable(const char* eight) {
  constexpr std::uint64_t kEach = 0x0101010101010101, kHigh = kEach * 0x80;
  std::uint64_t bytes;
  std::memcpy(&bytes, eight, sizeof bytes);
  const std::uint64_t below_32 = bytes - kEach * 32;  // borrows at the first such byte, if none is above 127
  const std::uint64_t above_126 = bytes + kEach;      // nothing carries, if none is above 127
  return ((bytes | below_32 | above_126) & kHigh) == 0;
}

}  // namespace

std::optional<unsigned> control_character_in(std::string_view text, std::string_view but) {
  for (std::size_t at = 0; at < text.size();) {
    while (at + 8 <= text.size() && all_printable(text.data() + at)) at += 8;
    if (at == text.size())
      break;
    const Byte byte = static_cast<Byte>(text[at]);
    if (byte >= 32 && byte < 127) {
      ++at;
      continue;
    }
    const std::size_t length = byte < 128 ? 1 : length_from(text, at);
    const unsigned code = length == 2 && byte == 0xC2 ? static_cast<Byte>(text[at + 1]) : byte;
    const bool control = length == 1 ? code < 32 || (code >= 127 && code < 160) : byte == 0xC2 && code < 160;
    if (control && but.find(text[at]) == std::string_view::npos)
      return code;
    at += length;
  }
  return std::nullopt;
}

std::string without_control_characters(std::string_view text, std::size_t bytes_max) {
  std::string out(text.substr(0, bytes_max));
  if (control_character_in(out))
    for (char& c : out)
      if (static_cast<Byte>(c) < 32 || static_cast<Byte>(c) >= 127)
        c = '?';
  return out;
}

}  // namespace lockstep
