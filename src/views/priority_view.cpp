#include "views/priority_view.h"

#include <algorithm>

#include "model/job.h"
#include "rules/preempt.h"
#include "rules/tres.h"

namespace lockstep {

Priorities priorities_of(const Tables& tables, Instant now, Duration wall_offset) {
  std::vector<RunningUse> running;
  for (const auto& [id, job] : tables.jobs)
    if (holds_allocation(job->state) && !is_paused(*job))
      running.push_back({job->spec.get(), job->allocation.get()});
  const WallTime floor = usage_floor(tables.policy(), WallTime{now.us + wall_offset.us});
  Spendings spendings(tables, running, now, floor ? Instant{floor.us - wall_offset.us} : Instant{});
  Tres cluster;
  for (const auto& [id, node] : tables.nodes) add(cluster, tres_of_node(*node));
  for (const auto& [name, licence] : tables.licences) add_named(cluster.others, "license/" + name, licence->total);
  std::uint32_t most = 0;
  for (const auto& [name, partition] : tables.partitions) most = std::max(most, partition->priority);
  return Priorities(tables, std::move(spendings), std::move(cluster), most, now);
}

const Partition* first_partition(const Tables& tables, const JobSpec& spec) {
  return spec.partitions.empty() ? tables.default_partition() : tables.partition(spec.partitions.front());
}

std::uint32_t shown_priority(const Priorities& priorities, const Tables& tables, const Job& job) {
  if (job.state == JobState::kPending && (job.hold == Hold::kUser || job.hold == Hold::kAdmin))
    return 0;
  return priorities.priority(*job.spec, first_partition(tables, *job.spec), job.eligible);
}

}  // namespace lockstep
