#include "io/local/virtual_network.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/text.h"
#include "io/local/interfaces.h"
#include "io/local/text_check.h"

namespace lockstep {

namespace {

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

bool exists(const std::string& interface) { return if_nametoindex(interface.c_str()) != 0; }

// A link address of its own for every end. Left to itself a bridge takes the lowest address among its cables, and a
// restarted node a new one: with every node that dies, the others would talk into the void until their neighbour tables
// notice, half a minute later.
std::string link_address(const VirtualNetwork& network, std::uint32_t number) {
  return format("02:4c:{:02x}:{:02x}:{:02x}:{:02x}", network.second & 0xff, (number >> 16) & 0xff, (number >> 8) & 0xff,
                number & 0xff);
}

std::string our_end(const VirtualNetwork& network, std::uint32_t index) {
  return format("{}n{}", network.bridge, index);
}

// Names of cables of nodes that died, or of a cluster that goes. The kernel takes a dead node's network down in its own
// time, and our end of the cable with it: one that goes by itself meanwhile is no failure.
void remove_links(const std::vector<std::string>& names) {
  std::string batch;
  for (const auto& name : names) batch += format("link del {}\n", name);
  if (!batch.empty())
    (void)run_program({"ip", "-force", "-batch", "-"}, batch);
}

bool is_cable_of(const std::string& name, const std::string& bridge) {
  return name.size() > bridge.size() + 1 && name.starts_with(bridge + "n") &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(bridge.size()) + 1, name.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

Result<std::vector<std::string>> names_of_cluster(const std::string& bridge, const std::string& cluster_id) {
  std::vector<std::string> out;
  for (const auto& one : TRY(list_interfaces())) {
    const bool marked = !cluster_id.empty() && one.alias == interface_mark(cluster_id);
    const bool older = one.alias.empty() && !bridge.empty() && (one.name == bridge || is_cable_of(one.name, bridge));
    if (marked || older)
      out.push_back(one.name);
  }
  return out;
}

}  // namespace

std::string VirtualNetwork::host_address() const { return format("10.{}.0.1", second); }

std::string VirtualNetwork::node_address(std::uint32_t index) const {
  return format("10.{}.{}.{}", second, 1 + index / 200, 1 + index % 200);
}

std::string VirtualNetwork::task_range(std::uint32_t index) const {
  constexpr std::uint32_t kRanges = 256;
  return index < kRanges ? format("10.{}.{}.{}/25", second, 128 + index / 2, index % 2 * 128) : std::string();
}

NetworkChoice::NetworkChoice() : fd_(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) {
  constexpr int kTries = 500;  // of 20 ms
  for (int tries = 0; fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) != 0 && tries < kTries; ++tries) usleep(20'000);
}

NetworkChoice::~NetworkChoice() {
  if (fd_ >= 0)
    close(fd_);
}

// 10.96.0.0/16: front ends' services have their addresses there, on every node.
constexpr std::uint32_t kOfServices = 96;

Result<VirtualNetwork> choose_network(const std::string& dir) {
  const std::uint64_t hash = text_check(dir);
  const auto taken = taken_octets();
  for (std::uint32_t attempt = 0; attempt < 128; ++attempt) {
    VirtualNetwork network;
    network.second = 64 + static_cast<std::uint32_t>((hash + attempt) % 128);
    network.bridge = format("ls{:05x}", ((hash >> 8) + attempt) & 0xfffff);
    CHECK(network.bridge.size() == 7 && network.second >= 64 && network.second < 192, network.bridge);
    if (network.second != kOfServices && !taken.contains(network.second) && !exists(network.bridge))
      return network;
  }
  return Error{Errc::kExhausted, "no free 10.x.0.0/16 network for virtual nodes on this machine", {}};
}

Result<bool> is_another_clusters(const VirtualNetwork& network, const std::string& cluster_id) {
  for (const auto& one : TRY(list_interfaces()))
    if (one.name == network.bridge)
      return !one.alias.empty() && one.alias != interface_mark(cluster_id);
  return false;
}

Result<void> make_bridge(const VirtualNetwork& network, const std::string& cluster_id) {
  std::string batch;
  if (!exists(network.bridge))
    batch = format("link add {} address {} type bridge forward_delay 0\n", network.bridge, link_address(network, 0));
  batch += format("link set {0} alias {3}\naddr replace {1}/{2} dev {0}\nlink set {0} up\n", network.bridge,
                  network.host_address(), VirtualNetwork::kPrefix, interface_mark(cluster_id));
  return run_program({"ip", "-batch", "-"}, batch);
}

Result<void> lead_to_tasks(const VirtualNetwork& network, std::uint32_t nodes) {
  std::string batch;
  for (std::uint32_t index = 0; index < nodes; ++index)
    if (const std::string range = network.task_range(index); !range.empty())
      batch +=
          format("route replace {} via {} dev {} proto static\n", range, network.node_address(index), network.bridge);
  return batch.empty() ? Result<void>() : run_program({"ip", "-batch", "-"}, batch);
}

Result<void> connect_nodes(const VirtualNetwork& network, const std::string& cluster_id,
                           const std::vector<Cable>& cables) {
  std::vector<std::string> stale;
  std::string batch;
  for (const auto& cable : cables) {
    const std::string outer = our_end(network, cable.index);
    if (exists(outer))
      stale.push_back(outer);
    batch +=
        format("link add {0} type veth peer name eth0 address {1} netns {2}\nlink set {0} master {3} alias {4} up\n",
               outer, link_address(network, cable.index + 1), cable.node, network.bridge, interface_mark(cluster_id));
  }
  remove_links(stale);
  return run_program({"ip", "-batch", "-"}, batch);
}

Result<std::string> plug_in_machine(const VirtualNetwork& network, const std::string& cluster_id, std::uint32_t index) {
  const std::string name = our_end(network, index);
  std::string batch;
  if (!exists(name))
    batch = format("tuntap add dev {} mode tap\n", name);
  batch += format("link set {} master {} alias {} up\n", name, network.bridge, interface_mark(cluster_id));
  TRY(run_program({"ip", "-batch", "-"}, batch));
  return name;
}

std::string commands_for_node_end(const std::string& address, int prefix, const std::string& gateway) {
  return format("link set lo up\nlink set eth0 up\naddr replace {}/{} dev eth0\nroute replace default via {}\n",
                address, prefix, gateway);
}

Result<std::size_t> restore_cables(const VirtualNetwork& network, const std::string& cluster_id,
                                   const std::vector<Cable>& cables) {
  const auto found = TRY(list_interfaces());
  const auto named = [&](const std::string& name) {
    return std::find_if(found.begin(), found.end(), [&](const Interface& one) { return one.name == name; });
  };
  const auto bridge = named(network.bridge);
  std::vector<Cable> missing;
  std::string loose;  // the node's end is well, ours hangs in the air
  std::size_t count = 0;
  for (const auto& cable : cables) {
    const auto end = named(our_end(network, cable.index));
    if (end == found.end())
      missing.push_back(cable);
    else if (bridge == found.end() || end->master != bridge->index)
      loose += format("link set {} master {} up\n", end->name, network.bridge), ++count;
  }
  if (!loose.empty())
    TRY(run_program({"ip", "-batch", "-"}, loose));
  if (!missing.empty())
    TRY(connect_nodes(network, cluster_id, missing));
  for (const auto& cable : missing)
    TRY(run_program(
        {"nsenter", "--target", std::to_string(cable.node), "--net", "ip", "-batch", "-"},
        commands_for_node_end(network.node_address(cable.index), VirtualNetwork::kPrefix, network.host_address())));
  return count + missing.size();
}

Result<void> remove_network(const std::string& bridge, const std::string& cluster_id) {
  remove_links(TRY(names_of_cluster(bridge, cluster_id)));
  const auto left = TRY(names_of_cluster(bridge, cluster_id));
  if (!left.empty())
    return Error{
        Errc::kIo,
        format("the network interface {} of this cluster cannot be removed; try: ip link del {}", left[0], left[0]),
        {}};
  return {};
}

}  // namespace lockstep
