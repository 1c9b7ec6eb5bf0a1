// What a node runs short of (model/node.h), in Kubernetes' words: conditions, taints, and why pods go.
// Source: kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction; the words are those of kubelet.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/node.h"

namespace lockstep::kube {

inline constexpr const char* kEphemeralStorage = "ephemeral-storage";
inline constexpr const char* kMemoryTaint = "node.kubernetes.io/memory-pressure";

// One of the three conditions, as the node's record has it.
struct PressureCondition {
  const char* type;   // "MemoryPressure"
  const char* taint;  // its key; the effect is NoSchedule
  bool is = false;
  Instant since;  // while it is
  const char *reason, *message;
};
std::vector<PressureCondition> pressures_of(const Node& node);
// Whether the key is one of their taints'.
bool is_pressure_taint(std::string_view key);

// The resource of which there is too little: "memory", "ephemeral-storage", "inodes", "pids".
const char* starved_resource(Shortage::What what);
// "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. "
std::string shortage_words(const Shortage& shortage);

// Bytes as kubelet writes them: in the largest binary unit that leaves a whole number, "82Mi", "81924Ki".
std::string binary_quantity(std::int64_t bytes);

}  // namespace lockstep::kube
