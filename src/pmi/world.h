// PmiWorld: what the tasks of one step are to know of each other before the first of them runs: how many they are, and
// which of them share a node. Told to the node's lockstep-pmi by its shim.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct PmiWorldNode {
  std::string name;
  std::vector<std::uint32_t> ranks;  // ascending
  friend bool operator==(const PmiWorldNode&, const PmiWorldNode&) = default;
};

struct PmiWorld {
  enum class Kind : unsigned char { kWire = 1, kPmix = 2 };  // PMI-1 and PMI-2 of our own; PMIx by its library
  Kind kind = Kind::kWire;
  std::string job;  // "12.0": names the world
  std::uint32_t node_index = 0;
  std::vector<PmiWorldNode> nodes;
  friend bool operator==(const PmiWorld&, const PmiWorld&) = default;

  const PmiWorldNode& here() const { return nodes[node_index]; }
  std::uint32_t size() const;                                       // ranks of all nodes
  std::optional<std::uint32_t> node_of(std::uint32_t rank) const;   // index into nodes
  std::optional<std::uint32_t> local_of(std::uint32_t rank) const;  // its place among the ranks here
};

inline constexpr std::uint32_t kPmiRanksMax = 1 << 20;  // of a world
inline constexpr std::uint32_t kPmiNodesMax = 1 << 17;

std::string encode_pmi_world(const PmiWorld& world);
// Whole and consistent: ranks 0 to size() - 1, each once, and node_index among the nodes.
Result<PmiWorld> decode_pmi_world(std::string_view bytes);

// Which node each rank is on, as PMI's clients read it: "(vector,(0,4,16))" is 16 ranks on each of the nodes 0 to 3.
// Empty when it would be longer than `most`: clients then ask each other.
std::string process_mapping(const PmiWorld& world, std::size_t most);

}  // namespace lockstep
