#include "rules/growth.h"

#include <algorithm>
#include <set>

#include "model/job.h"
#include "model/resources.h"
#include "model/service.h"
#include "model/spec.h"
#include "rules/fit.h"

namespace lockstep {

bool is_elastic(const GroupSpec& group) {
  return group.launch == Launch::kTasks && group.tasks.min < group.tasks.max && group.per_job.empty() &&
         group.segment == 0;
}

bool wants_every_node(const GroupSpec& group) { return group.tasks.max == UINT32_MAX; }

bool may_lose_tasks(const GroupSpec& group) {
  return is_elastic(group) && group.restart != RestartRule::kNever && !group.one_failure_restarts_all &&
         group.only_nodes.empty();
}

bool stacks(const GroupSpec& group) {
  return is_elastic(group) && !wants_every_node(group) && group.per_node == Resources{} &&
         !group.tasks_per_node_exact && group.contiguous_cores_min == 0 && !group.all_memory && !group.overcommit &&
         group.sharing != Sharing::kExclusive;
}

std::vector<Grant> occupying_grants(const std::vector<Grant>& grants) {
  std::vector<Grant> out;
  std::copy_if(grants.begin(), grants.end(), std::back_inserter(out), occupies);
  return out;
}

bool has_left(const std::vector<Grant>& grants, NodeId node) {
  return std::any_of(grants.begin(), grants.end(), [&](const Grant& g) { return g.node == node && !occupies(g); });
}

bool can_spare(const Job& job, const std::vector<NodeId>& nodes) {
  const std::set<NodeId> given(nodes.begin(), nodes.end());
  const auto named = [&](NodeId node) { return given.contains(node); };
  std::vector<Grant> left;
  std::set<NodeId> there;
  for (std::size_t i = 0; i < job.members.size(); ++i) {
    const Grant& grant = job.allocation->grants[i];
    if (job.members[i] == MemberState::kStopped)
      continue;
    if (named(grant.node))
      there.insert(grant.node);
    else
      left.push_back(grant);
  }
  if (nodes.empty() || there.size() != nodes.size())
    return false;
  for (std::size_t g = 0; g < job.spec->groups.size(); ++g) {
    const GroupSpec& group = job.spec->groups[g];
    if (group.launch == Launch::kTasks && group.one_failure_restarts_all)
      return false;
    const bool loses = std::any_of(job.allocation->grants.begin(), job.allocation->grants.end(),
                                   [&](const Grant& grant) { return grant.group == g && named(grant.node); });
    const GroupSize size = size_of(left, g);
    if (loses && (!may_lose_tasks(group) || size.tasks < std::max(group.tasks.min, 1u) ||
                  size.nodes < std::max(group.nodes.min, 1u)))
      return false;
  }
  return true;
}

bool gives_up(const Job& job, NodeId node) {
  return job.eviction &&
         std::find(job.eviction->nodes.begin(), job.eviction->nodes.end(), node) != job.eviction->nodes.end();
}

bool leaves(const Job& job, NodeId node) { return gives_up(job, node) && !job.eviction->by; }

void leave(Job& job, NodeId node) {
  auto eviction = std::make_shared<Eviction>(*job.eviction);
  std::erase(eviction->nodes, node);
  job.eviction = eviction->nodes.empty() ? nullptr : std::move(eviction);
}

GroupSize size_of(const std::vector<Grant>& grants, std::size_t group) {
  GroupSize size;
  std::set<NodeId> nodes;
  for (const Grant& grant : grants)
    if (grant.group == group && occupies(grant)) {
      size.tasks += grant.tasks;
      nodes.insert(grant.node);
    }
  size.nodes = static_cast<std::uint32_t>(nodes.size());
  return size;
}

}  // namespace lockstep
