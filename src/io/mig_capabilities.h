// The files by which a process may use MIG slices: the driver makes one for each GPU instance and each compute
// instance, with minor numbers that it lists. Source: NVIDIA Multi-Instance GPU User Guide, "Device Nodes and
// Capabilities".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/gpus/mig_slices.h"
#include "model/resources.h"

namespace lockstep {

// Minors that a job with these slices needs, by the list's text: lines of "gpu0/gi1/ci0/access 13". Sorted.
std::vector<std::uint32_t> mig_capabilities(std::string_view list, const std::vector<Device>& devices,
                                            const std::vector<MigSlice>& slices);
// By the driver's own list, /proc/driver/nvidia-caps/mig-minors; none where there is no such file.
std::vector<std::uint32_t> mig_capabilities(const std::vector<Device>& devices, const std::vector<MigSlice>& slices);
// Of all instances that there are or may be, and of the right to make some.
std::vector<std::uint32_t> all_mig_capabilities();

}  // namespace lockstep
