// Why a pod waits for a node, as Kubernetes' scheduler words it: how many nodes will not do, and why.
#pragma once

#include <string>

#include "model/tables.h"

namespace lockstep::kube {

// "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu." of a job that runs a pod and waits.
// Looks at every job and every node: for one pod at a time. Beyond kWaitJobsMost jobs nodes are counted only.
std::string waiting_for_nodes(const Tables& tables, const Job& job);

inline constexpr std::size_t kWaitJobsMost = 50'000;

}  // namespace lockstep::kube
