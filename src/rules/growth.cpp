#include "rules/growth.h"

#include <algorithm>
#include <set>

#include "rules/fit.h"

namespace lockstep {

bool is_elastic(const GroupSpec& group) {
  return group.launch == Launch::kTasks && group.tasks.min < group.tasks.max && group.per_job.empty() &&
         group.segment == 0;
}

bool may_lose_tasks(const GroupSpec& group) {
  return is_elastic(group) && group.restart != RestartRule::kNever && !group.one_failure_restarts_all &&
         group.only_nodes.empty();
}

bool stacks(const GroupSpec& group) {
  return is_elastic(group) && group.tasks.max != UINT32_MAX && group.per_node == Resources{} &&
         !group.tasks_per_node_exact && group.contiguous_cores_min == 0 && !group.all_memory && !group.overcommit &&
         group.sharing != Sharing::kExclusive;
}

std::vector<Grant> grants_held(const std::vector<Grant>& grants) {
  std::vector<Grant> out;
  std::copy_if(grants.begin(), grants.end(), std::back_inserter(out), occupies);
  return out;
}

bool has_left(const std::vector<Grant>& grants, NodeId node) {
  return std::any_of(grants.begin(), grants.end(), [&](const Grant& g) { return g.node == node && !occupies(g); });
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
