// PlannerActor: the planner as an actor. It makes one proposal at a time and waits for the core's answer.
#pragma once

#include <vector>

#include "ports/actor.h"
#include "sched/planner.h"

namespace lockstep {

class PlannerActor : public Actor {
 public:
  explicit PlannerActor(PlannerSettings settings = {}) : settings_(settings), planner_(settings) {}

  const char* name() const override { return "planner"; }
  void restart(std::span<const Change> snapshot) override;
  void observe(std::span<const Change> changes) override { planner_.observe(changes); }
  Turn step(Instant now, ActorBudget budget) override;
  void answered(std::uint64_t id, const Result<Answer>& answer, Instant now) override;
  Instant next_timer() const override;

 private:
  PlannerSettings settings_;
  Planner planner_;
  std::uint64_t last_ask_ = 0;
  bool waiting_ = false;           // for the answer to the last proposal
  Instant not_before_;             // after the core could not take one
  std::vector<PlanNote> refused_;  // what readers are told of jobs whose start was not taken
};

}  // namespace lockstep
