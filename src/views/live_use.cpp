#include "views/live_use.h"

#include <algorithm>
#include <set>

namespace lockstep {
namespace {

// No node has so much; sums of what a thousand of them say stay numbers.
constexpr std::int64_t kMost = std::int64_t{1} << 50;
constexpr std::uint32_t kTasksMost = 1 << 20;
constexpr std::uint32_t kLoadMost = 100'000'000;

void bound(std::int64_t& value) { value = std::clamp<std::int64_t>(value, 0, kMost); }
void bound(Duration& value) { bound(value.us); }

WorkUse bounded_use(WorkUse use) {
  for (Duration* const span : {&use.user, &use.system, &use.least_cpu, &use.gpu}) bound(*span);
  for (std::int64_t* const bytes :
       {&use.read_bytes, &use.written_bytes, &use.memory_peak, &use.memory_sum, &use.gpu_memory_peak})
    bound(*bytes);
  use.tasks = std::min(use.tasks, kTasksMost);
  return use;
}

template <class Sample>
bool holds(const Tables& tables, const Sample& sample, NodeId node) {
  const Job* job = tables.job(sample.job);
  if (!job || !job->allocation || job->allocation->attempt != sample.attempt)
    return false;
  const auto& grants = job->allocation->grants;
  return std::any_of(grants.begin(), grants.end(), [node](const Grant& grant) { return grant.node == node; });
}

}  // namespace

void LiveUse::take(const Tables& tables, const Node& node, Telemetry told, Instant now) {
  Of& of = nodes_[node.id];
  of.measures = {now, std::min(told.load_percent, kLoadMost), told.memory_free_mb, std::move(told.devices)};
  bound(of.measures.memory_free_mb);
  auto& devices = of.measures.devices;
  std::sort(devices.begin(), devices.end(), [](const auto& a, const auto& b) { return a.device < b.device; });
  devices.erase(
      std::unique(devices.begin(), devices.end(), [](const auto& a, const auto& b) { return a.device == b.device; }),
      devices.end());
  std::erase_if(devices, [&node](const DeviceSample& one) { return one.device >= node.devices.size(); });
  for (DeviceSample& device : devices) {
    device.busy_percent = std::min(device.busy_percent, 100U);
    bound(device.memory_mb);
  }
  of.works.clear();
  if (told.work.size() > kWorksMost)
    told.work.resize(kWorksMost);  // each costs a look at all grants of its job
  for (const WorkSample& sample : told.work)
    if (holds(tables, sample, node.id))
      of.works[{sample.job, sample.attempt, sample.part}] = bounded_use(sample.use);
  if (told.staging.size() > kWorksMost)
    told.staging.resize(kWorksMost);
  of.staging.clear();
  for (StagingSample& sample : told.staging)
    if (holds(tables, sample, node.id)) {
      for (std::int64_t* const amount :
           {&sample.bytes_done, &sample.bytes_total, &sample.files_done, &sample.files_total})
        bound(*amount);
      of.staging.push_back(sample);
    }
}

std::vector<std::pair<NodeId, StagingSample>> LiveUse::staging(const Job& job) const {
  std::vector<std::pair<NodeId, StagingSample>> out;
  if (!job.allocation)
    return out;
  std::set<NodeId> seen;
  for (const Grant& grant : job.allocation->grants) {
    const auto of = nodes_.find(grant.node);
    if (of == nodes_.end() || !seen.insert(grant.node).second)
      continue;
    for (const StagingSample& sample : of->second.staging)
      if (sample.job == job.id && sample.attempt == job.allocation->attempt)
        out.emplace_back(grant.node, sample);
  }
  return out;
}

void LiveUse::apply(const std::vector<Change>& changes) {
  for (const Change& change : changes)
    if (const auto* node = std::get_if<Ref<Node>>(&change.record);
        node && (change.removed || (*node)->link == NodeLink::kLost))
      nodes_.erase((*node)->id);
}

const NodeMeasures* LiveUse::node(NodeId id) const {
  const auto of = nodes_.find(id);
  return of == nodes_.end() ? nullptr : &of->second.measures;
}

WorkUse LiveUse::work(const Job& job, const WorkPart& part) const {
  WorkUse sum;
  if (!job.allocation)
    return sum;
  std::set<NodeId> seen;  // a het job may have several grants on a node
  for (const Grant& grant : job.allocation->grants) {
    const auto of = nodes_.find(grant.node);
    if (of == nodes_.end() || !seen.insert(grant.node).second)
      continue;
    const auto use = of->second.works.find({job.id, job.allocation->attempt, part});
    if (use != of->second.works.end())
      sum.add(use->second);
  }
  return sum;
}

}  // namespace lockstep
