#include "core/resize.h"

#include <algorithm>

#include "base/text.h"
#include "core/growth.h"
#include "core/topology.h"
#include "model/job.h"
#include "rules/fit.h"

namespace lockstep {

namespace {

// The lowest ones that are free come, the highest ones go: what it keeps stays where it is.
Result<CoreSet> resized_cores(const CoreSet& has, std::uint32_t wanted, const NodeLoad& others, const Node& node) {
  if (wanted <= has.count())
    return has.lowest(wanted);
  const CoreSet free = CoreSet::first_n(node.cores).minus(others.cores).minus(has);
  const std::uint32_t more = wanted - has.count();
  if (free.count() < more)
    return Error{Errc::kExhausted,
                 format("node {} has {} free cores; {} more are asked for", node.meta.name, free.count(), more),
                 {}};
  return has | free.lowest(more);
}

}  // namespace

Result<void> resize_task(Txn& txn, const Job& job) {
  const JobSpec& spec = *job.spec;
  // Of a sandbox whose front end tells the node what it may have.
  const bool is_one = spec.groups.size() == 1 && spec.groups[0].sandbox.front_end_files && job.allocation &&
                      job.allocation->grants.size() == 1 && job.allocation->grants[0].tasks == 1;
  if (!is_one || job.state != JobState::kRunning)
    return Error{Errc::kUnsupported,
                 format("job {} does not run as one task on one node: its cores and memory stay", job.id.value),
                 {}};
  Grant grant = job.allocation->grants[0];
  const Node* node = txn.tables().node(grant.node);
  const Partition* plain = txn.tables().partition(job.allocation->partition);
  const auto load = txn.inner().loads.find(grant.node);
  if (!node || !plain || load == txn.inner().loads.end())
    return Error{Errc::kUnavailable, format("the node or the partition of job {} is not there", job.id.value), {}};
  NodeLoad others = load->second;
  give_back(others, grant);
  const Resources& wanted = spec.groups[0].per_task;
  grant.cores = TRY(resized_cores(grant.cores, wanted.cores, others, *node));
  grant.shared_milli = wanted.shared_milli;
  grant.memory_mb = std::max<std::int64_t>(0, wanted.memory_mb);
  if (auto fits = take(others, *node, grant); !fits.ok())
    return Error{Errc::kExhausted, fits.error().message, {}};
  StartRules rules(txn);
  if (const Refusal why = objection_of_rules(txn, job, *plain, {grant}, {node}, rules))
    return Error{Errc::kExhausted, format("job {}: {} {}", job.id.value, why.reason, why.detail), {}};
  regrant(txn, job, {grant}, job.members);
  return {};
}

}  // namespace lockstep
