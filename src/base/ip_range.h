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
// Within RFC 1918, 6598 or 2544: nobody's on the internet.
bool is_private(const IpRange& range);
inline constexpr std::string_view kPrivateRanges[] = {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10",
                                                      "198.18.0.0/15"};
constexpr bool is_loopback(std::uint32_t address) { return address >> 24 == 127; }
// Of a machine: neither of "this network" (0/8) nor of groups and experiments (224/3).
constexpr bool is_unicast(std::uint32_t address) { return address >> 24 != 0 && address >> 29 != 7; }
std::string ip_text(std::uint32_t address);
std::string text_of(const IpRange& range);

}  // namespace lockstep
