// Ranges of IPv4 addresses, as "10.77.128.0/25".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

struct IpRange {
  std::uint32_t first = 0;   // lowest address; the bits behind the prefix are 0
  std::uint32_t prefix = 0;  // 8 to 30 where it was parsed
  std::uint32_t last() const { return first | (prefix == 0 ? UINT32_MAX : (UINT32_MAX >> prefix)); }
  bool overlaps(const IpRange& other) const { return first <= other.last() && other.first <= last(); }
  bool contains(std::uint32_t address) const { return address >= first && address <= last(); }
  friend bool operator==(const IpRange&, const IpRange&) = default;
};

std::optional<std::uint32_t> parse_ip(std::string_view text);  // "10.77.3.2"
// Nothing: no range, one whose address has bits behind the prefix, or one wider than /8 or narrower than /30.
std::optional<IpRange> parse_ip_range(std::string_view text);
std::string ip_text(std::uint32_t address);
std::string text_of(const IpRange& range);

}  // namespace lockstep
