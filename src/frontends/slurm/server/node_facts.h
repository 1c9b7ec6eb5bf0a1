// What sinfo and scontrol say of a node: GRES texts, processor counts, partitions.
#pragma once

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontends/slurm/server/states.h"
#include "views/read_context.h"

namespace lockstep::slurm {

std::string gres_text(const Node& node);                                                   // "gpu:h100:8", "(null)"
std::string gres_used_text(const Node& node, const NodeHolding& holding);                  // "gpu:h100:3(IDX:0-2)"
std::vector<Ref<Node>> partition_nodes(const Tables& tables, const Partition& partition);  // by id
// Which partitions each node is in, for a page about many nodes: a partition may name ten thousand.
class PartitionsByNode {
 public:
  explicit PartitionsByNode(const Tables& tables);
  std::string text(const Node& node) const;  // "main,debug"
  std::vector<std::string> names(const Node& node) const;

 private:
  std::set<std::string> everywhere_;
  std::unordered_map<std::string, std::vector<std::string>> named_;  // by node
};
std::string node_tres(const Node& node);
std::string alloc_tres(const Node& node, const NodeHolding& holding);

std::string load_text(const ReadContext& context, const Node& node);         // "0.12"; "N/A": it was not measured
std::string free_memory_text(const ReadContext& context, const Node& node);  // MiB; likewise

struct CpuCounts {
  std::uint32_t allocated = 0, idle = 0, other = 0, total = 0;
};
CpuCounts cpu_counts(const Node& node, const NodeHolding& holding);  // other: idle ones that cannot be used

}  // namespace lockstep::slurm
