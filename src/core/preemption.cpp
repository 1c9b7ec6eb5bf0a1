#include "core/preemption.h"

#include <algorithm>

#include "base/mutant.h"
#include "base/text.h"
#include "core/accounting.h"
#include "core/arrays.h"
#include "core/attempts.h"
#include "core/confirm.h"
#include "core/directory.h"
#include "core/growth.h"
#include "core/jobs.h"
#include "core/plan.h"
#include "core/steps.h"
#include "core/tasks.h"
#include "core/timers.h"
#include "core/topology.h"
#include "model/job.h"
#include "rules/growth.h"
#include "rules/preempt.h"
#include "rules/topology.h"

namespace lockstep {

namespace {

constexpr std::int32_t kSigTerm = 15, kSigCont = 18;

bool lives(const Job& job) { return job.state == JobState::kStarting || job.state == JobState::kRunning; }

struct Goes {
  PreemptMode mode = PreemptMode::kCancel;
  std::vector<NodeId> nodes;  // only from these; empty: from everywhere
  bool from(NodeId node) const { return nodes.empty() || std::find(nodes.begin(), nodes.end(), node) != nodes.end(); }
};
using Leaving = std::map<JobId, Goes>;

// How the job leaves the node, if it does: by this plan, or by one before.
std::optional<PreemptMode> leaves_how(const Job& job, NodeId node, const Leaving& leaving) {
  if (const auto it = leaving.find(job.id); it != leaving.end() && it->second.from(node))
    return it->second.mode;
  if (lives(job) && job.eviction && Goes{{}, job.eviction->nodes}.from(node))
    return job.eviction->mode;
  return std::nullopt;
}

// What a job that is told to go leaves on the node. Of one that is suspended the memory stays; of one that hangs, all
// stays that its nodes have not said to have stopped.
void add_what_stays(NodeLoad& load, const Job& job, NodeId node, std::optional<PreemptMode> goes) {
  const bool memory_only = is_paused(job) || goes == PreemptMode::kSuspend;
  if (!job.hangs && (job.state == JobState::kCompleting || (goes && !memory_only)))
    return;
  for (std::size_t i = 0; i < job.members.size(); ++i) {
    const Grant& grant = job.allocation->grants[i];
    if (grant.node != node || (job.hangs && job.members[i] == MemberState::kStopped))
      continue;
    if (job.hangs ? gave_up(job, i) : memory_only)
      load.memory_mb += grant.memory_mb;
    else
      add_grant(load, grant);
  }
}

// The node's load in the eyes of `self` when everybody who goes has gone: of those who stay, and of what is kept for
// other waiting jobs.
NodeLoad load_to_come(const Txn& txn, NodeId node, JobId self, const Leaving& leaving) {
  const ClusterState::Inner& inner = txn.inner();
  NodeLoad load;
  if (const auto on = inner.jobs_on.find(node); on != inner.jobs_on.end())
    for (JobId id : on->second) {
      const Job& job = *txn.tables().job(id);
      add_what_stays(load, job, node, leaves_how(job, node, leaving));
    }
  if (const auto kept = inner.kept_for.find(node); kept != inner.kept_for.end())
    for (JobId id : kept->second)
      if (id != self)
        for (const Grant& grant : txn.tables().job(id)->promise->grants)
          if (grant.node == node)
            add_grant(load, grant);
  return load;
}

bool room_to_come(const Txn& txn, JobId self, const std::vector<Grant>& grants, const Leaving& leaving) {
  std::map<NodeId, NodeLoad> loads;
  for (const Grant& grant : grants) {
    const Node* node = txn.tables().node(grant.node);
    if (!node || !node_usable(*node))
      return false;
    const auto [load, fresh] = loads.try_emplace(grant.node);
    if (fresh)
      load->second = load_to_come(txn, grant.node, self, leaving);
    if (!take(load->second, *node, grant).ok())
      return false;
  }
  return true;
}

// A waiting job that counts on this evicted one to go, whomever it was evicted for; 0 = there is none.
JobId in_the_way_of(const Txn& txn, const Job& victim) {
  const Goes goes{PreemptMode::kCancel, victim.eviction->nodes};
  for (const Grant& grant : victim.allocation->grants) {
    const auto kept = txn.inner().kept_for.find(grant.node);
    if (kept == txn.inner().kept_for.end() || !goes.from(grant.node))
      continue;
    NodeLoad load = load_to_come(txn, grant.node, victim.id, {{victim.id, goes}});
    if (!take(load, *txn.tables().node(grant.node), grant).ok())
      return *kept->second.begin();
  }
  return {};
}

// With the end of its grace, behind which it is told to stop.
SignalAttempt warning(const Txn& txn, const Job& job, std::int32_t signal) {
  CHECK(job.eviction);
  const Duration left = std::max(Duration{}, job.eviction->at - txn.now());
  return {signal, SignalReach::kEverything, left + job.spec->kill_wait};
}

void warn_all(Txn& txn, const Job& job, std::int32_t signal) {
  for (NodeId node : live_nodes(job)) txn.act(node, job, warning(txn, job, signal));
}

// Tells every node of the job that it pauses, or goes on; what was confirmed of an earlier order counts no more.
void order_pause(Txn& txn, const Job& job) {
  for (NodeId node : live_nodes(job)) txn.act(node, job, PauseAttempt{is_paused(job), job.pauses});
}

void pause_job(Txn& txn, const Job& before) {
  charge_usage(txn, before, txn.now());
  Job job = before;
  job.state = JobState::kSuspended;
  job.suspended_at = txn.now();
  job.confirm_by = confirm_pause_by(txn);
  ++job.pauses;
  for (MemberState& member : job.members)
    if (member == MemberState::kPaused)
      member = MemberState::kRunning;  // told to go on before, and may have done so
  const Ref<Job> now_there = txn.put(std::move(job));
  order_pause(txn, *now_there);
  txn.event(*now_there, "Suspended", now_there->eviction ? format("for job {}", now_there->eviction->by.value) : "");
}

// Whether a suspended job's cores and devices are free, and not kept for others.
bool may_go_on(const Txn& txn, const Job& job) {
  std::map<NodeId, NodeLoad> loads;
  for (std::size_t i = 0; i < job.allocation->grants.size(); ++i) {
    const Grant& grant = job.allocation->grants[i];
    const auto load = txn.inner().loads.find(grant.node);
    if (!occupies(grant) || load == txn.inner().loads.end())
      continue;
    NodeLoad& others = loads.try_emplace(grant.node, load->second).first->second;
    if (gave_up(job, i))
      others.memory_mb -= grant.memory_mb;
    else
      give_back(others, grant);
  }
  const std::vector<Grant> occupying = occupying_grants(job.allocation->grants);
  for (const Grant& grant : occupying) {
    const Node* node = txn.tables().node(grant.node);
    if (!node || !take(loads[grant.node], *node, grant).ok())
      return false;
  }
  for (const Grant& grant : occupying)
    if (txn.inner().kept_for.contains(grant.node)) {
      NodeLoad load = load_to_come(txn, grant.node, job.id, {});
      load.memory_mb -= grant.memory_mb;
      if (!take(load, *txn.tables().node(grant.node), grant).ok())
        return false;
    }
  return true;
}

void go_on(Txn& txn, const Job& before) {
  Job job = before;
  const Duration pause = txn.now() - job.suspended_at;
  job.state = JobState::kRunning;
  job.suspended_at = {};
  const bool starts = std::find(job.members.begin(), job.members.end(), MemberState::kAssigned) != job.members.end();
  job.confirm_by = starts ? txn.now() + kStartWithin : Instant{};
  job.suspended_before = job.suspended_before + pause;
  if (job.limit_end && job.limit_end < kNever)
    job.limit_end = job.limit_end + pause;
  job.eviction = nullptr;
  ++job.pauses;
  auto allocation = std::make_shared<Allocation>(*job.allocation);
  allocation->granted = txn.now();  // what it had before was charged when it was told to pause
  job.allocation = std::move(allocation);
  const Ref<Job> now_there = txn.put(std::move(job));
  order_pause(txn, *now_there);
  txn.event(*now_there, "Resumed");
  // A node that pauses starts nothing: whatever it was told to start meanwhile it is told again.
  start_late_steps(txn, now_there->id);
  start_late_tasks(txn, *txn.job(now_there->id));
}

// As room_to_come(), but beside everybody who is there now.
bool free_now(const Txn& txn, const std::vector<Grant>& grants) {
  std::map<NodeId, NodeLoad> loads;
  for (const Grant& grant : grants) {
    const auto [load, fresh] = loads.try_emplace(grant.node);
    if (const auto there = txn.inner().loads.find(grant.node); fresh && there != txn.inner().loads.end())
      load->second = there->second;
    if (!take(load->second, *txn.tables().node(grant.node), grant).ok())
      return false;
  }
  return true;
}

// Why the victim may not start on this place, as far as it does not hang on what is free.
Refusal objection_to(const Txn& txn, StartRules& rules, const Job& victim, const Promise& place) {
  const std::optional<StartingIn> in = starting_in(txn, *victim.spec, place.partition);
  if (!in || place.grants.empty())
    return refusal("PartitionClosed", place.partition);
  std::vector<const Node*> nodes;
  if (Refusal why = check_place(txn, victim, in->partition(), place.grants, nodes))
    return why;
  Ledger ledger = txn.inner().ledger;
  ledger.index(&victim, nullptr);
  if (auto bar = rules.bar(*victim.spec, in->partition(), place.grants, nodes, in->limit, &ledger))
    return {"Barred", std::move(bar->detail), bar->wait};
  return {};
}

}  // namespace

bool has_kept_place(const Job& job) { return job.promise && job.promise->held; }

bool is_moving(const Job& job) {
  return has_kept_place(job) && job.eviction &&
         (lives(job) || (job.state == JobState::kCompleting && job.requeue_after));
}

bool spares_kept_places(const Txn& txn, JobId self, const std::vector<Grant>& grants) {
  const auto& kept = txn.inner().kept_for;
  if (kept.empty())
    return true;
  std::map<NodeId, NodeLoad> loads;
  for (const Grant& grant : grants) {
    const auto on = kept.find(grant.node);
    if (on == kept.end() || (on->second.size() == 1 && on->second.contains(self)))
      continue;
    const auto [load, fresh] = loads.try_emplace(grant.node);
    if (fresh)
      load->second = load_to_come(txn, grant.node, self, {});
    if (!take(load->second, *txn.tables().node(grant.node), grant).ok())
      return false;
  }
  return true;
}

namespace {

// One preemption while it is checked: who goes, in what way, and what limits and quotas are left then.
class Making {
 public:
  Making(Txn& txn, const Job& job, const PlannedPreemption& planned, const StartingIn& in,
         const std::vector<const Node*>& nodes, const NewPlaces& places)
      : txn_(txn),
        job_(job),
        planned_(planned),
        in_(in),
        nodes_(nodes),
        places_(places),
        rules_(txn),
        ledger_(txn.inner().ledger),
        quotas_(ledger_.quotas()),
        tres_(tres_of(*job.spec, in.partition(), planned.grants, nodes)),
        right_(txn.tables(), *job.spec, in.partition(), &quotas_, tres_),
        moves_(!planned.victims.empty() && places.contains(planned.victims.front())),
        at_(txn.now()) {}

  Refusal objection() {
    if (moves_ && (!planned_.shrinks.empty() || !txn_.settings().defragment || planned_.victims.size() > kMovesMost))
      return refusal("MovesOff");
    // One after the other, as each leaves less that quotas could claim back.
    for (const JobId id : planned_.victims)
      if (Refusal why = add_victim(id))
        return why;
    for (const PlannedShrink& part : planned_.shrinks)
      if (Refusal why = add_shrink(part))
        return why;
    std::vector<Grant> together = planned_.grants;
    together.insert(together.end(), new_places_.begin(), new_places_.end());
    if (!room_to_come(txn_, job_.id, together, leaving_) || !free_now(txn_, new_places_))
      return refusal("Taken");
    if (auto bar = rules_.bar(*job_.spec, in_.partition(), planned_.grants, nodes_, in_.limit, &ledger_))
      return {"Barred", std::move(bar->detail), bar->wait};
    return {};
  }

  // Keeps the place and tells those who go. Only where there is no objection.
  void carry_out() {
    Job next = job_.array ? split_off(txn_, job_, txn_.array(job_.id).waiting.front()) : job_;
    next.promise = std::make_shared<const Promise>(Promise{at_, planned_.partition, planned_.grants, true});
    const Ref<Job> by = txn_.put(std::move(next));
    txn_.event(*by, "Preempts", format("{} jobs make room", evictions_.size()));
    for (auto& [victim, eviction] : evictions_) {
      eviction.by = by->id;
      tell(*victim, eviction);
    }
  }

 private:
  Refusal add_victim(JobId id) {
    const Ref<Job> victim = txn_.job(id);
    if (!victim || victim->id == job_.id || leaving_.contains(id) || !holds_allocation(victim->state))
      return refusal("VictimChanged", format("{}", id.value));
    const Partition* where = txn_.tables().partition(victim->allocation->partition);
    const auto terms =
        moves_ ? move_terms(txn_.tables(), *victim, where, txn_.settings().move_after) : right_.against(*victim, where);
    if (!terms || terms->from > txn_.now() || moves_ != places_.contains(id))
      return refusal("NoRight", format("{}", id.value));
    leaving_[id] = {terms->mode, {}};
    if (moves_) {
      const Promise& place = *places_.at(id);
      if (victim->allocation->partition != planned_.partition || place.partition != planned_.partition)
        return refusal("PartitionClosed", place.partition);
      if (Refusal why = objection_to(txn_, rules_, *victim, place))
        return why;
      new_places_.insert(new_places_.end(), place.grants.begin(), place.grants.end());
    } else if (terms->mode != PreemptMode::kSuspend) {
      quotas_.add(victim->spec->account, victim->allocation->tres, -1);
      ledger_.index(victim.get(), nullptr);
    }
    // What has not begun needs no time to end.
    const Duration grace = victim->state == JobState::kRunning ? terms->grace : Duration{};
    goes(victim, {job_.id, terms->mode, txn_.now() + grace, {}});
    return {};
  }

  // What goes in part counts whole against limits until it has gone.
  Refusal add_shrink(const PlannedShrink& part) {
    const Ref<Job> victim = txn_.job(part.job);
    if (!victim || victim->id == job_.id || leaving_.contains(part.job) || !may_give_up(txn_, *victim, part.nodes))
      return refusal("VictimChanged", format("{}", part.job.value));
    const auto terms = right_.against(*victim, txn_.tables().partition(victim->allocation->partition));
    if (!terms || terms->from > txn_.now() || terms->mode == PreemptMode::kSuspend)
      return refusal("NoRight", format("{}", part.job.value));
    leaving_[part.job] = {terms->mode, part.nodes};
    goes(victim, {job_.id, terms->mode, txn_.now() + terms->grace, part.nodes});
    return {};
  }

  void goes(const Ref<Job>& victim, Eviction eviction) {
    at_ = std::max(at_, eviction.at);
    evictions_.emplace_back(victim, std::move(eviction));
  }

  void tell(const Job& victim, const Eviction& eviction) {
    Job going = victim;
    going.eviction = std::make_shared<const Eviction>(eviction);
    if (moves_) {
      Promise place = *places_.at(victim.id);
      place.at = eviction.at;
      going.promise = std::make_shared<const Promise>(std::move(place));
    }
    const Ref<Job> told = txn_.put(std::move(going));
    txn_.event(*told, moves_ ? "Moves" : "Preempted", format("for job {}", eviction.by.value));
    if (eviction.at <= txn_.now())
      return evict(txn_, *told);
    if (eviction.mode == PreemptMode::kSuspend)
      return;  // it need not get ready for anything
    for (const NodeId node : eviction.nodes)
      for (const std::int32_t signal : {kSigCont, kSigTerm}) txn_.act(node, *told, warning(txn_, *told, signal));
    if (!eviction.nodes.empty())
      return;
    const bool saves = eviction.mode == PreemptMode::kCheckpoint && told->spec->checkpoint_signal != 0;
    warn_all(txn_, *told, kSigCont);
    warn_all(txn_, *told, saves ? told->spec->checkpoint_signal : kSigTerm);
  }

  Txn& txn_;
  const Job& job_;
  const PlannedPreemption& planned_;
  const StartingIn& in_;
  const std::vector<const Node*>& nodes_;
  const NewPlaces& places_;
  StartRules rules_;
  Ledger ledger_;
  QuotaTree quotas_;
  Tres tres_;
  PreemptRight right_;
  bool moves_;
  Leaving leaving_;
  Instant at_;  // when the last of them has gone
  std::vector<std::pair<Ref<Job>, Eviction>> evictions_;
  std::vector<Grant> new_places_;
};

}  // namespace

Refusal apply_preemption(Txn& txn, const PlannedPreemption& planned, const NewPlaces& places) {
  const Ref<Job> job = txn.job(planned.job);
  const bool nobody_goes = planned.victims.empty() && planned.shrinks.empty();
  if (!may_start_now(txn, job.get()) || has_kept_place(*job) || planned.grants.empty() || nobody_goes)
    return refusal(kJobChanged);
  if (job->array && txn.array(job->id).waiting.empty())
    return refusal(kJobChanged);
  if (const JobId array = job->array ? job->id : job->array_job; array && throttled(txn, array))
    return refusal("Throttled");
  const std::optional<StartingIn> in = starting_in(txn, *job->spec, planned.partition);
  if (!in)
    return refusal("PartitionClosed", planned.partition);
  std::vector<const Node*> nodes;
  if (Refusal why = check_place(txn, *job, in->partition(), planned.grants, nodes))
    return why;
  Making room(txn, *job, planned, *in, nodes, places);
  if (Refusal why = room.objection())
    return why;
  room.carry_out();
  return {};
}

Refusal apply_promise(Txn& txn, const PlannedPromise& planned) {
  const Ref<Job> job = txn.job(planned.job);
  if (!job || job->state != JobState::kPending || job->hold != Hold::kNone || job->array)
    return refusal(kJobChanged);
  const bool drop = planned.promise.grants.empty();
  if (drop ? !job->promise : planned.promise.held || has_kept_place(*job))
    return refusal(kJobChanged);
  if (!drop && job->promise && *job->promise == planned.promise)
    return refusal("KnownAlready");
  Job next = *job;
  next.promise = drop ? nullptr : std::make_shared<const Promise>(planned.promise);
  txn.put(std::move(next));
  return {};
}

Refusal apply_resume(Txn& txn, const PlannedResume& planned) {
  const Ref<Job> job = txn.job(planned.job);
  // What somebody suspended by hand goes on when somebody says so.
  if (!job || job->state != JobState::kSuspended || !job->eviction)
    return refusal(kJobChanged);
  if (!may_go_on(txn, *job))
    return refusal("Taken");
  go_on(txn, *job);
  return {};
}

void member_paused(Txn& txn, const Job& before, NodeId node, const MemberPaused& report) {
  if (report.paused != is_paused(before) || (report.number != before.pauses && !mutant(Mutant::kStalePause)))
    return;  // of an earlier order
  Job job = before;
  bool changed = false;
  for (const Seats::Seat& seat : txn.inner().seats_of(before).on(node)) {
    MemberState& member = job.members[seat.grant];
    if (member == MemberState::kStopped)
      continue;
    const MemberState now_is = report.paused                    ? MemberState::kPaused
                               : member == MemberState::kPaused ? MemberState::kRunning
                                                                : member;
    changed = changed || now_is != member;
    member = now_is;
  }
  if (changed)
    txn.put(std::move(job));
  if (!report.paused)
    see_resumed(txn, before.id, node);
}

void evict(Txn& txn, const Job& job) {
  CHECK(job.eviction && job.eviction->by && lives(job));
  if (!job.eviction->nodes.empty()) {
    Job next = job;
    auto eviction = std::make_shared<Eviction>(*job.eviction);
    eviction->by = {};  // from now on it cannot be pardoned
    next.eviction = std::move(eviction);
    next.confirm_by = confirm_stop_by(txn, next);
    const Ref<Job> told = txn.put(std::move(next));
    for (const NodeId node : told->eviction->nodes) txn.act(node, *told, StopAttempt{told->spec->kill_wait});
    return;
  }
  const PreemptMode mode = job.eviction->mode;
  if (mode == PreemptMode::kSuspend && job.state == JobState::kRunning) {
    pause_job(txn, job);
    return;
  }
  const bool again = mode != PreemptMode::kCancel && may_requeue(*job.spec);
  end_attempt(txn, job, {.state = JobState::kPreempted, .reason = "Preempted", .requeue = again});
}

void pardon_victims(Txn& txn, JobId by) {
  const Job* job = txn.tables().job(by);
  if (job && has_kept_place(*job))
    return;
  // It was to be moved and its new place is lost: the move is off.
  if (job && lives(*job) && job->eviction)
    if (const Ref<Job> head = txn.job(job->eviction->by); head && has_kept_place(*head) && !is_moving(*head)) {
      Job next = *head;
      next.promise = nullptr;
      txn.put(std::move(next));
    }
  const auto it = txn.inner().making_room.find(by);
  if (it == txn.inner().making_room.end())
    return;
  for (JobId id : std::vector<JobId>(it->second.begin(), it->second.end())) {
    Job victim = *txn.job(id);
    if (!lives(victim))
      continue;
    if (const JobId other = in_the_way_of(txn, victim)) {
      Eviction eviction = *victim.eviction;
      eviction.by = other;
      victim.eviction = std::make_shared<const Eviction>(eviction);
      txn.put(std::move(victim));
      continue;
    }
    victim.eviction = nullptr;
    victim.promise = nullptr;
    txn.event(victim, "Pardoned", format("job {} does not need its place any more", by.value));
    txn.put(std::move(victim));
  }
}

void drop_holds_on(Txn& txn, NodeId node) {
  const auto it = txn.inner().kept_for.find(node);
  if (it == txn.inner().kept_for.end())
    return;
  for (JobId id : std::vector<JobId>(it->second.begin(), it->second.end())) {
    Job job = *txn.job(id);
    job.promise = nullptr;
    txn.put(std::move(job));
  }
}

namespace {

// Somebody said that it is to go on, and there was no room.
bool waits_to_go_on(const Job& job) { return job.state == JobState::kSuspended && job.eviction && !job.eviction->by; }

}  // namespace

Result<void> suspend_job(Txn& txn, const SuspendJob& ask) {
  TRY(need_admin(txn, "suspend jobs"));
  const Targets targets = TRY(find_targets(txn, ask.target));
  std::size_t count = 0;
  for (JobId id : targets.records) {
    const Ref<Job> job = txn.job(id);
    if (waits_to_go_on(*job)) {
      Job next = *job;
      next.eviction = nullptr;
      txn.put(std::move(next));
      ++count;
      continue;
    }
    if (job->state == JobState::kSuspended)
      return conflict(format("Job is already suspended: {}", id.value));
    if (job->state != JobState::kRunning || job->eviction)
      continue;
    pause_job(txn, *job);
    ++count;
  }
  if (targets.next)
    txn.cut({*targets.next, count > 0 || txn.part().found});
  return count > 0 || txn.part().found || targets.next
             ? Result<void>()
             : conflict(format("Job is not running: {}", ask.target.job.value));
}

Result<void> resume_job(Txn& txn, const ResumeJob& ask) {
  TRY(need_admin(txn, "resume jobs"));
  const Targets targets = TRY(find_targets(txn, ask.target));
  std::size_t count = 0;
  for (JobId id : targets.records) {
    const Ref<Job> job = txn.job(id);
    if (job->state != JobState::kSuspended)
      continue;
    ++count;
    if (may_go_on(txn, *job)) {
      go_on(txn, *job);
    } else if (!job->eviction) {
      // Others use what it gave up: from now on it goes on as one that made room does, when there is room again.
      Job next = *job;
      next.eviction = std::make_shared<const Eviction>(Eviction{{}, PreemptMode::kSuspend, txn.now(), {}});
      txn.event(*txn.put(std::move(next)), "ResumeAsked", "it goes on when there is room");
    }
  }
  if (targets.next)
    txn.cut({*targets.next, count > 0 || txn.part().found});
  return count > 0 || txn.part().found || targets.next
             ? Result<void>()
             : conflict(format("Job is not suspended: {}", ask.target.job.value));
}

Result<void> mark_checkpoint(Txn& txn, const MarkCheckpoint& ask) {
  const Ref<Job> job = txn.job(ask.job);
  if (!job)
    return not_found(format("Invalid job id specified: {}", ask.job.value));
  TRY(may_change(txn, *job));
  if (job->state != JobState::kRunning && job->state != JobState::kSuspended)
    return conflict(format("job {} is not running: there is nothing to have saved", ask.job.value));
  note_checkpoint(txn, *job, txn.now());
  return {};
}

void note_checkpoint(Txn& txn, const Job& job, Instant at) {
  Job next = job;
  next.checkpointed = at;
  const Ref<Job> saved = txn.put(std::move(next));
  if (lives(*saved) && saved->eviction && saved->eviction->by && saved->eviction->mode == PreemptMode::kCheckpoint)
    evict(txn, *saved);
}

}  // namespace lockstep
