#include "core/plan.h"

#include <algorithm>
#include <map>

#include "base/mutant.h"
#include "core/accounting.h"
#include "core/arrays.h"
#include "core/attempts.h"
#include "core/growth.h"
#include "core/preemption.h"
#include "core/timers.h"
#include "core/topology.h"
#include "rules/packing.h"
#include "rules/topology.h"

namespace lockstep {

namespace {

constexpr std::size_t kGrantsLight = 64;  // fewer are no weight beside what a submission may bring

// The partition the start was planned in, if the job may run there now; else null.
const Partition* usable_partition(const Txn& txn, const JobSpec& spec, const std::string& name) {
  const Partition* partition = txn.tables().partition(name);
  if (!partition || !partition->up)
    return nullptr;
  if (spec.partitions.empty())
    return partition->is_default ? partition : nullptr;
  const bool asked = std::find(spec.partitions.begin(), spec.partitions.end(), name) != spec.partitions.end();
  return asked ? partition : nullptr;
}

bool fits(const Txn& txn, const Job& job, const Partition& partition, const std::vector<Grant>& grants,
          std::vector<const Node*>& nodes) {
  const JobSpec& spec = *job.spec;
  std::map<NodeId, NodeLoad> loads;
  for (const Grant& grant : grants) {
    const Node* node = txn.tables().node(grant.node);
    if (!node || !node_usable(*node) || grant.group >= spec.groups.size())
      return false;
    nodes.push_back(node);
    const auto held = txn.inner().loads.find(grant.node);
    NodeLoad& load =
        loads.try_emplace(grant.node, held == txn.inner().loads.end() ? NodeLoad{} : held->second).first->second;
    if (!mutant(Mutant::kNoRecheck) && !take(load, *node, grant).ok())
      return false;
  }
  const bool switches_over = txn.now() >= switches_end(spec, job.eligible);
  return check_allocation(spec, partition, grants, nodes).ok() &&
         (mutant(Mutant::kForgetTopology) ||
          check_domains(spec, partition, levels_of(txn.tables()), grants, nodes, switches_over).ok()) &&
         spares_holds(txn, job.id, grants);
}

// Whether the log could take the job with these grants.
bool fits_log(const Txn& txn, const Job& job, const std::vector<Grant>& grants) {
  if (grants.size() < kGrantsLight)
    return true;
  Job with = job;
  auto allocation = std::make_shared<Allocation>();
  allocation->grants = grants;
  with.allocation = std::move(allocation);
  with.members.resize(grants.size());
  with.promise = nullptr;
  return txn.fits_log(with);
}

// Nobody could start it: it must not be proposed again and again. Not a start.
bool hold_too_large(Txn& txn, const Job& job) {
  Job held = job;
  held.hold = Hold::kAdmin;
  held.end_reason = "RecordTooLarge";
  txn.put(std::move(held));
  return false;
}

bool apply_start(Txn& txn, const PlannedStart& start, StartRules& rules) {
  const Ref<Job> job = txn.job(start.job);
  if (!job || job->state != JobState::kPending || job->hold != Hold::kNone || job->begin_after > txn.now() ||
      start.is_element != (job->array != nullptr))
    return false;
  if (start.is_element && !txn.array(job->id).waiting.contains(start.array_index))
    return false;
  if (const JobId array = start.is_element ? job->id : job->array_job; array && throttled(txn, array))
    return false;
  std::optional<StartingIn> in = starting_in(txn, *job->spec, start.partition);
  if (!in || start.grants.empty())
    return false;
  const bool shorter = start.limit.us > 0 && start.limit != in->limit;
  if (shorter && (job->spec->time_min.us <= 0 || start.limit < job->spec->time_min || start.limit > in->limit))
    return false;
  if (shorter)
    in->limit = start.limit;
  if (in->limit > in->partition().time_max)
    return false;
  std::vector<const Node*> nodes;
  if (!fits(txn, *job, in->partition(), start.grants, nodes))
    return false;
  if (rules.bar(*job->spec, in->partition(), start.grants, nodes, in->limit))
    return false;
  std::vector<Grant> grants = start.grants;
  if (mutant(Mutant::kPartialGang) && grants.size() > 1)
    grants.pop_back();
  if (!fits_log(txn, *job, grants))
    return hold_too_large(txn, *job);
  Job starting = start.is_element ? split_off(txn, *job, start.array_index) : *job;
  if (shorter) {  // as in Slurm, the limit it runs under is the job's from now on
    JobSpec spec = *starting.spec;
    spec.time_limit = start.limit;
    starting.spec = std::make_shared<const JobSpec>(std::move(spec));
  }
  if (start.is_element || shorter)
    starting = *txn.put(std::move(starting));
  start_attempt(txn, starting, start.partition, std::move(grants));
  return true;
}

bool apply_packing(Txn& txn, const PlannedPacking& planned) {
  const Packing* last = txn.tables().packing.get();
  const JobId newest{txn.tables().cluster ? txn.tables().cluster->next_job - 1 : 0};
  if (!planned.packing || planned.read != (last ? last->meta.seq : 0) ||
      !check_packing(*planned.packing, last, newest).ok())
    return false;
  Packing next = *planned.packing;
  next.meta = last ? last->meta : Meta();
  next.meta.name = "packing";
  txn.put(std::move(next));
  return true;
}

}  // namespace

std::optional<StartingIn> starting_in(const Txn& txn, const JobSpec& spec, const std::string& name) {
  StartingIn out;
  out.plain = usable_partition(txn, spec, name);
  if (!out.plain)
    return std::nullopt;
  out.eased = eased_for(txn.tables(), *out.plain, spec.qos);
  const Partition& partition = out.partition();
  out.limit = limit_of(spec, &partition, txn.settings());
  if (out.limit > partition.time_max && (spec.time_min.us == 0 || spec.time_min > partition.time_max))
    return std::nullopt;
  return out;
}

Answer apply_plan(Txn& txn, const ApplyPlan& plan) {
  Answer answer;
  StartRules rules(txn);
  for (const PlannedStart& start : plan.starts) answer.starts_applied += apply_start(txn, start, rules);
  NewPlaces places;
  for (const PlannedPromise& promise : plan.promises)
    if (promise.promise.held)
      places[promise.job] = &promise.promise;
    else
      apply_promise(txn, promise);
  for (const PlannedPreemption& preemption : plan.preemptions) apply_preemption(txn, preemption, places);
  for (const PlannedResume& resume : plan.resumes) apply_resume(txn, resume);
  for (const PlannedGrowth& growth : plan.growths) apply_growth(txn, growth, rules);
  for (const PlannedPacking& packing : plan.packings) apply_packing(txn, packing);
  return answer;
}

}  // namespace lockstep
