// Elastic groups (tasks.min < tasks.max): which may grow and shrink while they run, and what they have then.
//
// What a job had on a lost node is given back, but its grant stays in its place, empty: tasks and steps name grants by
// their position, and agents start no attempt twice, so an attempt does not come back to a node before that has
// rebooted.
#pragma once

#include <cstdint>
#include <vector>

#include "model/ids.h"
#include "model/resources.h"

namespace lockstep {

struct Job;
struct GroupSpec;

// tasks.max says UINT32_MAX, which is no number: one task on every node there is.
bool wants_every_node(const GroupSpec& group);
// Tasks of the group may come while it runs.
bool is_elastic(const GroupSpec& group);
// It goes on without some of them, as long as enough are left.
bool may_lose_tasks(const GroupSpec& group);
// A second grant of the group on one node is as good as a larger one: nothing is asked for per node.
bool stacks(const GroupSpec& group);

// Of the grants, those that are not given back.
std::vector<Grant> occupying_grants(const std::vector<Grant>& grants);
// The attempt was on that node and has left it.
bool has_left(const std::vector<Grant>& grants, NodeId node);
// The running job could go on without what it has on these nodes, each of which it has something on.
bool can_spare(const Job& job, const std::vector<NodeId>& nodes);
// It is about to give up what it has on the node for another job.
bool gives_up(const Job& job, NodeId node);
// It was told to, and stays elsewhere.
bool leaves(const Job& job, NodeId node);
// It has: no eviction names the node any more.
void leave(Job& job, NodeId node);
// The group's tasks and distinct nodes there.
struct GroupSize {
  std::uint32_t tasks = 0, nodes = 0;
};
GroupSize size_of(const std::vector<Grant>& grants, std::size_t group);

}  // namespace lockstep
