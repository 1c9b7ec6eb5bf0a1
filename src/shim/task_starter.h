// A thread that starts a step's tasks one after the other. A start waits for as long as the task's files take to open,
// and those are the user's: the shim must hear signals, limits and its agent meanwhile. The order is kept, since ranks
// that share a file rely on it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/result.h"
#include "shim/task_launch.h"

namespace lockstep {

class TaskStarter {
 public:
  // The starts must outlive the last of them. The thread itself never ends before the process does: a task dies with
  // the thread that made it.
  static Result<std::unique_ptr<TaskStarter>> begin(std::vector<TaskStart*> starts);
  ~TaskStarter();
  TaskStarter(TaskStarter&&) = delete;

  int fd() const;                   // readable when done() has grown since the last call of it
  std::size_t done();               // so many of the first are through
  void cancel();                    // those that have not begun never will
  void hold(bool held);             // those that have not begun wait
  bool began(std::size_t i) const;  // of those that are through: it was not cancelled

 private:
  struct Shared;
  explicit TaskStarter(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  std::shared_ptr<Shared> shared_;
};

}  // namespace lockstep
