// NVIDIA's MIG profiles: how large a slice is and where on the GPU it may lie. Used inside rules only.
//
// Source: NVIDIA Multi-Instance GPU User Guide, "Supported MIG Profiles" and the placements that `nvidia-smi mig
// -lgipp` prints. A GPU has 8 memory slices (A30: 4) and 7 computing slices (A30: 4); instances lie on disjoint memory
// slices.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/resources.h"

namespace lockstep {

struct MigProfile {
  std::string_view name;              // "1g.10gb"
  std::uint8_t compute = 0;           // computing slices
  std::uint8_t memory = 0;            // memory slices
  std::array<std::int8_t, 7> starts;  // first memory slices it may have, ended by -1 if shorter
  std::uint32_t mask(std::uint32_t start) const { return ((1u << memory) - 1) << start; }
};

// The profiles of a GPU, by its type and memory ("a100" of 40 or 80 GB, "h100", "h200", "b200", "a30"); empty if it has
// no MIG.
std::span<const MigProfile> mig_profiles(const Device& device);
const MigProfile* mig_profile(const Device& device, std::string_view name);

// The start for one more slice beside those in `taken` (parts of this device), chosen so that as much as possible of
// what could have been placed still can be: -1 if there is no room.
int place_mig(const Device& device, const MigProfile& profile, const std::vector<DevicePart>& taken);

// Whether a slice may lie where the part says, beside `taken`.
bool mig_fits(const Device& device, const DevicePart& part, const std::vector<DevicePart>& taken);

}  // namespace lockstep
