// TopologyChecker: from committed records alone, that a node lies where the topology says, and that every start,
// growth, kept place and move keeps the level, the switches and the segments that its groups must have. Knows nothing
// of the rules.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "model/resources.h"
#include "model/tables.h"
#include "sim/verdict.h"

namespace lockstep {
struct Allocation;
struct GroupSpec;
}  // namespace lockstep

namespace lockstep::sim {

class TopologyChecker {
 public:
  explicit TopologyChecker(Verdict& verdict) : verdict_(verdict) {}

  // Changes of whole entries, in the order of their commit.
  void saw(std::span<const Change> changes);

  std::uint64_t bound_starts() const { return bound_starts_; }  // of groups that had to have something
  std::uint64_t topologies() const { return topologies_; }

 private:
  using Path = std::vector<std::string>;
  struct Place {
    std::set<NodeId> nodes;
    std::map<Path, std::size_t> leaves;  // nodes on each
  };

  void job_changed(const Job* before, const Job& after);
  void allocation_changed(const Allocation* before, const Job& job);
  void check_nodes();
  // `switches`: whether a bound on them counts. Returns how many groups had to have something.
  std::size_t check_place(const Job& job, const std::string& partition, const std::vector<Grant>& grants, bool switches,
                          const char* what);
  void check_level(const Job& job, const std::string& level, const Place& place, const std::string& words);
  Place place_of(const std::vector<Grant>& grants, std::size_t group) const;
  std::uint32_t segment_of(const GroupSpec& group, const std::string& partition) const;
  std::size_t depth_of(const std::string& level) const;  // 0: there is no such level
  void complain(const Job& job, const std::string& words);

  Verdict& verdict_;
  Tables tables_;
  std::map<std::string, Path> told_;  // where the topology says that a node lies
  std::uint64_t bound_starts_ = 0, topologies_ = 0;
};

}  // namespace lockstep::sim
