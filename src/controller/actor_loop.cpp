#include "controller/actor_loop.h"

#include <algorithm>

#include "base/thread.h"
#include "controller/poison.h"

namespace lockstep {

ActorLoop::ActorLoop(std::string name, std::vector<std::unique_ptr<Actor>> actors, std::span<const Change> snapshot,
                     const ClusterClock& clock, Outputs outputs)
    : name_(std::move(name)), actors_(std::move(actors)), clock_(clock), outputs_(std::move(outputs)) {
  for (const auto& actor : actors_) actor->restart(snapshot);
}

ActorLoop::~ActorLoop() { stop(); }

void ActorLoop::start() {
  thread_ = start_thread_or_exit(name_.c_str(), [this] { run(); });
}

void ActorLoop::stop() {
  if (!thread_.joinable())
    return;
  inbox_.post(Stop{});
  thread_.join();
}

void ActorLoop::take(Message& message) {
  if (const auto* batch = std::get_if<std::shared_ptr<const Engine::Batch>>(&message)) {
    const AtWorkFor at_work((*batch)->commands);
    for (const auto& actor : actors_) actor->observe((*batch)->changes);
    if (!(*batch)->changes.empty())
      seen_ = (*batch)->changes.back().seq;
  } else if (const auto* answered = std::get_if<Answered>(&message)) {
    answered->actor->answered(answered->id, answered->answer, clock_.now());
  } else {
    stopping_ = true;
  }
}

void ActorLoop::step(Actor& actor) {
  Actor::Turn turn = actor.step(clock_.now(), {});
  if (!turn.notes.empty() && outputs_.on_notes)
    outputs_.on_notes(std::move(turn.notes), seen_);
  for (Actor::Ask& ask : turn.asks)
    outputs_.submit({{UserId{}, true}, std::move(ask.body), {}, std::move(ask.read), std::move(ask.also)},
                    [this, actor = &actor, id = ask.id](const Result<Answer>& answer) {
                      inbox_.post(Answered{actor, id, answer});
                    });
}

Duration ActorLoop::patience() const {
  Instant next = kNever;
  for (const auto& actor : actors_) next = std::min(next, actor->next_timer());
  return next >= kNever ? kForever : std::max(Duration{}, next - clock_.now());
}

void ActorLoop::run() {
  while (!stopping_) {
    for (Message& message : inbox_.take(patience())) take(message);
    for (const auto& actor : actors_)
      if (!stopping_ && actor->next_timer() <= clock_.now())
        step(*actor);
  }
}

}  // namespace lockstep
