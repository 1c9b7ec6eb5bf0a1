// Which jobs lie where, by their labels, and what that means for one that is to be placed: where its terms and those of
// the others let it go, and where it would rather be. Both the core and the planner keep one beside their state.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/allocation.h"
#include "model/labels.h"
#include "model/meta.h"

namespace lockstep {

struct JobSpec;
struct Node;

class Neighbours {
 public:
  using Counts = std::map<NodeId, std::uint32_t>;  // jobs; none zero

  // A job has these nodes from now on, or has them no more. Only what has a scope is seen by anybody.
  void put(JobId id, const Ref<JobSpec>& spec, const std::vector<Grant>& grants);
  void drop(JobId id);
  void clear();

  // The jobs that the term means. Kept up to date from the first question on; valid until the next call.
  const Counts& meant_by(const NeighbourTerm& term) const;

  // A term of jobs that are there, which keeps others apart from them; and on which nodes they are.
  struct Keeps {
    NeighbourTerm term;
    Counts at;
  };
  const std::map<std::string, Keeps>& keep_apart() const { return keep_apart_; }

 private:
  struct Resident {
    Ref<JobSpec> spec;
    std::vector<NodeId> nodes;
  };
  struct Tally {
    NeighbourTerm term;
    Counts at;
  };
  void count(const Resident& resident, int by);

  std::map<JobId, Resident> residents_;
  std::map<std::string, Keeps> keep_apart_;
  mutable std::map<std::string, std::unique_ptr<Tally>> tallies_;
  mutable std::map<std::string, std::vector<Tally*>, std::less<>> by_scope_;  // "" : of every scope
};

// Whether the term means this job.
bool means(const NeighbourTerm& term, const JobSpec& spec);

// One job that is to be placed, among the neighbours there are now. Borrows all it is given.
class Seating {
 public:
  // each_node: calls back for every node there is.
  using EachNode = std::function<void(const std::function<void(const Node&)>&)>;
  using NodeOf = std::function<const Node*(NodeId)>;  // null: it is gone
  Seating(const Neighbours& neighbours, const JobSpec& spec, const NodeOf& node_of, const EachNode& each_node);

  bool minds() const { return !terms_.empty() || !shut_.empty(); }  // false: its neighbours do not matter
  bool prefers() const { return prefers_; }                         // some nodes more than others
  // Why it may not lie there.
  enum class Objection : unsigned char { kNone, kNotNear, kNotApart, kOthersApart, kUneven, kNoPlace };
  Objection objection(const Node& node) const;

  // How well it would lie there: more is better.
  struct Taste {
    std::int64_t company = 0;  // of preferred neighbours, or of those it would rather not have
    std::int64_t crowd = 0;    // of those among whom it is to be evenly spread: less is better
    std::int64_t wishes = 0;   // of labels
    std::int64_t put_off = 0;  // by marks: less is better
  };
  Taste taste(const Node& node) const;

 private:
  struct Term {
    const NeighbourTerm* term = nullptr;
    const Neighbours::Counts* at = nullptr;                // by node; where each node is a place
    std::map<std::string, std::uint64_t, std::less<>> in;  // by place
    std::uint64_t total = 0, least = 0;
    bool means_itself = false;
  };
  struct Shut {  // places where somebody keeps apart from it
    std::string level;
    const Neighbours::Counts* at = nullptr;
    std::vector<std::string> places;  // sorted; where each node is one, see at
  };
  static const std::uint64_t* count_in(const Term& term, const Node& node, std::uint64_t& room);
  void find_least(Term& term, const EachNode& each_node) const;
  Objection objection_of(const Term& term, const Node& node) const;

  const JobSpec& spec_;
  std::vector<Term> terms_;
  std::vector<Shut> shut_;
  bool first_of_all_ = false;  // nobody is there yet whom it must be near, and it would do itself
  bool prefers_ = false;
};

}  // namespace lockstep
