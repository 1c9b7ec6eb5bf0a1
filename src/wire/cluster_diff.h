// What a cluster.yaml wants otherwise than a cluster is, and the changes that make it so.
#pragma once

#include <string>
#include <vector>

#include "wire/cluster_file.h"
#include "wire/record_change.h"

namespace lockstep {

// The records of a cluster that a file may speak of, as they are now.
struct LiveCluster {
  ClusterFile file;
  std::vector<User> users;
  std::vector<Node> nodes;
};

struct KeyDifference {
  std::string key, before, after;  // as the file writes them
};
struct RecordDifference {
  enum class What : unsigned char { kNew, kChanged, kAbsent };  // kAbsent: not in the file
  What what = What::kChanged;
  Kind kind = Kind::kPartition;
  std::string name;
  std::vector<KeyDifference> keys;  // of a new one what it says
};
// "partition gpu: time_max 1d → 2d", one line for each key that differs.
std::vector<std::string> lines_of(const RecordDifference& difference);

struct ClusterDifference {
  std::vector<RecordDifference> records;
  std::vector<std::string> notes;  // what a person should know, and what changes nothing

  std::size_t count(RecordDifference::What what) const;
};
// now: reservations that are over by then are left out, with a note.
ClusterDifference differences(const ClusterFile& wanted, const LiveCluster& live, WallTime now);

// Nodes that have less than the class expects that names them (of the file, else of the cluster).
std::vector<std::string> class_shortfalls(const ClusterFile& wanted, const LiveCluster& live);

// References to what is neither in the file nor in the cluster. prune: nor will be, when what is not in the file is
// gone.
Result<void> check_references(const ClusterFile& wanted, const LiveCluster& live, bool prune);

struct PlannedChange {
  RecordChange change;
  std::string words;       // "partition gpu"
  std::size_t weight = 1;  // records that it changes, about
};
// In an order in which every one refers to what is there by then. prune: with the removal of what is not in the file,
// of the kinds that it has a section for.
std::vector<PlannedChange> planned_changes(const ClusterFile& wanted, const LiveCluster& live, WallTime now,
                                           bool prune);
// In groups that the controller takes together, each all of it or nothing.
std::vector<std::vector<PlannedChange>> in_groups(std::vector<PlannedChange> changes);

}  // namespace lockstep
