// FairTurns: who is served next on the I/O thread. Requests queue by caller, and callers take turns by the time they
// have used, so that one caller's flood costs another at most half of the thread. What takes long works in slices and
// keeps its place in front of its caller's queue. Administrators have a lane of their own, which gets as much of the
// thread as all users together, and which no rate bounds.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "base/result.h"
#include "ports/loop.h"

namespace lockstep {

// Whom work is charged to: a user, a certificate, an address.
struct Payer {
  std::string name;       // "local:1001", "certificate node:n1", "address 10.0.0.1"
  bool reserved = false;  // an administrator's
};

struct TurnLimits {
  Duration slice = millis(4);         // a turn ends after so long, other work of the thread comes, then the next turn
  std::uint32_t rate_per_s = 2'000;   // requests of one caller, in units of the cheapest
  std::uint32_t rate_burst = 4'000;   // so many at once after a rest
  std::uint32_t pending_max = 1'000;  // requests of one caller that wait for their turn
};

// How often requests were refused, by reason. Reasons are constants.
class Refusals {
 public:
  void count(std::string_view reason) { ++by_reason_[reason]; }
  const std::map<std::string_view, std::uint64_t>& by_reason() const { return by_reason_; }

 private:
  std::map<std::string_view, std::uint64_t> by_reason_;
};

class FairTurns {
 public:
  using Work = std::function<void()>;
  using Clock = std::function<std::int64_t()>;  // microseconds, never back
  FairTurns(EventLoop& loop, TurnLimits limits, Clock clock);

  // Takes the request in, or says why not: kExhausted with field "rate" (too many in this second: come again) or
  // "pending" (too many wait already). `units`: what it costs beside the cheapest one.
  Result<void> admit(const Payer& payer, std::uint32_t units);
  // Runs the work in its turn; at once when nobody else waits.
  void add(const Payer& payer, Work work);
  // The same, but never from within this call: for many works that one event brings.
  void add_later(const Payer& payer, Work work);
  // The work that runs now is not finished: this is the rest of it. In front of its caller's queue.
  void go_on(Work rest);
  // The work that runs now costs its caller at least so much, however fast the clock finds it: for what makes work
  // later and elsewhere, such as bytes that are sealed and sent.
  void costs(std::int64_t us);
  // For work that can stop and go on: has it used up its slice?
  bool slice_over() const { return clock_() >= slice_end_us_; }

  std::size_t waiting() const { return waiting_; }  // works
  const TurnLimits& limits() const { return limits_; }

 private:
  struct Queue {
    std::deque<Work> works;
    std::size_t woken = 0;  // of them, that are no requests: looks of what waits or follows
    bool reserved = false;
    std::int64_t used_us = 0;  // of its lane's time; a caller that comes back begins where the others are
    double tokens = 0;
    std::int64_t tokens_at_us = 0;
  };
  using Queues = std::map<std::string, Queue, std::less<>>;
  struct Lane {
    std::set<std::pair<std::int64_t, std::string>> waiting;  // (used_us, name) of the queues that hold work
    std::int64_t used_us = 0;
    std::int64_t floor_us = 0;  // of the queue that was served last
  };

  Queue& queue_of(const Payer& payer);
  void forget_idle();
  void line_up(const std::string& name, Queue& queue);
  Lane* next_lane();
  void run_one(Lane& lane);
  void turn();

  EventLoop& loop_;
  TurnLimits limits_;
  Clock clock_;
  Queues queues_;
  std::array<Lane, 2> lanes_;  // users, reserved
  std::size_t waiting_ = 0;
  std::int64_t slice_end_us_ = 0;
  Work rest_;                 // of the work that runs
  std::int64_t cost_us_ = 0;  // the same
  bool running_ = false, posted_ = false;
};

std::int64_t steady_micros();

}  // namespace lockstep
