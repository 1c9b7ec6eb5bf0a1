// ActorHost: an actor on a simulated thread of its own: it sees commits a little later, and its commands arrive later
// still. Now and then it stands still, begins anew in the middle of what it does, or a second one runs beside it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "controller/engine.h"
#include "ports/actor.h"

namespace lockstep::sim {

struct World;

class ActorHost {
 public:
  using Make = std::function<std::unique_ptr<Actor>()>;
  struct Handlers {
    std::function<void(Command, Engine::Reply)> submit;
    // Before what it asks is on its way. up_to_date: it has read all that is committed.
    std::function<void(const Actor::Turn&, bool up_to_date)> on_turn = {};
  };
  ActorHost(World& world, std::uint64_t seed, Make make, Handlers handlers)
      : world_(world), dice_(seed), make_(std::move(make)), handlers_(std::move(handlers)) {}

  // A life of the controller begins, and ends. Between them:
  void start(std::span<const Change> snapshot);
  void end();
  void observe(const std::vector<Change>& changes);
  // One of the three, for up to `most`.
  void disturb(Duration most, std::span<const Change> snapshot);
  // Nobody stands still any more, and one is left.
  void calm();

 private:
  struct Answered {
    std::uint64_t id = 0;
    Result<Answer> answer;
  };
  using Message = std::variant<std::vector<Change>, Answered>;
  struct One {
    std::unique_ptr<Actor> actor;
    std::deque<Message> inbox;
    Instant stopped_until;
    Instant alarm = kNever;
    std::uint64_t life = 0;  // of its last beginning: what was under way before it is nobody's
  };
  void begin(One& one, std::span<const Change> snapshot);
  void wake(One& one);
  void alarm_at(One& one, Instant when);
  void run(One& one);
  void step(One& one);
  One* alive(std::uint64_t life);

  World& world_;
  Rng dice_;
  Make make_;
  Handlers handlers_;
  std::vector<std::unique_ptr<One>> all_;  // one, or for a while two
  std::uint64_t lives_ = 0;
};

}  // namespace lockstep::sim
