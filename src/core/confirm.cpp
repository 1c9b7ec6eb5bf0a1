#include "core/confirm.h"

#include <algorithm>

#include "base/text.h"
#include "core/attempts.h"
#include "core/reservations.h"
#include "rules/growth.h"
#include "rules/preempt.h"

namespace lockstep {

namespace {

// The timer is acted on within milliseconds where the controller runs. Later than this it did not run, and answers may
// wait in its sockets: its own pause counts against nobody.
constexpr Duration kOnTime = seconds(1);

// The job was told to stop or to pause, and some of it on the node neither has nor has been proven to.
bool owes(const ClusterState::Inner& inner, const Job& job, NodeId node) {
  const bool pauses = job.state == JobState::kSuspended;
  if (!holds_allocation(job.state) || (job.state != JobState::kCompleting && !pauses && !leaves(job, node)))
    return false;
  const auto seats = inner.seats_of(job).on(node);
  return std::any_of(seats.begin(), seats.end(), [&](const Seats::Seat& seat) {
    const MemberState member = job.members[seat.grant];
    return member != MemberState::kStopped && !(pauses && member == MemberState::kPaused);
  });
}

// It was told to start, and some of it on the node has not.
bool owes_start(const ClusterState::Inner& inner, const Job& job, NodeId node) {
  if ((job.state != JobState::kStarting && job.state != JobState::kRunning) || leaves(job, node))
    return false;
  const auto seats = inner.seats_of(job).on(node);
  return std::any_of(seats.begin(), seats.end(),
                     [&](const Seats::Seat& seat) { return job.members[seat.grant] == MemberState::kAssigned; });
}

const Unconfirmed* find(const Node& node, JobId job) {
  const auto at = std::lower_bound(node.unconfirmed.begin(), node.unconfirmed.end(), job,
                                   [](const Unconfirmed& one, JobId id) { return one.job < id; });
  return at != node.unconfirmed.end() && at->job == job ? &*at : nullptr;
}

// It is heard, and will not say hello before it could be asked.
bool is_there(const Txn& txn, const Node& node) {
  return node.link == NodeLink::kUp && txn.inner().epoch.heard.contains(node.id);
}

void close_node(Txn& txn, const Job& job, const Node& known) {
  Node node = known;
  const bool pauses = job.state == JobState::kSuspended;
  const auto at = std::upper_bound(node.unconfirmed.begin(), node.unconfirmed.end(), job.id,
                                   [](JobId id, const Unconfirmed& one) { return id < one.job; });
  node.unconfirmed.insert(at, {.job = job.id, .pauses = pauses ? job.pauses : 0, .since = txn.now()});
  txn.event(Kind::kNode, node.meta, "NodeClosed",
            format("job {} does not {} on {}", job.id.value, pauses ? "pause" : "stop", node.meta.name));
  txn.put(std::move(node));
  replace_reserved(txn, known.meta.name);
}

void open_node(Txn& txn, const Node& known, JobId job) {
  Node node = known;
  std::erase_if(node.unconfirmed, [job](const Unconfirmed& one) { return one.job == job; });
  txn.event(Kind::kNode, node.meta, "NodeOpened", format("job {} keeps {} no longer", job.value, node.meta.name));
  txn.put(std::move(node));
}

// What a look at a job's nodes came to.
struct Look {
  bool done = true;    // false: this transaction has done enough, and the same timer goes on with it
  bool again = false;  // some have not had their time yet
  NodeId late;         // the first that should have started its part
};

Look look_at_nodes(Txn& txn, const Job& job) {
  const Duration to_stop = confirm_stop_by(txn, job) - txn.now();
  Look look;
  for (const NodeId id : live_nodes(job)) {
    const Ref<Node> node = txn.node(id);
    const bool starts = owes_start(txn.inner(), job, id);
    if (!node || !is_there(txn, *node) || (!starts && !owes(txn.inner(), job, id)))
      continue;
    const bool had_its_time = txn.now() - node->seen_at >= (starts ? kStartWithin : to_stop);
    if (starts && had_its_time) {
      look.late = id;
      return look;
    }
    if (!starts && find(*node, job.id))
      continue;
    if (!had_its_time || node->unconfirmed.size() == kUnconfirmedMax) {
      look.again = true;
      continue;
    }
    if (txn.tired()) {
      look.done = false;
      return look;
    }
    close_node(txn, job, *node);
  }
  return look;
}

}  // namespace

Instant confirm_pause_by(const Txn& txn) { return txn.now() + txn.settings().unkillable_after; }

Instant confirm_stop_by(const Txn& txn, const Job& job) {
  // What is paused is killed without a wait (send_stops).
  return confirm_pause_by(txn) + (is_paused(job) ? Duration{} : job.spec->kill_wait);
}

void see_unconfirmed(Txn& txn, JobId id) {
  const Ref<Job> job = txn.job(id);
  Look look{.again = true};
  if (txn.now() - job->confirm_by < kOnTime)
    look = look_at_nodes(txn, *job);
  if (look.late) {
    launch_failed(txn, *job, look.late, format("not started within {} s", kStartWithin.seconds()));
    return;
  }
  if (!look.done)
    return;
  Job next = *job;
  next.confirm_by = look.again ? confirm_pause_by(txn) : Instant{};
  txn.put(std::move(next));
}

void ask_anew(Txn& txn, NodeId id) {
  // It answers, so whoever went on since goes on there as well.
  const auto on = txn.inner().jobs_on.find(id);
  if (on == txn.inner().jobs_on.end())
    return;
  for (const JobId job_id : std::vector<JobId>(on->second.begin(), on->second.end())) {
    see_resumed(txn, job_id, id);
    const Ref<Job> job = txn.job(job_id);
    const bool starts = owes_start(txn.inner(), *job, id);
    if (job->confirm_by || (!starts && !owes(txn.inner(), *job, id)))
      continue;
    Job next = *job;
    next.confirm_by = starts ? txn.now() + kStartWithin : confirm_stop_by(txn, *job);
    txn.put(std::move(next));
  }
}

bool keeps_closed(const ClusterState::Inner& inner, const Node& node, JobId id) {
  const Unconfirmed* what = find(node, id);
  const Job* job = inner.tables.job(id);
  if (!what || !job || !holds_allocation(job->state))
    return false;
  // One that was told to go on before it had said that it paused has confirmed nothing yet.
  return owes(inner, *job, node.id) ||
         (what->pauses > 0 && job->state == JobState::kRunning && lives_on(inner, *job, node.id));
}

void see_confirmed(Txn& txn, JobId id) {
  const auto it = txn.inner().closed_for.find(id);
  if (it == txn.inner().closed_for.end())
    return;
  for (const NodeId at : std::vector<NodeId>(it->second.begin(), it->second.end()))
    if (const Ref<Node> node = txn.node(at); !keeps_closed(txn.inner(), *node, id))
      open_node(txn, *node, id);
}

void see_resumed(Txn& txn, JobId id, NodeId at) {
  const Ref<Node> node = txn.node(at);
  const Ref<Job> job = txn.job(id);
  const Unconfirmed* what = node ? find(*node, id) : nullptr;
  if (what && what->pauses > 0 && job && job->state == JobState::kRunning)
    open_node(txn, *node, id);
}

void forgive(Txn& txn, Node& node) {
  for (Unconfirmed& one : node.unconfirmed) {
    one.forgiven = true;
    const Ref<Job> job = txn.job(one.job);
    if (!job || job->hangs)
      continue;
    Job next = *job;
    next.hangs = true;
    txn.put(std::move(next));
  }
}

}  // namespace lockstep
