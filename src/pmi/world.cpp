#include "pmi/world.h"

#include <algorithm>

#include "base/text.h"
#include "pmi/bytes.h"

namespace lockstep {

std::uint32_t PmiWorld::size() const {
  std::size_t size = 0;
  for (const auto& node : nodes) size += node.ranks.size();
  return static_cast<std::uint32_t>(size);
}

std::optional<std::uint32_t> PmiWorld::node_of(std::uint32_t rank) const {
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (std::binary_search(nodes[i].ranks.begin(), nodes[i].ranks.end(), rank))
      return static_cast<std::uint32_t>(i);
  return std::nullopt;
}

std::optional<std::uint32_t> PmiWorld::local_of(std::uint32_t rank) const {
  const auto& ranks = here().ranks;
  const auto at = std::lower_bound(ranks.begin(), ranks.end(), rank);
  if (at == ranks.end() || *at != rank)
    return std::nullopt;
  return static_cast<std::uint32_t>(at - ranks.begin());
}

std::string encode_pmi_world(const PmiWorld& world) {
  PmiWriter out;
  out.number(static_cast<std::uint8_t>(world.kind), 1);
  out.text(world.job);
  out.number(world.node_index, 4);
  out.number(world.nodes.size(), 4);
  for (const auto& node : world.nodes) {
    out.text(node.name);
    out.number(node.ranks.size(), 4);
    for (const auto rank : node.ranks) out.number(rank, 4);
  }
  return out.take();
}

Result<PmiWorld> decode_pmi_world(std::string_view bytes) {
  PmiReader in(bytes);
  PmiWorld world;
  const auto kind = in.number(1);
  if (kind != 1 && kind != 2)
    return invalid("a world of a kind that is not known");
  world.kind = static_cast<PmiWorld::Kind>(kind);
  world.job = in.text();
  world.node_index = static_cast<std::uint32_t>(in.number(4));
  const std::uint64_t nodes = in.number(4);
  std::vector<bool> seen;
  for (std::uint64_t i = 0; i < nodes && in.good() && i < kPmiNodesMax; ++i) {
    PmiWorldNode node;
    node.name = in.text();
    const std::uint64_t ranks = in.number(4);
    for (std::uint64_t j = 0; j < ranks && in.good(); ++j) {
      const auto rank = static_cast<std::uint32_t>(in.number(4));
      if (rank >= kPmiRanksMax || (!node.ranks.empty() && rank <= node.ranks.back()))
        return invalid("a world with a rank that is too high, or out of order");
      if (rank >= seen.size())
        seen.resize(rank + 1);
      if (seen[rank])
        return invalid(format("rank {} is on two nodes of a world", rank));
      seen[rank] = true;
      node.ranks.push_back(rank);
    }
    world.nodes.push_back(std::move(node));
  }
  if (!in.at_end() || world.nodes.size() != nodes || world.node_index >= nodes || world.here().ranks.empty())
    return invalid("a world that is cut off, or has no part here");
  if (std::find(seen.begin(), seen.end(), false) != seen.end())
    return invalid("a world with a rank that is on no node");
  return world;
}

std::string process_mapping(const PmiWorld& world, std::size_t most) {
  struct Block {
    std::uint32_t node = 0, nodes = 0, each = 0;
  };
  std::vector<std::uint32_t> node_of(world.size());
  for (std::uint32_t i = 0; i < world.nodes.size(); ++i)
    for (const auto rank : world.nodes[i].ranks) node_of[rank] = i;
  std::vector<Block> blocks;  // runs of nodes with the same number of successive ranks
  for (std::size_t rank = 0; rank < node_of.size();) {
    std::size_t end = rank;
    while (end < node_of.size() && node_of[end] == node_of[rank]) ++end;
    const auto each = static_cast<std::uint32_t>(end - rank);
    if (!blocks.empty() && blocks.back().each == each && blocks.back().node + blocks.back().nodes == node_of[rank])
      ++blocks.back().nodes;
    else
      blocks.push_back({node_of[rank], 1, each});
    rank = end;
  }
  // Readers begin again at the first block when they have ranks left: cyclic orders become one round.
  for (std::size_t round = 1; round <= blocks.size() / 2; ++round) {
    const auto repeats = [&](std::size_t i) {
      const Block &a = blocks[i], &b = blocks[i % round];
      return a.node == b.node && a.nodes == b.nodes && a.each == b.each;
    };
    std::size_t i = round;
    while (i < blocks.size() && repeats(i)) ++i;
    if (i == blocks.size()) {
      blocks.resize(round);
      break;
    }
  }
  std::string out = "(vector";
  for (const Block& block : blocks) {
    out += format(",({},{},{})", block.node, block.nodes, block.each);
    if (out.size() >= most)
      return {};
  }
  return out + ")";
}

}  // namespace lockstep
