// `lockstep-agent services`: beside the agent, in a process of its own, what makes services reachable on a node. It
// follows the controller's table through the agent's socket, keeps the packet filter as the table says, and answers
// names. It goes on while the agent is away; the one that is started next takes over.
#pragma once

#include <memory>

#include "ports/loop.h"
#include "shim/orphans.h"
#include "wire/local_files.h"

namespace lockstep {

int services_main(int argc, char** argv);

// Starts it and starts it again when it ends, for as long as the agent is there. "" or why this node leads nowhere.
std::string why_no_services(const AgentFile& settings);
class ServicesProgram {
 public:
  ServicesProgram(EventLoop& loop, std::string settings_path) : loop_(loop), settings_path_(std::move(settings_path)) {}
  ~ServicesProgram();
  ServicesProgram(ServicesProgram&&) = delete;
  void start();

 private:
  EventLoop& loop_;
  std::string settings_path_;
  std::unique_ptr<OwnChild> child_;
  int pidfd_ = -1;
  TimerId again_ = 0;
};

}  // namespace lockstep
