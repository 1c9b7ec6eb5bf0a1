// What a group asks of nodes: all that decides where it may lie and how much of them it takes. The planner sees nothing
// else of it, so that two groups which are equal here are the same to it.
#pragma once

#include <string>
#include <vector>

#include "base/time.h"
#include "model/labels.h"
#include "model/resources.h"

namespace lockstep {

enum class Launch : unsigned char { kScript, kNothing, kTasks };
enum class Sharing : unsigned char { kShared, kExclusive, kExclusiveUser };

struct CountRange {
  std::uint32_t min = 0;
  std::uint32_t max = 0;
  friend bool operator==(const CountRange&, const CountRange&) = default;
};

// How much a group needs on a node that runs t of its tasks: per_task × t + per_node, and per_job devices spread over
// all its nodes. Whatever is 0 is not asked for; cores are at least one per node.
struct Placement {
  CountRange tasks{1, 1};            // min < max: elastic. max = UINT32_MAX with kTasks: as many as nodes (daemons)
  CountRange nodes{0, 0};            // 0 = the planner's choice
  std::uint32_t tasks_per_node = 0;  // 0 = no cap; with tasks_per_node_exact, exactly this many
  bool tasks_per_node_exact = false;
  Resources per_task;
  Resources per_node;
  std::vector<DeviceAsk> per_job;
  std::int64_t memory_per_core_mb = 0;
  std::int64_t memory_per_device_mb = 0;
  std::uint32_t cores_per_device = 0;
  bool all_memory = false;  // Slurm's --mem=0: the node's whole memory
  bool overcommit = false;  // tasks do not each need a core
  Sharing sharing = Sharing::kShared;
  bool all_cores = false;                  // with kExclusive: take every core and device of the node
  std::string constraint;                  // feature expression: "a&b", "a|b", "[x|y]" as Slurm writes it
  std::vector<std::string> only_nodes;     // -w: all of these must be among the nodes
  std::vector<std::string> exclude_nodes;  // -x
  std::uint32_t contiguous_cores_min = 0;  // --mincpus: cores a chosen node must at least grant
  std::int64_t tmp_disk_mb = 0;
  std::string topology_level;      // domain level that must ("!leaf") or should ("leaf") hold the whole group
  std::uint32_t switches_max = 0;  // --switches: on nodes of at most so many innermost domains; 0 = no bound
  Duration switches_wait;          // such a place is waited for at most this long; kForever = always
  std::uint32_t segment = 0;       // --segment: nodes come in blocks of so many, each within one innermost domain
  Launch launch = Launch::kNothing;
  bool endless = false;      // has no end of its own: services
  bool spread = false;       // on nodes with the most left, not on those with the least
  bool minds_marks = false;  // of nodes, but for those it bears
  std::vector<BornMark> bears;
  std::vector<NodeWish> node_rules;       // one of these holds on each of its nodes
  std::vector<NodeWish> node_wishes;      // preferred
  std::vector<NeighbourTerm> neighbours;  // of a group of one task
  friend bool operator==(const Placement&, const Placement&) = default;
};

}  // namespace lockstep
