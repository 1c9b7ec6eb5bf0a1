// What nodes have, what jobs ask for, and what an allocation holds. All amounts are integers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bitmap.h"
#include "model/ids.h"

namespace lockstep {

using CoreSet = Bitmap<512>;   // bit = core index on its node
using DeviceSet = Bitmap<64>;  // bit = device index on its node

// One device of a node. Index is the position in Node::devices and stays for the life of the node record.
struct Device {
  std::string kind = "gpu";  // "gpu", later "nic", "mig"
  std::string type;          // lower case: "h100"
  std::string uuid;          // "GPU-…"
  std::uint32_t minor = 0;   // /dev/nvidia<minor>; the number users see in SLURM_JOB_GPUS
  std::int64_t memory_mb = 0;
  std::int32_t numa = -1;   // NUMA node, -1 unknown
  std::int32_t island = 0;  // devices of one NVLink island share this number
  std::string bus_id;
  bool healthy = true;
  friend bool operator==(const Device&, const Device&) = default;
};

// count devices of one kind; an empty type takes any.
struct DeviceAsk {
  std::string kind = "gpu";
  std::string type;
  std::uint32_t count = 0;
  friend bool operator==(const DeviceAsk&, const DeviceAsk&) = default;
};

struct Resources {
  std::uint32_t cores = 0;
  std::int64_t memory_mb = 0;
  std::vector<DeviceAsk> devices;
  friend bool operator==(const Resources&, const Resources&) = default;
};

// What an allocation holds on one node.
struct Grant {
  NodeId node;
  std::uint16_t group = 0;  // index into JobSpec::groups
  std::uint32_t tasks = 0;  // planned tasks of the group on this node
  CoreSet cores;
  std::int64_t memory_mb = 0;
  DeviceSet devices;
  bool whole_node = false;  // nobody else may hold anything here
  friend bool operator==(const Grant&, const Grant&) = default;
};

}  // namespace lockstep
