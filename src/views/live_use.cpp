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

// Billionths of a processor that was so busy meanwhile. At most a million processors: what a node says may be wrong.
std::int64_t nanos_of(Duration busy, Duration window) {
  constexpr double kNanosMost = 1e15;
  return static_cast<std::int64_t>(
      std::min(kNanosMost, 1e9 * static_cast<double>(busy.us) / static_cast<double>(window.us)));
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
  of.measures.at = now;
  of.measures.load_percent = std::min(told.load_percent, kLoadMost);
  of.measures.memory_free_mb = told.memory_free_mb;
  of.measures.memory_used_mb = told.memory_used_mb;
  of.measures.devices = std::move(told.devices);
  bound(of.measures.memory_free_mb);
  bound(of.measures.memory_used_mb);
  if (told.seen_boot_us != of.seen_boot_us) {  // else the same look is told again
    const Duration window{of.seen_boot_us > 0 ? std::max<std::int64_t>(0, told.seen_boot_us - of.seen_boot_us) : 0};
    of.seen_boot_us = told.seen_boot_us;
    bound(told.cpu);
    of.measures.window = told.cpu >= of.cpu ? window : Duration{};
    of.measures.cpu_nanos = of.measures.window.us > 0 ? nanos_of(told.cpu - of.cpu, window) : 0;
    of.cpu = told.cpu;
    take_rates(tables, node, of, std::move(told.containers), window);
  }
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

// A container that begins anew counts from nothing: it is known when it was looked at twice.
void LiveUse::take_rates(const Tables& tables, const Node& node, Of& of, std::vector<ContainerSample> told,
                         Duration window) {
  if (told.size() > kWorksMost)
    told.resize(kWorksMost);
  of.containers.clear();
  std::map<std::pair<WorkId, std::string>, Duration> fresh;
  for (ContainerSample& sample : told) {
    if (!holds(tables, sample, node.id))
      continue;
    bound(sample.cpu);
    bound(sample.memory);
    const WorkId work{sample.job, sample.attempt, sample.part};
    const auto known = of.container_cpu.find({work, sample.container});
    if (known != of.container_cpu.end() && sample.cpu >= known->second && window.us > 0)
      of.containers[work].push_back({sample.container, of.measures.at, window,
                                     nanos_of(sample.cpu - known->second, window), sample.memory,
                                     std::clamp<std::int64_t>(sample.disk, -1, kMost)});
    fresh[{work, std::move(sample.container)}] = sample.cpu;
  }
  of.container_cpu = std::move(fresh);
}

const std::map<WorkId, std::vector<ContainerUse>>* LiveUse::containers(NodeId id) const {
  const auto of = nodes_.find(id);
  return of == nodes_.end() ? nullptr : &of->second.containers;
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
