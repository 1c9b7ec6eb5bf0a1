// The fields of what users ask for that is no record. See model/bounded.h.
#pragma once

#include "model/bounded.h"
#include "model/command.h"
#include "model/job_fields.h"

namespace lockstep {

template <class V>
constexpr void describe(V& v, const ArrayAsk*) {
  v("indices", &ArrayAsk::indices, bounded::Items{kPiecesMax});
  v("throttle", &ArrayAsk::throttle);
  v("step", &ArrayAsk::step, bounded::Between{1, UINT32_MAX});
}

inline std::optional<Fault> unacceptable(const ArrayAsk& ask) {
  if (!ask.indices.empty())
    return {};
  return Fault{"indices", "must name at least one index"};
}

template <class V>
constexpr void describe(V& v, const JobTarget*) {
  v("job", &JobTarget::job);
  v("elements", &JobTarget::elements, bounded::Items{kPiecesMax});
}

template <class V>
constexpr void describe(V& v, const UpdateJob*) {
  v("target", &UpdateJob::target);
  v("if_seq", &UpdateJob::if_seq);
  v("name", &UpdateJob::name, bounded::kName);
  v("account", &UpdateJob::account, bounded::kName);
  v("qos", &UpdateJob::qos, bounded::kName);
  v("comment", &UpdateJob::comment, bounded::kLines);
  v("reservation", &UpdateJob::reservation, bounded::kPhrase);
  v("constraint", &UpdateJob::constraint, bounded::kPhrase);
  v("partitions", &UpdateJob::partitions, bounded::kNames);
  v("only_nodes", &UpdateJob::only_nodes, bounded::kNodeNames);
  v("exclude_nodes", &UpdateJob::exclude_nodes, bounded::kNodeNames);
  v("time_limit_us", &UpdateJob::time_limit, bounded::kSpan);
  v("begin_us", &UpdateJob::begin);
  v("deadline_us", &UpdateJob::deadline);
  v("nice", &UpdateJob::nice);
  v("priority", &UpdateJob::priority);
  v("throttle", &UpdateJob::throttle);
  v("nodes", &UpdateJob::nodes);
  v("tasks", &UpdateJob::tasks);
  v("dependencies", &UpdateJob::dependencies, bounded::Items{kDependenciesMax});
  v("requeue", &UpdateJob::requeue);
  v("labels", &UpdateJob::labels, bounded::kLabels);
  v("cores_per_task", &UpdateJob::cores_per_task);
  v("shared_milli_per_task", &UpdateJob::shared_milli_per_task);
  v("memory_mb_per_task", &UpdateJob::memory_mb_per_task);
}

template <class V>
constexpr void describe(V& v, const UpdateNode*) {
  v("name", &UpdateNode::name, bounded::kName);
  v("drain", &UpdateNode::drain);
  v("reason", &UpdateNode::reason, bounded::kLines);
  v("weight", &UpdateNode::weight);
  v("features", &UpdateNode::features, bounded::kNames);
  v("trust_administrators", &UpdateNode::trust_administrators);
  v("labels", &UpdateNode::labels, bounded::kLabels);
  v("marks", &UpdateNode::marks, bounded::Items{kRulesMax});
  v("added_counted", &UpdateNode::added_counted, bounded::Items{kAsksMax});
  v("revoke", &UpdateNode::revoke);
  v("address", &UpdateNode::address, bounded::kName);
  v("task_range", &UpdateNode::task_range, bounded::kName);
  v("accept", &UpdateNode::accept);
}

}  // namespace lockstep
