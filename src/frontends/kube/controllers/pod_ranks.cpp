// Source: kubernetes.io/docs/concepts/workloads/controllers/replicaset, "Scaling a ReplicaSet"; the order of equal ones
// is that of k8s.io/kubernetes pkg/controller (ActivePodsWithRanks).
#include "frontends/kube/controllers/pod_ranks.h"

#include <algorithm>
#include <bit>

#include "base/text.h"
#include "frontends/kube/controllers/workload.h"

namespace lockstep::kube {

namespace {

int rank_of(PodReading::Phase phase) {
  return phase == PodReading::Phase::kPending ? 0 : phase == PodReading::Phase::kUnknown ? 1 : 2;
}

std::int64_t deletion_cost(const PodReading& pod) {
  const auto cost = parse_int(annotation_value(*pod.object, "controller.kubernetes.io/pod-deletion-cost"));
  return cost && *cost >= INT32_MIN && *cost <= INT32_MAX ? *cost : 0;
}

// The power of two below the age; -1: none yet.
int age_rank(WallTime since, WallTime now) {
  return now.us > since.us ? std::bit_width(static_cast<std::uint64_t>(now.us - since.us)) - 1 : -1;
}

}  // namespace

void rank_for_deletion(Pods& pods, const std::map<std::string, int>& on_node, WallTime now) {
  const auto crowd = [&](const PodReading& pod) {
    const auto at = on_node.find(pod.node);
    return at == on_node.end() ? 0 : at->second;
  };
  std::ranges::sort(pods, [&](const auto& left, const auto& right) {
    const PodReading &a = *left, &b = *right;
    if (a.node.empty() != b.node.empty())
      return a.node.empty();
    if (rank_of(a.phase) != rank_of(b.phase))
      return rank_of(a.phase) < rank_of(b.phase);
    if (a.ready != b.ready)
      return b.ready;
    if (const auto x = deletion_cost(a), y = deletion_cost(b); x != y)
      return x < y;
    if (crowd(a) != crowd(b))
      return crowd(a) > crowd(b);
    const auto by_age = [&](WallTime x, WallTime y) {
      if (!x || !y)
        return !x;
      const int first = age_rank(x, now), second = age_rank(y, now);
      return first == second ? a.object->meta.uid < b.object->meta.uid : first < second;
    };
    if (a.ready && a.ready_since != b.ready_since)
      return by_age(a.ready_since, b.ready_since);
    if (a.restarts != b.restarts)
      return a.restarts > b.restarts;
    if (a.sidecar_restarts != b.sidecar_restarts)
      return a.sidecar_restarts > b.sidecar_restarts;
    if (a.created != b.created)
      return by_age(a.created, b.created);
    return a.object->meta.uid < b.object->meta.uid;
  });
}

}  // namespace lockstep::kube
