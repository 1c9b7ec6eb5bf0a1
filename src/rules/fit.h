// The arithmetic both the core and the planner must agree on: what a node has left, whether a group fits there, what
// it would take. Pure functions over model values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/allocation.h"
#include "model/records.h"
#include "model/resources.h"
#include "rules/name_set.h"

namespace lockstep {

struct JobSpec;
struct GroupSpec;

// What is taken on one node: the sum of its grants.
struct NodeLoad {
  CoreSet cores;
  DeviceSet devices;              // taken whole
  std::vector<DevicePart> parts;  // sorted
  std::vector<Counted> counted;   // sorted by name, none zero
  std::int64_t memory_mb = 0;
  std::int64_t shared_milli = 0;     // of the cores that no grant has
  std::uint32_t occupants = 0;       // grants on the node that take up something
  std::uint32_t sole_occupants = 0;  // of them, exclusive ones (0 or 1)
  std::uint32_t more_seats = 0;      // addresses that occupants take beside one for each
  friend bool operator==(const NodeLoad&, const NodeLoad&) = default;
};

// Memory alone is what a suspended job keeps; it takes up no place beside others.
inline bool occupies(const Grant& grant) { return grant.tasks > 0 || grant.cores.any(); }

// Adds a grant to a load. Refuses (and changes nothing) when a core or device is taken twice, memory runs over the
// node, or exclusivity would be broken.
Result<void> take(NodeLoad& load, const Node& node, const Grant& grant);
// At least 0: occupants that overlap, as a place that is kept while others still make room, have more than there is.
inline std::int64_t memory_left(const Node& node, const NodeLoad& load) {
  return std::max<std::int64_t>(0, node.memory_mb - load.memory_mb);
}
// Thousandths of cores. Whole ones for as many thousands are free too: which cores the shared ones are is nobody's.
inline std::uint32_t milli_left(const Node& node, const NodeLoad& load) {
  const std::int64_t taken = std::int64_t{load.cores.count()} * 1000 + load.shared_milli;
  return static_cast<std::uint32_t>(std::max<std::int64_t>(0, std::int64_t{node.cores} * 1000 - taken));
}
// Adds it without asking whether it fits: for what is committed.
void add_grant(NodeLoad& load, const Grant& grant);
// Removes it again. CHECKs that it was there.
void give_back(NodeLoad& load, const Grant& grant);

// How many tasks of the group could run on the node now, given the load: 0 = none. Counts cores, memory, devices by
// type, exclusivity, tasks_per_node. Says nothing of constraints, partition or node state (see eligible()).
std::uint32_t tasks_that_fit(const Node& node, const NodeLoad& load, const GroupSpec& group);

// The grant for exactly `tasks` tasks on the node, with `devices_extra` devices of the group's per_job ask placed here.
// Lowest cores first; devices of one NVLink island together where that is possible. nullopt if it does not fit.
std::optional<Grant> choose_grant(const Node& node, const NodeLoad& load, const GroupSpec& group,
                                  std::uint16_t group_index, std::uint32_t tasks, std::uint32_t devices_extra);

// Static filters: the partition contains it, features satisfy the constraint, include/exclude lists. Not load, not
// link.
bool eligible(const Node& node, const Partition& partition, const GroupSpec& group);
// The same for many nodes. Borrows both.
class Eligible {
 public:
  Eligible(const Partition& partition, const GroupSpec& group);
  bool operator()(const Node& node) const;

 private:
  const GroupSpec& group_;
  const NameSet in_partition_, only_, excluded_;
  const bool all_, limited_;
};

// Tasks with an address of their own run where a node has addresses to give.
bool has_address_for(const Node& node, const GroupSpec& group);

// Of a node's range of addresses some are not given back at once, so that fewer tasks than it has addresses run beside
// each other there. Whoever else has a place on the node counts as one, too.
inline constexpr std::uint32_t kAddressedMax = 110;
// Addresses that so many tasks of the group take beside one.
std::uint32_t more_seats_of(const GroupSpec& group, std::uint32_t tasks);
// How many more tasks of the group may run beside what is there, by their addresses alone.
std::uint32_t seats_left(const NodeLoad& load, const GroupSpec& group);

// Features expression as Slurm writes it: "a", "a&b", "a|b", "[a|b]", "a*2" (count ignored per node), parentheses.
Result<void> check_constraint(const std::string& expression);
bool constraint_holds(const std::string& expression, const std::vector<std::string>& features);

// The whole allocation of a group over candidate nodes, in the given order of preference: which nodes, how many tasks
// on each. Gang: all or nothing. Used by the planner now and by --test-only; the core checks results with
// check_allocation.
struct Candidate {
  const Node* node = nullptr;
  const NodeLoad* load = nullptr;
};
std::optional<std::vector<Grant>> place_group(const std::vector<Candidate>& candidates, const GroupSpec& group,
                                              std::uint16_t group_index);

// Every hard rule of a finished proposal that does not depend on load: counts of nodes, tasks, cores, memory and
// devices satisfy the spec; each node eligible for the partition; no node twice in a group.
Result<void> check_allocation(const JobSpec& spec, const Partition& partition, const std::vector<Grant>& grants,
                              const std::vector<const Node*>& nodes);

// Whether the spec could ever run on these nodes when all are empty. The error says what is lacking and what the
// largest node offers ("asks for 16 GPUs per node; the largest node, n1, has 8").
Result<void> check_possible(const JobSpec& spec, const Partition& partition, const std::vector<const Node*>& nodes);

}  // namespace lockstep
