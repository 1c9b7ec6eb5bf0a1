// SimShims: the processes of one simulated node. They live through crashes of the agent and die with the machine. What
// a process does stands in its arguments: {"sim", "run=MS", "exit=CODE", "bad=RANK", "stubborn", "steady"}; containers
// of steady ones become ready, lose that seldom and end with their process, the others change at random. What a hook
// does is drawn; that none runs twice, and none beside what it must come before or behind, is checked here.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "ports/shims.h"
#include "sim/clock.h"
#include "sim/process_checker.h"
#include "sim/timeline.h"

namespace lockstep::sim {

class SimShims : public Shims {
 public:
  SimShims(Timeline& timeline, const SimClock& clock, Rng rng, std::size_t node, ProcessChecker& checker)
      : timeline_(timeline), clock_(clock), rng_(rng), node_(node), checker_(checker) {}

  void on_event(std::function<void(ShimEvent)> callback) override { callback_ = std::move(callback); }
  void start(ShimStart start) override;
  void signal(const WorkId& key, std::int32_t signal, Reach reach) override;
  void pause(const WorkId& key, bool paused, std::uint32_t number) override;
  void stop(const WorkId& key, Duration kill_wait, StopWhy why) override;
  void notice(const WorkId&, Duration, StopWhy) override {}  // nobody reads here
  void forget(const WorkId& key) override;
  Result<std::vector<WorkId>> recover() override;

  // When the last acknowledged renewal was sent, on the boot clock: shims fence themselves by it when no agent does.
  void write_lease(Instant renewed) { lease_ = renewed; }

  void machine_died();  // every process is gone, with all that was written about them
  double launch_fails = 0;
  bool containers_fail = true;  // steady ones, now and then
  // Until then they wait for a disk: none begins, ends by a signal or pauses. A fence that has come is met all the
  // same: the controller counts on it, and what outlasts it needs a fence hook.
  void stick(Instant until) { stuck_until_ = until; }
  std::size_t live() const;

 private:
  struct Rank {
    std::uint32_t rank = 0;
    bool live = false;
    std::int32_t code = 0;
    ExitStatus exit;
  };
  struct Shim {
    std::uint64_t number = 0;  // tells a restarted key from an older one in timers
    enum class State : unsigned char { kForking, kRunning, kEnded } state = State::kForking;
    std::vector<Rank> ranks;
    bool stubborn = false;                               // ignores TERM
    bool steady = false;                                 // its containers are
    bool paused = false;                                 // its processes have stopped
    bool asked_paused = false;                           // they are about to
    std::vector<std::pair<bool, std::uint32_t>> orders;  // to pause and to go on, while it forks
    Instant pause_free;                                  // orders to pause and to go on keep their order
    std::int32_t stop_asked = 0;
    std::string failed;  // the launch failed: why
    DeviceSet devices;
    CoreSet cores;
    Duration fence_after, kill_wait;
    std::string address;  // of its sandbox, while it lives
    std::vector<ContainerStatus> containers;
  };
  void begin_sandbox(const WorkId& key, Shim& shim);
  void change_container(const WorkId& key, std::uint64_t number);
  void change_steady(ContainerStatus& one);
  void end_containers(const WorkId& key, Shim& shim);
  void tell_containers(const WorkId& key, const Shim& shim);
  void begin(const WorkId& key, std::uint64_t number, Duration run);
  void end_rank(const WorkId& key, std::uint64_t number, std::size_t rank, ExitStatus exit, bool itself);
  void run_out(const WorkId& key, std::uint64_t number, std::size_t rank);
  void set_paused(const WorkId& key, Shim& shim, bool paused);
  void kill_all(const WorkId& key, std::uint64_t number, std::int32_t signal);
  void check_fence(const WorkId& key, std::uint64_t number);
  void tell(const WorkId& key);
  void plan_hook(const WorkId& key, Shim& shim);
  void check_hooks(const WorkId& key);
  Shim* find(const WorkId& key, std::uint64_t number);
  Instant unstuck(Duration at_least) const { return std::max(timeline_.now() + at_least, stuck_until_); }

  Timeline& timeline_;
  const SimClock& clock_;
  Rng rng_;
  std::size_t node_;
  ProcessChecker& checker_;
  std::function<void(ShimEvent)> callback_;
  std::map<WorkId, Shim> shims_;
  std::set<std::string> addresses_;                     // of sandboxes whose end the controller does not know
  std::set<WorkId> hooks_begun_;                        // of this boot
  std::set<std::pair<JobId, AttemptNo>> hooks_passed_;  // attempts whose prolog has
  std::uint64_t next_ = 1;
  Instant lease_, stuck_until_;
};

}  // namespace lockstep::sim
