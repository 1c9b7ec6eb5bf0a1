#include "simulate/chaos/faults.h"

#include <utility>

#include "simulate/chaos/world.h"

namespace lockstep::sim {

namespace {

constexpr Duration kBetweenPauses = seconds(40);  // in which everybody is heard again

}  // namespace

FaultMaker::FaultMaker(World& world) : world_(world), dice_(world.settings.seed ^ 0x7061'7573'6573) {}

void FaultMaker::start() {
  on_ = true;
  if (dice_.chance(0.4) || world_.settings.only_pauses)
    world_.timeline.after(seconds(dice_.between(1, 60)), [this] { stand_still(); });
  if (world_.settings.only_pauses)
    return;
  if (dice_.chance(0.4))
    every(seconds(15), &FaultMaker::stick_node);
  if (dice_.chance(0.3))
    every(seconds(90), &FaultMaker::depose_controller);
  if (dice_.chance(0.5))
    every(seconds(10), &FaultMaker::disturb_actor);
  Rng& rng = world_.rng;
  // Each fault has a level of its own in this run: none, seldom, often.
  constexpr std::pair<Duration, void (FaultMaker::*)()> kOften[] = {
      {seconds(60), &FaultMaker::kill_controller}, {seconds(60), &FaultMaker::bad_disk},
      {seconds(12), &FaultMaker::kill_agent},      {seconds(30), &FaultMaker::reboot_node},
      {seconds(15), &FaultMaker::partition_node},  {seconds(200), &FaultMaker::partition_all},
      {seconds(60), &FaultMaker::lose_orders},     {seconds(60), &FaultMaker::jump_clock},
      {seconds(90), &FaultMaker::pause_history},
  };
  for (const auto& [often, what] : kOften) {
    const double dice = rng.unit();
    every(dice < 0.25 ? Duration{} : dice < 0.6 ? often * 4 : often, what);
  }
  draw_rates();
}

// How often what is not a fault of its own goes wrong: commits, messages, launches.
void FaultMaker::draw_rates() {
  Rng& rng = world_.rng;
  commit_fault_rate_ = rng.chance(0.3) ? 0 : rng.unit() * 0.01;
  world_.network.faults = {.lose = rng.chance(0.4) ? 0 : rng.unit() * 0.005,
                           .twice = rng.unit() * 0.03,
                           .slow = rng.chance(0.4) ? 0 : rng.unit() * 0.01,
                           .slow_max = seconds(rng.between(1, 9))};
  world_.controller.stray_plans = world_.settings.restless ? 0.7 : rng.chance(0.5) ? 0.2 : 0;
  world_.log.draw_fault = [this] { return commit_fault(); };
  world_.log.draw_left = [this](std::size_t entries) { return world_.rng.below(entries); };
  world_.history.draw_fault = [this] { return world_.rng.chance(commit_fault_rate_) ? commit_fault() : CommitFault{}; };
  const double fragile = rng.chance(0.3) ? 0.002 : 0, fails = rng.chance(0.5) ? 0.01 : 0;
  for (auto& node : world_.nodes) {
    node->dies_in_pump = fragile;
    node->set_launch_fails(fails);
  }
}

void FaultMaker::every(Duration mean, void (FaultMaker::*what)()) {
  if (mean.us == 0)
    return;
  world_.timeline.after(world_.up_to(mean * 2), [this, mean, what] {
    if (!on_)
      return;
    (this->*what)();
    every(mean, what);
  });
}

CommitFault FaultMaker::commit_fault() {
  Rng& rng = world_.rng;
  if (!on_)
    return CommitFault::kNone;
  if (world_.timeline.now() < bad_disk_until_ && rng.chance(0.6))
    return rng.chance(0.7) ? CommitFault::kFails : CommitFault::kFailsYetWritten;
  if (!rng.chance(commit_fault_rate_))
    return CommitFault::kNone;
  return static_cast<CommitFault>(rng.between(1, 6));
}

void FaultMaker::kill_controller() {
  if (!world_.controller.up())
    return;
  world_.controller.kill();
  const double dice = world_.rng.unit();
  Duration away = world_.up_to(seconds(2));
  if (dice > 0.95)
    away = world_.settings.fence_after + world_.up_to(seconds(60));  // long enough that agents give up
  else if (dice > 0.8)
    away = world_.settings.lease_term * 3 + world_.up_to(seconds(10));
  world_.timeline.after(away, [this] { world_.controller.start(); });
}

// Somebody else takes the lead, and ends at once: what the controller does from then on must not count.
void FaultMaker::depose_controller() { (void)world_.log.lead(); }

void FaultMaker::disturb_actor() { world_.controller.disturb_actor(seconds(30)); }

void FaultMaker::bad_disk() {
  world_.note("the disk turns bad");
  bad_disk_until_ = world_.timeline.now() + world_.up_to(seconds(6));
}

void FaultMaker::kill_agent() {
  NodeHost& node = *world_.nodes[world_.rng.below(world_.nodes.size())];
  if (!node.agent_up())
    return;
  node.kill_agent();
  const Duration away =
      world_.rng.chance(0.85) ? world_.up_to(seconds(3)) : world_.settings.node_timeout + world_.up_to(seconds(90));
  world_.timeline.after(away, [&node] { node.start_agent(); });
}

void FaultMaker::reboot_node() {
  NodeHost& node = *world_.nodes[world_.rng.below(world_.nodes.size())];
  if (!node.machine_up())
    return;
  node.power_off();
  const Duration away = world_.rng.chance(0.6) ? seconds(2) + world_.up_to(seconds(8)) : world_.up_to(seconds(200));
  world_.timeline.after(away, [&node] { node.boot(); });
}

void FaultMaker::partition_node() {
  using enum SimNetwork::Partition;
  Rng& rng = world_.rng;
  const std::size_t node = rng.below(world_.nodes.size());
  if (world_.network.partition_of(node) != kNone)
    return;
  if (rng.chance(0.2)) {
    lag_then_cut(node);
    return;
  }
  const SimNetwork::Partition kinds[] = {kCut, kStall, kStallDown};
  const SimNetwork::Partition how = kinds[rng.below(3)];
  const double dice = rng.unit();
  Duration length = world_.up_to(seconds(8));
  if (dice > 0.7)
    length = world_.settings.fence_after + world_.up_to(world_.settings.fence_after);
  else if (dice > 0.4)
    length = world_.settings.node_timeout + world_.up_to(seconds(15));
  world_.note(
      format("{} is cut off ({}) for {} ms", world_.nodes[node]->name(), static_cast<int>(how), length.millis()));
  world_.network.partition(node, how);
  world_.timeline.after(length, [this, node] {
    world_.note(format("{} is reachable again", world_.nodes[node]->name()));
    world_.network.partition(node, SimNetwork::Partition::kNone);
  });
}

// Answers come late, and then nothing goes up any more: the last answer arrives long after it was sent.
void FaultMaker::lag_then_cut(std::size_t node) {
  world_.note(format("{} gets its answers late", world_.nodes[node]->name()));
  world_.network.set_lag(node, seconds(world_.rng.between(3, 10)));
  world_.timeline.after(seconds(12) + world_.up_to(seconds(10)), [this, node] {
    if (!on_ || world_.network.partition_of(node) != SimNetwork::Partition::kNone)
      return;
    world_.note(format("{} is not heard any more", world_.nodes[node]->name()));
    world_.network.partition(node, SimNetwork::Partition::kCutUp);
    world_.timeline.after(world_.settings.fence_after + world_.up_to(world_.settings.fence_after), [this, node] {
      world_.network.set_lag(node, {});
      world_.network.partition(node, SimNetwork::Partition::kNone);
    });
  });
}

void FaultMaker::partition_all() {
  using enum SimNetwork::Partition;
  const Duration length = world_.up_to(seconds(40));
  world_.note(format("the network is down for {} ms", length.millis()));
  for (std::size_t i = 0; i < world_.nodes.size(); ++i) {
    if (world_.network.partition_of(i) != kNone)
      continue;
    world_.network.partition(i, world_.rng.chance(0.5) ? kCut : kStall);
    world_.timeline.after(length, [this, i] { world_.network.partition(i, SimNetwork::Partition::kNone); });
  }
}

void FaultMaker::lose_orders() {
  world_.note("orders get lost");
  world_.network.lose_orders_until = world_.timeline.now() + world_.up_to(seconds(10));
}

void FaultMaker::jump_clock() {
  const Duration by = seconds(world_.rng.between(-7200, 7200));
  world_.note(format("the controller's wall clock jumps by {} s", by.seconds()));
  world_.controller.call({Caller{UserId{}, true}, SetWallOffset{by}}, nullptr);
  world_.nodes[world_.rng.below(world_.nodes.size())]->clock().jump_wall(by);
}

// Most are over before anybody asks why; some outlast a node's time to confirm a stop, or a start.
void FaultMaker::stick_node() {
  NodeHost& node = *world_.nodes[dice_.below(world_.nodes.size())];
  const Duration most = dice_.chance(0.5) ? seconds(20) : minutes(8);
  const Duration time = micros(dice_.between(1, most.us));
  world_.note(format("processes on {} wait for a disk for {} ms", node.name(), time.millis()));
  node.stick(world_.timeline.now() + time);
}

// Most are short; some outlast a lease, a node's timeout, a fence of this run.
Duration FaultMaker::pause_up_to(Duration most) {
  const Duration longest = std::min(most, dice_.chance(0.6) ? seconds(8) : dice_.chance(0.8) ? seconds(60) : kPauseMax);
  return micros(dice_.between(std::min<std::int64_t>(100'000, longest.us), longest.us));
}

// Within one span of at most kPauseMax anything stands still, in any combination; then everybody is heard for a while.
void FaultMaker::stand_still() {
  if (!on_)
    return;
  const Duration span = pause_up_to(kPauseMax);
  const std::uint64_t count = dice_.between(1, 6);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Duration from = i == 0 ? Duration{} : micros(dice_.between(0, span.us));
    const Duration time = i == 0 ? span : micros(dice_.between(0, span.us - from.us));
    world_.timeline.after(from, [this, time] {
      if (on_)
        stall_one(time);
    });
  }
  world_.timeline.after(span + kBetweenPauses + seconds(dice_.between(0, 60)), [this] { stand_still(); });
}

void FaultMaker::stall_one(Duration time) {
  using enum ControllerHost::Stall;
  const double what = dice_.unit();
  if (what < 0.35) {
    world_.controller.stall(kAll, time);
  } else if (what < 0.45) {
    world_.controller.stall(kIo, time);
  } else if (what < 0.55) {
    world_.controller.stall(kCore, time);
  } else if (what < 0.85) {
    world_.nodes[dice_.below(world_.nodes.size())]->stall_agent(time);
  } else {
    world_.note("the whole machine stands still");
    world_.controller.stall(kAll, time);
    for (const auto& node : world_.nodes) node->stall_agent(time);
  }
}

void FaultMaker::pause_history() {
  world_.note("history is away");
  world_.controller.history_pauses = true;
  world_.timeline.after(world_.up_to(seconds(60)), [this] { world_.controller.history_pauses = false; });
}

void FaultMaker::stop_and_heal() {
  on_ = false;
  bad_disk_until_ = {};
  world_.note("faults stop");
  world_.network.faults = {};
  world_.network.lose_orders_until = {};
  world_.controller.stray_plans = 0;
  world_.controller.history_pauses = false;
  for (std::size_t i = 0; i < world_.nodes.size(); ++i) {
    world_.network.partition(i, SimNetwork::Partition::kNone);
    world_.network.set_lag(i, {});
    world_.nodes[i]->dies_in_pump = 0;
    world_.nodes[i]->set_launch_fails(0);
    world_.nodes[i]->stick({});
    world_.nodes[i]->boot();
    world_.nodes[i]->start_agent();
  }
  world_.controller.start();
  world_.controller.calm_actors();
}

}  // namespace lockstep::sim
