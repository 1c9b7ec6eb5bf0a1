#include "views/priorities.h"

#include <algorithm>

#include "rules/tres.h"

namespace lockstep {

namespace {

std::vector<RunningUse> running_in(const Tables& tables) {
  std::vector<RunningUse> out;
  for (const auto& [id, job] : tables.jobs)
    if (holds_allocation(job->state))
      out.push_back({job->spec.get(), job->allocation.get()});
  return out;
}

Instant floor_of(const Tables& tables, Instant now, Duration wall_offset) {
  const WallTime floor = usage_floor(tables.policy(), WallTime{now.us + wall_offset.us});
  return floor ? Instant{floor.us - wall_offset.us} : Instant{};
}

Tres all_of(const Tables& tables) {
  Tres out;
  for (const auto& [id, node] : tables.nodes) {
    out.cpu += node->cores;
    out.memory_mb += node->memory_mb;
    ++out.nodes;
    for (const Device& device : node->devices) {
      const std::string name = "gres/" + device.kind;
      if (device.kind == "gpu")
        ++out.gpus;
      else
        set_count(out, name, count_of(out, name) + 1);
      if (!device.type.empty())
        set_count(out, name + ":" + device.type, count_of(out, name + ":" + device.type) + 1);
    }
  }
  out.billing = out.cpu;
  for (const auto& [name, licence] : tables.licences) set_count(out, "license/" + name, licence->total);
  return out;
}

}  // namespace

Priorities::Priorities(const Tables& tables, Instant now, Duration wall_offset)
    : tables_(tables),
      now_(now),
      spendings_(tables, running_in(tables), now, floor_of(tables, now, wall_offset)),
      shares_(tables, spendings_),
      cluster_(all_of(tables)) {
  for (const auto& [name, partition] : tables.partitions)
    most_partition_ = std::max(most_partition_, partition->priority);
}

PriorityFactors Priorities::factors(const Job& job) const {
  const JobSpec& spec = *job.spec;
  const Partition* partition =
      spec.partitions.empty() ? tables_.default_partition() : tables_.partition(spec.partitions.front());
  PriorityFactors out = still_factors(tables_, spec, partition, least_tres(spec), cluster_, most_partition_);
  if (job.eligible && job.eligible < now_)
    out.age = age_factor(tables_.policy(), now_ - job.eligible);
  out.fair_share = shares_.factor(tables_, spec.account, spec.user, partition ? partition->meta.name : "");
  return out;
}

std::uint32_t Priorities::shown(const Job& job) const {
  if (job.state == JobState::kPending && (job.hold == Hold::kUser || job.hold == Hold::kAdmin))
    return 0;
  return job.spec->priority ? *job.spec->priority : parts(job).total;
}

}  // namespace lockstep
