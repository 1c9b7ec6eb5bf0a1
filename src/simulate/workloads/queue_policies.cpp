// Which policy is which.
#include "simulate/workloads/queue_policies.h"

#include <cmath>

#include "base/text.h"
#include "simulate/workloads/default_policy.h"
#include "simulate/workloads/node_topology.h"
#include "simulate/workloads/planner_run.h"

namespace lockstep::sim {
namespace {

// By arrival; holes by arrival or shortest first.
class ArrivalPolicy : public QueuePolicy {
 public:
  ArrivalPolicy(std::span<const TraceJob> jobs, bool shortest_first, bool oracle)
      : jobs_(jobs), shortest_first_(shortest_first), oracle_(oracle) {}

  QueueKeys keys(std::size_t job) override {
    const std::int64_t estimate_s = oracle_ ? jobs_[job].run_s : jobs_[job].limit_s;
    return {.filler = shortest_first_ ? estimate_s : 0, .estimate_s = estimate_s};
  }

 private:
  std::span<const TraceJob> jobs_;
  bool shortest_first_, oracle_;
};

// The heuristics as RLScheduler's published code evaluates them: in WFP3 and UNICEP the wait is -1 - submit.
class HeuristicPolicy : public StrictPolicy {
 public:
  using Score = double (*)(const TraceJob&);
  HeuristicPolicy(std::span<const TraceJob> jobs, Score score) {
    for (const TraceJob& job : jobs) scores_.push_back(score(job));
  }
  double score(std::size_t job) const override { return scores_[job]; }

 private:
  std::vector<double> scores_;
};

double seconds_of(std::int64_t s) { return static_cast<double>(s); }
double fcfs(const TraceJob& job) { return seconds_of(job.submit_s); }
double sjf(const TraceJob& job) { return seconds_of(job.limit_s) + seconds_of(job.submit_s) * 1e-9; }
double f1(const TraceJob& job) {
  return std::log10(seconds_of(job.limit_s)) * seconds_of(job.size) +
         870 * std::log10(std::max(seconds_of(job.submit_s), 0.1));
}
double wfp3(const TraceJob& job) {
  const double waited = (-1 - seconds_of(job.submit_s)) / seconds_of(job.limit_s);
  return -waited * waited * waited * seconds_of(job.size);
}
double unicep(const TraceJob& job) {
  const double waited = -1 - seconds_of(job.submit_s) + 1e-15;
  return -waited / (std::log2(seconds_of(job.size) + 1e-15) * seconds_of(job.limit_s));
}

// The turns of the default policy; nothing else of it has a place in that loop.
class TurnPolicy : public StrictPolicy {
 public:
  TurnPolicy(std::span<const TraceJob> jobs, std::int64_t procs)
      : turns_(jobs.size()), policy_(jobs, 1, static_cast<std::int32_t>(procs), false, {}, NodeTree::flat(1)) {}
  void joined(std::size_t job) override {
    turns_[job] = static_cast<double>(policy_.keys(job).turn);
    policy_.joined(job);
  }
  void left(std::size_t job) override { policy_.left(job); }
  double score(std::size_t job) const override { return turns_[job]; }

 private:
  std::vector<double> turns_;
  DefaultPolicy policy_;
};

Result<Filling> filling_of(const std::string& policy) {
  if (policy == "fcfs" || policy == "fifo")
    return Filling::kNone;
  if (policy == "conservative")
    return Filling::kConservative;
  if (policy == "easy" || policy == "easy-sjbf" || policy == "turns")
    return Filling::kHead;
  return invalid(format("there is no policy {} here: fcfs, easy, conservative, easy-sjbf, default", policy),
                 "--policy");
}

}  // namespace

Result<QueueRun> run_policy(std::span<const TraceJob> jobs, std::int32_t nodes, std::int32_t devices_per_node,
                            const QueueChoice& choice) {
  if (choice.policy == "default") {
    if (choice.oracle || choice.order != OrderPolicy{})
      return invalid("--oracle and --order go with --policy turns: the product has one order", "--policy");
    return run_planner(jobs, nodes, devices_per_node, choice.topology ? &*choice.topology : nullptr);
  }
  const QueueRules rules{.nodes = nodes,
                         .devices_per_node = devices_per_node,
                         .filling = TRY(filling_of(choice.policy)),
                         .one_event_at_a_time = choice.published_events};
  if (choice.policy == "turns") {
    TRY(choice.order.validate());
    DefaultPolicy policy(
        jobs, nodes, devices_per_node, choice.oracle, choice.order,
        choice.topology ? NodeTree::of(*choice.topology, node_names(nodes, &*choice.topology)) : NodeTree::flat(nodes));
    return run_queue(jobs, rules, policy);
  }
  ArrivalPolicy policy(jobs, choice.policy == "easy-sjbf", choice.oracle);
  return run_queue(jobs, rules, policy);
}

Result<std::unique_ptr<StrictPolicy>> strict_policy(std::string_view name, std::span<const TraceJob> jobs,
                                                    std::int64_t procs) {
  constexpr std::pair<std::string_view, HeuristicPolicy::Score> kHeuristics[] = {
      {"fcfs", fcfs}, {"sjf", sjf}, {"f1", f1}, {"wfp3", wfp3}, {"unicep", unicep}};
  for (const auto& [known, score] : kHeuristics)
    if (name == known)
      return std::unique_ptr<StrictPolicy>(std::make_unique<HeuristicPolicy>(jobs, score));
  if (name == "default")
    return std::unique_ptr<StrictPolicy>(std::make_unique<TurnPolicy>(jobs, procs));
  return invalid(format("the strict loop has no policy {}: fcfs, sjf, f1, wfp3, unicep, default", name), "--policy");
}

}  // namespace lockstep::sim
