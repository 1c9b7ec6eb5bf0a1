// Most texts are plain ASCII and are looked at once, byte by byte.
#include "views/shown_text.h"

#include "base/text.h"

namespace lockstep {

namespace {

unsigned byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

bool plain(char c) { return c >= ' ' && c < '\x7f'; }

// The code point that begins there and its length in bytes; length 0: no UTF-8.
struct Point {
  char32_t code = 0;
  std::size_t length = 0;
};
Point point_at(std::string_view text, std::size_t at) {
  const unsigned first = byte_at(text, at);
  if (first < 0x80)
    return {first, 1};
  const std::size_t length = first >= 0xC2 && first < 0xE0   ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  if (length == 0 || at + length > text.size())
    return {};
  char32_t code = first & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    const unsigned next = byte_at(text, at + i);
    if ((next & 0xC0) != 0x80)
      return {};
    code = code << 6 | (next & 0x3F);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  return code < kSmallest[length] || code > 0x10FFFF ? Point{} : Point{code, length};
}

// C1 controls, marks that turn the direction of writing, line and paragraph separators.
bool dangerous(char32_t code) {
  return (code >= 0x80 && code < 0xA0) || code == 0x200E || code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

void append_shown(std::string& out, std::string_view text, bool keep_lines) {
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (plain(c) || (keep_lines && c == '\n')) {
      out += c;
      ++i;
      continue;
    }
    const Point point = point_at(text, i);
    if (point.length > 1 && !dangerous(point.code))
      out += text.substr(i, point.length);
    else if (point.length > 1)
      out += format("\\u{:04x}", static_cast<unsigned>(point.code));
    else if (c == '\n' || c == '\t')
      out += c == '\n' ? "\\n" : "\\t";
    else
      out += format("\\x{:02x}", byte_at(text, i));
    i += std::max<std::size_t>(1, point.length);
  }
}

bool all_plain(std::string_view text) {
  bool is_plain = true;
  for (const char c : text) is_plain &= plain(c);
  return is_plain;
}

}  // namespace

std::string_view shown(std::string_view text, std::string& buffer) {
  if (all_plain(text))
    return text;
  buffer.clear();
  append_shown(buffer, text, false);
  return buffer;
}

std::string shown(std::string_view text) {
  std::string out;
  append_shown(out, text, false);
  return out;
}

std::string shown_lines(std::string_view text) {
  std::string out;
  append_shown(out, text, true);
  return out;
}

}  // namespace lockstep
