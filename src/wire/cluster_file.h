// cluster.yaml: everything an administrator settles about a cluster, as records. What the file says of a record is all
// of it: a key that is left out is at its default. What is not in the file is not touched by `lockstep apply` unless it
// is asked to prune. docs/cluster-file.md describes it; its keys are the rows of wire/cluster_keys.cpp.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
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
  std::vector<HealthCheck> health_checks;
  std::optional<Policy> policy;
  std::optional<Topology> topology;
  std::optional<std::vector<std::string>> administrators;  // login names

  // Of a file that was read: the kinds that it has a section for, and where each record stands ("partition gpu" ->
  // "line 12"). Not written.
  std::set<Kind> sections;
  std::map<std::string, std::string> places;
  // Associations that are their user's default only because the file names no other account of the user.
  std::set<std::string> implied_defaults;
};

// The Error's message begins with the line, names the path and the nearest known key: "line 12: partitions.gpu: …".
Result<ClusterFile> decode_cluster_file(std::string_view text);

// What differs from the defaults, in the order of the records; accounts as a tree. decode_cluster_file() reads it as
// the same records. An association's account ought to be among the accounts: else it is written as one with defaults.
std::string encode_cluster_file(const ClusterFile& file);

// What contradicts itself in a file, or in several that were put together: a node in two classes, two defaults, circles
// of accounts or QOS, too many records of a kind.
Result<void> check_cluster_file(const ClusterFile& file);

// "partition gpu", "QOS normal", "association physics/ann"; "policy".
std::string record_words(Kind kind, std::string_view name);
std::string place_of(const ClusterFile& file, const std::string& words);  // "line 12: ", or "" where it is not known

}  // namespace lockstep
