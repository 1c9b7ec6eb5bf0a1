#include "io/memory_nodes.h"

#include <stdlib.h>

#include <algorithm>

#include "base/plain_file.h"
#include "base/text.h"

namespace lockstep {
namespace {

constexpr std::size_t kMemoryNodesMost = 128;

std::string sysfs(const std::string& path) {
  const char* root = ::getenv("LOCKSTEP_SYSFS");
  return format("{}/{}", root && *root == '/' ? root : "/sys", path);
}

}  // namespace

CoreSet cores_of_list(std::string_view list) {
  CoreSet out;
  for (const std::string& part : split(trim(list), ',')) {
    const auto dash = part.find('-');
    const auto low = parse_uint(std::string_view(part).substr(0, dash));
    const auto high = dash == part.npos ? low : parse_uint(std::string_view(part).substr(dash + 1));
    if (!low || !high)
      continue;
    for (std::uint64_t core = *low; core <= *high && core < CoreSet::kCapacity; ++core)
      out.set(static_cast<std::uint32_t>(core));
  }
  return out;
}

std::vector<CoreSet> memory_nodes() {
  std::vector<CoreSet> out;
  const auto online = read_plain(sysfs("devices/system/node/online"), Links::kFollowed);
  if (!online)
    return out;
  cores_of_list(*online).for_each([&out](std::uint32_t node) {
    if (node >= kMemoryNodesMost)
      return;
    out.resize(node + 1);
    if (const auto list = read_plain(sysfs(format("devices/system/node/node{}/cpulist", node)), Links::kFollowed))
      out[node] = cores_of_list(*list);
  });
  return out;
}

std::int32_t memory_node_of(std::string_view bus_id) {
  // The kernel writes four digits of domain where NVML writes eight.
  std::string name = lower(bus_id);
  if (name.size() > 12)
    name = name.substr(name.size() - 12);
  const auto text = read_plain(sysfs(format("bus/pci/devices/{}/numa_node", name)), Links::kFollowed);
  const auto node = text ? parse_int(trim(*text)) : std::nullopt;
  return node && *node >= 0 && *node < static_cast<std::int64_t>(kMemoryNodesMost) ? static_cast<std::int32_t>(*node)
                                                                                   : -1;
}

}  // namespace lockstep
