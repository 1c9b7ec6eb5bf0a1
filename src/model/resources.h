// What nodes have, what jobs ask for, and what an allocation grants. All amounts are integers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bitmap.h"
#include "model/ids.h"

namespace lockstep {

using CoreSet = Bitmap<512>;   // bit = core index on its node
using DeviceSet = Bitmap<64>;  // bit = device index on its node

inline constexpr std::uint16_t kWholeDevice = 1000;

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
  bool mig = false;  // in MIG mode: given out in slices only
  friend bool operator==(const Device&, const Device&) = default;
};

// count devices of one kind, or that many parts of devices; an empty type takes any.
struct DeviceAsk {
  std::string kind = "gpu";
  std::string type;
  std::uint32_t count = 0;
  std::uint16_t milli = kWholeDevice;  // less: a share of one device's computing time, for MPS and time slicing
  std::int64_t memory_mb = 0;          // of a share; 0 = milli of the device's memory
  std::string mig;                     // MIG profile, "1g.10gb"
  bool whole() const { return milli >= kWholeDevice && mig.empty(); }
  friend bool operator==(const DeviceAsk&, const DeviceAsk&) = default;
};

// Counted generic resources of a node that are not devices: local disk, licences bound to a node, FPGAs without index.
struct Counted {
  std::string name;
  std::int64_t count = 0;
  friend auto operator<=>(const Counted&, const Counted&) = default;
};

struct Resources {
  std::uint32_t cores = 0;
  std::int64_t memory_mb = 0;
  std::vector<DeviceAsk> devices;
  std::vector<Counted> counted;
  std::uint32_t shared_milli = 0;  // thousandths of cores that nobody has for himself
  friend bool operator==(const Resources&, const Resources&) = default;
};

// What an allocation has of a device that it shares with others.
struct DevicePart {
  std::uint16_t device = 0;    // index on its node
  std::uint16_t milli = 0;     // 0 for a MIG slice
  std::int64_t memory_mb = 0;  // of the device
  std::string mig;             // profile, or ""
  std::uint16_t slice = 0;     // of a MIG slice: the first memory slice it covers
  friend auto operator<=>(const DevicePart&, const DevicePart&) = default;
};

// What an allocation has on one node.
struct Grant {
  NodeId node;
  std::uint16_t group = 0;  // index into JobSpec::groups
  std::uint32_t tasks = 0;  // planned tasks of the group on this node
  CoreSet cores;
  std::int64_t memory_mb = 0;
  DeviceSet devices;               // whole ones
  std::vector<DevicePart> parts;   // sorted
  std::vector<Counted> counted;    // sorted by name
  bool whole_node = false;         // nobody else may have anything here
  std::uint32_t shared_milli = 0;  // thousandths of the cores that no grant has
  std::uint32_t more_seats = 0;    // addresses that its tasks take on the node beside the first one's
  friend bool operator==(const Grant&, const Grant&) = default;

  DeviceSet visible() const {  // devices it may use, whole or in part
    DeviceSet all = devices;
    for (const DevicePart& part : parts) all.set(part.device);
    return all;
  }
};

}  // namespace lockstep
