#include "simulate/workloads/node_topology.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/text.h"
#include "wire/topology_file.h"

namespace lockstep::sim {

std::vector<std::string> node_names(std::int32_t count, const Topology* topology) {
  const bool from_zero =
      topology && std::any_of(topology->leaves.begin(), topology->leaves.end(), [](const TopologyLeaf& leaf) {
        return std::find(leaf.nodes.begin(), leaf.nodes.end(), "n0") != leaf.nodes.end();
      });
  std::vector<std::string> names;
  for (std::int32_t i = 0; i < count; ++i) names.push_back(format("n{}", from_zero ? i : i + 1));
  return names;
}

Result<Topology> parse_node_topology(std::string_view name, std::string_view text, std::int32_t nodes) {
  TopologyFile file = TRY(parse_topology(name, text));
  const auto differences = topology_differences(name, file, node_names(nodes, &file.topology));
  if (!differences.empty())
    return invalid(join(differences, "\n"));
  return std::move(file.topology);
}

Result<Topology> read_node_topology(const std::string& path, std::int32_t nodes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file)
    return not_found(format("cannot open {}", path));
  std::string text;
  char chunk[1 << 14];
  while (const std::size_t got = std::fread(chunk, 1, sizeof chunk, file.get())) text.append(chunk, got);
  return parse_node_topology(path, text, nodes);
}

}  // namespace lockstep::sim
