// MIG on demand: the slices that a job was granted come into being when it starts on the node and go when it ends.
// Other slices of the same GPU are never touched. The driver keeps them, so that an agent that starts again finds them.
#pragma once

#include <string>
#include <vector>

#include "io/gpus/nvml_library.h"
#include "model/resources.h"

namespace lockstep {

struct MigSlice {
  std::uint32_t device = 0;                              // index on the node
  std::string profile;                                   // "1g.10gb"
  std::uint16_t start = 0;                               // first memory slice
  std::string uuid;                                      // "MIG-…", for CUDA_VISIBLE_DEVICES
  std::uint32_t gpu_instance = 0, compute_instance = 0;  // as the driver numbers them on the device
  friend auto operator<=>(const MigSlice&, const MigSlice&) = default;
};

class MigSlices {
 public:
  static Result<MigSlices> open(const std::string& library = "libnvidia-ml.so.1");

  // Makes what the parts of a grant name (those with a MIG profile), each as one compute instance of its whole size, in
  // their order. One that is there already, as after a restart of the agent, is taken as it is. Where one cannot be
  // made, those that this call made are destroyed again. kConflict: another slice lies there. kUnsupported: the GPU is
  // not in MIG mode or has no such profile. kDenied: we are not root.
  Result<std::vector<MigSlice>> create(const std::vector<DevicePart>& parts);

  // Destroys them. One that is gone already is fine; kConflict: a process still uses one, the others are gone then.
  Result<void> destroy(const std::vector<DevicePart>& parts);

  // What is there, by device and start.
  Result<std::vector<MigSlice>> list() const;

 private:
  explicit MigSlices(NvmlSession session) : nvml_(std::move(session)) {}

  struct Profile {
    unsigned int id = 0, compute = 0, memory = 0;
  };
  Result<nvmlDevice_t> device_of(std::uint32_t index) const;
  Result<Profile> profile_of(nvmlDevice_t device, const DevicePart& part) const;
  std::vector<nvmlGpuInstance_t> instances(nvmlDevice_t device, unsigned int profile_id) const;
  // Null: there is none.
  nvmlGpuInstance_t find(nvmlDevice_t device, const Profile& profile, unsigned int start) const;
  Result<MigSlice> make(const DevicePart& part, bool& is_new);
  nvmlReturn_t add_compute(nvmlGpuInstance_t instance, unsigned int slices) const;
  nvmlReturn_t remove(nvmlGpuInstance_t instance) const;
  // Adds what its compute instance is called; nothing where there is none.
  void name(nvmlDevice_t device, unsigned int gpu_instance, MigSlice& slice) const;

  NvmlSession nvml_;
};

}  // namespace lockstep
