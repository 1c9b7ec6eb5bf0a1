// NVML's calls, played by a simulated machine: MIG. Instances are made, found and destroyed by NVIDIA's rules: disjoint
// memory slices at the placements of their profile, and no more computing slices than the GPU has.
#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "standin/machine.h"
#include "standin/processes.h"

using namespace standin;

namespace {

constexpr unsigned int kComputeSlices = 7;
// Ids of compute instance profiles are their index in NVML_COMPUTE_INSTANCE_PROFILE_…; these are their slices.
constexpr unsigned int kComputeProfiles[] = {1, 2, 3, 4, 7, 8, 6, 1};

const MigShape* shape_by_id(const Machine& machine, unsigned int id) {
  for (const MigShape& shape : machine.model->mig)
    if (shape.id == id)
      return &shape;
  return nullptr;
}
const MigShape* shape_by_index(const Machine& machine, unsigned int index) {
  for (const MigShape& shape : machine.model->mig)
    if (shape.index == index)
      return &shape;
  return nullptr;
}

bool has_media(const MigShape& shape) { return strstr(shape.name, "+me") != nullptr; }

bool fits(const Gpu& gpu, const MigShape& shape, unsigned int start) {
  unsigned int computing = shape.compute, same = 1;
  for (const GpuInstance& other : gpu.instances) {
    if (other.start < start + shape.memory && start < other.start + other.shape->memory)
      return false;
    computing += other.shape->compute;
    same += other.shape->id == shape.id ? 1 : 0;
  }
  return computing <= kComputeSlices && (same <= shape.most || !has_media(shape));
}

// As NVIDIA's driver, an instance that may lie anywhere goes where it leaves the large placements: at the end.
int place(const Gpu& gpu, const MigShape& shape) {
  int found = -1;
  for (const int start : shape.starts) {
    if (start < 0)
      break;
    if (fits(gpu, shape, static_cast<unsigned int>(start)))
      found = start;
  }
  return found;
}

unsigned int capacity(Gpu gpu, const MigShape& shape) {
  unsigned int count = 0;
  for (const int start : shape.starts) {
    if (start < 0)
      break;
    if (fits(gpu, shape, static_cast<unsigned int>(start))) {
      gpu.instances.push_back({0, &shape, static_cast<unsigned int>(start), {}});
      ++count;
    }
  }
  return count;
}

// The ids NVIDIA's driver gives: 0 for the whole GPU, 1 and 2 for halves, 3 to 6 for quarters, then single slices.
unsigned int fresh_id(const Gpu& gpu, const MigShape& shape) {
  unsigned int id = shape.compute == 7 ? 0 : shape.memory == 4 ? 1 : shape.memory == 2 ? 3 : 7;
  const auto is_taken = [&](unsigned int wanted) {
    return std::any_of(gpu.instances.begin(), gpu.instances.end(), [&](const auto& i) { return i.id == wanted; });
  };
  while (is_taken(id)) id = (id + 1) % kGpuInstancesMax;
  return id;
}

unsigned int multiprocessors(const MigShape& shape, unsigned int slices) {
  return slices >= shape.compute ? shape.multiprocessors : shape.multiprocessors / shape.compute * slices;
}

std::map<std::pair<unsigned int, unsigned int>, nvmlGpuInstance_st> gpu_instances;  // under the library's lock
std::map<std::tuple<unsigned int, unsigned int, unsigned int>, nvmlComputeInstance_st> compute_instances;

nvmlGpuInstance_t handle_of_instance(unsigned int gpu, unsigned int id) {
  return &(gpu_instances[{gpu, id}] = {gpu, id});
}
nvmlComputeInstance_t handle_of_compute(unsigned int gpu, unsigned int instance, unsigned int id) {
  return &(compute_instances[{gpu, instance, id}] = {gpu, instance, id});
}

GpuInstance* find(Gpu& gpu, unsigned int id) {
  for (GpuInstance& instance : gpu.instances)
    if (instance.id == id)
      return &instance;
  return nullptr;
}

nvmlReturn_t check_mig(const Hold& hold, nvmlDevice_t device) {
  if (hold->model->mig.empty())
    return NVML_ERROR_NOT_SUPPORTED_;
  return gpu_of(hold, device).mig ? NVML_SUCCESS_ : NVML_ERROR_NOT_SUPPORTED_;
}

nvmlReturn_t check_instance(const Hold& hold, nvmlGpuInstance_t instance) {
  if (!started(hold))
    return NVML_ERROR_UNINITIALIZED_;
  if (!instance)
    return NVML_ERROR_INVALID_ARGUMENT_;
  if (hold->gpus[instance->gpu].lost)
    return NVML_ERROR_GPU_IS_LOST_;
  return instance_of(hold, instance->gpu, instance->id) ? NVML_SUCCESS_ : NVML_ERROR_NOT_FOUND_;
}

bool is_used(const Hold& hold, unsigned int gpu, unsigned int instance, int compute) {
  for (const Use& use : uses_of(hold, gpu))
    if (use.on_mig && use.gpu_instance == instance &&
        (compute < 0 || use.compute_instance == static_cast<unsigned int>(compute)))
      return true;
  return false;
}

void fill(const MigShape& shape, nvmlGpuInstanceProfileInfo_v2_t& info) {
  info = {};
  info.version = NVML_VERSION_OF_(nvmlGpuInstanceProfileInfo_v2_t, 2u);
  info.id = shape.id;
  info.sliceCount = shape.compute;
  info.instanceCount = shape.most;
  info.multiprocessorCount = shape.multiprocessors;
  info.copyEngineCount = shape.copy_engines;
  info.decoderCount = shape.decoders;
  info.jpegCount = shape.jpeg;
  info.ofaCount = shape.ofa;
  info.memorySizeMB = shape.megabytes;
  snprintf(info.name, sizeof info.name, "MIG %s", shape.name);
}

nvmlReturn_t create(const Hold& hold, nvmlDevice_t device, unsigned int profile_id,
                    const nvmlInstancePlacement_t* placement, nvmlGpuInstance_t* instance) {
  if (const nvmlReturn_t refused = check_mig(hold, device); refused != NVML_SUCCESS_)
    return refused;
  const MigShape* shape = shape_by_id(*hold, profile_id);
  if (!shape || !instance)
    return NVML_ERROR_INVALID_ARGUMENT_;
  unsigned int id = 0;
  const nvmlReturn_t made = change_gpu(hold, device->gpu, [&](Gpu& gpu) -> nvmlReturn_t {
    const MigShape* now = shape_by_id(*hold, profile_id);  // the file was read again
    if (!gpu.mig || !now)
      return NVML_ERROR_NOT_SUPPORTED_;
    int start = placement ? static_cast<int>(std::min(placement->start, 8u)) : place(gpu, *now);
    if (placement && (std::find(now->starts.begin(), now->starts.end(), start) == now->starts.end() ||
                      placement->size != now->memory))
      return NVML_ERROR_INVALID_ARGUMENT_;
    if (start < 0 || !fits(gpu, *now, static_cast<unsigned int>(start)))
      return NVML_ERROR_INSUFFICIENT_RESOURCES_;
    id = fresh_id(gpu, *now);
    gpu.instances.push_back({id, now, static_cast<unsigned int>(start), {}});
    return NVML_SUCCESS_;
  });
  if (made == NVML_SUCCESS_)
    *instance = handle_of_instance(device->gpu, id);
  return made;
}

unsigned int taken_slices(const GpuInstance& instance) {
  unsigned int taken = 0;
  for (const ComputeInstance& compute : instance.computes)
    for (unsigned int slice = compute.start; slice < compute.start + compute.slices; ++slice) taken |= 1u << slice;
  return taken;
}

// -1: no room.
int place_compute(const GpuInstance& instance, unsigned int slices) {
  const unsigned int taken = taken_slices(instance);
  for (unsigned int start = 0; start + slices <= instance.shape->compute; ++start)
    if ((taken & (((1u << slices) - 1) << start)) == 0)
      return static_cast<int>(start);
  return -1;
}

void fill(const MigShape& shape, unsigned int profile, nvmlComputeInstanceProfileInfo_v2_t& info) {
  const unsigned int slices = kComputeProfiles[profile];
  info = {};
  info.version = NVML_VERSION_OF_(nvmlComputeInstanceProfileInfo_v2_t, 2u);
  info.id = profile;
  info.sliceCount = slices;
  info.instanceCount = shape.compute / slices;
  info.multiprocessorCount = multiprocessors(shape, slices);
  info.sharedCopyEngineCount = shape.copy_engines;
  info.sharedDecoderCount = shape.decoders;
  info.sharedJpegCount = shape.jpeg;
  info.sharedOfaCount = shape.ofa;
  if (slices == shape.compute)
    snprintf(info.name, sizeof info.name, "MIG %s", shape.name);
  else
    snprintf(info.name, sizeof info.name, "MIG %uc.%s", slices, shape.name);
}

bool is_compute_profile(const MigShape& shape, unsigned int profile) {
  return profile < 7 && kComputeProfiles[profile] <= shape.compute &&
         // NVIDIA offers 1, 2, 3, 4 and 7 slices.
         kComputeProfiles[profile] != 6 && kComputeProfiles[profile] != 8;
}

}  // namespace

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* current, unsigned int* pending) {
  ENTER(device);
  NEED(current && pending);
  if (hold->model->mig.empty())
    return NVML_ERROR_NOT_SUPPORTED_;
  *current = *pending = gpu_of(hold, device).mig;
  return NVML_SUCCESS_;
}
// In force at once, as on Hopper and later, unless somebody uses the GPU.
EXPORT nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t* activation) {
  ENTER(device);
  NEED(activation);
  if (mode > 1)
    return NVML_ERROR_INVALID_ARGUMENT_;
  if (hold->model->mig.empty())
    return NVML_ERROR_NOT_SUPPORTED_;
  *activation = NVML_SUCCESS_;
  if (!uses_of(hold, device->gpu).empty()) {
    *activation = NVML_ERROR_IN_USE_;
    return NVML_ERROR_IN_USE_;
  }
  return change_gpu(hold, device->gpu, [&](Gpu& gpu) -> nvmlReturn_t {
    if (mode == 0 && !gpu.instances.empty())
      return NVML_ERROR_IN_USE_;
    gpu.mig = mode == 1;
    return NVML_SUCCESS_;
  });
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile,
                                                         nvmlGpuInstanceProfileInfo_v2_t* info) {
  ENTER(device);
  NEED(info);
  if (info->version != NVML_VERSION_OF_(nvmlGpuInstanceProfileInfo_v2_t, 2u))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH_;
  const MigShape* shape = shape_by_index(*hold, profile);
  if (!shape)
    return NVML_ERROR_NOT_SUPPORTED_;
  fill(*shape, *info);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile,
                                                        nvmlGpuInstanceProfileInfo_t* info) {
  NEED(info);
  nvmlGpuInstanceProfileInfo_v2_t whole{};
  whole.version = NVML_VERSION_OF_(nvmlGpuInstanceProfileInfo_v2_t, 2u);
  const nvmlReturn_t found = nvmlDeviceGetGpuInstanceProfileInfoV(device, profile, &whole);
  if (found == NVML_SUCCESS_)
    *info = {whole.id,
             whole.isP2pSupported,
             whole.sliceCount,
             whole.instanceCount,
             whole.multiprocessorCount,
             whole.copyEngineCount,
             whole.decoderCount,
             whole.encoderCount,
             whole.jpegCount,
             whole.ofaCount,
             whole.memorySizeMB};
  return found;
}
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int profile_id,
                                                                  nvmlInstancePlacement_t* placements,
                                                                  unsigned int* count) {
  ENTER(device);
  NEED(count);
  const MigShape* shape = shape_by_id(*hold, profile_id);
  if (!shape)
    return hold->model->mig.empty() ? NVML_ERROR_NOT_SUPPORTED_ : NVML_ERROR_INVALID_ARGUMENT_;
  const auto end = std::find(shape->starts.begin(), shape->starts.end(), -1);
  const auto all = static_cast<unsigned int>(end - shape->starts.begin());
  const unsigned int room = placements ? *count : 0;
  *count = all;
  if (!placements)
    return NVML_SUCCESS_;
  if (room < all)
    return NVML_ERROR_INSUFFICIENT_SIZE_;
  for (unsigned int i = 0; i < all; ++i) placements[i] = {static_cast<unsigned int>(shape->starts[i]), shape->memory};
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int profile_id,
                                                              unsigned int* count) {
  ENTER(device);
  NEED(count);
  if (const nvmlReturn_t refused = check_mig(hold, device); refused != NVML_SUCCESS_)
    return refused;
  const MigShape* shape = shape_by_id(*hold, profile_id);
  NEED(shape);
  *count = capacity(gpu_of(hold, device), *shape);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int profile_id,
                                                nvmlGpuInstance_t* instance) {
  ENTER(device);
  return create(hold, device, profile_id, nullptr, instance);
}
EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int profile_id,
                                                             const nvmlInstancePlacement_t* placement,
                                                             nvmlGpuInstance_t* instance) {
  ENTER(device);
  NEED(placement);
  return create(hold, device, profile_id, placement, instance);
}
EXPORT nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t handle) {
  const Hold hold;
  if (const nvmlReturn_t refused = check_instance(hold, handle); refused != NVML_SUCCESS_)
    return refused;
  return change_gpu(hold, handle->gpu, [&](Gpu& gpu) -> nvmlReturn_t {
    const auto at = std::find_if(gpu.instances.begin(), gpu.instances.end(),
                                 [&](const GpuInstance& instance) { return instance.id == handle->id; });
    if (at == gpu.instances.end())
      return NVML_ERROR_NOT_FOUND_;
    if (!at->computes.empty())
      return NVML_ERROR_IN_USE_;
    gpu.instances.erase(at);
    return NVML_SUCCESS_;
  });
}
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int profile_id,
                                              nvmlGpuInstance_t* instances, unsigned int* count) {
  ENTER(device);
  NEED(count);  // room is a condition of the call: as many as the profile's instanceCount
  if (const nvmlReturn_t refused = check_mig(hold, device); refused != NVML_SUCCESS_)
    return refused;
  NEED(shape_by_id(*hold, profile_id));
  unsigned int found = 0;
  for (const GpuInstance& instance : gpu_of(hold, device).instances)
    if (instance.shape->id == profile_id) {
      if (instances)
        instances[found] = handle_of_instance(device->gpu, instance.id);
      ++found;
    }
  *count = found;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t* instance) {
  ENTER(device);
  NEED(instance);
  if (const nvmlReturn_t refused = check_mig(hold, device); refused != NVML_SUCCESS_)
    return refused;
  if (!instance_of(hold, device->gpu, id))
    return NVML_ERROR_NOT_FOUND_;
  *instance = handle_of_instance(device->gpu, id);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t handle, nvmlGpuInstanceInfo_t* info) {
  const Hold hold;
  if (const nvmlReturn_t refused = check_instance(hold, handle); refused != NVML_SUCCESS_)
    return refused;
  NEED(info);
  const GpuInstance& instance = *instance_of(hold, handle->gpu, handle->id);
  *info = {handle_of(hold, handle->gpu), instance.id, instance.shape->id, {instance.start, instance.shape->memory}};
  return NVML_SUCCESS_;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t handle, unsigned int profile,
                                                                  unsigned int engine,
                                                                  nvmlComputeInstanceProfileInfo_v2_t* info) {
  const Hold hold;
  if (const nvmlReturn_t refused = check_instance(hold, handle); refused != NVML_SUCCESS_)
    return refused;
  if (!info || engine != 0)
    return NVML_ERROR_INVALID_ARGUMENT_;
  if (info->version != NVML_VERSION_OF_(nvmlComputeInstanceProfileInfo_v2_t, 2u))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH_;
  const MigShape& shape = *instance_of(hold, handle->gpu, handle->id)->shape;
  if (!is_compute_profile(shape, profile))
    return NVML_ERROR_NOT_SUPPORTED_;
  fill(shape, profile, *info);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t handle, unsigned int profile,
                                                                 unsigned int engine,
                                                                 nvmlComputeInstanceProfileInfo_t* info) {
  NEED(info);
  nvmlComputeInstanceProfileInfo_v2_t whole{};
  whole.version = NVML_VERSION_OF_(nvmlComputeInstanceProfileInfo_v2_t, 2u);
  const nvmlReturn_t found = nvmlGpuInstanceGetComputeInstanceProfileInfoV(handle, profile, engine, &whole);
  if (found == NVML_SUCCESS_)
    *info = {whole.id,
             whole.sliceCount,
             whole.instanceCount,
             whole.multiprocessorCount,
             whole.sharedCopyEngineCount,
             whole.sharedDecoderCount,
             whole.sharedEncoderCount,
             whole.sharedJpegCount,
             whole.sharedOfaCount};
  return found;
}
EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t handle,
                                                                       unsigned int profile_id, unsigned int* count) {
  const Hold hold;
  if (const nvmlReturn_t refused = check_instance(hold, handle); refused != NVML_SUCCESS_)
    return refused;
  GpuInstance instance = *instance_of(hold, handle->gpu, handle->id);
  if (!count || !is_compute_profile(*instance.shape, profile_id))
    return NVML_ERROR_INVALID_ARGUMENT_;
  const unsigned int slices = kComputeProfiles[profile_id];
  *count = 0;
  for (int start; (start = place_compute(instance, slices)) >= 0; ++*count)
    instance.computes.push_back({0, slices, static_cast<unsigned int>(start)});
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t handle, unsigned int profile_id,
                                                         nvmlComputeInstance_t* compute) {
  const Hold hold;
  if (const nvmlReturn_t refused = check_instance(hold, handle); refused != NVML_SUCCESS_)
    return refused;
  if (!compute || !is_compute_profile(*instance_of(hold, handle->gpu, handle->id)->shape, profile_id))
    return NVML_ERROR_INVALID_ARGUMENT_;
  unsigned int id = 0;
  const nvmlReturn_t made = change_gpu(hold, handle->gpu, [&](Gpu& gpu) -> nvmlReturn_t {
    GpuInstance* instance = find(gpu, handle->id);
    const unsigned int slices = kComputeProfiles[profile_id];
    const int start = instance ? place_compute(*instance, slices) : -1;
    if (start < 0)
      return instance ? NVML_ERROR_INSUFFICIENT_RESOURCES_ : NVML_ERROR_NOT_FOUND_;
    auto& computes = instance->computes;
    while (std::any_of(computes.begin(), computes.end(), [&](const auto& other) { return other.id == id; })) ++id;
    computes.push_back({id, slices, static_cast<unsigned int>(start)});
    return NVML_SUCCESS_;
  });
  if (made == NVML_SUCCESS_)
    *compute = handle_of_compute(handle->gpu, handle->id, id);
  return made;
}
EXPORT nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t handle) {
  const Hold hold;
  if (!started(hold))
    return NVML_ERROR_UNINITIALIZED_;
  NEED(handle);
  if (is_used(hold, handle->gpu, handle->gpu_instance, static_cast<int>(handle->id)))
    return NVML_ERROR_IN_USE_;
  return change_gpu(hold, handle->gpu, [&](Gpu& gpu) -> nvmlReturn_t {
    GpuInstance* instance = find(gpu, handle->gpu_instance);
    if (!instance)
      return NVML_ERROR_NOT_FOUND_;
    const auto at = std::find_if(instance->computes.begin(), instance->computes.end(),
                                 [&](const ComputeInstance& compute) { return compute.id == handle->id; });
    if (at == instance->computes.end())
      return NVML_ERROR_NOT_FOUND_;
    instance->computes.erase(at);
    return NVML_SUCCESS_;
  });
}
EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t handle, unsigned int profile_id,
                                                       nvmlComputeInstance_t* computes, unsigned int* count) {
  const Hold hold;
  if (const nvmlReturn_t refused = check_instance(hold, handle); refused != NVML_SUCCESS_)
    return refused;
  const GpuInstance& instance = *instance_of(hold, handle->gpu, handle->id);
  if (!count || !is_compute_profile(*instance.shape, profile_id))
    return NVML_ERROR_INVALID_ARGUMENT_;
  unsigned int found = 0;
  for (const ComputeInstance& compute : instance.computes)
    if (compute.slices == kComputeProfiles[profile_id]) {
      if (computes)
        computes[found] = handle_of_compute(handle->gpu, handle->id, compute.id);
      ++found;
    }
  *count = found;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t handle, unsigned int id,
                                                          nvmlComputeInstance_t* compute) {
  const Hold hold;
  if (const nvmlReturn_t refused = check_instance(hold, handle); refused != NVML_SUCCESS_)
    return refused;
  NEED(compute);
  for (const ComputeInstance& one : instance_of(hold, handle->gpu, handle->id)->computes)
    if (one.id == id)
      return *compute = handle_of_compute(handle->gpu, handle->id, id), NVML_SUCCESS_;
  return NVML_ERROR_NOT_FOUND_;
}
EXPORT nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t* info) {
  const Hold hold;
  if (!started(hold))
    return NVML_ERROR_UNINITIALIZED_;
  NEED(handle && info);
  const GpuInstance* instance = instance_of(hold, handle->gpu, handle->gpu_instance);
  if (instance)
    for (const ComputeInstance& compute : instance->computes)
      if (compute.id == handle->id) {
        const auto* profile = std::find(kComputeProfiles, kComputeProfiles + 8, compute.slices);
        *info = {handle_of(hold, handle->gpu),
                 handle_of_instance(handle->gpu, instance->id),
                 compute.id,
                 static_cast<unsigned int>(profile - kComputeProfiles),
                 {compute.start, compute.slices}};
        return NVML_SUCCESS_;
      }
  return NVML_ERROR_NOT_FOUND_;
}

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int* is_mig) {
  const Hold hold;
  if (!started(hold))
    return NVML_ERROR_UNINITIALIZED_;
  NEED(device && is_mig);
  *is_mig = device->is_mig;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int* id) {
  ENTER_(device, Takes::kMigToo);
  NEED(id && device->is_mig);
  *id = device->gpu_instance;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int* id) {
  ENTER_(device, Takes::kMigToo);
  NEED(id && device->is_mig);
  *id = device->compute_instance;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int* count) {
  ENTER(device);
  NEED(count);
  *count = hold->model->mig.empty() ? 0 : kMigDevicesMax;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t* mig) {
  ENTER(device);
  if (!mig || index >= kMigDevicesMax)
    return NVML_ERROR_INVALID_ARGUMENT_;
  if (const nvmlReturn_t refused = check_mig(hold, device); refused != NVML_SUCCESS_)
    return refused;
  std::vector<std::pair<unsigned int, unsigned int>> all;
  for (const GpuInstance& instance : gpu_of(hold, device).instances)
    for (const ComputeInstance& compute : instance.computes) all.emplace_back(instance.id, compute.id);
  std::sort(all.begin(), all.end());
  if (index >= all.size())
    return NVML_ERROR_NOT_FOUND_;
  *mig = mig_handle_of(hold, device->gpu, all[index].first, all[index].second);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t* device) {
  ENTER_(mig, Takes::kMigToo);
  NEED(device && mig->is_mig);
  *device = handle_of(hold, mig->gpu);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t* attributes) {
  ENTER_(device, Takes::kMigToo);
  NEED(attributes);
  if (!device->is_mig)
    return NVML_ERROR_NOT_SUPPORTED_;
  const GpuInstance& instance = *instance_of(hold, device->gpu, device->gpu_instance);
  const MigShape& shape = *instance.shape;
  unsigned int slices = 0;
  for (const ComputeInstance& compute : instance.computes)
    if (compute.id == device->compute_instance)
      slices = compute.slices;
  *attributes = {multiprocessors(shape, slices),
                 shape.copy_engines,
                 shape.decoders,
                 0,
                 shape.jpeg,
                 shape.ofa,
                 shape.compute,
                 slices,
                 shape.megabytes};
  return NVML_SUCCESS_;
}
