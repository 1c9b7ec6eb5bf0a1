// Tasks: what the cluster itself starts and replaces (groups with Launch::kTasks). Restart rules, retry delays,
// readiness, and when such a job is done.
#pragma once

#include <vector>

#include "core/txn.h"

namespace lockstep {

// The job has just become kRunning: Task records and StartPart actions for its kTasks groups.
void start_tasks_of(Txn& txn, const Job& job);
// The same for these grants, by position, that it got or that came up later. Tasks get the lowest indices that none
// of the attempt has.
void start_tasks_in(Txn& txn, const Job& job, const std::vector<std::uint32_t>& grants);
// The job goes on after a pause, in which nothing started: launches the tasks that are due.
void start_late_tasks(Txn& txn, const Job& job);

// Task::grant of a task whose node was lost. Unless it had ended well, its index may be given again.
inline constexpr std::uint32_t kNoGrant = UINT32_MAX;
// What ran on these grants, by position, ended with them.
void lose_tasks_of(Txn& txn, const Job& job, const std::vector<bool>& grants);
// Grants have other positions than before; by the old one.
void move_tasks_of(Txn& txn, const Job& job, const std::vector<std::uint32_t>& position);

// The node's word. The job has an allocation, the attempt is the current one, the node is one of its members.
// While the job is kCompleting results are recorded and nothing is restarted.
void on_task_started(Txn& txn, NodeId node, const Job& job, const TaskStarted& report);
void on_task_ready(Txn& txn, NodeId node, const Job& job, const TaskReady& report);
void on_task_containers(Txn& txn, NodeId node, const Job& job, const TaskContainers& report);
void on_task_ended(Txn& txn, NodeId node, const Job& job, const TaskEnded& report);

Result<void> set_task_count(Txn& txn, const Caller& caller, const SetTaskCount& ask);

// The task's retry_at is due: it starts again, or retry_at is cleared.
void task_timer(Txn& txn, TaskKey key);

// The attempt is over (all members are stopped): every task becomes kEnded and has no retry_at. It begins where
// Chores::sweeps says. False: the command is tired, and it is noted there where to go on.
bool end_tasks_of(Txn& txn, const Job& job);

}  // namespace lockstep
