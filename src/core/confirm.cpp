#include "core/confirm.h"

#include <algorithm>

#include "base/text.h"
#include "core/attempts.h"
#include "core/reservations.h"
#include "core/staging.h"
#include "model/job.h"
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

// It is heard, and will not say hello before it could be asked.
bool is_there(const Txn& txn, const Node& node) {
  return node.link == NodeLink::kUp && txn.inner().epoch.heard.contains(node.id);
}

// Unconfirmed::pauses of what it was told last.
std::uint32_t order_of(const Job& job) { return job.state == JobState::kSuspended ? job.pauses : 0; }

// An earlier order that it did not confirm either gives way, forgiven or not.
void close_node(Txn& txn, const Job& job, const Node& known) {
  Node node = known;
  const bool pauses = job.state == JobState::kSuspended;
  std::erase_if(node.unconfirmed, [&](const Unconfirmed& one) { return one.job == job.id; });
  const auto at = std::upper_bound(node.unconfirmed.begin(), node.unconfirmed.end(), job.id,
                                   [](JobId id, const Unconfirmed& one) { return id < one.job; });
  node.unconfirmed.insert(at, {.job = job.id, .pauses = order_of(job), .since = txn.now()});
  txn.event(Kind::kNode, node.meta, "NodeClosed",
            format("job {} does not {} on {}", job.id.value, pauses ? "pause" : "stop", node.meta.name));
  txn.put(std::move(node));
  replace_reserved(txn, known.meta.name);
}

bool is_forgiven(const Txn& txn, JobId job) {
  const auto it = txn.inner().closed_for.find(job);
  return it != txn.inner().closed_for.end() && std::any_of(it->second.begin(), it->second.end(), [&](NodeId at) {
           return unconfirmed_of(*txn.node(at), job)->forgiven;
         });
}

void open_node(Txn& txn, const Node& known, JobId id) {
  Node node = known;
  std::erase_if(node.unconfirmed, [id](const Unconfirmed& one) { return one.job == id; });
  txn.event(Kind::kNode, node.meta, "NodeOpened", format("job {} keeps {} no longer", id.value, node.meta.name));
  txn.put(std::move(node));
  const Ref<Job> job = txn.job(id);
  if (!job || !job->hangs || is_forgiven(txn, id))
    return;
  Job next = *job;
  next.hangs = false;
  txn.put(std::move(next));
}

// What a look at a job's nodes came to.
struct Look {
  bool done = true;          // false: this transaction has done enough, and the same timer goes on with it
  bool again = false;        // some have not had their time yet
  bool hangs = false;        // some are known not to confirm
  std::vector<NodeId> late;  // should have started their part
};

// It was told to start when it was granted, or later. Late it is told once more: to a log that was put back since, it
// says again that it has started.
void look_at_start(Txn& txn, const Job& job, const Node& node, Look& look) {
  const Duration since = txn.now() - std::max(node.seen_at, job.allocation->granted);
  const Duration within = kStartWithin + node.hooks_take + staging_in_most(job);
  if (since >= within + txn.settings().unkillable_after) {
    look.late.push_back(node.id);
    return;
  }
  look.again = true;
  if (since >= within)
    txn.act(node.id, job, StartAttempt{});
}

// Beyond its kill wait: a prolog that runs goes on to its end, files are staged out, and the epilog follows.
Duration hooks_after_stop(const Job& job, const Node& node) {
  return job.state == JobState::kSuspended ? Duration{} : node.hooks_take * 2 + staging_out_most(job);
}

// It was told to stop, or to pause, when this timer was set.
void look_at_stop(Txn& txn, const Job& job, const Node& node, Duration within, Look& look) {
  const Duration hooks = hooks_after_stop(job, node);
  const Instant told = hooks > Duration{} && job.state == JobState::kCompleting ? job.ended : Instant{};
  const Unconfirmed* named = unconfirmed_of(node, job.id);
  if (named && named->pauses == order_of(job)) {
    look.hangs = true;
  } else if (txn.now() - std::max(node.seen_at, told) < within + hooks ||
             (!named && node.unconfirmed.size() == kUnconfirmedMax)) {
    look.again = true;
  } else if (txn.tired()) {
    look.done = false;
  } else {
    close_node(txn, job, node);
    look.hangs = true;
  }
}

Look look_at_nodes(Txn& txn, const Job& job) {
  const Duration to_stop = confirm_stop_by(txn, job) - txn.now();
  Look look;
  for (const NodeId id : live_nodes(job)) {
    const Ref<Node> node = txn.node(id);
    if (!node || !is_there(txn, *node))
      continue;
    if (owes_start(txn.inner(), job, id))
      look_at_start(txn, job, *node, look);
    else if (owes(txn.inner(), job, id))
      look_at_stop(txn, job, *node, to_stop, look);
    if (!look.done)
      break;
  }
  return look;
}

// An elastic job leaves each of the nodes; any other fails with the first.
void give_up_starts(Txn& txn, JobId id, const std::vector<NodeId>& late) {
  const std::string why = format("not started within {} s", kStartWithin.seconds());
  for (const NodeId node : late) {
    const Ref<Job> job = txn.job(id);
    if (job->state == JobState::kCompleting || txn.tired())
      return;
    launch_failed(txn, *job, node, why, false);
  }
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
  if (!look.late.empty())
    return give_up_starts(txn, id, look.late);
  if (!look.done)
    return;
  Job next = *job;
  if (look.hangs && next.state == JobState::kCompleting)
    next.promise = nullptr;  // it was to be moved: nobody keeps the new place free for what does not leave the old one
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
  const Unconfirmed* what = unconfirmed_of(node, id);
  const Job* job = inner.tables.job(id);
  if (!what || !job || !holds_allocation(job->state))
    return false;
  // One that was told to go on before it had said that it paused has confirmed nothing yet.
  return owes(inner, *job, node.id) ||
         (what->pauses > 0 && job->state == JobState::kRunning && lives_on(inner, *job, node.id));
}

void see_confirmed(Txn& txn, const Closer& closer) {
  const auto it = txn.inner().closed_for.find(closer.job);
  if (it == txn.inner().closed_for.end())
    return;
  const auto look = [&](NodeId at) {
    if (const Ref<Node> node = txn.node(at);
        node && unconfirmed_of(*node, closer.job) && !keeps_closed(txn.inner(), *node, closer.job))
      open_node(txn, *node, closer.job);
  };
  if (!closer.everywhere)
    return look(closer.node);
  for (const NodeId at : std::vector<NodeId>(it->second.begin(), it->second.end())) look(at);
}

void see_resumed(Txn& txn, JobId id, NodeId at) {
  const Ref<Node> node = txn.node(at);
  const Ref<Job> job = txn.job(id);
  const Unconfirmed* what = node ? unconfirmed_of(*node, id) : nullptr;
  if (what && what->pauses > 0 && job && job->state == JobState::kRunning)
    open_node(txn, *node, id);
}

void forgive(Txn& txn, Node& node) {
  for (Unconfirmed& one : node.unconfirmed) {
    if (!std::exchange(one.forgiven, true))
      txn.event(Kind::kNode, node.meta, "NodeOpened",
                format("although job {} hangs on {}", one.job.value, node.meta.name));
    const Ref<Job> job = txn.job(one.job);
    if (!job || job->hangs)
      continue;
    Job next = *job;
    next.hangs = true;
    txn.put(std::move(next));
  }
}

}  // namespace lockstep
