// What tests of worlds begin with.
#pragma once

#include <string>
#include <vector>

#include "pmi/world.h"

namespace lockstep {

// Nodes n1, n2 … with these ranks.
inline PmiWorld world_with(std::vector<std::vector<std::uint32_t>> ranks, std::uint32_t here = 0,
                           PmiWorld::Kind kind = PmiWorld::Kind::kWire) {
  PmiWorld world;
  world.kind = kind;
  world.job = "12.0";
  world.node_index = here;
  for (auto& of_node : ranks) {
    std::string name = "n";
    name += std::to_string(world.nodes.size() + 1);
    world.nodes.push_back({std::move(name), std::move(of_node)});
  }
  return world;
}

}  // namespace lockstep
