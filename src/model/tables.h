// Tables: every record of the cluster, by key, as of one seq. The core's state, the planner's view and every reader
// hold one of these and bring it forward with the same changes; the records themselves are shared.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/id_map.h"
#include "model/directory.h"
#include "model/keys.h"

namespace lockstep {

struct Tables : Directory {
  Seq seq = 0;  // of the last change applied
  Ref<Cluster> cluster;
  Ref<Topology> topology;  // null = there is none
  Ref<Packing> packing;    // the same
  std::map<std::string, Ref<Partition>, std::less<>> partitions;
  std::map<NodeId, Ref<Node>> nodes;
  std::map<std::string, Ref<NodeClass>, std::less<>> node_classes;
  std::map<std::string, Ref<JoinToken>, std::less<>> tokens;
  IdMap<JobId, Ref<Job>> jobs;
  std::map<StepKey, Ref<Step>> steps;
  std::map<TaskKey, Ref<Task>> tasks;
  std::map<ObjectKey, Ref<Object>> objects;

  // Brings the tables forward. CHECKs that seq moves on.
  void apply(const Change& change);

  // Null when absent.
  const Job* job(JobId id) const;
  const Step* step(JobId job, StepNo number) const;
  const Node* node(NodeId id) const;
  const Node* node(std::string_view name) const;
  using Directory::user;
  const User* user(std::string_view realm, std::uint32_t uid) const;
  const User* user_named(std::string_view name) const;
  const Partition* partition(std::string_view name) const;
  const Partition* default_partition() const;
  std::vector<Ref<Step>> steps_of(JobId job) const;
  std::vector<Ref<Task>> tasks_of(JobId job) const;

  // Every record as a change with its own seq, in an order that apply() accepts again (ascending seq).
  std::vector<Change> snapshot() const;

 private:
  std::map<std::string, NodeId, std::less<>> node_names_;
  std::map<std::pair<std::string, std::uint32_t>, UserId> user_ids_;
};

bool partition_has(const Partition& partition, const Node& node);

}  // namespace lockstep
