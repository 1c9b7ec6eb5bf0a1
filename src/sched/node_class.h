// AlikeNodes: nodes that are alike for every job that does not name them. What a job needs on a node, and whether it
// may go there at all, is worked out once per class.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "model/records.h"
#include "rules/fit.h"
#include "sched/node_index.h"

namespace lockstep {

using ClassNo = std::uint32_t;
using PartitionNo = std::uint32_t;               // position in the view's list of partitions
inline constexpr ClassNo kNoClass = UINT32_MAX;  // the node is in no class: it is not there

// What a running job gives back at one moment, summed over a class. A node counts in `nodes` when it is wholly free;
// the rest is what is free on nodes that are partly used. Memory in units of the class.
struct Room {
  std::int32_t nodes = 0, devices = 0, cores = 0, memory = 0;
  Room& operator+=(const Room& o) {
    nodes += o.nodes, devices += o.devices, cores += o.cores, memory += o.memory;
    return *this;
  }
  Room& operator-=(const Room& o) {
    nodes -= o.nodes, devices -= o.devices, cores -= o.cores, memory -= o.memory;
    return *this;
  }
  friend bool operator==(const Room&, const Room&) = default;
};

struct AlikeNodes {
  AlikeNodes(Node like, std::vector<PartitionNo> partitions, std::vector<std::string> kept_by = {});

  // A node of the class, without name and state, with the most memory and disk that one of them may have.
  Node like;
  std::vector<PartitionNo> partitions;  // that contain it, ascending
  std::vector<std::string> kept_by;     // reservations that keep it at one time or another, sorted
  std::string example;                  // name of a node that these reservations keep
  ClassNo twin = kNoClass;              // an earlier class, alike but for partitions and reservations
  std::uint64_t born = 0;               // the view's layout since when it is there
  FreeAmounts whole;                    // a free node; devices are those of healthy
  DeviceSet healthy;                    // and not in MIG mode: those that are given out whole
  std::vector<DeviceSet> islands;       // of healthy, by NVLink, of two devices or more
  bool one_device_type = true;          // so that counting devices is as good as choosing them
  std::int64_t memory_unit_mb = 1;
  std::int64_t memory_least_mb = 0, disk_least_mb = 0;  // of any node of the class
  std::uint32_t usable = 0, present = 0;                // nodes

  NodeIndex open;    // usable nodes that no head waits for
  NodeIndex shaded;  // usable nodes that some head waits for, by what is free now
  NodeIndex kept;    // the same nodes, by what is free for a job that would outlast every head's wait

  // With a topology, by domain: nodes of `open` and `shaded` that hang on it directly, by what is free now; and how
  // many there are. Either may be shorter than there are domains.
  std::vector<NodeIndex> at_domain;
  std::vector<std::uint32_t> usable_at, present_at;
  NodeIndex& in_domain(std::uint32_t domain);

  // By device count: the moment (of the view's gain clock) at which a node with so many free devices or more last
  // became freer than it was.
  std::vector<std::uint64_t> gained;

  Room now;                             // of usable nodes
  std::map<std::uint32_t, Room> later;  // by minute of cluster time: what comes on top then
};

// What is free on a node of the class under a load; nothing when it is held whole. Devices that are shared are not
// free.
FreeAmounts free_on(const AlikeNodes& cls, const Node& node, const NodeLoad& load);

// Whether so many devices under this load would break up an NVLink island that is whole.
bool breaks_island(const AlikeNodes& cls, const NodeLoad& load, std::uint32_t devices);

// Whether a node belongs to a class of these. Memory and disk are compared in steps of about 3 %, as machines of one
// kind differ by a few pages.
bool belongs(const Node& node, const AlikeNodes& to);

}  // namespace lockstep
