#include "frontends/kube/machinery/quoted.h"

#include <cstdint>

#include "base/text.h"

namespace lockstep::kube {
namespace {

// Bytes of the UTF-8 character at the front, and the character; 0 bytes: there is none.
struct Front {
  std::size_t size = 0;
  std::uint32_t character = 0;
};

Front front_of(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned first = byte(0);
  if (first < 0x80)
    return {1, first};
  const std::size_t size = first >= 0xF0 && first < 0xF5   ? 4
                           : first >= 0xE0                 ? 3
                           : first >= 0xC2 && first < 0xE0 ? 2
                                                           : 0;
  if (size == 0 || first >= 0xF5 || text.size() < size)
    return {};
  std::uint32_t character = first & (0xFFu >> (size + 1));
  for (std::size_t at = 1; at < size; ++at) {
    if ((byte(at) & 0xC0) != 0x80)
      return {};
    character = character << 6 | (byte(at) & 0x3F);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = character >= 0xD800 && character < 0xE000;
  return character < kLeast[size] || character > 0x10FFFF || surrogate ? Front{} : Front{size, character};
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const Front front = front_of(text);
    if (front.size == 0) {
      out += format("\\x{:02x}", static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    switch (front.character) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\a': out += "\\a"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\v': out += "\\v"; break;
      default:
        if (front.character < 0x20 || front.character == 0x7F)
          out += format("\\x{:02x}", front.character);
        else if ((front.character >= 0x80 && front.character < 0xA1) || front.character == 0xAD ||
                 front.character == 0xFEFF || (front.character >= 0x2028 && front.character <= 0x202F))
          out += format("\\u{:04x}", front.character);
        else
          out += text.substr(0, front.size);
    }
    text.remove_prefix(front.size);
  }
  return out + '"';
}

}  // namespace lockstep::kube
