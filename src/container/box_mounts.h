// What is mounted in a container's root before it becomes one: the kernel's file systems, devices, the node's names,
// and what the user asked for. Paths of the node are opened as themselves, paths of the container within its root.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "container/box.h"

namespace lockstep {

// What of the node shows inside, taken before the root is mounted: a folder that is shown may hold the place of that
// mount, and would show it once more. An Error: it could not be taken.
struct NodeTrees {
  Result<OpenFile> tmp = OpenFile();
  std::vector<Result<OpenFile>> device_mounts, mounts;  // as those of the plan
};
NodeTrees take_node_trees(const BoxPlan& plan);

// In the namespaces of the container, whose root is mounted at plan.at.
Result<void> mount_inside(const BoxPlan& plan, NodeTrees trees, std::vector<std::string>& notes);

}  // namespace lockstep
