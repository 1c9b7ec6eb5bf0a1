#include "core/attempts.h"

#include <algorithm>
#include <unordered_set>

#include "base/characters.h"
#include "base/hostlist.h"
#include "base/mutant.h"
#include "base/text.h"
#include "core/accounting.h"
#include "core/confirm.h"
#include "core/dependencies.h"
#include "core/growth.h"
#include "core/health.h"
#include "core/jobs.h"
#include "core/older_log.h"
#include "core/preemption.h"
#include "core/reservations.h"
#include "core/staging.h"
#include "core/steps.h"
#include "core/tasks.h"
#include "core/timers.h"
#include "core/true_end.h"
#include "model/bounds.h"
#include "model/device_loss.h"
#include "model/job.h"
#include "rules/growth.h"
#include "rules/preempt.h"

namespace lockstep {

namespace {

constexpr std::string_view kNodeAtFault = "NodeAtFault ";  // Job::end_reason begins so, and names the node
// A job for which so many nodes have been closed is held: it is rather the job, or the program, than one more node.
constexpr std::size_t kNodesAtFaultMax = 3;

bool all_stopped(const Txn& txn, const Job& job) { return txn.inner().seats_of(job).live() == 0; }

// The rest of the job is of no use without a lost member: it starts again as a whole, if it may. A script that is to
// survive such a loss (--no-kill) can do without.
bool needs_all(const JobSpec& spec) {
  return spec.requeue && ((runs_script(spec) && !spec.survive_node_loss) ||
                          std::any_of(spec.groups.begin(), spec.groups.end(), [](const GroupSpec& g) {
                            return g.launch == Launch::kTasks && g.one_failure_restarts_all;
                          }));
}

std::string hosts_of(const Txn& txn, const Allocation& allocation) {
  std::vector<std::string> names;
  std::unordered_set<std::uint32_t> seen;
  for (const Grant& grant : allocation.grants)
    if (const Node* node = txn.tables().node(grant.node); node && seen.insert(grant.node.value).second)
      names.push_back(node->meta.name);
  return compress_hostlist(names);
}

// What the attempt used is charged up to its end. One that is paused was charged when it was told to pause; if it had
// ended by then, what it did not use goes back, and that pause was none.
void settle_accounts(Txn& txn, Job& job) {
  if (!job.suspended_at) {
    charge_usage(txn, job, job.ended);
    return;
  }
  refund_usage(txn, job, job.ended, job.suspended_at);
  job.suspended_before = job.suspended_before + std::max(Duration{}, job.ended - job.suspended_at);
  job.suspended_at = {};
}

// The attempt that ended was the job's last. ran: how long it did, pauses aside; limit: the one it ran under.
void finish_job(Txn& txn, Job job, Duration ran, Duration limit) {
  const bool by_itself = job.ending == JobState::kCompleted || job.ending == JobState::kFailed ||
                         job.ending == JobState::kTimeout || job.ending == JobState::kOutOfMemory;
  const bool cut = job.ending == JobState::kTimeout && ran < limit;  // by another limit than its own
  if (by_itself && !cut && job.started)
    txn.learn(job, limit, ran);
  job.state = job.ending;
  job.hold = Hold::kNone;
  job.begin_after = txn.now();  // it stays listed from here, however long ago it ended
  const Ref<Job> before = txn.job(job.id);
  job.ran_on = hosts_of(txn, *before->allocation);
  txn.event(job, "Ended", job.end_reason);
  const Ref<Job> ended = txn.put(std::move(job));
  note_unused(txn, *ended);
  note_health(txn, *ended, before->allocation->grants.front().node);
}

// The job waits once more. One that is moved starts again at once, because its place is kept for it; any other waits
// for a moment.
void put_back(Txn& txn, Job job) {
  // Making room, and having met a bad node, is nothing that a job could do too often.
  const bool preempted = job.ending == JobState::kPreempted;
  const bool counts = !job.end_reason.starts_with(kNodeAtFault);
  job.state = JobState::kPending;
  job.requeue_after = false;
  job.ending = JobState::kCompleted;
  if (preempted)
    ++job.preemptions;
  else if (counts)
    ++job.restarts;
  job.begin_after = has_kept_place(job) ? txn.now() : txn.now() + txn.settings().requeue_delay;
  job.eligible = job.begin_after;
  job.started = {};
  job.exit = job.derived_exit = {};
  job.script_use = nullptr;
  job.warned = false;
  if (job.hold == Hold::kNone)
    job.hold = natural_hold(txn, job);
  txn.event(job, "Requeued", job.end_reason);
  txn.put(std::move(job));
}

// The last node has said that nothing of the attempt lives there, and every step and task of the job has been ended. So
// the job gives its nodes back. It goes into the queue again if it was to be requeued, else to its final state.
void finish_attempt(Txn& txn, JobId id) {
  CHECK(!txn.inner().live_steps.contains(id), "a job ends before its steps");
  Job job = *txn.job(id);
  CHECK(job.state == JobState::kCompleting);
  if (!job.ended)
    job.ended = txn.now();  // it was ending when controllers did not note that yet
  settle_accounts(txn, job);
  const Duration ran = job.ended - job.started - job.suspended_before;
  const Duration limit = job.allocation->limit;
  job.allocation = nullptr;
  job.members.clear();
  job.limit_end = job.confirm_by = {};
  job.hangs = false;
  job.eviction = nullptr;
  if (job.requeue_after)
    put_back(txn, std::move(job));
  else
    finish_job(txn, std::move(job), ran, limit);
}

// Ends the steps and tasks of the job that have nothing left alive. It begins where Chores::sweeps says that the last
// command stopped. False: this command is tired too, and Ticks go on.
bool sweep_on(Txn& txn, JobId id) {
  const Ref<Job> job = txn.job(id);
  const bool over = job->state == JobState::kCompleting && all_stopped(txn, *job);
  if (!sweep_steps(txn, *job, over) || (over && !end_tasks_of(txn, *job)))
    return false;
  txn.chores().sweeps.erase(id);
  there_is_room(txn, id);
  return true;
}

// A node has said that nothing of the attempt lives there any more: steps and tasks that ran there learn it. False as
// sweep_on().
bool sweep(Txn& txn, JobId id, NodeId node) {
  const auto [at, alone] = txn.chores().sweeps.try_emplace(id);
  at->second = {};
  if (alone)
    at->second.node = node;
  return sweep_on(txn, id);
}

// The job runs from now on. One that was seen to end before it was seen to run has a start already.
void mark_running(Txn& txn, Job& job, Instant at) {
  job.state = JobState::kRunning;
  if (!job.started)
    job.started = at;
  const Duration limit = limit_of(*job.spec, txn.tables().partition(job.allocation->partition), txn.settings());
  job.limit_end = limit >= kForever ? kNever : job.started + limit;
}

// The node's grants that were not known to have started yet.
std::vector<std::uint32_t> assigned_on(const Seats& seats, const Job& job, NodeId node) {
  std::vector<std::uint32_t> out;
  for (const Seats::Seat& seat : seats.on(node))
    if (job.members[seat.grant] == MemberState::kAssigned)
      out.push_back(seat.grant);
  return out;
}

// A script runs once its own node has started it; anything else once all nodes have.
bool runs_now(const Job& job, bool all_started) {
  return job.state == JobState::kStarting &&
         (runs_script(*job.spec) ? job.members[0] != MemberState::kAssigned : all_started);
}

void attempt_started(Txn& txn, const Job& before, NodeId node, Instant at) {
  if (before.state == JobState::kCompleting)
    return;
  const Seats& seats = txn.inner().seats_of(before);
  const std::vector<std::uint32_t> up = assigned_on(seats, before, node);
  if (up.empty())
    return;
  Job job = before;
  for (const std::uint32_t i : up) job.members[i] = MemberState::kRunning;
  const bool all = seats.assigned() == up.size();
  const bool starting = job.state == JobState::kStarting;
  if (all && (starting || job.state == JobState::kRunning) && !job.eviction)
    job.confirm_by = {};
  // Steps of an interactive job run where its attempt has started, so its time counts from the first of its nodes on.
  if (starting && job.spec->groups.front().launch == Launch::kNothing && !job.started && !stages_in(job))
    job.started = at;
  const bool begins = runs_now(job, all);
  if (begins) {
    mark_running(txn, job, at);
    txn.event(job, "Started", format("attempt {}", job.attempt));
  }
  const Ref<Job> now_there = txn.put(std::move(job));
  if (begins) {
    start_tasks_of(txn, *now_there);
    start_waiting_steps(txn, now_there->id);
  } else if (now_there->state != JobState::kStarting && !runs_script(*now_there->spec) && !leaves(*now_there, node)) {
    start_tasks_in(txn, *now_there, up);  // it has grown
  } else {
    release_script(txn, *now_there);
  }
}

void script_ended(Txn& txn, const Job& before, NodeId node, const ScriptEnded& report, Instant at) {
  const ExitStatus exit = as_kept(report.exit);
  if (!runs_script(*before.spec) || before.allocation->grants[0].node != node ||
      before.members[0] == MemberState::kStopped)
    return;
  Job job = before;
  if (report.use.tasks > 0)
    job.script_use = std::make_shared<const WorkUse>(report.use);
  Ending ending = ending_by(txn, node, exit);
  ending.at = at;
  if (before.state == JobState::kCompleting) {
    if (report.by_itself && correct_end(txn, before, ending, exit))
      return;
    // It was told to end (limit, cancel): how the script took it is worth keeping, what the end is called stays.
    const bool told = before.ending != JobState::kCompleted && before.ending != JobState::kFailed &&
                      before.ending != JobState::kOutOfMemory && !before.requeue_after;
    if (told && (before.exit != exit || job.script_use)) {
      job.exit = exit;
      txn.put(std::move(job));
    } else if (before.requeue_after && job.script_use) {
      txn.put(std::move(job));  // accounting keeps what this run has used; the next one begins without
    }
    return;
  }
  if (job.state == JobState::kStarting)
    job.started = at;  // its start was reported too late to be seen
  job.exit = exit;
  end_attempt(txn, std::move(job), ending);
}

// The job has failed, and now a node is lost that had not confirmed yet that its part has stopped. When a node dies,
// the ranks on other nodes see their connections break and fail, and the job is told to have failed before anybody
// knows of the node. So the failure counts as the node's, and the job may start again.
void blame_node(Txn& txn, const Job& before, const std::string& reason) {
  if (before.ending != JobState::kFailed || before.requeue_after || before.cancelled_by || !needs_all(*before.spec) ||
      mutant(Mutant::kNoRequeue))
    return;
  Job job = before;
  job.ending = JobState::kNodeFail;
  job.end_reason = reason;
  job.requeue_after = true;
  if (job.restarts >= txn.settings().requeues_max)
    job.hold = Hold::kRequeueLimit;
  txn.event(job, "NodeFailed", reason);
  txn.put(std::move(job));
}

// The node refuses the attempt, because it has had one of that number: the log was put back from a backup. Nothing of
// this attempt ran, so the job goes back into the queue, and its next attempt has a number above. False: the attempt
// has started elsewhere already, or the job is one that never starts again: srun's own, which has no use for another
// attempt without its first step, or the run of a health check.
bool starts_above(Txn& txn, const Job& before, NodeId node) {
  if (before.state != JobState::kStarting || before.first_step || !before.spec->health_check.empty())
    return false;
  Job job = before;
  for (const Seats::Seat& seat : txn.inner().seats_of(before).on(node)) job.members[seat.grant] = MemberState::kStopped;
  const Ref<Node> where = txn.node(node);
  Ending ending{.state = JobState::kCancelled,
                .reason = format("NumberUsedBefore {}", where ? where->meta.name : "?"),
                .requeue = true};
  if (job.restarts >= txn.settings().requeues_max)
    ending.hold = Hold::kRequeueLimit;
  end_attempt(txn, std::move(job), ending);
  return true;
}

}  // namespace

bool runs_script(const JobSpec& spec) { return spec.groups.front().launch == Launch::kScript; }

bool may_requeue(const JobSpec& spec) { return restartable(spec); }

std::vector<NodeId> live_nodes(const Job& job) {
  std::vector<NodeId> out;
  std::unordered_set<std::uint32_t> seen;
  for (std::size_t i = 0; i < job.members.size(); ++i) {
    const NodeId node = job.allocation->grants[i].node;
    if (job.members[i] != MemberState::kStopped && seen.insert(node.value).second)
      out.push_back(node);
  }
  return out;
}

void start_attempt(Txn& txn, const Job& before, const std::string& partition, std::vector<Grant> grants, Tres tres) {
  Job job = before;
  Allocation allocation;
  allocation.attempt = std::max(before.attempt, attempt_seen(txn, before.id)) + 1;
  allocation.partition = partition;
  allocation.fence_after = may_requeue(*before.spec) ? txn.settings().fence_after : kForever;
  allocation.grants = std::move(grants);
  allocation.granted = txn.now();
  const Partition* where = txn.tables().partition(partition);
  CHECK(where, "a start in a partition that is not there");
  allocation.limit = limit_of(*before.spec, where, txn.settings());
  allocation.tres = std::move(tres);
  job.state = JobState::kStarting;
  job.hold = Hold::kNone;
  job.attempt = allocation.attempt;
  job.members.assign(allocation.grants.size(), MemberState::kAssigned);
  job.allocation = std::make_shared<const Allocation>(std::move(allocation));
  job.started = job.ended = job.limit_end = {};
  job.confirm_by = txn.now() + kStartWithin;
  job.exit = job.derived_exit = {};
  job.script_use = nullptr;
  job.end_reason.clear();
  job.ran_on.clear();
  job.warned = job.staged = false;
  job.eviction = nullptr;
  job.checkpointed = {};
  job.suspended_before = {};
  job.pauses = 0;
  const Ref<Job> now_there = txn.put(std::move(job));
  for (NodeId node : live_nodes(*now_there)) txn.act(node, *now_there, StartAttempt{});
  txn.event(*now_there, "Allocated", format("attempt {}", now_there->attempt));
  if (now_there->first_step)
    start_first_step(txn, *now_there, now_there->first_step);
}

void send_stops(Txn& txn, const Job& job, Duration kill_wait) {
  // What is paused is not woken to see its end: its cores may be another's.
  if (is_paused(job))
    kill_wait = {};
  for (NodeId node : live_nodes(job)) txn.act(node, job, StopAttempt{kill_wait});
}

void end_attempt(Txn& txn, Job job, const Ending& ending) {
  job.state = JobState::kCompleting;
  job.ending = ending.state;
  job.end_reason = ending.reason;
  job.requeue_after = ending.requeue;
  job.hold = ending.hold;
  job.cancelled_by = ending.by;
  job.limit_end = {};
  job.ended = within_attempt(job, ending.at ? ending.at : txn.now());
  job.confirm_by = confirm_stop_by(txn, job);
  const Ref<Job> now_there = txn.put(std::move(job));
  txn.event(*now_there, "Ending", now_there->end_reason);
  if (!all_stopped(txn, *now_there))
    send_stops(txn, *now_there, now_there->spec->kill_wait);
  else if (sweep(txn, now_there->id, {}))
    finish_attempt(txn, now_there->id);
}

void fail_attempt(Txn& txn, const Job& job, JobState state, const std::string& reason, Hold hold_at_limit,
                  bool never_ran) {
  Ending ending{.state = state, .reason = reason};
  if ((never_ran || may_requeue(*job.spec)) && !mutant(Mutant::kNoRequeue)) {
    ending.requeue = true;
    if (job.restarts >= txn.settings().requeues_max)
      ending.hold = hold_at_limit;
  }
  end_attempt(txn, job, ending);
}

namespace {

// How the reason of a node ends that was closed for the job.
std::string closed_for(JobId job) { return format(" (job {})", job.value); }

std::size_t nodes_closed_for(const Txn& txn, JobId job) {
  const auto& nodes = txn.tables().nodes;
  return static_cast<std::size_t>(std::count_if(nodes.begin(), nodes.end(), [&](const auto& entry) {
    const Node& node = *entry.second;
    return node.drain && !node.reason_by && node.reason.ends_with(closed_for(job));
  }));
}

// It takes nothing more until an administrator has looked at it and opens it.
void close_faulty(Txn& txn, NodeId id, JobId job, const std::string& why) {
  const Ref<Node> known = txn.node(id);
  if (!known || known->drain)
    return;
  Node node = *known;
  node.drain = true;
  node.reason = without_control_characters(why, kPhraseBytesMax / 2) + closed_for(job);
  node.reason_by = {};
  node.reason_at = txn.now();
  txn.event(Kind::kNode, node.meta, "NodeDrained", format("{}: {}", node.meta.name, node.reason));
  const std::string name = node.meta.name;
  txn.put(std::move(node));
  replace_reserved(txn, name);
}

bool starts_on(const Txn& txn, const Job& job, NodeId node) {
  const auto seats = txn.inner().seats_of(job).on(node);
  return std::any_of(seats.begin(), seats.end(),
                     [&](const Seats::Seat& seat) { return job.members[seat.grant] == MemberState::kAssigned; });
}

// Nothing of the attempt has begun there: where the job can start again it does so elsewhere, whatever its user has
// said of that when nothing of it has run at all.
void start_elsewhere(Txn& txn, const Job& job, NodeId node, const std::string& why) {
  const Ref<Node> where = txn.node(node);
  Ending ending{.state = JobState::kNodeFail,
                .reason = format("{}{}: {}", kNodeAtFault, where ? where->meta.name : "?",
                                 without_control_characters(why, kPhraseBytesMax / 2)),
                .requeue = may_requeue(*job.spec) || (job.state == JobState::kStarting && runs_script(*job.spec))};
  if (ending.requeue && nodes_closed_for(txn, job.id) >= kNodesAtFaultMax)
    ending.hold = Hold::kLaunchFailed;
  end_attempt(txn, job, ending);
}

void node_failed_job(Txn& txn, JobId id, NodeId node, const std::string& why) {
  close_faulty(txn, node, id, why);
  const Ref<Job> job = txn.job(id);
  if (job->state == JobState::kCompleting || !starts_on(txn, *job, node))
    return;  // what failed there came behind the job
  if (may_shrink(txn, *job, node))
    leave_node(txn, *job, node);
  else
    start_elsewhere(txn, *job, node, why);
}

}  // namespace

void launch_failed(Txn& txn, const Job& job, NodeId node, const std::string& why, bool says_so) {
  if (job.state == JobState::kCompleting)
    return;
  const Ref<Node> where = txn.node(node);
  txn.event(job, "LaunchFailed",
            format("{}: {}", where ? where->meta.name : "?", without_control_characters(why, kPhraseBytesMax)));
  if (may_shrink(txn, job, node)) {
    leave_node(txn, job, node);  // its answer says that nothing lives there
    return;
  }
  // Of a script that could not be started nothing has run: whether it may run again is no question.
  const bool never_ran = says_so && job.state == JobState::kStarting && runs_script(*job.spec) &&
                         job.allocation->grants.front().node == node;
  fail_attempt(txn, job, JobState::kFailed, "JobLaunchFailure", Hold::kLaunchFailed, never_ran);
}

void member_lost(Txn& txn, JobId id, NodeId node, const std::string& reason) {
  const Ref<Job> job = txn.job(id);
  if (job->state == JobState::kCompleting) {  // waits for the proof
    blame_node(txn, *job, reason);
    return;
  }
  txn.event(*job, "NodeFailed", reason);
  if (may_shrink(txn, *job, node))
    return;  // until the proof it keeps what it has there
  if (job->spec->survive_node_loss && !needs_all(*job->spec)) {
    const bool script_gone = runs_script(*job->spec) && job->allocation->grants[0].node == node;
    const auto nodes = live_nodes(*job);
    const bool others = std::any_of(nodes.begin(), nodes.end(), [&](NodeId n) {
      const Node* other = txn.tables().node(n);
      return n != node && other && other->link != NodeLink::kLost;
    });
    if (others && !script_gone)
      return;
  }
  fail_attempt(txn, *job, JobState::kNodeFail, reason, Hold::kRequeueLimit);
}

namespace {

// Whether the member was not stopped already.
bool stop(MemberState& member) { return std::exchange(member, MemberState::kStopped) != MemberState::kStopped; }

}  // namespace

void member_gone(Txn& txn, JobId id, NodeId node, const std::string& reason) {
  const Ref<Job> before = txn.job(id);
  if (!before || !before->allocation)
    return;
  const auto seats = txn.inner().seats_of(*before).on(node);
  if (seats.empty())
    return;
  if (lives_on(txn.inner(), *before, node) && may_shrink(txn, *before, node)) {
    shrink(txn, *before, node);
    return;
  }
  Job job = *before;
  bool changed = false;
  for (const Seats::Seat& seat : seats) changed |= stop(job.members[seat.grant]);
  if (mutant(Mutant::kDoubleFree))
    for (std::size_t i = 0; i < job.members.size() && !changed; ++i) changed = stop(job.members[i]);
  if (!changed)
    return;
  if (leaves(job, node))
    leave(job, node);
  txn.put(std::move(job));
  const bool all_know = sweep(txn, id, node);
  if (txn.job(id)->state != JobState::kCompleting)
    member_lost(txn, id, node, reason);
  else if (all_know && all_stopped(txn, *txn.job(id)))
    finish_attempt(txn, id);
}

void sweep_more(Txn& txn) {
  const JobId id = txn.chores().sweeps.begin()->first;
  txn.looked();
  const Ref<Job> job = txn.job(id);
  if (!job || !holds_allocation(job->state)) {
    txn.chores().sweeps.erase(id);
    return;
  }
  if (sweep_on(txn, id) && job->state == JobState::kCompleting && all_stopped(txn, *job))
    finish_attempt(txn, id);
}

namespace {

// What each kind of report of a node does to the job it speaks of.
struct ReportHandler {
  Txn& txn;
  const Job& job;
  const Node& node;
  Instant at;
  void operator()(const AttemptStarted&) const { attempt_started(txn, job, node.id, at); }
  void operator()(const StagedIn&) const { on_staged_in(txn, job, node.id); }
  void operator()(const CheckpointSeen&) const { checkpoint_seen(txn, job, at); }
  void operator()(const LaunchFailed& r) const {
    if (is_staging_failure(r))
      stage_in_failed(txn, job, node.id, r.why);
    else if (is_device_loss(r) && job.state != JobState::kCompleting)
      member_lost(txn, job.id, node.id, without_control_characters(r.why, kPhraseBytesMax));
    else if (r.node_at_fault && !is_device_loss(r))
      node_failed_job(txn, job.id, node.id, r.why);
    else if (!r.node_at_fault)
      launch_failed(txn, job, node.id, r.why, true);
  }
  void operator()(const ScriptEnded& r) const { script_ended(txn, job, node.id, r, at); }
  void operator()(const MemberStopped& r) const {
    if (r.refused && starts_above(txn, job, node.id))
      return;
    const std::string reason = format("NodeDown {}", node.meta.name);
    const JobId id = job.id;  // the record may not outlive the writes
    if (!r.trouble.empty())
      note_staging_trouble(txn, id, node.id, r.trouble);
    if (r.fenced && job.state == JobState::kCompleting)
      member_lost(txn, id, node.id, reason);  // nobody came to say that it stopped: the node is to blame
    member_gone(txn, id, node.id, reason);
  }
  void operator()(const MemberPaused& r) const { member_paused(txn, job, node.id, r); }
  void operator()(const StepStarted& r) const { on_step_started(txn, node.id, job, r, at); }
  void operator()(const StepEnded& r) const {
    const JobId id = job.id;  // the record may not outlive the writes
    on_step_ended(txn, node.id, job, r, at);
    if (const Ref<Job> now = txn.job(id); now && now->state == JobState::kCompleting)
      end_with_its_step(txn, *now);
  }
  void operator()(const TaskStarted& r) const { on_task_started(txn, node.id, job, r); }
  void operator()(const TaskReady& r) const { on_task_ready(txn, node.id, job, r); }
  void operator()(const TaskContainers& r) const { on_task_containers(txn, node.id, job, r); }
  void operator()(const TaskEnded& r) const { on_task_ended(txn, node.id, job, r); }
};

}  // namespace

// A report of another attempt or boot is late and says nothing of what runs now; one of a node on which nothing of the
// attempt is left has been answered before.
Result<void> agent_report(Txn& txn, const AgentReport& report) {
  const Ref<Job> job = txn.job(report.job);
  const Ref<Node> node = txn.node(report.node);
  if (!job || !node || !holds_allocation(job->state) || txn.inner().seats_of(*job).on(report.node).empty())
    return {};
  if (report.boot_id != node->boot_id && !mutant(Mutant::kStaleBoot))
    return {};
  if (report.attempt != job->attempt && !mutant(Mutant::kStaleAttempt))
    return {};
  const bool stopped = !lives_on(txn.inner(), *job, report.node);
  if (stopped && !(mutant(Mutant::kDoubleFree) && std::holds_alternative<MemberStopped>(report.body)))
    return {};
  const Duration ago = std::clamp(report.ago, Duration{}, std::max(Duration{}, txn.now() - job->allocation->granted));
  std::visit(ReportHandler{txn, *job, *node, txn.now() - ago}, report.body);
  return {};
}

Result<void> end_job(Txn& txn, const EndJob& ask) {
  const Ref<Job> job = txn.job(ask.job);
  if (!job)
    return not_found(format("Invalid job id specified: {}", ask.job.value));
  TRY(may_change(txn, *job));
  if (job->spec->groups.front().launch != Launch::kNothing)
    return conflict(format("job {} ends by itself: cancel it instead", ask.job.value));
  if (job->state == JobState::kPending) {
    if (ask.client_lost)
      end_pending(txn, *job, JobState::kCancelled, "ClientLost");
    else
      end_pending(txn, *job, JobState::kCancelled, "", txn.caller().user);
    return {};
  }
  if (is_final(job->state))
    return {};
  const Instant at = end_as_told(txn, ask);
  Ending ending;
  if (ask.client_lost)
    ending = {.state = JobState::kCancelled, .reason = "ClientLost"};  // nobody's decision
  else if (ask.exit.oom)
    ending = {.state = JobState::kOutOfMemory, .reason = "OutOfMemory"};
  else if (!ask.exit.ok())
    ending = {.state = JobState::kFailed, .reason = "NonZeroExitCode"};
  ending.at = at;
  if (job->state == JobState::kCompleting) {
    if (!ask.client_lost && at < job->ended)
      (void)correct_end(txn, *job, ending, as_kept(ask.exit));
    return {};
  }
  Job next = *job;
  next.exit = as_kept(ask.exit);
  if (next.state == JobState::kStarting)
    next.started = std::max(at, next.allocation->granted);
  end_attempt(txn, std::move(next), ending);
  return {};
}

}  // namespace lockstep
