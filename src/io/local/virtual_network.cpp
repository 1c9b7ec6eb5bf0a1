#include "io/local/virtual_network.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <numeric>
#include <set>

#include "base/text.h"

namespace lockstep {

namespace {

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

// Second octets of 10/8 networks this machine already has an address in.
std::set<std::uint32_t> taken_octets() {
  std::set<std::uint32_t> taken;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0)
    return taken;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET)
      continue;
    const std::uint32_t address = ntohl(reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr.s_addr);
    if (address >> 24 == 10)
      taken.insert((address >> 16) & 255);
  }
  freeifaddrs(list);
  return taken;
}

}  // namespace

std::string VirtualNetwork::host_address() const { return format("10.{}.0.1", second); }

std::string VirtualNetwork::node_address(std::uint32_t index) const {
  return format("10.{}.{}.{}", second, 1 + index / 200, 1 + index % 200);
}

Result<VirtualNetwork> choose_network(const std::string& dir) {
  const std::uint64_t hash = fnv1a(dir);
  const auto taken = taken_octets();
  for (std::uint32_t attempt = 0; attempt < 128; ++attempt) {
    VirtualNetwork network;
    network.second = 64 + static_cast<std::uint32_t>((hash + attempt) % 128);
    network.bridge = format("ls{:05x}", ((hash >> 8) + attempt) & 0xfffff);
    if (!taken.contains(network.second) && !bridge_exists(network))
      return network;
  }
  return Error{Errc::kExhausted, "no free 10.x.0.0/16 network for virtual nodes on this machine", {}};
}

bool bridge_exists(const VirtualNetwork& network) { return if_nametoindex(network.bridge.c_str()) != 0; }

// A link address of its own for every end. Left to itself a bridge takes the lowest address among its cables, and a
// restarted node a new one: with every node that dies, the others would talk into the void until their neighbour tables
// notice, half a minute later.
static std::string link_address(const VirtualNetwork& network, std::uint32_t number) {
  return format("02:4c:{:02x}:{:02x}:{:02x}:{:02x}", network.second & 0xff, (number >> 16) & 0xff, (number >> 8) & 0xff,
                number & 0xff);
}

Result<void> make_bridge(const VirtualNetwork& network) {
  if (bridge_exists(network))
    return {};
  return run_program(
      {"ip", "-batch", "-"},
      format("link add {0} address {3} type bridge forward_delay 0\naddr add {1}/{2} dev {0}\nlink set {0} up\n",
             network.bridge, network.host_address(), VirtualNetwork::kPrefix, link_address(network, 0)));
}

static std::string our_end(const VirtualNetwork& network, std::uint32_t index) {
  return format("{}n{}", network.bridge, index);
}

// Cables of nodes that died. The kernel takes a dead node's network down in its own time, and our end of the cable with
// it: one that goes by itself meanwhile is no failure.
static void remove_cables(const VirtualNetwork& network, const std::vector<std::uint32_t>& nodes) {
  std::string batch;
  for (const std::uint32_t index : nodes)
    if (const std::string outer = our_end(network, index); if_nametoindex(outer.c_str()) != 0)
      batch += format("link del {}\n", outer);
  if (!batch.empty())
    (void)run_program({"ip", "-force", "-batch", "-"}, batch);
}

Result<void> connect_nodes(const VirtualNetwork& network, const std::vector<Cable>& cables) {
  std::vector<std::uint32_t> nodes;
  for (const auto& cable : cables) nodes.push_back(cable.index);
  remove_cables(network, nodes);
  std::string batch;
  for (const auto& cable : cables) {
    const std::string outer = our_end(network, cable.index);
    batch += format("link add {} type veth peer name eth0 address {} netns {}\nlink set {} master {} up\n", outer,
                    link_address(network, cable.index + 1), cable.node, outer, network.bridge);
  }
  return run_program({"ip", "-batch", "-"}, batch);
}

Result<void> remove_network(const VirtualNetwork& network, std::uint32_t nodes) {
  std::vector<std::uint32_t> all(nodes);
  std::iota(all.begin(), all.end(), 0);
  remove_cables(network, all);
  if (!bridge_exists(network))
    return {};
  return run_program({"ip", "link", "del", network.bridge});
}

}  // namespace lockstep
