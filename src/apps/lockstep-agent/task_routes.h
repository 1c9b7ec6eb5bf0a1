// Routes to the addresses of other nodes' tasks, as the controller tells them: kept in this node's table under a mark
// of ours, so that what somebody else has set is left alone. They stay when the agent ends.
#pragma once

#include <map>
#include <string>

#include "model/agent_messages.h"

namespace lockstep {

class TaskRouteTable {
 public:
  // own: this node's own range, to which no route leads.
  explicit TaskRouteTable(std::string own) : own_(std::move(own)) {}
  // "" or what could not be set, for an administrator.
  std::string take(const TaskRoutes& told);

 private:
  std::string own_;
  std::map<std::string, std::string> routes_;  // by range: via
};

// Input of `ip -batch`: what makes the table that is there, as `ip route show proto N` prints it, what it should be.
std::string route_commands(const std::map<std::string, std::string>& wanted, std::string_view there);

}  // namespace lockstep
