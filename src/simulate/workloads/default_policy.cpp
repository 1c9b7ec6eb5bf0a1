// FairTurns, predictions and places for a trace.
#include "simulate/workloads/default_policy.h"

#include <algorithm>

#include "base/check.h"
#include "sched/idle_together.h"

namespace lockstep::sim {

DefaultPolicy::DefaultPolicy(std::span<const TraceJob> jobs, std::int32_t nodes, std::int32_t devices_per_node,
                             bool oracle, OrderPolicy order, NodeTree tree)
    : jobs_(jobs),
      capacity_(std::int64_t{nodes} * devices_per_node),
      oracle_(oracle),
      order_(order),
      tree_(std::move(tree)),
      predicted_(jobs.size()),
      spreads_(jobs.size()),
      started_(jobs.size()),
      runs_(nodes > 1 ? static_cast<std::size_t>(nodes) : 0) {
  for (std::size_t i = 0; i < jobs.size(); ++i)
    kinds_.push_back(run_kinds({.user = jobs[i].user, .size = jobs[i].size, .limit = limit(i)}));
}

QueueKeys DefaultPolicy::keys(std::size_t job) {
  const TraceJob& asked = jobs_[job];
  predicted_[job] =
      oracle_ ? seconds(std::max<std::int64_t>(asked.run_s, 1)) : predictor_.predict(kinds_[job], limit(job));
  if (spreads_[job] == Duration{})
    spreads_[job] = spread_of(order_, backlog_.drain_time(capacity_));
  const Turn turn = turn_of(order_, {.submitted = Instant{} + seconds(asked.submit_s),
                                     .size = asked.size,
                                     .capacity = capacity_,
                                     .predicted = predicted_[job],
                                     .spread = spreads_[job]});
  const Duration estimate = oracle_ ? predicted_[job] : filler_time(order_, limit(job), predicted_[job], false);
  return {.turn = turn.at.us,
          .filler = turn.at.us,
          .estimate_s = estimate.seconds(),
          .overdue_s = turn.overdue_at.us / 1'000'000};
}

void DefaultPolicy::joined(std::size_t job) { backlog_.add(jobs_[job].size, predicted_[job]); }
void DefaultPolicy::left(std::size_t job) { backlog_.remove(jobs_[job].size, predicted_[job]); }

void DefaultPolicy::started(std::size_t job, const GangPool::Place& place, std::int64_t now_s) {
  if (runs_.empty())
    return;
  started_[job] = {now_s, place};
  for (const GangPool::Part& part : place) runs_[static_cast<std::size_t>(part.node)].push_back(job);
}

void DefaultPolicy::ended(std::size_t job, std::int64_t) {
  predictor_.observe(kinds_[job], limit(job), seconds(jobs_[job].run_s));
  if (runs_.empty())
    return;
  for (const GangPool::Part& part : started_[job].place) std::erase(runs_[static_cast<std::size_t>(part.node)], job);
}

// A job that has outlived its prediction is taken to go on for half of what it ran, but not past its limit.
std::int64_t DefaultPolicy::idle_at(std::int32_t node, std::int64_t now_s) const {
  std::int64_t last_s = now_s;
  for (const std::size_t job : runs_[static_cast<std::size_t>(node)]) {
    const std::int64_t since_s = started_[job].at_s, limit_s = since_s + jobs_[job].limit_s;
    const std::int64_t end_s = since_s + predicted_[job].seconds();
    last_s = std::max(last_s, end_s > now_s ? end_s : std::min(limit_s, now_s + (now_s - since_s) / 2));
  }
  return last_s;
}

GangPool::Place DefaultPolicy::place(const GangPool& pool, std::size_t job, std::int64_t size, std::int64_t now_s) {
  if (runs_.empty())
    return pool.find(size);
  GangPool::Place place;
  const std::int32_t per_node = pool.devices_per_node();
  if (const auto whole = static_cast<std::int32_t>(size / per_node); whole > 0)
    for (const std::int32_t node : tree_.choose_idle(pool, whole)) place.push_back({node, per_node});
  const auto rest = static_cast<std::int32_t>(size % per_node);
  if (rest == 0)
    return place;
  std::int32_t best = -1;
  Duration least = kForever;
  for (std::int32_t node = 0; node < pool.nodes(); ++node) {
    const std::int32_t free = pool.free_on(node);
    const auto taken = [&](const GangPool::Part& part) { return part.node == node; };
    if (free < rest || std::any_of(place.begin(), place.end(), taken))
      continue;
    Duration cost = node_cost(free - rest, seconds(idle_at(node, now_s) - now_s), predicted_[job]);
    if (free == per_node)
      cost = kForever - seconds(1);  // an idle node last
    if (cost < least) {
      least = cost;
      best = node;
    }
  }
  CHECK(best >= 0, "asked only for what fits");
  place.push_back({best, rest});
  return place;
}

}  // namespace lockstep::sim
