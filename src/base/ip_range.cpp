#include "base/ip_range.h"

#include "base/text.h"

namespace lockstep {

std::optional<std::uint32_t> parse_ip(std::string_view text) {
  const auto parts = split(text, '.');
  if (parts.size() != 4)
    return std::nullopt;
  std::uint32_t address = 0;
  for (const auto& part : parts) {
    const auto number = part.size() <= 3 ? parse_uint(part) : std::nullopt;
    if (!number || *number > 255)
      return std::nullopt;
    address = address << 8 | static_cast<std::uint32_t>(*number);
  }
  return address;
}

std::optional<IpRange> parse_ip_range(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == text.npos)
    return std::nullopt;
  const auto address = parse_ip(text.substr(0, slash));
  const auto prefix = parse_uint(text.substr(slash + 1));
  if (!address || !prefix || *prefix < 8 || *prefix > 30)
    return std::nullopt;
  const IpRange range{*address, static_cast<std::uint32_t>(*prefix)};
  if ((range.first & (UINT32_MAX >> range.prefix)) != 0)
    return std::nullopt;
  return range;
}

bool is_private(const IpRange& range) {
  for (const std::string_view text : kPrivateRanges)
    if (const auto whole = parse_ip_range(text); whole && whole->contains(range.first) && whole->contains(range.last()))
      return true;
  return false;
}

std::string ip_text(std::uint32_t address) {
  return format("{}.{}.{}.{}", address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255);
}

std::string text_of(const IpRange& range) { return format("{}/{}", ip_text(range.first), range.prefix); }

}  // namespace lockstep
