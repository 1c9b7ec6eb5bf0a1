#include "frontends/slurm/client/text_width.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace lockstep::slurm {

namespace {

struct Range {
  std::uint32_t first, last;
};
// Hangul, kana, ideographs, full forms, pictures.
constexpr Range kWide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},   {0xac00, 0xd7a3},
                           {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},
                           {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
constexpr Range kCombining[] = {{0x0300, 0x036f}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200f},
                                {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};

template <std::size_t N>
bool is_among(const Range (&ranges)[N], std::uint32_t point) {
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [&](const Range& range) { return point >= range.first && point <= range.last; });
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The character that begins there: its length in bytes and its columns. What is no UTF-8 is a column a byte.
struct Character {
  std::size_t bytes = 1, columns = 1;
};
Character character_at(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  if (bytes == 1 || text.size() < bytes || !std::all_of(text.begin() + 1, text.begin() + bytes, continues))
    return {};
  std::uint32_t point = lead & (0xffu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) point = point << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  return {bytes, is_among(kCombining, point) ? 0u : is_among(kWide, point) ? 2u : 1u};
}

bool is_plain(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

}  // namespace

std::size_t width_of(std::string_view text) {
  if (is_plain(text))
    return text.size();
  std::size_t width = 0;
  while (!text.empty()) {
    const Character next = character_at(text);
    width += next.columns;
    text.remove_prefix(next.bytes);
  }
  return width;
}

std::string_view cut_to_width(std::string_view text, std::size_t width) {
  if (text.size() <= width || is_plain(text.substr(0, width + 1)))
    return text.substr(0, width);
  std::size_t end = 0;
  for (std::size_t left = width; end < text.size();) {
    const Character next = character_at(text.substr(end));
    if (next.columns > left)
      break;
    left -= next.columns;
    end += next.bytes;
  }
  return text.substr(0, end);
}

}  // namespace lockstep::slurm
