// A process with the user's rights that looks, every few seconds, whether a file was touched or a line of output came
// that its user has named, and tells its shim: the job has saved its work. It ends with the tasks.
//
// Outputs that are files are opened by the user's rights as the tasks' own are, before the process begins: its standard
// input and output. What goes through the shim, that one looks at itself (shim/line_sign.h).
#pragma once

#include <string>

#include "ports/shims.h"
#include "shim/task_launch.h"

namespace lockstep {

inline constexpr const char* kWatchOption = "--watch-checkpoints";
inline constexpr int kWatchTellFd = 3;  // a line for every time it has seen one

struct WatchedFiles {
  std::string outputs[2];  // "" = none, or not a file
};

bool has_to_watch(const ShimStart& start, const WatchedFiles& files);
// tell_fd: for its words. The rest as the tasks have it.
TaskPlan plan_checkpoint_watch(const ShimStart& start, const WatchedFiles& files, int tell_fd);

int run_checkpoint_watch(int count, char** words);  // behind the option

}  // namespace lockstep
