// What a number of tasks of a group needs on one node, in plain amounts. Used inside rules only.
#pragma once

#include "model/job.h"
#include "model/records.h"
#include "rules/fit.h"

namespace lockstep {

struct NodeNeed {
  std::uint32_t cores = 0;
  std::int64_t memory_mb = 0;
  std::vector<DeviceAsk> devices;  // typed asks first, so that untyped ones take what is left
  bool whole_node = false;
};

// devices_extra: the share of the group's per_job devices placed here.
NodeNeed need_on_node(const Node& node, const GroupSpec& group, std::uint32_t tasks, std::uint32_t devices_extra);

// Devices for the asks out of `free`; nullopt if there are not enough. An ask is met within one NVLink island where one
// can hold it, choosing the island that is left with the least.
std::optional<DeviceSet> choose_devices(const Node& node, const DeviceSet& free, const std::vector<DeviceAsk>& asks);

// Healthy devices of a node that no grant holds.
DeviceSet free_devices(const Node& node, const NodeLoad& load);

std::uint32_t devices_per_job(const GroupSpec& group);

}  // namespace lockstep
