#include "controller/planner_loop.h"

#include <algorithm>

#include "base/thread.h"
#include "controller/poison.h"

namespace lockstep {

namespace {

constexpr Duration kRefusedPause = millis(500);

}  // namespace

PlannerLoop::PlannerLoop(std::vector<Change> snapshot, const ClusterClock& clock, Outputs outputs,
                         PlannerSettings settings)
    : clock_(clock), outputs_(std::move(outputs)), planner_(settings) {
  planner_.observe(snapshot);
}

PlannerLoop::~PlannerLoop() { stop(); }

void PlannerLoop::start() {
  thread_ = start_thread_or_exit("the planner", [this] { run(); });
}

void PlannerLoop::stop() {
  if (!thread_.joinable())
    return;
  inbox_.post(Stop{});
  thread_.join();
}

void PlannerLoop::plan() {
  PlanChunk chunk = planner_.plan(clock_.now(), {});
  if (!chunk.notes.empty())
    outputs_.on_notes(std::move(chunk.notes), seen_);
  if (chunk.empty()) {
    planner_.settled();
    return;
  }
  waiting_ = true;
  outputs_.propose(std::move(chunk));
}

void PlannerLoop::run() {
  while (!stopping_) {
    Duration patience = kForever;
    if (!waiting_) {
      Instant next = planner_.idle() ? planner_.wake_at() : Instant{};
      next = std::max(next, not_before_);
      if (next < kNever)
        patience = std::max(Duration{}, next - clock_.now());
    }
    for (auto& message : inbox_.take(patience)) {
      if (const auto* batch = std::get_if<std::shared_ptr<const Engine::Batch>>(&message)) {
        const AtWorkFor at_work((*batch)->commands);
        planner_.observe((*batch)->changes);
        if (!(*batch)->changes.empty())
          seen_ = (*batch)->changes.back().seq;
      } else if (auto* answer = std::get_if<Answered>(&message)) {
        waiting_ = false;
        if (!answer->refused.empty())
          outputs_.on_notes(std::move(answer->refused), seen_);
        planner_.settled();
        if (!answer->done)
          not_before_ = clock_.now() + kRefusedPause;
      } else {
        stopping_ = true;
      }
    }
    const Instant now = clock_.now();
    if (!stopping_ && !waiting_ && now >= not_before_ && (!planner_.idle() || planner_.wake_at() <= now))
      plan();
  }
}

}  // namespace lockstep
