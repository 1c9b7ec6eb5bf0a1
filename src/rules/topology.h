// The tree of the topology: where nodes lie in it, what a group asks of it, and whether a place meets that. A node's
// path is Node::domains, outermost first; nodes without one share the leaf that has no name. Depths count from 1, the
// outermost level; 0 is the whole cluster.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/records.h"

namespace lockstep {

struct GroupSpec;
struct JobSpec;

// What a group asks of the tree, in depths instead of names.
struct DomainAsk {
  std::size_t level = 0;           // one domain of this depth must hold all nodes; 0 = need not
  std::size_t wish = 0;            // a domain of this depth is good enough, none below it is better; 0 = the tightest
  bool unknown = false;            // the level that must hold it does not exist: no place will do
  std::uint32_t switches_max = 0;  // leaves, at most; 0 = any number
  std::uint32_t segment = 0;       // nodes of each leaf are a multiple of this; 0 = any number
  bool binds() const { return level != 0 || unknown || switches_max != 0 || segment != 0; }
  friend bool operator==(const DomainAsk&, const DomainAsk&) = default;
};
DomainAsk domain_ask(const GroupSpec& group, const Partition& partition, std::span<const std::string> levels);

// Until when the bound on switches counts for a job that became eligible then: kNever if always or if there is none.
Instant switches_end(const JobSpec& spec, Instant eligible);
// The same without the bound.
Ref<JobSpec> without_switches(const JobSpec& spec);

using NodeList = std::span<const Node* const>;
std::size_t depth_reached(NodeList nodes);                  // of the lowest domain that holds all of them
std::size_t leaves_of(NodeList nodes);                      // how many they lie on
std::size_t best_depth(NodeList nodes, std::size_t count);  // deepest with a domain of at least so many of the nodes
// "leaf"; "node" for a single one, "cluster" for depth 0.
std::string level_word(std::size_t depth, std::size_t nodes, std::span<const std::string> levels);

// Ranks follow the tree: by path, each part as a host name is ordered, then by name.
bool before_on_tree(const Node& a, const Node& b);

// Whether the nodes of every group are where it asks for; switches_over: its bound on switches does not count any more.
Result<void> check_domains(const JobSpec& spec, const Partition& partition, std::span<const std::string> levels,
                           const std::vector<Grant>& grants, NodeList nodes, bool switches_over);

// Whether an empty cluster of these nodes could. The error says what would be possible ("asks for 12 nodes under one
// leaf; the largest leaf, s3, has 8"). A bound on switches with an end counts as none.
Result<void> check_domains_possible(const JobSpec& spec, const Partition& partition,
                                    std::span<const std::string> levels, NodeList nodes);

}  // namespace lockstep
