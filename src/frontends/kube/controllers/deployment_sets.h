// What a Deployment's rollout decides by: its ReplicaSets as they are and as they are to be.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/records.h"

namespace lockstep::kube {

namespace json = boost::json;

inline constexpr const char* kRevision = "deployment.kubernetes.io/revision";
inline constexpr const char* kRevisionHistory = "deployment.kubernetes.io/revision-history";
inline constexpr const char* kDesiredReplicas = "deployment.kubernetes.io/desired-replicas";
inline constexpr const char* kMaxReplicas = "deployment.kubernetes.io/max-replicas";
inline constexpr const char* kTemplateHash = "pod-template-hash";

// One ReplicaSet. What is changed in `tree` is written at the end of the look.
struct RolloutSet {
  Ref<Object> object;                                             // null: it is to be made
  json::object tree;                                              // whole
  std::int64_t size = 0;                                          // spec.replicas
  std::int64_t replicas = 0, ready = 0, available = 0, seen = 0;  // of its status; seen = observedGeneration
  WallTime created;
  bool changed = false, asks_otherwise = false;  // asks_otherwise: its spec was changed

  std::string name() const;
  std::string annotation(std::string_view key) const;
  bool annotate(std::string_view key, const std::string& value);  // whether it was otherwise
  std::int64_t revision() const;                                  // 0: it says none
  void resize(std::int64_t size);
};

RolloutSet rollout_set(Ref<Object> object);

// What the Deployment asks for.
struct RolloutPlan {
  std::int64_t wanted = 1, min_ready = 0;
  bool recreates = false, paused = false;
  std::int64_t surge_max = 0, unavailable_max = 0;
  std::int64_t replicas_told = 0;                               // by its status
  std::optional<std::int64_t> history_limit, deadline_seconds;  // nothing: without end

  std::int64_t most() const { return wanted + surge_max; }
  std::int64_t least_available() const { return wanted - unavailable_max; }
};
RolloutPlan rollout_plan(const json::object& deployment);

// Sums over sets; null ones are left out.
using Sets = std::vector<RolloutSet*>;
std::int64_t sizes_of(const Sets& sets);
std::int64_t replicas_of(const Sets& sets);
std::int64_t available_of(const Sets& sets);
Sets active_of(const Sets& sets);  // those that ought to have pods
void oldest_first(Sets& sets);
void by_revision(Sets& sets);

// Whether both templates ask for the same pods, whatever hash the controller has put into them.
bool same_template(const json::value& a, const json::value& b);

// Sizes for all active sets of a Deployment that was resized in the middle of a rollout, in proportion to what they
// have, as documented under "Proportional scaling".
void scale_in_proportion(const RolloutPlan& plan, Sets sets);

// The set that is to have the new number when the Deployment is resized: the only active one, else the newest. Null:
// several are active.
RolloutSet* only_active(RolloutSet* newest, const Sets& old);

// Marks the set with its place in the history, and with the annotations of the Deployment.
void mark_newest(RolloutSet& set, const json::object& deployment, std::int64_t revision, const RolloutPlan& plan);
bool mark_sizes(RolloutSet& set, const RolloutPlan& plan);

}  // namespace lockstep::kube
