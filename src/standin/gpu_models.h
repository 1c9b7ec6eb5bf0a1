// What the simulated products are: numbers as NVIDIA publishes them in datasheets, the MIG user guide and as nvidia-smi
// prints them.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace standin {

enum class Links : unsigned char { kNone, kSwitch, kMesh };  // NVLink: none, to switches, directly to each other

struct MigShape {
  const char* name;      // "1g.10gb"
  unsigned int id;       // of the GPU instance profile, as `nvidia-smi mig -lgip` prints it
  unsigned int index;    // NVML_GPU_INSTANCE_PROFILE_…
  unsigned int compute;  // computing slices
  unsigned int memory;   // memory slices
  unsigned int megabytes;
  unsigned int multiprocessors;
  unsigned int copy_engines, decoders, jpeg, ofa;
  unsigned int most;          // instances of it that a GPU holds
  std::array<int, 7> starts;  // memory slices it may begin at, ended by -1
};

struct Model {
  const char* type;
  const char* product;
  unsigned long long memory_mb;
  unsigned int pci_device;    // device and vendor
  unsigned int architecture;  // NVML_DEVICE_ARCH_…
  int capability_major, capability_minor;
  unsigned int power_w, idle_w, power_least_w;
  unsigned int sm_mhz, memory_mhz;
  unsigned int pcie_generation;
  Links links;
  unsigned int link_count, link_version, link_mbps;
  unsigned int switches;  // of an island of eight
  unsigned int multiprocessors;
  const char* vbios;
  std::vector<MigShape> mig;
};

// The model of a type ("h100"); for one that is not known, an H100's numbers without MIG.
const Model& model_of(const std::string& type);

}  // namespace standin
