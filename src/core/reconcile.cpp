// What a node should be told, worked out from the state and from what the node says that it has. Telling it twice does
// no harm: agents know every attempt, step and task incarnation they have seen.
#include <algorithm>
#include <map>

#include "core/attempts.h"
#include "core/inner.h"
#include "core/steps.h"
#include "model/action.h"
#include "model/job.h"
#include "model/keys.h"
#include "rules/growth.h"
#include "rules/preempt.h"

namespace lockstep {

namespace {

using SaidByAttempt = std::map<std::pair<JobId, AttemptNo>, const Holding*>;

struct Reconciler {
  const ClusterState::Inner& inner;
  NodeId node;
  std::vector<Action> out;

  void tell(const Job& job, ActionBody body) { out.push_back({node, job.id, job.attempt, std::move(body)}); }

  bool live_here(const Job& job) const { return lives_on(inner, job, node); }
  bool any_here(const Job& job, std::initializer_list<MemberState> states) const {
    const auto seats = inner.seats_of(job).on(node);
    return std::any_of(seats.begin(), seats.end(), [&](const Seats::Seat& seat) {
      return std::find(states.begin(), states.end(), job.members[seat.grant]) != states.end();
    });
  }
  // The node has reported its part as started.
  bool started_here(const Job& job) const { return any_here(job, {MemberState::kRunning, MemberState::kPaused}); }
  bool confirmed_paused_here(const Job& job) const { return any_here(job, {MemberState::kPaused}); }

  // Steps with a part here, of which the node has to be told something. says: of which it knows.
  void steps_of(const Job& job, const Holding* said) {
    const auto says = [&](StepNo number) {
      return said && std::find(said->steps.begin(), said->steps.end(), number) != said->steps.end();
    };
    const auto live = inner.live_steps.find(job.id);
    if (live == inner.live_steps.end())
      return;
    for (StepNo number : live->second) {
      const Step& step = *inner.tables.step(job.id, number);
      if (step.attempt != job.attempt || step.state == StepState::kPending)
        continue;
      const auto part = inner.seats_of(job).place_on(node, step);
      if (!part || step.members[*part] == MemberState::kStopped)
        continue;
      // A part that ran and that the node knows nothing of is lost: asked to stop it, the node says so.
      if (is_told_to_end(step) || (!says(number) && step.members[*part] == MemberState::kRunning))
        tell(job, StopPart{StepPart{number}, job.spec->kill_wait});
      else if (!says(number) && !is_paused(job))
        tell(job, StartPart{StepPart{number}});
    }
  }

  // Steps that the node has and that are over.
  void steps_too_many(const Job& job, const Holding& said) {
    for (StepNo number : said.steps) {
      const Step* step = inner.tables.step(job.id, number);
      if (number >= 0 && (!step || step->attempt != job.attempt || step->state == StepState::kEnded))
        tell(job, StopPart{StepPart{number}, job.spec->kill_wait});
    }
  }

  // Tasks of the attempt that are here and of which the node does not know.
  void tasks_of(const Job& job, const Holding* said) {
    const auto says = [&](const TaskPart& part) {
      return said && std::find(said->tasks.begin(), said->tasks.end(), part) != said->tasks.end();
    };
    for (const Seats::Seat& seat : inner.seats_of(job).on(node)) {
      const auto in = inner.tasks_in.find({job.id, seat.grant});
      if (in == inner.tasks_in.end())
        continue;
      for (const TaskKey& key : in->second) {
        const Task& task = *inner.tables.tasks.at(key);
        const TaskPart part{task.group, task.index, task.incarnation};
        if (task.attempt != job.attempt || task.state == TaskState::kEnded || task.retry_at || says(part))
          continue;
        if (task.state == TaskState::kRunning)
          tell(job, StopPart{part, job.spec->kill_wait});
        else if (!is_paused(job))
          tell(job, StartPart{part});
      }
    }
  }

  // Tasks that the node has and that are over, or another incarnation by now.
  void tasks_too_many(const Job& job, const Holding& said) {
    for (const TaskPart& part : said.tasks) {
      const auto it = inner.tables.tasks.find({job.id, part.group, part.index});
      const bool current = it != inner.tables.tasks.end() && it->second->attempt == job.attempt &&
                           it->second->incarnation == part.incarnation && it->second->state != TaskState::kEnded;
      if (!current)
        tell(job, StopPart{part, job.spec->kill_wait});
    }
  }

  void job(const Job& job, const Holding* said) {
    if (!live_here(job))
      return;
    if (job.state == JobState::kCompleting) {
      tell(job, StopAttempt{is_paused(job) ? Duration{} : job.spec->kill_wait});
      return;
    }
    if (leaves(job, node)) {
      tell(job, StopAttempt{job.spec->kill_wait});
      return;
    }
    if (!said && started_here(job)) {
      tell(job, StopAttempt{job.spec->kill_wait});  // it lost the work: its answer says so
      return;
    }
    if (!said)
      tell(job, StartAttempt{});
    if (job.pauses > 0 && (!said || said->paused != is_paused(job) || confirmed_paused_here(job) != is_paused(job)))
      tell(job, PauseAttempt{is_paused(job), job.pauses});
    steps_of(job, said);
    if (said)
      steps_too_many(job, *said);
    tasks_of(job, said);
    if (said)
      tasks_too_many(job, *said);
  }
};

}  // namespace

std::vector<Action> reconcile(const ClusterState& state, NodeId node, std::span<const Holding> holdings) {
  Reconciler r{state.inner(), node, {}};
  SaidByAttempt said;
  for (const Holding& holding : holdings) said[{holding.job, holding.attempt}] = &holding;

  if (const auto on = state.inner().jobs_on.find(node); on != state.inner().jobs_on.end())
    for (JobId id : on->second) {
      const Job& job = *state.tables().job(id);
      const auto it = said.find({id, job.attempt});
      r.job(job, it == said.end() ? nullptr : it->second);
    }
  for (const auto& [key, holding] : said) {
    const Job* job = state.tables().job(key.first);
    if (job && job->attempt == key.second && holds_allocation(job->state) && r.live_here(*job))
      continue;
    const Duration kill_wait = job ? job->spec->kill_wait : Duration{};
    r.out.push_back({node, key.first, key.second, StopAttempt{kill_wait}});
  }
  return r.out;
}

}  // namespace lockstep
