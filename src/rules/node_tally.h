// NodeTally: on which nodes the jobs of a holder run, kept for holders whose number of nodes is bounded. A node that
// several jobs of one holder share counts once, so this is no sum of amounts (rules/ledger.h).
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "model/resources.h"

namespace lockstep {

using JobsByNode = std::map<NodeId, std::int64_t>;  // jobs on each; none is zero

// What one holder has: of an association over several partitions, the nodes of each.
class NodesInUse {
 public:
  explicit NodesInUse(std::vector<const JobsByNode*> parts) : parts_(std::move(parts)) {}
  std::int64_t count() const;
  bool contains(NodeId node) const;
  std::int64_t count_with(const std::vector<NodeId>& nodes) const;  // if these, each named once, were in use as well

 private:
  std::vector<const JobsByNode*> parts_;
};

class NodeTally {
 public:
  enum class Of : unsigned char { kAccount, kAssociation, kQos, kQosUser, kQosAccount };
  struct Holder {
    Of of = Of::kAccount;
    std::string name;  // of the account or QOS
    UserId user;
    std::string part;  // kAssociation: partition; kQosAccount: account
    friend auto operator<=>(const Holder&, const Holder&) = default;
  };

  // From now on kept for all holders of the kind and name. Nothing stops it: whoever switches a limit on and off makes
  // the jobs be counted anew once and not each time. Says whether that is new.
  bool keep(Of of, const std::string& name) { return kept_.insert({of, name}).second; }
  bool keeps(Of of, const std::string& name) const { return kept_.contains({of, name}); }
  bool keeps_any() const { return !kept_.empty(); }
  void count(const Holder& holder, const std::set<NodeId>& nodes, std::int64_t times);
  void forget() { counts_.clear(); }

  const JobsByNode& of(const Holder& holder) const;
  std::vector<const JobsByNode*> of_all_parts(const Holder& first, auto&& wanted) const {
    std::vector<const JobsByNode*> out;
    for (auto it = counts_.lower_bound(first); it != counts_.end() && it->first.of == first.of &&
                                               it->first.name == first.name && it->first.user == first.user;
         ++it)
      if (wanted(it->first.part))
        out.push_back(&it->second);
    return out;
  }
  // Where both keep something they have counted the same.
  bool agrees_with(const NodeTally& other) const;

 private:
  std::set<std::pair<Of, std::string>> kept_;
  std::map<Holder, JobsByNode> counts_;
};

}  // namespace lockstep
