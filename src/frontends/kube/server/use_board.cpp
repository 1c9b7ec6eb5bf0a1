#include "frontends/kube/server/use_board.h"

#include "model/records.h"

namespace lockstep::kube {

void UseBoard::change(const Tables&, const Change& change) {
  const auto* node = std::get_if<Ref<Node>>(&change.record);
  if (!node || (!change.removed && (*node)->link != NodeLink::kLost))
    return;
  const std::lock_guard lock(guard_);
  nodes_.erase((*node)->id);
}

void UseBoard::measured(const Tables&, const LiveUse& live, const Node& node) {
  auto uses = std::make_shared<Uses>();
  if (const auto* tasks = live.containers(node.id))
    for (const auto& [work, containers] : *tasks) {
      auto& all = (*uses)[work.job];
      all.insert(all.end(), containers.begin(), containers.end());
    }
  const std::lock_guard lock(guard_);
  nodes_[node.id] = std::move(uses);
}

std::vector<ContainerUse> UseBoard::of(NodeId node, JobId job) const {
  std::shared_ptr<const Uses> uses;
  {
    const std::lock_guard lock(guard_);
    if (const auto at = nodes_.find(node); at != nodes_.end())
      uses = at->second;
  }
  const auto at = uses ? uses->find(job) : Uses::const_iterator();
  return uses && at != uses->end() ? at->second : std::vector<ContainerUse>();
}

}  // namespace lockstep::kube
