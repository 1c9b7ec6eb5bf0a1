// The machine's NUMA nodes as the kernel shows them: which processors lie at each, and at which a device lies.
// LOCKSTEP_SYSFS names a folder to read in place of /sys, for those who would try another machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/resources.h"

namespace lockstep {

// By their numbers; empty where the kernel shows none. Processors above the most that a node may have are left out.
std::vector<CoreSet> memory_nodes();
// Of a device of PCI, by its address ("00000000:17:00.0"); -1: not known.
std::int32_t memory_node_of(std::string_view bus_id);

// "0-3,8" as the kernel writes lists; what is no number is left out.
CoreSet cores_of_list(std::string_view list);

}  // namespace lockstep
