// The GPUs of this machine through NVIDIA's management library, loaded at run time: a machine without it has none.
#pragma once

#include <memory>
#include <string>

#include "ports/devices.h"

namespace lockstep {

// library: what to dlopen. The dynamic linker's search path decides which one that is, so LD_LIBRARY_PATH can put a
// stand-in in the real one's place.
std::unique_ptr<DeviceSource> make_nvml_devices(std::string library = "libnvidia-ml.so.1");

// "NVIDIA H100 80GB HBM3" -> "h100", "Tesla V100-SXM2-32GB" -> "v100", "NVIDIA GeForce RTX 4090" -> "rtx4090". Lower
// case words otherwise, joined by "-".
std::string gpu_type_of(const std::string& product_name);

}  // namespace lockstep
