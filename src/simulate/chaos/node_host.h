// NodeHost: one simulated node: the real AgentLogic over simulated processes, journal and link, doing what the agent's
// shell does.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/logic.h"
#include "sim/clock.h"
#include "sim/network.h"
#include "sim/shims.h"

namespace lockstep::sim {

struct World;

class NodeHost {
 public:
  NodeHost(World& world, std::size_t index, bool has_fence_hook);

  void boot();                      // after a power cut: new boot id, nothing left of the old one
  void power_off();                 // every process is gone
  void start_agent();               // finds the shims and the journal of this boot
  void kill_agent();                // processes live on
  void stall_agent(Duration time);  // stopped and continued: what comes meanwhile waits; processes run on
  bool machine_up() const { return machine_up_; }
  bool agent_up() const { return logic_ != nullptr; }
  Instant stalled_until() const { return stalled_until_; }  // 0 = this agent never was
  const std::string& boot_id() const { return boot_id_; }
  std::size_t live_shims() const { return shims_.live(); }
  const std::string& name() const { return name_; }
  SimClock& clock() { return clock_; }
  double dies_in_pump = 0;  // the agent is killed between writing its journal and acting on it
  void stick(Instant until) { shims_.stick(until); }  // its processes wait for a disk
  void set_launch_fails(double probability) { shims_.launch_fails = probability; }
  void run_short(std::vector<Shortage> shortages);  // it says so from now on, until it says otherwise
  void steady_containers() { shims_.containers_fail = false; }

  void received(LinkId link, const ToAgent& message);
  void link_closed(LinkId link);

 private:
  Node facts() const;
  void dial();
  void hang_up();
  void pump();
  void obey(AgentLogic::ShimOrder& order);
  void keep_journal();
  void shim_event(const ShimEvent& event);
  void wake();
  void watch_link();
  bool put_off(std::function<void()> task);

  World& world_;
  std::size_t index_;
  std::string name_;
  bool has_fence_hook_;
  SimClock clock_;
  SimShims shims_;
  std::vector<Shortage> shortages_;
  std::string boot_id_;
  std::uint32_t boots_ = 0;
  bool machine_up_ = false;
  std::vector<std::string> journal_;  // durable, of this boot
  std::size_t journal_max_ = 0;
  std::unique_ptr<AgentLogic> logic_;
  std::uint64_t life_ = 0;  // counts starts of the agent: older timers are stale
  LinkId link_ = 0;
  Instant heard_;
  Instant alarm_ = kNever;
  Instant stalled_until_;
  Standstill waits_;
};

}  // namespace lockstep::sim
