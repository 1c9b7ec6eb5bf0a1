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
#include "model/command.h"
#include "model/job.h"
#include "rules/packing.h"
#include "rules/topology.h"

namespace lockstep {

namespace {

const NodeLoad kNothing;

// A health check looks again at a node that is closed for what it found there.
bool may_use(const JobSpec& spec, const Node& node) {
  return spec.health_check.empty() ? node_usable(node) : node_checkable(node, spec.health_check);
}

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

// As nearly always: then none has to be seen beside the others.
bool on_nodes_of_their_own(const std::vector<Grant>& grants) {
  std::vector<NodeId> nodes;
  nodes.reserve(grants.size());
  for (const Grant& grant : grants) nodes.push_back(grant.node);
  std::sort(nodes.begin(), nodes.end());
  return std::adjacent_find(nodes.begin(), nodes.end()) == nodes.end();
}

Refusal objection(const Txn& txn, const Job& job, const Partition& partition, const std::vector<Grant>& grants,
                  std::vector<const Node*>& nodes) {
  if (Refusal why = check_place(txn, job, partition, grants, nodes))
    return why;
  const bool apart = on_nodes_of_their_own(grants);
  std::map<NodeId, NodeLoad> loads;
  NodeLoad alone;
  for (std::size_t i = 0; i < grants.size() && !mutant(Mutant::kNoRecheck); ++i) {
    const NodeId node = grants[i].node;
    const auto known = txn.inner().loads.find(node);
    const NodeLoad& there = known == txn.inner().loads.end() ? kNothing : known->second;
    if (apart)
      alone = there;
    NodeLoad& load = apart ? alone : loads.try_emplace(node, there).first->second;
    const bool has_seats = grants[i].tasks <= seats_left(load, job.spec->groups.get()[grants[i].group]);
    if (!has_seats || !take(load, *nodes[i], grants[i]).ok())
      return refusal("Taken", nodes[i]->meta.name);
  }
  return spares_kept_places(txn, job.id, grants) ? Refusal() : refusal("HeldForOthers");
}

// Whether the log could take the job with these grants, which are as they were afterwards.
bool fits_log(const Txn& txn, const Job& job, std::vector<Grant>& grants) {
  if (grants.size() < kGrantsLight)
    return true;
  Job with = job;
  with.members.resize(grants.size());
  const auto allocation = std::make_shared<Allocation>();
  allocation->grants = std::move(grants);
  with.allocation = allocation;
  with.promise = nullptr;
  const bool fits = txn.fits_log(with);
  grants = std::move(allocation->grants);
  return fits;
}

// Nobody could start it: it must not be proposed again and again.
Refusal hold_too_large(Txn& txn, const Job& job) {
  Job held = job;
  held.hold = Hold::kAdmin;
  held.end_reason = "RecordTooLarge";
  txn.put(std::move(held));
  return refusal("RecordTooLarge");
}

// Why the job, or this element of it, does not wait for a start as the planner has it.
Refusal objection_to_start(const Txn& txn, const Job* job, const PlannedStart& start) {
  if (!may_start_now(txn, job) || start.is_element != (job->array != nullptr))
    return refusal(kJobChanged);
  if (start.is_element && !txn.array(job->id).waiting.contains(start.array_index))
    return refusal(kJobChanged);
  if (const JobId array = start.is_element ? job->id : job->array_job; array && throttled(txn, array))
    return refusal("Throttled");
  return {};
}

// The partition allows the limit. Where it is not what the job runs with by itself, the job has said how short it may
// be.
bool may_run_for(const JobSpec& spec, const StartingIn& in, Duration limit) {
  const bool own = limit == in.limit;
  const bool chosen = spec.time_min.us > 0 && limit >= spec.time_min && limit <= in.limit;
  return (own || chosen) && limit <= in.partition().time_max;
}

// As in Slurm, a shorter limit that it starts under is the job's from now on.
Job with_limit(Job job, Duration limit) {
  JobSpec spec = *job.spec;
  spec.time_limit = limit;
  job.spec = std::make_shared<const JobSpec>(std::move(spec));
  return job;
}

// Where other jobs are may be different since it was planned.
Refusal check_neighbours(const Txn& txn, const JobSpec& spec, const std::vector<const Node*>& nodes) {
  const Neighbours& neighbours = txn.inner().neighbours;
  const bool asks = std::any_of(spec.groups.begin(), spec.groups.end(),
                                [](const GroupSpec& group) { return !group.neighbours.empty(); });
  if (mutant(Mutant::kNoRecheck) || (!asks && neighbours.keep_apart().empty()))
    return {};
  const Seating::NodeOf node_of = [&](NodeId id) { return txn.tables().node(id); };
  const Seating::EachNode each_node = [&](const std::function<void(const Node&)>& see) {
    for (const auto& [id, node] : txn.tables().nodes) see(*node);
  };
  const Seating seating(neighbours, spec, node_of, each_node);
  for (const Node* node : nodes)
    if (seating.objection(*node) != Seating::Objection::kNone)
      return refusal("Neighbours", node->meta.name);
  return {};
}

Refusal apply_start(Txn& txn, const PlannedStart& start, StartRules& rules) {
  const Ref<Job> job = txn.job(start.job);
  if (Refusal why = objection_to_start(txn, job.get(), start))
    return why;
  std::optional<StartingIn> in = starting_in(txn, *job->spec, start.partition);
  if (!in || start.grants.empty())
    return refusal("PartitionClosed", start.partition);
  const bool shorter = start.limit.us > 0 && start.limit != in->limit;
  if (!may_run_for(*job->spec, *in, shorter ? start.limit : in->limit))
    return refusal("TimeLimit", start.partition);
  if (shorter)
    in->limit = start.limit;
  std::vector<const Node*> nodes;
  if (Refusal why = objection(txn, *job, in->partition(), start.grants, nodes))
    return why;
  if (Refusal why = check_neighbours(txn, *job->spec, nodes))
    return why;
  StartAsk ask = start_ask(*job->spec, in->partition(), start.grants, nodes, in->limit);
  if (auto bar = rules.bar(ask))
    return {"Barred", std::move(bar->detail), bar->wait};
  std::vector<Grant> grants = start.grants;
  if (mutant(Mutant::kPartialGang) && grants.size() > 1) {
    grants.pop_back();
    nodes.pop_back();
    ask.limits.tres = tres_of(*job->spec, in->partition(), grants, nodes);
  }
  if (!fits_log(txn, *job, grants))
    return hold_too_large(txn, *job);
  Job starting = start.is_element ? split_off(txn, *job, start.array_index) : *job;
  if (shorter)
    starting = with_limit(std::move(starting), start.limit);
  if (start.is_element || shorter)
    starting = *txn.put(std::move(starting));
  start_attempt(txn, starting, start.partition, std::move(grants), std::move(ask.limits.tres));
  return {};
}

Refusal apply_packing(Txn& txn, const PlannedPacking& planned) {
  const Packing* last = txn.tables().packing.get();
  const JobId newest{txn.tables().cluster ? txn.tables().cluster->next_job - 1 : 0};
  if (!planned.packing || planned.read != (last ? last->meta.seq : 0))
    return refusal("RecordChanged");
  if (const auto right = check_packing(*planned.packing, last, newest); !right.ok())
    return refusal("NotAsLearnt", right.error().message);
  Packing next = *planned.packing;
  next.meta = last ? last->meta : Meta();
  next.meta.name = "packing";
  txn.put(std::move(next));
  return {};
}

}  // namespace

Refusal start_now(Txn& txn, const PlannedStart& start) {
  StartRules rules(txn);
  return apply_start(txn, start, rules);
}

bool may_start_now(const Txn& txn, const Job* job) {
  return job && job->state == JobState::kPending && job->hold == Hold::kNone && job->begin_after <= txn.now();
}

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

Refusal check_place(const Txn& txn, const Job& job, const Partition& partition, const std::vector<Grant>& grants,
                    std::vector<const Node*>& nodes) {
  nodes.reserve(grants.size());
  for (const Grant& grant : grants) {
    const Node* node = txn.tables().node(grant.node);
    if (!node || grant.group >= job.spec->groups.size())
      return refusal("NoSuchNode");
    if (!may_use(*job.spec, *node))
      return refusal("NodeNotUp", node->meta.name);
    nodes.push_back(node);
  }
  const bool switches_over = txn.now() >= switches_end(*job.spec, job.eligible);
  if (const auto whole = check_allocation(*job.spec, partition, grants, nodes); !whole.ok())
    return refusal("NotAsAsked", whole.error().message);
  if (const auto placed = check_domains(*job.spec, partition, levels_of(txn.tables()), grants, nodes, switches_over);
      !placed.ok() && !mutant(Mutant::kForgetTopology))
    return refusal("Topology", placed.error().message);
  return {};
}

Answer apply_plan(Txn& txn, const ApplyPlan& plan) {
  Answer answer;
  const auto took = [&](PlanPart part, JobId job, Refusal why) {
    if (why)
      answer.refused.push_back({part, job, why.reason, std::move(why.detail), why.wait});
    return !why;
  };
  StartRules rules(txn);
  for (const PlannedStart& start : plan.starts)
    answer.starts_applied += took(PlanPart::kStart, start.job, apply_start(txn, start, rules));
  NewPlaces places;
  for (const PlannedPromise& promise : plan.promises)
    if (promise.promise.held)
      places[promise.job] = &promise.promise;
    else
      took(PlanPart::kPromise, promise.job, apply_promise(txn, promise));
  for (const PlannedPreemption& preemption : plan.preemptions)
    took(PlanPart::kPreemption, preemption.job, apply_preemption(txn, preemption, places));
  for (const PlannedResume& resume : plan.resumes) took(PlanPart::kResume, resume.job, apply_resume(txn, resume));
  for (const PlannedGrowth& growth : plan.growths)
    took(PlanPart::kGrowth, growth.job, apply_growth(txn, growth, rules));
  for (const PlannedPacking& packing : plan.packings) took(PlanPart::kPacking, {}, apply_packing(txn, packing));
  return answer;
}

}  // namespace lockstep
