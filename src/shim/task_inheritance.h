// What a task must not have from us: descriptors, limits, priorities, privileges, signal dispositions. Everything but
// default_task_limits() and take_shell_limits() runs in the child between vfork and exec: system calls only, no memory,
// nothing that waits.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct TaskLimit {
  int resource = 0;  // RLIMIT_…
  rlim_t soft = RLIM_INFINITY, hard = RLIM_INFINITY;
};
// Those of a fresh login, whatever started the agent had.
const std::vector<TaskLimit>& default_task_limits();  // read once

// The soft limits of the submitting shell, which travel as SLURM_RLIMIT_NAME=number, are taken out of the environment
// and replace those of a login, up to the hard ones.
void take_shell_limits(std::vector<std::string>& env, std::vector<TaskLimit>& limits);

// No signal is blocked, all have their default again.
void reset_signals();
// What only root may give up for somebody else: called before the change of identity. A limit that may not be raised
// stays as near as it can.
void shed_standing(const std::vector<TaskLimit>& limits);
// The limit of descriptors, which shed_standing leaves: called when the task's files are open.
void limit_descriptors(const std::vector<TaskLimit>& limits);
// Called after the change of identity. keep: the new identity is root, whose capabilities are its own.
void shed_capabilities(bool keep);
// Every descriptor from `from` on is closed by exec. (Planted bug: none is.)
void close_on_exec_from(int from);

}  // namespace lockstep
