// Routes to the addresses of other nodes' tasks, as the controller tells them: kept in this node's table under a mark
// of ours, so that what somebody else has set is left alone. They stay when the agent ends.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/ip_range.h"
#include "model/agent_messages.h"

namespace lockstep {

// What no told route may lead elsewhere.
struct RouteBounds {
  std::optional<IpRange> own;    // this node's own range
  std::set<std::uint32_t> kept;  // addresses of this machine, of its controller, of its gateways
};
bool may_lead(const RouteBounds& bounds, const IpRange& range, std::uint32_t via);

class TaskRouteTable {
 public:
  // own: this node's own range. controller: its host.
  TaskRouteTable(std::string own, std::string controller) : own_(std::move(own)), controller_(std::move(controller)) {}
  // "" or what could not be set, for an administrator.
  std::string take(const TaskRoutes& told);
  // The controller is not heard: whatever leads there may be of what was told.
  void forget();

 private:
  RouteBounds bounds();
  std::string set();

  std::string own_, controller_;
  std::set<std::uint32_t> controller_at_;
  std::map<std::string, std::string> routes_;  // by range: via
};

// Input of `ip -batch`: what makes the table that is there, as `ip route show proto N` prints it, what it should be.
std::string route_commands(const std::map<std::string, std::string>& wanted, std::string_view there);
// Of what /proc/net/route says.
std::set<std::uint32_t> gateways_in(std::string_view routes);

}  // namespace lockstep
