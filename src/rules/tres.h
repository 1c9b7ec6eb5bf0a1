// Arithmetic of trackable resources, and what a job's grants count for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/allocation.h"
#include "model/records.h"
#include "model/tres_names.h"

namespace lockstep {

struct JobSpec;
struct GroupSpec;

void add(Tres& to, const Tres& amount);
void subtract(Tres& from, const Tres& amount);  // amounts may become negative: that is the caller's business
void add_times(Tres& to, const Tres& amount, std::int64_t times);  // stops at the ends of 64 bits
bool is_zero(const Tres& tres);

// The first amount for which in use + ask is more than the bound. An amount that is not asked for bounds nothing.
struct Excess {
  std::string name;  // "gres/gpu"
  std::int64_t bound = 0, in_use = 0, ask = 0;
};
std::optional<Excess> first_excess(const TresLimit& limit, const Tres& in_use, const Tres& ask);
// The first amount of which less is asked than the bound; its ask may be 0.
std::optional<Excess> first_shortfall(const TresLimit& least, const Tres& ask);

// What an amount is billed: the sum over the weights, or with none its cpus. Rounded to the nearest whole.
std::int64_t billing_of(const Tres& tres, const std::vector<TresWeight>& weights);

// What grants count for: cores, memory, distinct nodes, devices by kind and type, the spec's licences, and their
// billing in the partition. nodes: one per grant, in the same order, none null.
Tres tres_of(const JobSpec& spec, const Partition& partition, const std::vector<Grant>& grants,
             const std::vector<const Node*>& nodes);
// The most that one node of the grants counts for, amount by amount: what limits "per node" look at.
Tres largest_node_tres(const std::vector<Grant>& grants, const std::vector<const Node*>& nodes);

// Both at once: each grant is looked at once.
struct PlaceTres {
  Tres all, largest_node;
};
PlaceTres place_tres(const JobSpec& spec, const Partition& partition, const std::vector<Grant>& grants,
                     const std::vector<const Node*>& nodes);

// The least any allocation for the spec counts for, before a place is known. Memory and billing that depend on the node
// chosen are left out.
Tres least_tres(const JobSpec& spec);
Tres least_tres(const GroupSpec& group);  // of one group alone; licences are the job's
// Whether that is less than what its place will count for: it takes whole nodes, or all the memory of its nodes.
bool counts_its_nodes(const GroupSpec& group);
// The least that one such node counts for, if it is like this one.
Tres least_on_node(const Node& like, const GroupSpec& group);

}  // namespace lockstep
