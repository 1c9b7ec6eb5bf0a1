// SimNetwork: links between agents and the controller. A link delivers in order, late or stalled; single messages may
// be lost or come twice; a partition cuts or stalls a node, one way or both. Each side learns of a broken link at its
// own time, as with TCP.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/rng.h"
#include "model/agent_messages.h"
#include "sim/timeline.h"

namespace lockstep::sim {

using LinkId = std::uint64_t;

struct NetworkFaults {
  double lose = 0;    // of single messages; of a report, with all that follows on its link
  double twice = 0;   // a copy comes later on the same link
  double slow = 0;    // the link stalls this once
  Duration slow_max;  // for at most so long
};

class SimNetwork {
 public:
  SimNetwork(Timeline& timeline, Rng rng) : timeline_(timeline), rng_(rng) {}

  // What the two sides are told.
  std::function<void(LinkId, std::size_t node)> on_connected;  // controller's side
  std::function<void(LinkId, const FromAgent&)> on_up;
  std::function<void(LinkId)> on_controller_closed;
  std::function<void(std::size_t node, LinkId, const ToAgent&)> on_down;
  std::function<void(std::size_t node, LinkId)> on_agent_closed;

  // Dials the controller; 0 if it cannot be reached.
  LinkId open(std::size_t node);
  void send_up(LinkId link, FromAgent message);
  void send_down(LinkId link, ToAgent message);
  // The agent's end is gone (its process died or gave up); the controller notices after `notice`.
  void close_from_agent(LinkId link, Duration notice);
  void controller_died();  // agents notice soon
  void controller_started() { controller_up_ = true; }

  NetworkFaults faults;
  Instant lose_orders_until;  // every launch, stop and signal is lost until then

  enum class Partition : unsigned char { kNone, kCut, kStall, kStallDown, kCutUp };
  void partition(std::size_t node, Partition how);  // kNone heals
  Partition partition_of(std::size_t node) const;
  void set_lag(std::size_t node, Duration lag) { lags_[node] = lag; }  // of everything on its way to the node

 private:
  struct Link {
    std::size_t node = 0;
    Instant up_free, down_free;  // in order: not before these
    std::vector<std::function<void()>> stalled_up, stalled_down;
    bool agent_open = true, controller_open = true;
    bool dead = false;  // nothing gets up any more
  };
  Duration delay();
  bool lossy() { return faults.lose > 0 && rng_.chance(faults.lose); }
  void deliver_up(LinkId id, FromAgent message, bool copy);
  void deliver_down(LinkId id, ToAgent message, bool copy);
  void arrive_up(LinkId id, const FromAgent& message);
  void arrive_down(LinkId id, const ToAgent& message);
  void die(LinkId id);
  void drop(LinkId id);
  void agent_side_closes(LinkId id, Duration after);
  void controller_side_closes(LinkId id, Duration after);

  Timeline& timeline_;
  Rng rng_;
  std::map<LinkId, Link> links_;
  std::map<std::size_t, Partition> partitions_;
  std::map<std::size_t, Duration> lags_;
  LinkId next_ = 1;
  bool controller_up_ = false;
};

}  // namespace lockstep::sim
