// Explain: why one job waits, when and where it is foreseen to start, and the smallest changes of it that would make
// it start sooner. Every suggestion is proved: the job is changed in a copy of the cluster and planned there.
#pragma once

#include "base/result.h"
#include "foresight/cluster_copy.h"
#include "model/kinds.h"
#include "sched/queue_order.h"

namespace lockstep {

struct ExplainSettings {
  std::uint32_t plans_max = 24;  // worlds planned for suggestions
  std::uint32_t ahead_max = 5;   // jobs ahead that are named
  // Above so many waiting jobs, those behind this one are left out of the worlds in which its place in the order stays:
  // they do not delay it.
  std::size_t whole_queue_max = 2000;
  Visibility asker = Visibility::kAdministrator;  // as whom whoever asks sees the job
};

// An Error when there is no such job.
Result<Explanation> explain(const Tables& tables, const ClusterCopy::Clock& clock, JobId job,
                            const ExplainSettings& settings = {}, const CoreSettings& core = {});

// Begins the name of the filter that asks where nodes lie: "topology: under one leaf, on 2 switches".
inline constexpr std::string_view kTopologyFilter = "topology: ";

// How many nodes pass each filter, for every group in every partition the job may use.
std::vector<NodeFunnel> funnels(const ClusterCopy& copy, const Job& job, const std::vector<Ahead>& ahead);

}  // namespace lockstep
