// Devices: the accelerators of this machine. Real ones through NVML; simulated ones are a stand-in NVML library.
#pragma once

#include <vector>

#include "base/result.h"
#include "model/resources.h"

namespace lockstep {

class DeviceSource {
 public:
  virtual ~DeviceSource() = default;
  virtual Result<std::vector<Device>> list() = 0;  // empty on a machine without any
};

}  // namespace lockstep
