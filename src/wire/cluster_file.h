// cluster.yaml: everything an administrator settles about a cluster, as records. What is not in the file is not touched by
// `lockstep apply` unless it is asked to prune.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/records.h"

namespace lockstep {

struct ClusterFile {
  std::vector<NodeClass> node_classes;
  std::vector<Partition> partitions;
  std::vector<Qos> qos;
  std::vector<Account> accounts;
  std::vector<Association> associations;
  std::vector<Licence> licences;
  std::vector<Reservation> reservations;
  std::optional<Policy> policy;
  std::optional<Topology> topology;
};

}  // namespace lockstep
