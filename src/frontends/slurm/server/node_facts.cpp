// Pure readings of a node's record and what is held there.
#include "frontends/slurm/server/node_facts.h"

#include <map>

#include "base/text.h"
#include "frontends/slurm/server/job_facts.h"

namespace lockstep::slurm {

namespace {

std::map<std::string, IntervalSet> gpus_by_type(const Node& node, const DeviceSet* held) {
  std::map<std::string, IntervalSet> out;
  std::uint32_t index = 0;
  for (std::uint32_t i = 0; i < node.devices.size(); ++i) {
    if (node.devices[i].kind != "gpu")
      continue;
    // Those in MIG mode are given out in slices, which are made for each job: what there is of them is the GPU.
    IntervalSet& set = out[node.devices[i].type + (node.devices[i].mig ? "_mig" : "")];
    if (!held || held->test(i))
      set.insert(index);
    ++index;
  }
  return out;
}

std::string gpu_tres(const std::map<std::string, IntervalSet>& gpus) {
  std::uint64_t all = 0;
  std::string typed;
  for (const auto& [type, set] : gpus) {
    all += set.size();
    if (!type.empty() && !set.empty())
      typed += format(",gres/gpu:{}={}", type, set.size());
  }
  return all ? format(",gres/gpu={}{}", all, typed) : std::string();
}

}  // namespace

std::string gres_text(const Node& node) {
  std::string out;
  for (const auto& [type, set] : gpus_by_type(node, nullptr))
    out += format("{}gpu:{}{}{}", out.empty() ? "" : ",", type, type.empty() ? "" : ":", set.size());
  return out.empty() ? "(null)" : out;
}

std::string gres_used_text(const Node& node, const NodeHolding& holding) {
  std::string out;
  for (const auto& [type, set] : gpus_by_type(node, &holding.devices))
    out += format("{}gpu:{}:{}(IDX:{})", out.empty() ? "" : ",", type.empty() ? "(null)" : type, set.size(),
                  set.empty() ? "N/A" : set.text());
  return out.empty() ? "gpu:0" : out;
}

std::vector<Ref<Node>> partition_nodes(const Tables& tables, const Partition& partition) {
  std::map<NodeId, Ref<Node>> found;
  for (const std::string& name : partition.nodes) {
    if (name == "ALL") {
      found = tables.nodes;
      break;
    }
    if (const Node* node = tables.node(name))
      found.emplace(node->id, tables.nodes.at(node->id));
  }
  std::vector<Ref<Node>> out;
  out.reserve(found.size());
  for (auto& [id, node] : found) out.push_back(std::move(node));
  return out;
}

PartitionsByNode::PartitionsByNode(const Tables& tables) {
  for (const auto& [name, partition] : tables.partitions)
    for (const std::string& node : partition->nodes)
      if (node == "ALL")
        everywhere_.insert(name);
      else
        named_[node].push_back(name);
}

std::vector<std::string> PartitionsByNode::names(const Node& node) const {
  std::set<std::string> all = everywhere_;
  if (const auto named = named_.find(node.meta.name); named != named_.end())
    all.insert(named->second.begin(), named->second.end());
  return {all.begin(), all.end()};
}

std::string PartitionsByNode::text(const Node& node) const { return join(names(node), ","); }

std::string node_tres(const Node& node) {
  return format("cpu={},mem={},billing={}{}", node.cores, memory_text(node.memory_mb), node.cores,
                gpu_tres(gpus_by_type(node, nullptr)));
}

std::string alloc_tres(const Node& node, const NodeHolding& holding) {
  if (holding.running + holding.completing == 0)
    return {};
  return format("cpu={}{}{}", holding.cores.count(),
                holding.memory_mb > 0 ? ",mem=" + memory_text(holding.memory_mb) : std::string(),
                gpu_tres(gpus_by_type(node, &holding.devices)));
}

CpuCounts cpu_counts(const Node& node, const NodeHolding& holding) {
  CpuCounts counts;
  counts.total = node.cores;
  counts.allocated = holding.whole ? node.cores : holding.cores.count();
  const std::uint32_t rest = node.cores - std::min(node.cores, counts.allocated);
  (node_usable(node) ? counts.idle : counts.other) = rest;
  return counts;
}

std::string load_text(const ReadContext& context, const Node& node) {
  const NodeMeasures* measures = context.live ? context.live->node(node.id) : nullptr;
  return measures ? format("{:.2f}", static_cast<double>(measures->load_percent) / 100) : "N/A";
}

std::string free_memory_text(const ReadContext& context, const Node& node) {
  const NodeMeasures* measures = context.live ? context.live->node(node.id) : nullptr;
  return measures ? std::to_string(measures->memory_free_mb) : "N/A";
}

}  // namespace lockstep::slurm
