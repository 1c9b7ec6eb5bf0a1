// FaultMaker: everything that goes wrong. How much of each is drawn from the seed, so that some runs are calm but for
// one thing and others are a storm.
#pragma once

#include <cstddef>

#include "base/rng.h"
#include "base/time.h"
#include "sim/log.h"

namespace lockstep::sim {

struct World;

class FaultMaker {
 public:
  explicit FaultMaker(World& world);

  void start();
  void stop_and_heal();  // everything that can be mended is, at once

 private:
  // Repeats `what` at random intervals around `mean` until faults stop.
  void every(Duration mean, void (FaultMaker::*what)());
  void kill_controller();
  void depose_controller();
  void disturb_actor();
  void bad_disk();
  void kill_agent();
  void reboot_node();
  void partition_node();
  void lag_then_cut(std::size_t node);
  void partition_all();
  void lose_orders();
  void jump_clock();
  void pause_history();
  void stick_node();
  void stand_still();
  void stall_one(Duration time);
  Duration pause_up_to(Duration most);
  CommitFault commit_fault();
  void draw_rates();

  World& world_;
  Rng dice_;  // of pauses: a run without any stays what it was
  bool on_ = false;
  double commit_fault_rate_ = 0;
  Instant bad_disk_until_;
};

}  // namespace lockstep::sim
