// Domains: the tree of the topology as the planner walks it, and where in it a gang goes. The rule, which the slow
// planner of the tests writes down a second time: the lowest domain that can hold the gang, of those the one with the
// least left over, then by path; inside it as few parts as possible, again the tightest that is enough for the rest;
// among equals the one on fewer leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rules/fit.h"
#include "rules/topology.h"

namespace lockstep {

using DomainNo = std::uint32_t;
inline constexpr DomainNo kWholeCluster = 0;  // nodes without a path hang on it directly

class DomainTree {
 public:
  DomainTree();
  DomainNo at(const std::vector<std::string>& path);  // made when there is none; domains stay, with nodes or without
  void add_node(DomainNo at) { placed_ += at != kWholeCluster; }
  void remove_node(DomainNo at) { placed_ -= at != kWholeCluster; }

  bool flat() const { return placed_ == 0; }  // no node lies anywhere in particular
  std::size_t size() const { return domains_.size(); }
  std::size_t depth() const { return depth_; }
  std::size_t depth_of(DomainNo d) const { return domains_[d].depth; }
  DomainNo parent_of(DomainNo d) const { return domains_[d].parent; }
  const std::vector<DomainNo>& children_of(DomainNo d) const { return domains_[d].children; }  // in the order of names
  const std::vector<DomainNo>& in_order() const { return order_; }                             // by path, parents first
  std::size_t place_in_order(DomainNo d) const { return domains_[d].place; }

 private:
  struct Domain {
    std::string name;
    DomainNo parent = kWholeCluster;
    std::size_t depth = 0, place = 0;
    std::vector<DomainNo> children;
  };
  void order_below(DomainNo d);

  std::vector<Domain> domains_;
  std::vector<DomainNo> order_;
  std::size_t depth_ = 0;
  std::uint64_t placed_ = 0;
};

// How many nodes that would do hang on each domain directly.
using NodeCounts = std::vector<std::uint32_t>;  // by DomainNo; may be shorter

struct GangAsk {
  std::uint32_t nodes = 0;
  DomainAsk where;
  NodeCounts required = {};  // so many of those that hang on a domain must be among them
};

// The domains that could hold the gang, in order of preference; until f returns true. Returns whether it did.
bool each_domain_for(const DomainTree& tree, const NodeCounts& counts, const GangAsk& ask,
                     const std::function<bool(DomainNo)>& f);

// How many nodes of which parts of the domain the gang takes; empty: there are too few.
struct DomainShare {
  DomainNo domain = kWholeCluster;
  std::uint32_t nodes = 0;
};
std::vector<DomainShare> shares_in(const DomainTree& tree, const NodeCounts& counts, const GangAsk& ask,
                                   DomainNo domain);

// The nodes that hang on a domain directly and can hold a member, in order of preference, required ones first.
using MembersOf = std::function<std::vector<Candidate>(DomainNo)>;
// The gang's nodes; nullopt: no place is good enough. `counts` may be too high, members decide.
std::optional<std::vector<Candidate>> choose_gang(const DomainTree& tree, const NodeCounts& counts, const GangAsk& ask,
                                                  const MembersOf& members);

}  // namespace lockstep
