// The simulated machine: its GPUs as the driving file says they are (docs/gpus.md describes it), read again whenever it
// has changed, and written when somebody changes a GPU through the library. One per process, as in the original.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "io/gpus/nvml_abi.h"
#include "standin/gpu_models.h"

// A GPU, or a MIG device in it. Handles stay what they are until the process ends.
struct nvmlDevice_st {
  unsigned int gpu = 0;
  bool is_mig = false;
  unsigned int gpu_instance = 0, compute_instance = 0;
};
struct nvmlGpuInstance_st {
  unsigned int gpu = 0, id = 0;
};
struct nvmlComputeInstance_st {
  unsigned int gpu = 0, gpu_instance = 0, id = 0;
};

namespace standin {

constexpr unsigned int kGpusMax = 64, kGpuInstancesMax = 15, kMigDevicesMax = 7;

struct ComputeInstance {
  unsigned int id = 0, slices = 0, start = 0;
};
struct GpuInstance {
  unsigned int id = 0;
  const MigShape* shape = nullptr;
  unsigned int start = 0;
  std::vector<ComputeInstance> computes;
};
struct Gpu {
  bool missing = false, lost = false;
  unsigned long long corrected = 0, uncorrected = 0;
  unsigned int remapped_corrected = 0, remapped_uncorrected = 0;
  bool remap_pending = false, remap_failure = false;
  unsigned long long throttled = 0;   // NVML_CLOCKS_REASON_…
  unsigned long long links_down = 0;  // bit per link
  unsigned long long link_errors = 0;
  int recovery = NVML_GPU_RECOVERY_ACTION_NONE_;
  std::vector<unsigned int> xids;  // in the order of the file
  bool mig = false, persistence = true;
  int compute_mode = NVML_COMPUTEMODE_DEFAULT_;
  unsigned int power_limit_w = 0;  // 0: the model's
  std::vector<GpuInstance> instances;
};

struct Machine {
  std::string type = "h100", product;
  const Model* model = nullptr;
  unsigned long long memory_mb = 0;
  Links links = Links::kNone;
  unsigned int island = 8, numa_nodes = 2;
  unsigned int count = 0;
  std::vector<Gpu> gpus;  // kGpusMax
  std::string host;
};

// Holds the library's lock; the machine is as the file says.
class Hold {
 public:
  Hold();
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  Machine& operator*() const;
  Machine* operator->() const { return &**this; }
};

nvmlReturn_t start();  // nvmlInit: fails where the file is not understood, and complaint() says why
nvmlReturn_t stop();
bool started(const Hold&);
const std::string& complaint();

// Indices of the devices that were there at the start, as nvmlDeviceGetCount counts them.
const std::vector<unsigned int>& present(const Hold&);

// Writes lines with this key anew: those of the GPU go, and these come instead. Where it cannot be written by whom we
// are, NVML_ERROR_NO_PERMISSION, as from NVIDIA's library for who is not root. `change` works on what the file holds
// at that moment, while nobody else writes it.
template <class Change>
nvmlReturn_t change_gpu(const Hold& hold, unsigned int gpu, Change change);
nvmlReturn_t begin_change(const Hold&, int& lock_fd);
nvmlReturn_t end_change(const Hold&, int lock_fd, unsigned int gpu, nvmlReturn_t result);

template <class Change>
nvmlReturn_t change_gpu(const Hold& hold, unsigned int gpu, Change change) {
  int fd = -1;
  if (const nvmlReturn_t begun = begin_change(hold, fd); begun != NVML_SUCCESS_)
    return begun;
  return end_change(hold, fd, gpu, change((*hold).gpus[gpu]));
}

nvmlDevice_t handle_of(const Hold&, unsigned int gpu);
nvmlDevice_t mig_handle_of(const Hold&, unsigned int gpu, unsigned int gpu_instance, unsigned int compute_instance);

// Whether a call on a GPU may go on: it is there, answers, and the library is started. allow_mig: MIG devices too.
enum class Takes : unsigned char { kGpus, kMigToo };
nvmlReturn_t check(const Hold&, nvmlDevice_t device, Takes takes = Takes::kGpus);
inline Gpu& gpu_of(const Hold& hold, nvmlDevice_t device) { return (*hold).gpus[device->gpu]; }
const GpuInstance* instance_of(const Hold&, unsigned int gpu, unsigned int id);

nvmlReturn_t put(const std::string& text, char* out, unsigned int size);
std::string uuid_of(const Hold&, const nvmlDevice_st& device);
void describe_bus(nvmlPciInfo_t* pci, unsigned int bus, unsigned int device, unsigned int pci_device);
unsigned int bus_of(unsigned int gpu);

}  // namespace standin

#define EXPORT extern "C" __attribute__((visibility("default")))
// Begins a call on a device: takes the lock, and leaves where the device cannot answer.
#define ENTER_(device, takes)                                                                     \
  const standin::Hold hold;                                                                       \
  if (const nvmlReturn_t refused = standin::check(hold, device, takes); refused != NVML_SUCCESS_) \
  return refused
#define ENTER(device) ENTER_(device, standin::Takes::kGpus)
#define NEED(pointer) \
  if (!(pointer))     \
  return NVML_ERROR_INVALID_ARGUMENT_
