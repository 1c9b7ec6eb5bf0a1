// NVML's calls, played by a simulated machine: what GPUs measure, count and run. It follows from the processes that use
// a GPU and from the faults it has.
#include <string.h>
#include <time.h>

#include <algorithm>

#include "standin/machine.h"
#include "standin/processes.h"

using namespace standin;

namespace {

constexpr unsigned int kIdleCelsius = 30, kBusyCelsius = 68, kHotCelsius = 91;
constexpr unsigned long long kReservedMb = 500;

unsigned int limit_w(const Hold& hold, unsigned int gpu) {
  const unsigned int set = hold->gpus[gpu].power_limit_w;
  return set != 0 ? set : hold->model->power_w;
}

unsigned int power_mw(const Hold& hold, unsigned int gpu) {
  const unsigned int idle = hold->model->idle_w * 1000, most = limit_w(hold, gpu) * 1000;
  unsigned long long used = idle + (hold->model->power_w * 1000ull - idle) * load_of(hold, gpu).percent / 100;
  if ((hold->gpus[gpu].throttled & ~static_cast<unsigned long long>(NVML_CLOCKS_REASON_SW_POWER_CAP_)) != 0)
    used = idle + (used - idle) / 2;
  return static_cast<unsigned int>(std::min<unsigned long long>(used, most));
}

unsigned long long reasons(const Hold& hold, unsigned int gpu) {
  unsigned long long why = hold->gpus[gpu].throttled;
  const unsigned int percent = load_of(hold, gpu).percent;
  if (percent == 0)
    return why | NVML_CLOCKS_REASON_GPU_IDLE_;
  if (power_mw(hold, gpu) == limit_w(hold, gpu) * 1000)
    why |= NVML_CLOCKS_REASON_SW_POWER_CAP_;
  return why;
}

bool is_hot(const Gpu& gpu) {
  return (gpu.throttled & (NVML_CLOCKS_REASON_HW_THERMAL_ | NVML_CLOCKS_REASON_SW_THERMAL_)) != 0;
}

unsigned int celsius(const Hold& hold, unsigned int gpu) {
  return is_hot(hold->gpus[gpu]) ? kHotCelsius
                                 : kIdleCelsius + (kBusyCelsius - kIdleCelsius) * load_of(hold, gpu).percent / 100;
}

unsigned int clock_mhz(const Hold& hold, unsigned int gpu, int clock) {
  const bool idle = load_of(hold, gpu).percent == 0;
  if (clock == NVML_CLOCK_MEM_)
    return hold->model->memory_mhz;
  const unsigned int full = clock == NVML_CLOCK_VIDEO_ ? hold->model->sm_mhz * 9 / 10 : hold->model->sm_mhz;
  if (idle)
    return 345;
  return hold->gpus[gpu].throttled != 0 ? full / 2 : full;
}

unsigned long long clock_us(clockid_t of) {
  timespec now{};
  clock_gettime(of, &now);
  return static_cast<unsigned long long>(now.tv_sec) * 1'000'000 + static_cast<unsigned long long>(now.tv_nsec) / 1000;
}

// Grows with what is drawn between two looks of this process; before the first it is what an idle GPU took.
unsigned long long energy_mj(const Hold& hold, unsigned int gpu) {
  struct Meter {
    unsigned long long at_us = 0, millijoules = 0;
  };
  static Meter meters[kGpusMax];
  Meter& meter = meters[gpu];
  const unsigned long long now = clock_us(CLOCK_BOOTTIME);
  const unsigned long long drawn_mw = meter.at_us == 0 ? hold->model->idle_w * 1000ull : power_mw(hold, gpu);
  meter.millijoules += drawn_mw * (now - meter.at_us) / 1'000'000;
  meter.at_us = now;
  return meter.millijoules;
}

nvmlReturn_t memory_of(const Hold& hold, nvmlDevice_t device, nvmlMemory_v2_t& out) {
  out = {NVML_VERSION_OF_(nvmlMemory_v2_t, 2u), hold->memory_mb << 20, std::min(hold->memory_mb, kReservedMb) << 20, 0,
         0};
  out.used = load_of(hold, device->gpu).bytes;
  if (device->is_mig) {
    const GpuInstance* instance = instance_of(hold, device->gpu, device->gpu_instance);
    out.total = static_cast<unsigned long long>(instance->shape->megabytes) << 20;
    out.reserved = 0;
    out.used = 0;
    for (const Use& use : uses_of(hold, device->gpu))
      if (use.on_mig && use.gpu_instance == instance->id)
        out.used += use.bytes;
    out.used = std::min(out.used, out.total);
  }
  out.free = out.total - std::min(out.total, out.used + out.reserved);
  return NVML_SUCCESS_;
}

nvmlReturn_t list(const std::vector<Use>& uses, unsigned int* count, nvmlProcessInfo_t* processes) {
  const unsigned int room = processes ? *count : 0;
  *count = static_cast<unsigned int>(uses.size());
  if (uses.size() > room)
    return NVML_ERROR_INSUFFICIENT_SIZE_;
  for (std::size_t i = 0; i < uses.size(); ++i)
    processes[i] = {uses[i].pid, uses[i].bytes, uses[i].on_mig ? uses[i].gpu_instance : NVML_NO_INSTANCE_,
                    uses[i].on_mig ? uses[i].compute_instance : NVML_NO_INSTANCE_};
  return NVML_SUCCESS_;
}

std::vector<Use> users(const Hold& hold, nvmlDevice_t device, bool by_mps) {
  auto uses = uses_of(hold, device->gpu);
  uses.erase(std::remove_if(uses.begin(), uses.end(),
                            [&](const Use& use) {
                              return use.mps != by_mps ||
                                     (device->is_mig && (!use.on_mig || use.gpu_instance != device->gpu_instance ||
                                                         use.compute_instance != device->compute_instance));
                            }),
             uses.end());
  return uses;
}

unsigned long long errors_of(const Gpu& gpu, int type) {
  return type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED_ ? gpu.uncorrected : gpu.corrected;
}

bool field(const Hold& hold, unsigned int index, nvmlFieldValue_t& value) {
  const Gpu& gpu = hold->gpus[index];
  const auto whole = [&](unsigned long long number) {
    value.valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG_;
    value.value.ullVal = number;
    return true;
  };
  const auto small = [&](unsigned int number) {
    value.valueType = NVML_VALUE_TYPE_UNSIGNED_INT_;
    value.value.ullVal = 0;
    value.value.uiVal = number;
    return true;
  };
  switch (value.fieldId) {
    case NVML_FI_DEV_ECC_CURRENT_: return small(1);
    case NVML_FI_DEV_ECC_SBE_VOL_TOTAL_:
    case NVML_FI_DEV_ECC_SBE_AGG_TOTAL_: return whole(gpu.corrected);
    case NVML_FI_DEV_ECC_DBE_VOL_TOTAL_:
    case NVML_FI_DEV_ECC_DBE_AGG_TOTAL_: return whole(gpu.uncorrected);
    case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION_: return whole(energy_mj(hold, index));
    case NVML_FI_DEV_NVLINK_LINK_COUNT_: return small(hold->links == Links::kNone ? 0 : hold->model->link_count);
    case NVML_FI_DEV_REMAPPED_COR_: return small(gpu.remapped_corrected);
    case NVML_FI_DEV_REMAPPED_UNC_: return small(gpu.remapped_uncorrected);
    case NVML_FI_DEV_REMAPPED_PENDING_: return small(gpu.remap_pending);
    case NVML_FI_DEV_REMAPPED_FAILURE_: return small(gpu.remap_failure);
    case NVML_FI_DEV_NVLINK_GET_STATE_:
      return value.scopeId < hold->model->link_count && small((gpu.links_down >> value.scopeId & 1) == 0);
    case NVML_FI_DEV_NVLINK_GET_SPEED_:
      return value.scopeId < hold->model->link_count &&
             small((gpu.links_down >> value.scopeId & 1) == 0 ? hold->model->link_mbps : 0);
    case NVML_FI_DEV_POWER_AVERAGE_:
    case NVML_FI_DEV_POWER_INSTANT_: return small(power_mw(hold, index));
    case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION_: return small(static_cast<unsigned int>(gpu.recovery));
    default: return false;
  }
}

}  // namespace

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  ENTER_(device, Takes::kMigToo);
  NEED(memory);
  nvmlMemory_v2_t all{};
  memory_of(hold, device, all);
  *memory = {all.total, all.free, all.total - all.free};
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  ENTER_(device, Takes::kMigToo);
  NEED(memory);
  if (memory->version != NVML_VERSION_OF_(nvmlMemory_v2_t, 2u))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH_;
  return memory_of(hold, device, *memory);
}
EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t* memory) {
  ENTER(device);
  NEED(memory);
  unsigned long long total = 1;
  while (total < hold->memory_mb) total *= 2;
  *memory = {total << 20, (total - 1) << 20, 1 << 20};
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* rates) {
  ENTER(device);
  NEED(rates);
  if (gpu_of(hold, device).mig)
    return NVML_ERROR_NOT_SUPPORTED_;  // as of a GPU in MIG mode
  const unsigned int percent = load_of(hold, device->gpu).percent;
  *rates = {percent, percent / 2};
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int* milliwatts) {
  ENTER(device);
  NEED(milliwatts);
  *milliwatts = power_mw(hold, device->gpu);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int* milliwatts) {
  ENTER(device);
  NEED(milliwatts);
  *milliwatts = limit_w(hold, device->gpu) * 1000;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int* milliwatts) {
  return nvmlDeviceGetPowerManagementLimit(device, milliwatts);
}
EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int* milliwatts) {
  ENTER(device);
  NEED(milliwatts);
  *milliwatts = hold->model->power_w * 1000;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int* least,
                                                                 unsigned int* most) {
  ENTER(device);
  NEED(least && most);
  *least = hold->model->power_least_w * 1000;
  *most = hold->model->power_w * 1000;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned int milliwatts) {
  ENTER(device);
  if (milliwatts < hold->model->power_least_w * 1000 || milliwatts > hold->model->power_w * 1000)
    return NVML_ERROR_INVALID_ARGUMENT_;
  return change_gpu(hold, device->gpu, [&](Gpu& gpu) { return gpu.power_limit_w = milliwatts / 1000, NVML_SUCCESS_; });
}
EXPORT nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long* millijoules) {
  ENTER(device);
  NEED(millijoules);
  *millijoules = energy_mj(hold, device->gpu);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int* degrees) {
  ENTER(device);
  if (!degrees || sensor != 0)
    return NVML_ERROR_INVALID_ARGUMENT_;
  *degrees = celsius(hold, device->gpu);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, int threshold, unsigned int* degrees) {
  ENTER(device);
  NEED(degrees);
  switch (threshold) {
    case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN_: *degrees = 92; return NVML_SUCCESS_;
    case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN_: *degrees = 89; return NVML_SUCCESS_;
    case NVML_TEMPERATURE_THRESHOLD_MEM_MAX_: *degrees = 95; return NVML_SUCCESS_;
    case NVML_TEMPERATURE_THRESHOLD_GPU_MAX_: *degrees = 87; return NVML_SUCCESS_;
    default: return NVML_ERROR_NOT_SUPPORTED_;
  }
}
EXPORT nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int* percent) {
  ENTER(device);
  NEED(percent);
  return NVML_ERROR_NOT_SUPPORTED_;  // the server's fans cool it
}
EXPORT nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, int* state) {
  ENTER(device);
  NEED(state);
  *state = 0;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int clock, unsigned int* mhz) {
  ENTER(device);
  if (!mhz || clock < NVML_CLOCK_GRAPHICS_ || clock > NVML_CLOCK_VIDEO_)
    return NVML_ERROR_INVALID_ARGUMENT_;
  *mhz = clock_mhz(hold, device->gpu, clock);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int clock, unsigned int* mhz) {
  ENTER(device);
  if (!mhz || clock < NVML_CLOCK_GRAPHICS_ || clock > NVML_CLOCK_VIDEO_)
    return NVML_ERROR_INVALID_ARGUMENT_;
  *mhz = clock == NVML_CLOCK_MEM_     ? hold->model->memory_mhz
         : clock == NVML_CLOCK_VIDEO_ ? hold->model->sm_mhz * 9 / 10
                                      : hold->model->sm_mhz;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long* why) {
  ENTER(device);
  NEED(why);
  *why = reasons(hold, device->gpu);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long* why) {
  return nvmlDeviceGetCurrentClocksThrottleReasons(device, why);
}
EXPORT nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device, unsigned long long* why) {
  ENTER(device);
  NEED(why);
  *why = 0x1ff;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int type, int counter,
                                                unsigned long long* errors) {
  ENTER(device);
  if (!errors || type < 0 || type > 1 || counter < 0 || counter > 1)
    return NVML_ERROR_INVALID_ARGUMENT_;
  *errors = errors_of(gpu_of(hold, device), type);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, int type, int counter, int location,
                                                    unsigned long long* errors) {
  ENTER(device);
  if (!errors || type < 0 || type > 1 || counter < 0 || counter > 1 || location < 0 ||
      location >= NVML_MEMORY_LOCATION_COUNT_)
    return NVML_ERROR_INVALID_ARGUMENT_;
  *errors = location == NVML_MEMORY_LOCATION_DRAM_ ? errors_of(gpu_of(hold, device), type) : 0;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int* corrected, unsigned int* uncorrected,
                                              unsigned int* pending, unsigned int* failure) {
  ENTER(device);
  NEED(corrected && uncorrected && pending && failure);
  const Gpu& gpu = gpu_of(hold, device);
  *corrected = gpu.remapped_corrected;
  *uncorrected = gpu.remapped_uncorrected;
  *pending = gpu.remap_pending;
  *failure = gpu.remap_failure;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t* values) {
  ENTER(device);
  if (!values || count <= 0)
    return NVML_ERROR_INVALID_ARGUMENT_;
  for (int i = 0; i < count; ++i) {
    values[i].timestamp = static_cast<long long>(clock_us(CLOCK_REALTIME));
    values[i].latencyUsec = 0;
    values[i].nvmlReturn = field(hold, device->gpu, values[i]) ? NVML_SUCCESS_ : NVML_ERROR_NOT_SUPPORTED_;
  }
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int* generation) {
  ENTER(device);
  NEED(generation);
  *generation = hold->model->pcie_generation;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int* generation) {
  return nvmlDeviceGetMaxPcieLinkGeneration(device, generation);
}
EXPORT nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int* lanes) {
  ENTER(device);
  NEED(lanes);
  *lanes = 16;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int* lanes) {
  return nvmlDeviceGetMaxPcieLinkWidth(device, lanes);
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                            nvmlProcessInfo_t* processes) {
  ENTER_(device, Takes::kMigToo);
  NEED(count);
  return list(users(hold, device, false), count, processes);
}
EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* count,
                                                            nvmlProcessInfo_t* processes) {
  return nvmlDeviceGetComputeRunningProcesses_v3(device, count, processes);
}
EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                             nvmlProcessInfo_t*) {
  ENTER_(device, Takes::kMigToo);
  NEED(count);
  *count = 0;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                               nvmlProcessInfo_t* processes) {
  ENTER_(device, Takes::kMigToo);
  NEED(count);
  return list(users(hold, device, true), count, processes);
}
EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t* samples,
                                                    unsigned int* count, unsigned long long) {
  ENTER(device);
  NEED(count);
  const auto uses = uses_of(hold, device->gpu);
  const unsigned int room = samples ? *count : 0;
  *count = static_cast<unsigned int>(uses.size());
  if (uses.empty())
    return NVML_ERROR_NOT_FOUND_;
  if (uses.size() > room)
    return NVML_ERROR_INSUFFICIENT_SIZE_;
  for (std::size_t i = 0; i < uses.size(); ++i)
    samples[i] = {uses[i].pid, clock_us(CLOCK_REALTIME), uses[i].percent, uses[i].percent / 2, 0, 0};
  return NVML_SUCCESS_;
}
