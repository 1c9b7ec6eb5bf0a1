// A task that is a sandbox, at its shim: its namespaces, its first process (shim/sandbox_keeper.h), and what that one
// tells of the containers.
#pragma once

#include <string>

#include "base/result.h"
#include "ports/shims.h"
#include "shim/container_task.h"
#include "shim/sandbox_network.h"
#include "shim/task_launch.h"

namespace lockstep {

class SandboxTask {
 public:
  // work: the task's name; state: folder of what outlives the shim's own; addresses: see sandbox_network.h.
  static Result<SandboxTask> make(const ShimStart& start, const std::string& work, const std::string& state,
                                  const std::string& addresses);
  SandboxTask(SandboxTask&& other) noexcept;
  ~SandboxTask();

  const ContainerPlace& place() const { return place_; }
  const std::string& address() const { return address_; }  // "" = the node's
  int spec_fd() const { return spec_fd_; }
  int told_fd() const { return told_fd_; }  // the keeper's end
  void handed_on();                         // the keeper has its descriptors
  void withdraw();                          // ports of the node that lead here: nothing of it runs any more

  // -1: nobody tells any more.
  int fd() const { return fd_; }
  // Reads what is there. True: the containers are otherwise than before.
  bool read();
  // As the agent is told: encode_containers; "" = nothing was told yet.
  const std::string& told() const { return told_; }

 private:
  SandboxTask() = default;
  bool take(const std::string& line);
  void let_go();

  ContainerPlace place_;
  int spec_fd_ = -1, told_fd_ = -1, fd_ = -1;
  int host_ = -1;          // the node's network namespace, where ports of it were published
  std::vector<int> held_;  // those ports
  std::string address_, addresses_, unread_, told_;
};

// The plan of a task becomes that of the sandbox's keeper.
void put_in_sandbox(const SandboxTask& sandbox, Duration grace, TaskPlan& plan);

}  // namespace lockstep
