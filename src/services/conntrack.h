// Flows that the kernel remembers (conntrack): those of UDP that lead to something that is gone are forgotten, so that
// the next packet is led anew. Messages of netlink's ctnetlink, without the sockets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "services/packet_rules.h"

namespace lockstep {

// Asks for all flows of IPv4.
std::string conntrack_dump_request(std::uint32_t sequence);

struct ConntrackPart {
  bool is_end = false;            // of the dump
  std::vector<std::string> gone;  // requests that remove what is stale
};
// What the kernel answered, one datagram of it.
ConntrackPart read_conntrack(std::string_view bytes, const PacketRules::StaleFlows& stale);

}  // namespace lockstep
