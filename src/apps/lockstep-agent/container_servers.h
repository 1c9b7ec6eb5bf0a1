// Serves what the controller asks of containers of root's sandboxes on this node: their logs, programs beside them,
// their input and output, their ports. A process for each request does it (shim/container_reach.h); we only pass its
// bytes on.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>

#include "agent/splice.h"
#include "ports/loop.h"
#include "shim/orphans.h"
#include "wire/step_route.h"

namespace lockstep {

class ContainerServers {
 public:
  // folder: where each user has one of his own, called as the uid. shim: lockstep-shim.
  // Processes outlive us: a program that was begun beside a container lives as long as that, whoever hears it.
  ContainerServers(EventLoop& loop, Splices& splices, std::string folder, std::string shim);
  ContainerServers(ContainerServers&&) = delete;

  // For the controller alone, whose ticket was verified. Dropping the stream tells that there is nothing.
  void serve(const StepOpen& what, std::unique_ptr<Stream> stream);
  void reap();  // processes that have ended

 private:
  struct Server {
    std::string task;  // where it runs a program
    std::unique_ptr<OwnChild> child;
  };
  EventLoop& loop_;
  Splices& splices_;
  std::string folder_, shim_;
  std::map<pid_t, Server> servers_;
};

}  // namespace lockstep
