#include "frontends/kube/server/use_board.h"

#include "model/records.h"

namespace lockstep::kube {

void UseBoard::change(const Tables&, const Change& change) {
  const auto* node = std::get_if<Ref<Node>>(&change.record);
  if (!node || (!change.removed && (*node)->link != NodeLink::kLost))
    return;
  if (!nodes_.load()->contains((*node)->id))
    return;
  auto fewer = std::make_shared<Nodes>(*nodes_.load());
  fewer->erase((*node)->id);
  nodes_.store(std::move(fewer));
}

void UseBoard::measured(const Tables&, const LiveUse& live, const Node& node) {
  auto uses = std::make_shared<Uses>();
  if (const auto* tasks = live.containers(node.id))
    for (const auto& [work, containers] : *tasks) {
      auto& all = (*uses)[work.job];
      all.insert(all.end(), containers.begin(), containers.end());
    }
  auto nodes = std::make_shared<Nodes>(*nodes_.load());
  (*nodes)[node.id] = std::move(uses);
  nodes_.store(std::move(nodes));
}

std::vector<ContainerUse> UseBoard::of(NodeId node, JobId job) const {
  const auto nodes = nodes_.load();
  const auto uses = nodes->find(node);
  if (uses == nodes->end())
    return {};
  const auto at = uses->second->find(job);
  return at == uses->second->end() ? std::vector<ContainerUse>() : at->second;
}

}  // namespace lockstep::kube
