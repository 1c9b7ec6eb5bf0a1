// Labels: names with values that nodes and jobs bear, and what is asked of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

using Labels = std::vector<std::pair<std::string, std::string>>;  // sorted by name

// What a label must be. kAbove and kBelow compare whole numbers with the only value; what is none fails.
struct LabelRule {
  enum class Is : unsigned char { kOneOf, kNoneOf, kThere, kAbsent, kAbove, kBelow };
  std::string key;  // "": of a node, its name
  Is is = Is::kOneOf;
  std::vector<std::string> values;
  friend bool operator==(const LabelRule&, const LabelRule&) = default;
};

// All of them must hold. Without any, nothing is asked.
struct NodeWish {
  std::uint32_t weight = 0;  // of what is only preferred: 1 to 100
  std::vector<LabelRule> rules;
  friend bool operator==(const NodeWish&, const NodeWish&) = default;
};

// What keeps work off a node that does not bear it (Placement::bears). Who minds no marks goes there all the same.
struct NodeMark {
  enum class Effect : unsigned char {
    kKeepsOff,  // nothing new comes
    kPutsOff,   // what comes goes elsewhere where it can
    kDrives,    // nothing new comes, and a front end ends what is there
  };
  std::string key, value;
  Effect effect = Effect::kKeepsOff;
  friend bool operator==(const NodeMark&, const NodeMark&) = default;
};

// A mark that is borne.
struct BornMark {
  std::string key;    // "": any
  std::string value;  // unless any_value
  bool any_value = false;
  bool any_effect = false;
  NodeMark::Effect effect = NodeMark::Effect::kKeepsOff;  // unless any_effect
  friend bool operator==(const BornMark&, const BornMark&) = default;
};

// Where a group lies by what other jobs lie there. Places are nodes with the same value of a label.
struct NeighbourTerm {
  enum class Wish : unsigned char {
    kNear,   // in a place where one of the jobs is
    kApart,  // in a place where none is; and none of them comes to where the group is
    kEven,   // in a place where hardly more are than in others
  };
  Wish wish = Wish::kNear;
  std::uint32_t weight = 0;         // 0: it must be so; else preferred, 1 to 100
  std::string level;                // the nodes' label; "": each node is a place
  bool every_scope = false;         // jobs of every namespace count; else of these
  std::vector<std::string> scopes;  // sorted
  std::vector<LabelRule> jobs;      // which of them
  // kEven:
  std::uint32_t skew_max = 1;    // so many more than where there are least
  std::uint32_t places_min = 0;  // with fewer places than these, the least is 0
  bool all_nodes = false;        // also nodes that the group may not go to count as places
  bool heeds_marks = false;      // nodes whose marks keep the group off do not
  friend bool operator==(const NeighbourTerm&, const NeighbourTerm&) = default;
};

}  // namespace lockstep
