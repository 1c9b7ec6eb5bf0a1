#include "gpus.h"

#include <time.h>

#include "base/text.h"

namespace lockstep::smi {

int exit_code_of(nvmlReturn_t code) {
  switch (code) {
    case NVML_SUCCESS_: return kFine;
    case NVML_ERROR_INVALID_ARGUMENT_: return kBadArgument;
    case NVML_ERROR_NOT_SUPPORTED_: return kNotAvailable;
    case NVML_ERROR_NO_PERMISSION_: return kNoPermission;
    case NVML_ERROR_NOT_FOUND_: return kNotFound;
    case NVML_ERROR_DRIVER_NOT_LOADED_: return kNoDriver;
    case NVML_ERROR_GPU_IS_LOST_: return kLost;
    default: return kOther;
  }
}

std::string text_of(const NvmlLibrary&, const NvmlCall<decltype(nvmlDeviceGetName)>& call, nvmlDevice_t device) {
  char text[128] = "";
  return call(device, text, sizeof text) == NVML_SUCCESS_ ? text : "";
}

std::string bus_id_of(const NvmlLibrary& nvml, nvmlDevice_t device) {
  nvmlPciInfo_t pci{};
  return nvml.nvmlDeviceGetPciInfo_v3(device, &pci) == NVML_SUCCESS_ ? pci.busId : "";
}

std::string local_time(const char* form) {
  const time_t now = ::time(nullptr);
  tm parts{};
  ::localtime_r(&now, &parts);
  char text[64];
  return {text, ::strftime(text, sizeof text, form, &parts)};
}

std::string process_name(const NvmlLibrary& nvml, unsigned int pid) {
  char name[256] = "";
  const auto found = nvml.nvmlSystemGetProcessName(pid, name, sizeof name);
  return found == NVML_SUCCESS_               ? name
         : found == NVML_ERROR_NO_PERMISSION_ ? "[Insufficient Permissions]"
                                              : "[Not Found]";
}

std::vector<Process> compute_processes(const Gpus& gpus) {
  constexpr unsigned int kMost = 4096;
  std::vector<Process> all;
  std::vector<nvmlProcessInfo_t> infos(kMost);
  for (const Gpu& gpu : gpus.chosen) {
    if (!gpu.device)
      continue;
    for (const bool mps : {false, true}) {
      unsigned int count = kMost;
      const auto& call = mps ? gpus.nvml.nvmlDeviceGetMPSComputeRunningProcesses_v3
                             : gpus.nvml.nvmlDeviceGetComputeRunningProcesses_v3;
      if (call(gpu.device, &count, infos.data()) != NVML_SUCCESS_)
        continue;
      for (unsigned int i = 0; i < count && i < kMost; ++i) all.push_back({gpu.index, gpu.device, infos[i], mps});
    }
  }
  return all;
}

}  // namespace lockstep::smi
