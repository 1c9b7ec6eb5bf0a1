// HostileClient: who wants to stop the controller. It sends commands that make it stop itself in one stage of their
// way, again and again until they are refused, and requests of records that take megabytes. It has a stream of chance
// of its own and acts in some runs only, so that the others stay what they were.
#pragma once

#include <string>
#include <vector>

#include "base/rng.h"
#include "controller/engine.h"
#include "ports/crash_note.h"

namespace lockstep::sim {

struct World;

class HostileClient {
 public:
  explicit HostileClient(World& world);

  void start();
  void stop() { on_ = false; }

  // A controller came up: nobody but the killers may be in quarantine.
  void started(const Engine& engine);
  // Readers are about to be shown a batch. May end the controller.
  void publishing(const Engine::Batch& batch);
  std::uint64_t deaths() const { return deaths_; }
  std::uint64_t giants() const { return giants_; }

 private:
  struct Killer {
    std::string name;
    int deaths = 0;
  };
  Killer* named_in(std::string_view text, CrashStage stage);
  void die(Killer& killer);
  void send_killer(std::size_t which);
  void send_giant();
  void submit_giant(std::size_t bytes);
  bool create_giant_step(std::size_t bytes);

  World& world_;
  Rng rng_;
  bool on_ = false;
  std::vector<Killer> killers_;  // one a stage
  std::uint64_t deaths_ = 0, giants_ = 0;
  int giants_left_ = 0;
};

}  // namespace lockstep::sim
