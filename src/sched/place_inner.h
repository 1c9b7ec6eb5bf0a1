// Placing, inside: what is shared by the search among all nodes, in the domains of a topology, and for later.
#pragma once

#include <functional>
#include <map>

#include "sched/place.h"

namespace lockstep {

constexpr int kIslandsLook = 64;  // nodes whose whole NVLink islands would be broken, before one of them is taken

// The loads a placement is tried on.
struct Board {
  PlannerView& view;
  std::function<const NodeLoad*(NodeId)> load;  // null: not to be used
  std::map<NodeId, NodeLoad> held;              // with what earlier groups of the job take
  Duration needed;                              // predicted run time of the job; 0 = it does not matter
  bool endless = false;                         // nobody knows when it ends
  bool alone = false;                           // the job has one group
  const Seating* seating = nullptr;             // null: other jobs do not matter
  const NodeLoad* at(NodeId id) const {
    const auto it = held.find(id);
    return it != held.end() ? &it->second : load(id);
  }
};

struct Choice {
  std::uint32_t weight = 0;
  bool breaks = false;  // an NVLink island that is whole
  FreeAmounts free;
  Candidate candidate;
  Duration cost;            // sched/idle_together.h
  std::uint64_t place = 0;  // place_of_name()
};

// The order in which nodes are taken: light ones, those whose whole islands stay whole, then those with the least left,
// so that whole nodes stay free; of equal ones neighbours.
bool preferred(const Choice& a, const Choice& b);

using Grants = std::optional<std::vector<Grant>>;

// What a group is placed with.
struct GroupTask {
  const GroupSpec& group;
  const GroupWay& way;
  std::uint16_t number;
  const Partition& partition;
  bool listed;
};

// A listed node with enough free now, if the board allows it and the group may go there.
std::optional<Choice> choice_of(Board& board, const GroupSpec& group, const GroupWay& way, const Partition& partition,
                                const ClassNeed& need, NodeId id);

// Every node of the classes that the board allows.
void gather_all(Board& board, const GroupSpec& group, const GroupWay& way, const Partition& partition,
                std::vector<Candidate>& out);

// One group: on any nodes, and where the topology has a say (place_domains.cpp).
Grants place_anywhere(Board& board, const GroupTask& task);
Grants place_in_domains(Board& board, const GroupTask& task);

// Whether its neighbours let a job lie there.
inline bool seated(const Board& board, const Node& node) {
  return !board.seating || board.seating->objection(node) == Seating::Objection::kNone;
}

// One group of one node where it would rather be: with the most left, with or without some neighbours, by the labels of
// nodes.
bool by_taste(const Board& board, const GroupTask& task);
Grants place_by_taste(Board& board, const GroupTask& task);

// One group by price, where it is to be.
bool by_price(Board& board, const GroupTask& task);
Grants place_by_price(Board& board, const GroupTask& task);

// The whole job. listed: on what the view lists as free, in order of preference; else on what the board says.
Grants place(Board board, const JobSpec& spec, const Way& way, bool listed);

}  // namespace lockstep
