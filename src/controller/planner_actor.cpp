#include "controller/planner_actor.h"

#include <algorithm>

#include "controller/plan_refusals.h"

namespace lockstep {

namespace {

constexpr Duration kRefusedPause = millis(500);

}  // namespace

void PlannerActor::restart(std::span<const Change> snapshot) {
  planner_ = Planner(settings_);
  planner_.observe(snapshot);
  waiting_ = false;
  not_before_ = {};
  refused_.clear();
}

Actor::Turn PlannerActor::step(Instant now, ActorBudget budget) {
  Turn turn;
  turn.notes = std::exchange(refused_, {});
  if (waiting_ || now < not_before_ || (planner_.idle() && now < planner_.wake_at()))
    return turn;
  PlanChunk chunk = planner_.plan(now, {budget.looks, budget.commands});
  std::move(chunk.notes.begin(), chunk.notes.end(), std::back_inserter(turn.notes));
  if (chunk.empty()) {
    planner_.settled();
    return turn;
  }
  waiting_ = true;
  turn.asks.push_back({++last_ask_, ApplyPlan{std::move(static_cast<Plan&>(chunk))}, {}});
  return turn;
}

void PlannerActor::answered(std::uint64_t id, const Result<Answer>& answer, Instant now) {
  if (id != last_ask_ || !waiting_)
    return;
  waiting_ = false;
  planner_.settled();
  if (answer.ok())
    refused_ = notes_of(answer->refused);
  else
    not_before_ = now + kRefusedPause;
}

Instant PlannerActor::next_timer() const {
  if (!refused_.empty())
    return {};
  if (waiting_)
    return kNever;
  return std::max(planner_.idle() ? planner_.wake_at() : Instant{}, not_before_);
}

}  // namespace lockstep
