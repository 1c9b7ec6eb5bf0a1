// Shapes: which specifications ask for the same placement, and what that comes to on every class of nodes. Jobs of one
// shape are looked at once.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "model/plan.h"
#include "model/tres.h"
#include "rules/topology.h"
#include "sched/node_class.h"
#include "sched/pack_room.h"

namespace lockstep {

std::size_t shape_hash(const JobSpec& spec);
bool same_shape(const JobSpec& a, const JobSpec& b);

// What one node of a class must have free for one member of a group.
struct ClassNeed {
  ClassNo cls = 0;
  FreeAmounts amounts;      // necessary; sufficient too when the group is exact
  FreeAmounts share;        // what the calendar counts for one of `nodes` members
  std::uint32_t nodes = 0;  // members the group would have here, as far as it can be foretold
  bool takes_node = false;  // nobody else fits beside it: exclusive, all devices, or more than half of them
  bool counted = true;      // amounts say it all: no parts of devices, no counted resources
  bool all_memory = false;  // counts as 0 in amounts
  bool priced = false;      // packing can price it: whole devices, or one share of one
  PackShape pack;           // then, for one member
  // When the group counts its nodes (rules/tres.h): the least that one of them counts for, without memory when
  // all_memory.
  Tres least;
};

// What a gang takes of one pool: so many nodes, on each so much. Amounts in units of the pool.
struct Demand {
  ClassNo pool = 0;
  std::int32_t nodes = 0;
  bool takes_node = false;  // whole nodes; the amounts do not matter
  std::int32_t devices = 0, cores = 0, memory = 0;
  friend bool operator==(const Demand&, const Demand&) = default;
};

// The demand of one group on one class, with amounts rounded up to the class's units.
Demand demand_of(const ClassNeed& need, const AlikeNodes& cls);

// A group on the nodes of one partition.
struct GroupWay {
  bool uniform = false;          // on empty nodes of these classes the members fit, whichever they are
  bool exact = false;            // so many equal members on any nodes with the amounts: counting nodes decides
  std::uint32_t nodes = 0;       // exact: how many; else the least
  std::uint32_t tasks_each = 0;  // exact: on every one
  std::vector<ClassNeed> needs;  // by class
  bool even = false;             // nodes members with tasks_each tasks, as when exact; not every node may do
  std::int64_t tmp_disk_mb = 0;  // on every node
  DomainAsk where;               // in the topology
  bool bound = false;            // where says more than a preference: counting nodes in all does not decide
};

// One of the partitions the job may run in.
struct Way {
  PartitionNo partition = 0;
  bool open = false;      // up, and the time limit is allowed there
  bool possible = false;  // it would fit if nothing ran; as of ShapeBrief::judged
  Duration limit;
  std::vector<GroupWay> groups;
  std::uint32_t column = 0;  // in the running forecast: jobs of the shape start no earlier

  // When the limit ends what starts now; kNever: there is none.
  Instant end_from(Instant now) const { return limit >= kForever ? kNever : now + limit; }
};

// Works the groups of a spec out for one partition. `classes` are all there are.
std::vector<GroupWay> groups_on(const JobSpec& spec, const Partition& partition, PartitionNo number,
                                const std::deque<AlikeNodes>& classes);
// Whether the partition has the nodes of both classes, or of neither.
bool same_partition(const AlikeNodes& a, const AlikeNodes& b, PartitionNo number);

// Brings such groups up to date with one class that has come since, or whose least node has less than before.
void look_at_class(const JobSpec& spec, PartitionNo number, ClassNo c, const std::deque<AlikeNodes>& classes,
                   std::vector<GroupWay>& groups);

}  // namespace lockstep
