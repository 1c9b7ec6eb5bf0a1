// Each lane is a fair queue: the caller that has used least of its time goes first. Between the lanes the same rule
// holds.
#include "controller/turns.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kQueuesKept = 4'096;  // beyond, callers who rest are forgotten

}  // namespace

std::int64_t steady_micros() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

FairTurns::FairTurns(EventLoop& loop, TurnLimits limits, Clock clock)
    : loop_(loop), limits_(limits), clock_(std::move(clock)) {}

FairTurns::Queue& FairTurns::queue_of(const Payer& payer) {
  const auto known = queues_.find(payer.name);
  if (known != queues_.end())
    return known->second;
  if (queues_.size() >= kQueuesKept)
    forget_idle();
  Queue& queue = queues_[payer.name];
  queue.tokens = limits_.rate_burst;
  queue.tokens_at_us = clock_();
  return queue;
}

void FairTurns::forget_idle() {
  const std::int64_t rested_since = clock_() - std::int64_t{1'000'000} * limits_.rate_burst / limits_.rate_per_s;
  std::erase_if(queues_, [&](const auto& entry) {
    return entry.second.works.empty() && entry.second.tokens_at_us <= rested_since;
  });
}

Result<void> FairTurns::admit(const Payer& payer, std::uint32_t units) {
  if (payer.reserved)
    return {};
  Queue& queue = queue_of(payer);
  const std::int64_t now_us = clock_();
  const double refill = static_cast<double>(now_us - queue.tokens_at_us) * limits_.rate_per_s / 1e6;
  queue.tokens = std::min<double>(limits_.rate_burst, queue.tokens + refill);
  queue.tokens_at_us = now_us;
  if (queue.tokens < units)
    return Error{Errc::kExhausted,
                 format("{} asks more than {} times a second: wait a moment and ask again, or ask for several things "
                        "in one request",
                        payer.name, limits_.rate_per_s),
                 "rate"};
  if (queue.works.size() - queue.woken >= limits_.pending_max)
    return Error{Errc::kExhausted,
                 format("{} has {} requests that wait for their turn: wait for some of the answers first", payer.name,
                        queue.works.size() - queue.woken),
                 "pending"};
  queue.tokens -= units;
  return {};
}

void FairTurns::line_up(const std::string& name, Queue& queue) {
  Lane& lane = lanes_[queue.reserved];
  Lane& other = lanes_[!queue.reserved];
  if (lane.waiting.empty() && !other.waiting.empty())
    lane.used_us = std::max(lane.used_us, other.used_us);  // what a lane did not use is not kept for later
  queue.used_us = std::max(queue.used_us, lane.floor_us);
  lane.waiting.emplace(queue.used_us, name);
}

void FairTurns::add(const Payer& payer, Work work) {
  Queue& queue = queue_of(payer);
  queue.works.push_back(std::move(work));
  ++waiting_;
  if (queue.works.size() == 1) {
    queue.reserved = payer.reserved;
    line_up(payer.name, queue);
  }
  if (!running_ && !posted_)
    turn();
}

void FairTurns::add_later(const Payer& payer, Work work) {
  if (!running_ && !posted_) {
    posted_ = true;
    loop_.post([this] { turn(); });
  }
  add(payer, [this, name = payer.name, work = std::move(work)] {
    --queues_.at(name).woken;
    work();
  });
  ++queues_.at(payer.name).woken;  // not before it is there: an empty queue may be forgotten
}

void FairTurns::go_on(Work rest) {
  CHECK(running_ && !rest_, "only the work that runs goes on, once");
  rest_ = std::move(rest);
}

void FairTurns::costs(std::int64_t us) {
  CHECK(running_, "only work that runs costs something");
  cost_us_ += us;
}

FairTurns::Lane* FairTurns::next_lane() {
  if (lanes_[0].waiting.empty() || lanes_[1].waiting.empty())
    return !lanes_[0].waiting.empty() ? &lanes_[0] : !lanes_[1].waiting.empty() ? &lanes_[1] : nullptr;
  return lanes_[1].used_us <= lanes_[0].used_us ? &lanes_[1] : &lanes_[0];
}

void FairTurns::run_one(Lane& lane) {
  const auto first = lane.waiting.begin();
  const std::string name = first->second;
  lane.waiting.erase(first);
  Queue& queue = queues_.at(name);  // stays: forget_idle() keeps those whom requests wait for
  lane.floor_us = queue.used_us;
  Work work = std::move(queue.works.front());
  queue.works.front() = nullptr;  // holds its place: the queue is not empty, so add() does not line it up again
  const std::int64_t began_us = clock_();
  work();
  // Work that takes no time by the clock still takes a turn.
  const std::int64_t took_us = std::max({std::int64_t{1}, clock_() - began_us, std::exchange(cost_us_, 0)});
  queue.used_us += took_us;
  lane.used_us += took_us;
  if (rest_) {
    queue.works.front() = std::exchange(rest_, nullptr);
  } else {
    queue.works.pop_front();
    --waiting_;
  }
  if (!queue.works.empty())
    line_up(name, queue);
}

void FairTurns::turn() {
  posted_ = false;
  running_ = true;
  slice_end_us_ = clock_() + limits_.slice.us;
  while (Lane* lane = next_lane()) {
    run_one(*lane);
    if (slice_over())
      break;
  }
  running_ = false;
  if (next_lane()) {
    posted_ = true;
    loop_.post([this] { turn(); });
  }
}

}  // namespace lockstep
