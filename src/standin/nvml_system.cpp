// NVML's calls, played by a simulated machine: beginning and end, the system, finding devices and what they are.
#include <stdio.h>
#include <string.h>

#include "standin/machine.h"
#include "standin/processes.h"

using namespace standin;

EXPORT nvmlReturn_t nvmlInit_v2(void) { return start(); }
EXPORT nvmlReturn_t nvmlInit(void) { return start(); }
EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int) { return start(); }
EXPORT nvmlReturn_t nvmlShutdown(void) { return stop(); }

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char* text, unsigned int size) { return put("570.133.20", text, size); }
EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char* text, unsigned int size) { return put("12.570.133.20", text, size); }
EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  NEED(version);
  *version = 12080;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) { return nvmlSystemGetCudaDriverVersion_v2(version); }
EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char* name, unsigned int size) {
  const std::string found = process_name(pid);
  if (found.empty())
    return NVML_ERROR_NOT_FOUND_;
  return put(found.substr(0, size > 0 ? size - 1 : 0), name, size);
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  const Hold hold;
  if (!started(hold))
    return NVML_ERROR_UNINITIALIZED_;
  NEED(count);
  *count = static_cast<unsigned int>(present(hold).size());
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  const Hold hold;
  if (!started(hold))
    return NVML_ERROR_UNINITIALIZED_;
  if (!device || index >= present(hold).size())
    return NVML_ERROR_INVALID_ARGUMENT_;
  *device = handle_of(hold, present(hold)[index]);
  return check(hold, *device);
}
EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  const Hold hold;
  if (!started(hold))
    return NVML_ERROR_UNINITIALIZED_;
  NEED(uuid && device);
  for (const unsigned int gpu : present(hold)) {
    if (uuid_of(hold, {gpu}) == uuid)
      return *device = handle_of(hold, gpu), check(hold, *device);
    for (const GpuInstance& instance : hold->gpus[gpu].instances)
      for (const ComputeInstance& compute : instance.computes)
        if (uuid_of(hold, {gpu, true, instance.id, compute.id}) == uuid)
          return *device = mig_handle_of(hold, gpu, instance.id, compute.id), check(hold, *device, Takes::kMigToo);
  }
  return NVML_ERROR_NOT_FOUND_;
}
EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device) {
  const Hold hold;
  if (!started(hold))
    return NVML_ERROR_UNINITIALIZED_;
  NEED(bus_id && device);
  unsigned int domain = 0, bus = 0, number = 0;
  if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &number) != 3 && sscanf(bus_id, "%x:%x", &bus, &number) != 2)
    return NVML_ERROR_INVALID_ARGUMENT_;
  for (const unsigned int gpu : present(hold))
    if (domain == 0 && bus == bus_of(gpu) && number == 0)
      return *device = handle_of(hold, gpu), check(hold, *device);
  return NVML_ERROR_NOT_FOUND_;
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* index) {
  ENTER(device);
  NEED(index);
  const auto& all = present(hold);
  for (unsigned int i = 0; i < all.size(); ++i)
    if (all[i] == device->gpu)
      return *index = i, NVML_SUCCESS_;
  return NVML_ERROR_NOT_FOUND_;
}
EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int size) {
  ENTER_(device, Takes::kMigToo);
  if (!device->is_mig)
    return put(hold->product, name, size);
  return put(hold->product + " MIG " + instance_of(hold, device->gpu, device->gpu_instance)->shape->name, name, size);
}
EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int size) {
  ENTER_(device, Takes::kMigToo);
  return put(uuid_of(hold, *device), uuid, size);
}
EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int* minor) {
  ENTER(device);
  NEED(minor);
  *minor = device->gpu;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char* serial, unsigned int size) {
  ENTER(device);
  const std::string uuid = uuid_of(hold, *device);
  unsigned long long h = 0;
  for (const char c : uuid) h = h * 31 + static_cast<unsigned char>(c);
  char text[32];
  snprintf(text, sizeof text, "165%010llu", h % 10'000'000'000ull);
  return put(text, serial, size);
}
EXPORT nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char* version, unsigned int size) {
  ENTER(device);
  return put(hold->model->vbios, version, size);
}
EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  ENTER(device);
  NEED(pci);
  describe_bus(pci, bus_of(device->gpu), 0, hold->model->pci_device);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, int* brand) {
  ENTER(device);
  NEED(brand);
  *brand = hold->type == "v100" ? 2 : 14;  // NVML_BRAND_TESLA, NVML_BRAND_NVIDIA
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int* architecture) {
  ENTER(device);
  NEED(architecture);
  *architecture = hold->model->architecture;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  ENTER(device);
  NEED(major && minor);
  *major = hold->model->capability_major;
  *minor = hold->model->capability_minor;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, int* mode) {
  ENTER(device);
  NEED(mode);
  *mode = gpu_of(hold, device).persistence ? 1 : 0;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, int mode) {
  ENTER(device);
  return change_gpu(hold, device->gpu, [&](Gpu& gpu) { return gpu.persistence = mode != 0, NVML_SUCCESS_; });
}
EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, int* mode) {
  ENTER(device);
  NEED(mode);
  *mode = gpu_of(hold, device).compute_mode;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, int mode) {
  ENTER(device);
  if (mode != NVML_COMPUTEMODE_DEFAULT_ && mode != NVML_COMPUTEMODE_PROHIBITED_ &&
      mode != NVML_COMPUTEMODE_EXCLUSIVE_PROCESS_)
    return NVML_ERROR_INVALID_ARGUMENT_;
  return change_gpu(hold, device->gpu, [&](Gpu& gpu) { return gpu.compute_mode = mode, NVML_SUCCESS_; });
}
EXPORT nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, int* mode) {
  ENTER(device);
  NEED(mode);
  *mode = 0;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, int* active) {
  return nvmlDeviceGetDisplayMode(device, active);
}
EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, int* current, int* pending) {
  ENTER(device);
  NEED(current && pending);
  *current = *pending = 1;
  return NVML_SUCCESS_;
}

EXPORT const char* nvmlErrorString(nvmlReturn_t code) {
  switch (code) {
    case NVML_SUCCESS_: return "Success";
    case NVML_ERROR_UNINITIALIZED_: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT_: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED_: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION_: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND_: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE_: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED_: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT_: return "Timeout";
    case NVML_ERROR_FUNCTION_NOT_FOUND_: return "Function Not Found";
    case NVML_ERROR_GPU_IS_LOST_: return "GPU is lost";
    case NVML_ERROR_OPERATING_SYSTEM_: return "Operating System Error";
    case NVML_ERROR_IN_USE_: return "In use by another client";
    case NVML_ERROR_INSUFFICIENT_RESOURCES_: return "Insufficient Resources";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH_: return "Argument Version Mismatch";
    default: return complaint().empty() ? "Unknown Error" : complaint().c_str();
  }
}
