#include "sim/network.h"

namespace lockstep::sim {

namespace {

bool is_order(const ToAgent& message) {
  return std::holds_alternative<LaunchAttempt>(message) || std::holds_alternative<LaunchStep>(message) ||
         std::holds_alternative<LaunchTask>(message) || std::holds_alternative<StopWork>(message) ||
         std::holds_alternative<SignalWork>(message) || std::holds_alternative<PauseWork>(message);
}

}  // namespace

Duration SimNetwork::delay() {
  Duration d = micros(rng_.between(50, 2000));
  if (faults.slow > 0 && rng_.chance(faults.slow))
    d = d + micros(rng_.between(0, faults.slow_max.us));
  return d;
}

SimNetwork::Partition SimNetwork::partition_of(std::size_t node) const {
  const auto it = partitions_.find(node);
  return it == partitions_.end() ? Partition::kNone : it->second;
}

LinkId SimNetwork::open(std::size_t node) {
  if (!controller_up_ || partition_of(node) != Partition::kNone)
    return 0;
  const LinkId id = next_++;
  links_[id].node = node;
  on_connected(id, node);
  return id;
}

void SimNetwork::send_up(LinkId id, FromAgent message) {
  if (lossy()) {
    // A renewal may vanish by itself. Anything else vanishes with what follows it: the link is dead, and each side
    // finds out in its own time.
    if (!std::holds_alternative<Renew>(message))
      die(id);
    return;
  }
  if (faults.twice > 0 && rng_.chance(faults.twice))
    deliver_up(id, message, true);
  deliver_up(id, std::move(message), false);
}

void SimNetwork::deliver_up(LinkId id, FromAgent message, bool copy) {
  const auto it = links_.find(id);
  if (it == links_.end() || !it->second.agent_open || it->second.dead)
    return;
  Instant when = timeline_.now() + delay();
  if (copy)
    when = when + micros(rng_.between(0, 3'000'000));
  else
    when = it->second.up_free = std::max(when, it->second.up_free);
  timeline_.at(when, [this, id, message = std::move(message)] { arrive_up(id, message); });
}

void SimNetwork::arrive_up(LinkId id, const FromAgent& message) {
  const auto it = links_.find(id);
  if (it == links_.end() || !it->second.controller_open)
    return;
  const Partition cut = partition_of(it->second.node);
  if (cut == Partition::kCut || cut == Partition::kCutUp)
    return;
  if (cut == Partition::kStall || !it->second.stalled_up.empty()) {
    it->second.stalled_up.push_back([this, id, message] { arrive_up(id, message); });
    return;
  }
  on_up(id, message);
}

void SimNetwork::die(LinkId id) {
  const auto it = links_.find(id);
  if (it == links_.end() || it->second.dead)
    return;
  it->second.dead = true;
  agent_side_closes(id, micros(rng_.between(0, 10'000'000)));
  controller_side_closes(id, micros(rng_.between(0, 10'000'000)));
}

void SimNetwork::send_down(LinkId id, ToAgent message) {
  const bool lost = (is_order(message) && timeline_.now() < lose_orders_until) ||
                    (!std::holds_alternative<Welcome>(message) && !std::holds_alternative<Refused>(message) && lossy());
  if (lost)
    return;
  if (faults.twice > 0 && rng_.chance(faults.twice))
    deliver_down(id, message, true);
  deliver_down(id, std::move(message), false);
}

void SimNetwork::deliver_down(LinkId id, ToAgent message, bool copy) {
  const auto it = links_.find(id);
  if (it == links_.end() || !it->second.controller_open)
    return;
  Instant when = timeline_.now() + delay();
  if (const auto lag = lags_.find(it->second.node); lag != lags_.end())
    when = when + lag->second;
  when = std::max(when, it->second.down_free);  // nothing overtakes on a connection, but a copy may come late
  if (copy)
    when = when + micros(rng_.between(0, 3'000'000));
  else
    it->second.down_free = when;
  timeline_.at(when, [this, id, message = std::move(message)] { arrive_down(id, message); });
}

void SimNetwork::arrive_down(LinkId id, const ToAgent& message) {
  const auto it = links_.find(id);
  if (it == links_.end() || !it->second.agent_open || it->second.dead)
    return;
  const Partition cut = partition_of(it->second.node);
  if (cut == Partition::kCut)
    return;
  const bool stalled = cut == Partition::kStall || cut == Partition::kStallDown;
  if (stalled || !it->second.stalled_down.empty()) {
    it->second.stalled_down.push_back([this, id, message] { arrive_down(id, message); });
    return;
  }
  on_down(it->second.node, id, message);
}

void SimNetwork::drop(LinkId id) {
  const auto it = links_.find(id);
  if (it != links_.end() && !it->second.agent_open && !it->second.controller_open)
    links_.erase(it);
}

void SimNetwork::agent_side_closes(LinkId id, Duration after) {
  timeline_.after(after, [this, id] {
    const auto it = links_.find(id);
    if (it == links_.end() || !it->second.agent_open)
      return;
    it->second.agent_open = false;
    const std::size_t node = it->second.node;
    drop(id);
    on_agent_closed(node, id);
  });
}

void SimNetwork::controller_side_closes(LinkId id, Duration after) {
  timeline_.after(after, [this, id] {
    const auto it = links_.find(id);
    if (it == links_.end() || !it->second.controller_open)
      return;
    it->second.controller_open = false;
    drop(id);
    on_controller_closed(id);
  });
}

void SimNetwork::close_from_agent(LinkId id, Duration notice) {
  const auto it = links_.find(id);
  if (it == links_.end())
    return;
  it->second.agent_open = false;
  controller_side_closes(id, notice);
}

void SimNetwork::controller_died() {
  controller_up_ = false;
  for (auto& [id, link] : links_) {
    link.controller_open = false;
    link.stalled_up.clear();
    // A cut node hears nothing of it; it finds out by itself.
    agent_side_closes(id, partition_of(link.node) == Partition::kNone ? micros(rng_.between(100, 50'000))
                                                                      : micros(rng_.between(0, 20'000'000)));
  }
}

void SimNetwork::partition(std::size_t node, Partition how) {
  const Partition before = partition_of(node);
  partitions_[node] = how;
  for (auto& [id, link] : links_) {
    if (link.node != node)
      continue;
    if (how == Partition::kCut) {
      agent_side_closes(id, micros(rng_.between(0, 20'000'000)));
      controller_side_closes(id, micros(rng_.between(0, 20'000'000)));
    }
    if (how == Partition::kCutUp)
      controller_side_closes(id, micros(rng_.between(0, 20'000'000)));
    if (how == Partition::kNone && before != Partition::kNone) {
      // What was stalled arrives at last, in order.
      for (auto& task : std::exchange(link.stalled_up, {})) timeline_.after(micros(1), std::move(task));
      for (auto& task : std::exchange(link.stalled_down, {})) timeline_.after(micros(1), std::move(task));
      link.up_free = link.down_free = timeline_.now() + micros(2);
    }
  }
}

}  // namespace lockstep::sim
