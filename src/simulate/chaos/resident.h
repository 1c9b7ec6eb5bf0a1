// Resident: a front end that lives in the simulated controller's process: it reads what is committed there, and has
// actors beside the controller's own.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "controller/engine.h"
#include "simulate/chaos/actor_host.h"

namespace lockstep::sim {

class Resident {
 public:
  virtual ~Resident() = default;
  struct Part {
    ActorHost::Make make;
    std::function<void(const Actor::Turn&, bool up_to_date)> on_turn;
  };
  virtual std::vector<Part> actors() = 0;  // asked once
  // A life of the controller begins with these records, and ends.
  virtual void begun(const std::vector<Change>& snapshot) = 0;
  virtual void ended() = 0;
  // All that ever becomes durable, in its order: also what a life that crashed has told nobody.
  virtual void durable(std::span<const Change> changes) = 0;
  virtual void committed(const Engine::Batch& batch) = 0;  // before callers are answered
};

}  // namespace lockstep::sim
