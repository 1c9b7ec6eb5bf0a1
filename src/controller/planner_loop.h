// PlannerLoop: the thread that plans. It observes every batch, proposes as soon as there is something to propose, and
// waits for the core's answer to one proposal before it makes the next. No polling: it sleeps until a batch comes or
// the planner itself names a moment.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <variant>
#include <vector>

#include "controller/cluster_clock.h"
#include "controller/engine.h"
#include "controller/mailbox.h"
#include "sched/planner.h"

namespace lockstep {

class PlannerLoop {
 public:
  struct Outputs {
    std::function<void(Plan)> propose;  // then call answered()
    // as_of: the last change that was seen when they were made. Readers may not have come so far yet.
    std::function<void(std::vector<PlanNote>, Seq as_of)> on_notes;
  };
  // snapshot: every record before the first batch that observe() will bring.
  PlannerLoop(std::vector<Change> snapshot, const ClusterClock& clock, Outputs outputs, PlannerSettings settings = {});
  ~PlannerLoop();
  void start();
  void stop();

  // From any thread, in the order of commits.
  void observe(std::shared_ptr<const Engine::Batch> batch) { inbox_.post(std::move(batch)); }
  // refused: what readers are told of jobs whose start was not taken.
  void answered(bool done, std::vector<PlanNote> refused = {}) { inbox_.post(Answered{done, std::move(refused)}); }

 private:
  struct Answered {
    bool done = false;  // false: the core could not take it now
    std::vector<PlanNote> refused;
  };
  struct Stop {};
  using Message = std::variant<std::shared_ptr<const Engine::Batch>, Answered, Stop>;

  void run();
  void plan();

  const ClusterClock& clock_;
  Outputs outputs_;
  Planner planner_;
  Mailbox<Message> inbox_;
  bool waiting_ = false;  // for the answer to the last proposal
  bool stopping_ = false;
  Instant not_before_;  // after a refusal
  Seq seen_ = 0;        // the last change observed
  std::thread thread_;
};

}  // namespace lockstep
