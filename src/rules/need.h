// What a number of tasks of a group needs on one node, in plain amounts. Used inside rules only.
#pragma once

#include <string_view>

#include "model/records.h"
#include "rules/fit.h"

namespace lockstep {

struct GroupSpec;

struct NodeNeed {
  std::uint32_t cores = 0;
  std::uint32_t shared_milli = 0;
  std::int64_t memory_mb = 0;
  std::vector<DeviceAsk> devices;  // whole ones; typed asks first, so that untyped ones take what is left
  std::vector<DeviceAsk> parts;    // shares and MIG slices
  std::vector<Counted> counted;    // sorted by name
  bool whole_node = false;
  std::uint64_t milli() const { return std::uint64_t{cores} * 1000 + shared_milli; }
};

// devices_extra: the share of the group's per_job devices placed here.
NodeNeed need_on_node(const Node& node, const GroupSpec& group, std::uint32_t tasks, std::uint32_t devices_extra);

// Devices for the asks of whole ones out of `free`; nullopt if there are not enough. An ask is met within one NVLink
// island where one can hold it, choosing the island that is left with the least; NICs come from the NUMA nodes of the
// GPUs chosen before them where those have enough.
std::optional<DeviceSet> choose_devices(const Node& node, const DeviceSet& free, const std::vector<DeviceAsk>& asks);

// Parts for the asks of parts, on devices of `free` or beside the parts taken already: the tightest that has room, so
// that whole devices stay whole. nullopt if there is not enough.
std::optional<std::vector<DevicePart>> choose_parts(const Node& node, const DeviceSet& free,
                                                    const std::vector<DevicePart>& taken,
                                                    const std::vector<DeviceAsk>& asks);

// Whether the part has room beside those of `taken`. Says nothing of devices taken whole.
bool part_fits(const Node& node, const DevicePart& part, const std::vector<DevicePart>& taken);

// The n lowest of the free cores, those of the NUMA nodes of the devices first.
CoreSet choose_cores(const Node& node, const CoreSet& free, std::uint32_t n, const DeviceSet& near);

// Healthy devices of a node that no grant has, whole or in part.
DeviceSet free_devices(const Node& node, const NodeLoad& load);

std::int64_t count_of(const std::vector<Counted>& list, std::string_view name);
void add_counted(std::vector<Counted>& into, const std::vector<Counted>& more, std::int64_t times);  // drops zeros
// Whether what is taken and what is needed are together no more than the node has.
bool counted_fit(const Node& node, const std::vector<Counted>& taken, const std::vector<Counted>& need);

// As Slurm's --exclusive: every core, whole device and counted resource of its nodes is the job's, so that limits see
// what nobody else can use. Only what is asked for has to be there and whole.
bool takes_all(const GroupSpec& group);

std::uint32_t devices_per_job(const GroupSpec& group);

}  // namespace lockstep
