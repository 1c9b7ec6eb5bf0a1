// The network interfaces of this machine, as the kernel lists them, and whose they are: what a cluster makes carries
// the cluster's id as its alias, so that a copy of its directory does not take them for its own.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct Interface {
  int index = 0;
  int master = 0;  // index of the bridge it is plugged into; 0 = none
  std::string name, alias;
};
Result<std::vector<Interface>> list_interfaces();

// The alias of what the cluster with this id makes.
std::string interface_mark(const std::string& cluster_id);

}  // namespace lockstep
