// The product's order, predictions and filling rule (rules/order.h, rules/predict.h), driven by a trace.
#pragma once

#include <vector>

#include "rules/order.h"
#include "rules/predict.h"
#include "sim/node_tree.h"
#include "sim/queue_loop.h"

namespace lockstep::sim {

class DefaultPolicy : public QueuePolicy {
 public:
  DefaultPolicy(std::span<const TraceJob> jobs, std::int32_t nodes, std::int32_t devices_per_node, bool oracle,
                OrderPolicy order, NodeTree tree);

  QueueKeys keys(std::size_t job) override;
  void joined(std::size_t job) override;
  void left(std::size_t job) override;
  void started(std::size_t job, const GangPool::Place& place, std::int64_t now_s) override;
  void ended(std::size_t job, std::int64_t now_s) override;
  std::uint64_t kin(std::size_t job) const override { return run_kin(kinds_[job]); }
  GangPool::Place place(const GangPool& pool, std::size_t job, std::int64_t size, std::int64_t now_s) override;

 private:
  struct Started {
    std::int64_t at_s = -1;  // -1: it has not started
    GangPool::Place place;
  };

  Duration limit(std::size_t job) const { return seconds(jobs_[job].limit_s); }
  std::int64_t idle_at(std::int32_t node, std::int64_t now_s) const;  // as predicted, in seconds

  std::span<const TraceJob> jobs_;
  const std::int64_t capacity_;
  const bool oracle_;
  const OrderPolicy order_;
  const NodeTree tree_;
  RunPredictor predictor_;
  Backlog backlog_;
  std::vector<RunKinds> kinds_;
  std::vector<Duration> predicted_;  // when its keys were last asked for
  std::vector<Duration> spreads_;    // since its submission
  std::vector<Started> started_;
  std::vector<std::vector<std::size_t>> runs_;  // by node, where there are several
};

}  // namespace lockstep::sim
