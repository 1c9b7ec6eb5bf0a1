#include "io/gpus/mig_slices.h"

#include <algorithm>
#include <tuple>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kInstancesMost = 16;

Errc code_of(nvmlReturn_t code) {
  switch (code) {
    case NVML_ERROR_NO_PERMISSION_: return Errc::kDenied;
    case NVML_ERROR_IN_USE_:
    case NVML_ERROR_INSUFFICIENT_RESOURCES_: return Errc::kConflict;
    case NVML_ERROR_NOT_SUPPORTED_:
    case NVML_ERROR_FUNCTION_NOT_FOUND_: return Errc::kUnsupported;
    case NVML_ERROR_GPU_IS_LOST_: return Errc::kUnavailable;
    default: return Errc::kIo;
  }
}

std::string words_of(const DevicePart& part) {
  return format("MIG slice {} at {} of GPU {}", part.mig, part.slice, part.device);
}

}  // namespace

Result<MigSlices> MigSlices::open(const std::string& library) { return MigSlices(TRY(NvmlSession::open(library))); }

Result<nvmlDevice_t> MigSlices::device_of(std::uint32_t index) const {
  nvmlDevice_t device = nullptr;
  if (const auto code = nvml_->nvmlDeviceGetHandleByIndex_v2(index, &device); code != NVML_SUCCESS_)
    return Error{code_of(code), format("GPU {}: {}", index, nvml_->words(code)), {}};
  return device;
}

Result<MigSlices::Profile> MigSlices::profile_of(nvmlDevice_t device, const DevicePart& part) const {
  for (unsigned int index = 0; index < NVML_GPU_INSTANCE_PROFILE_COUNT_; ++index) {
    nvmlGpuInstanceProfileInfo_v2_t info{};
    info.version = NVML_VERSION_OF_(nvmlGpuInstanceProfileInfo_v2_t, 2u);
    if (nvml_->nvmlDeviceGetGpuInstanceProfileInfoV(device, index, &info) != NVML_SUCCESS_)
      continue;
    info.name[sizeof info.name - 1] = 0;
    const std::string_view name = info.name;
    if (name != part.mig && name != "MIG " + part.mig)
      continue;
    nvmlInstancePlacement_t places[kInstancesMost];
    unsigned int count = kInstancesMost;
    if (const auto code = nvml_->nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, info.id, places, &count);
        code != NVML_SUCCESS_ || count == 0)
      return Error{
          code_of(code), format("{}: its placements are not known: {}", words_of(part), nvml_->words(code)), {}};
    return Profile{info.id, info.sliceCount, places[0].size};
  }
  return Error{Errc::kUnsupported,
               format("GPU {} has no MIG profile {}; nvidia-smi mig -lgip lists them", part.device, part.mig),
               {}};
}

std::vector<nvmlGpuInstance_t> MigSlices::instances(nvmlDevice_t device, unsigned int profile_id) const {
  std::vector<nvmlGpuInstance_t> all(kInstancesMost);
  unsigned int count = 0;
  if (nvml_->nvmlDeviceGetGpuInstances(device, profile_id, all.data(), &count) != NVML_SUCCESS_)
    count = 0;
  all.resize(std::min<std::size_t>(count, kInstancesMost));
  return all;
}

nvmlGpuInstance_t MigSlices::find(nvmlDevice_t device, const Profile& profile, unsigned int start) const {
  for (const nvmlGpuInstance_t instance : instances(device, profile.id)) {
    nvmlGpuInstanceInfo_t info{};
    if (nvml_->nvmlGpuInstanceGetInfo(instance, &info) == NVML_SUCCESS_ && info.placement.start == start)
      return instance;
  }
  return nullptr;
}

// The compute instance of this many slices; one that is there is enough.
nvmlReturn_t MigSlices::add_compute(nvmlGpuInstance_t instance, unsigned int slices) const {
  for (unsigned int index = 0; index < NVML_COMPUTE_INSTANCE_PROFILE_COUNT_; ++index) {
    nvmlComputeInstanceProfileInfo_t info{};
    if (nvml_->nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, index, 0, &info) != NVML_SUCCESS_ ||
        info.sliceCount != slices)
      continue;
    std::vector<nvmlComputeInstance_t> there(kInstancesMost);
    unsigned int count = 0;
    if (nvml_->nvmlGpuInstanceGetComputeInstances(instance, info.id, there.data(), &count) == NVML_SUCCESS_ &&
        count > 0)
      return NVML_SUCCESS_;
    nvmlComputeInstance_t made = nullptr;
    return nvml_->nvmlGpuInstanceCreateComputeInstance(instance, info.id, &made);
  }
  return NVML_ERROR_NOT_SUPPORTED_;
}

nvmlReturn_t MigSlices::remove(nvmlGpuInstance_t instance) const {
  for (unsigned int index = 0; index < NVML_COMPUTE_INSTANCE_PROFILE_COUNT_; ++index) {
    nvmlComputeInstanceProfileInfo_t info{};
    if (nvml_->nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, index, 0, &info) != NVML_SUCCESS_)
      continue;
    std::vector<nvmlComputeInstance_t> there(kInstancesMost);
    unsigned int count = 0;
    if (nvml_->nvmlGpuInstanceGetComputeInstances(instance, info.id, there.data(), &count) != NVML_SUCCESS_)
      continue;
    for (unsigned int i = 0; i < count && i < kInstancesMost; ++i)
      if (const auto code = nvml_->nvmlComputeInstanceDestroy(there[i]); code != NVML_SUCCESS_)
        return code;
  }
  return nvml_->nvmlGpuInstanceDestroy(instance);
}

void MigSlices::name(nvmlDevice_t device, unsigned int gpu_instance, MigSlice& slice) const {
  slice.gpu_instance = gpu_instance;
  unsigned int most = 0;
  nvml_->nvmlDeviceGetMaxMigDeviceCount(device, &most);
  for (unsigned int i = 0; i < std::min<unsigned int>(most, kInstancesMost); ++i) {
    nvmlDevice_t mig = nullptr;
    unsigned int id = 0;
    char uuid[96] = "";
    if (nvml_->nvmlDeviceGetMigDeviceHandleByIndex(device, i, &mig) == NVML_SUCCESS_ &&
        nvml_->nvmlDeviceGetGpuInstanceId(mig, &id) == NVML_SUCCESS_ && id == gpu_instance &&
        nvml_->nvmlDeviceGetUUID(mig, uuid, sizeof uuid) == NVML_SUCCESS_) {
      slice.uuid = uuid;
      if (nvml_->nvmlDeviceGetComputeInstanceId(mig, &id) == NVML_SUCCESS_)
        slice.compute_instance = id;
      return;
    }
  }
}

Result<MigSlice> MigSlices::make(const DevicePart& part, bool& is_new) {
  const nvmlDevice_t device = TRY(device_of(part.device));
  const Profile profile = TRY(profile_of(device, part));
  const auto failed = [&](const char* what, nvmlReturn_t code) {
    return Error{code_of(code), format("{}: {} cannot be made: {}", words_of(part), what, nvml_->words(code)), {}};
  };
  nvmlGpuInstance_t instance = find(device, profile, part.slice);
  is_new = instance == nullptr;
  if (is_new) {
    const nvmlInstancePlacement_t place{part.slice, profile.memory};
    if (const auto code = nvml_->nvmlDeviceCreateGpuInstanceWithPlacement(device, profile.id, &place, &instance);
        code != NVML_SUCCESS_)
      return failed("its GPU instance", code);
  }
  nvmlGpuInstanceInfo_t info{};
  auto code = add_compute(instance, profile.compute);
  if (code == NVML_SUCCESS_)
    code = nvml_->nvmlGpuInstanceGetInfo(instance, &info);
  MigSlice slice{part.device, part.mig, part.slice, {}};
  if (code == NVML_SUCCESS_)
    name(device, info.id, slice);
  if (!slice.uuid.empty())
    return slice;
  if (is_new)
    remove(instance);
  is_new = false;
  return failed("its compute instance", code == NVML_SUCCESS_ ? NVML_ERROR_NOT_FOUND_ : code);
}

Result<std::vector<MigSlice>> MigSlices::create(const std::vector<DevicePart>& parts) {
  std::vector<MigSlice> slices;
  std::vector<DevicePart> fresh;
  for (const DevicePart& part : parts) {
    if (part.mig.empty())
      continue;
    bool is_new = false;
    auto made = make(part, is_new);
    if (!made) {
      const auto undone = destroy(fresh);
      auto error = made.error();
      if (!undone)
        error.message += format("; {}", undone.error().message);
      return error;
    }
    if (is_new)
      fresh.push_back(part);
    slices.push_back(std::move(*made));
  }
  return slices;
}

Result<void> MigSlices::destroy(const std::vector<DevicePart>& parts) {
  std::optional<Error> first;
  for (const DevicePart& part : parts) {
    if (part.mig.empty())
      continue;
    const auto device = device_of(part.device);
    const auto profile = device ? profile_of(*device, part) : Result<Profile>(device.error());
    if (!profile) {
      first = first ? first : profile.error();
      continue;
    }
    const nvmlGpuInstance_t instance = find(*device, *profile, part.slice);
    const auto code = instance ? remove(instance) : NVML_SUCCESS_;
    if (code != NVML_SUCCESS_ && !first)
      first = Error{code_of(code), format("{} cannot be destroyed: {}", words_of(part), nvml_->words(code)), {}};
  }
  return first ? Result<void>(*first) : Result<void>();
}

Result<std::vector<MigSlice>> MigSlices::list() const {
  std::vector<MigSlice> all;
  unsigned int count = 0;
  nvml_->nvmlDeviceGetCount_v2(&count);
  for (unsigned int i = 0; i < std::min(count, DeviceSet::kCapacity); ++i) {
    const auto device = device_of(i);
    for (unsigned int index = 0; device && index < NVML_GPU_INSTANCE_PROFILE_COUNT_; ++index) {
      nvmlGpuInstanceProfileInfo_v2_t profile{};
      profile.version = NVML_VERSION_OF_(nvmlGpuInstanceProfileInfo_v2_t, 2u);
      if (nvml_->nvmlDeviceGetGpuInstanceProfileInfoV(*device, index, &profile) != NVML_SUCCESS_)
        continue;
      profile.name[sizeof profile.name - 1] = 0;
      std::string name = profile.name;
      if (name.rfind("MIG ", 0) == 0)
        name.erase(0, 4);
      for (const nvmlGpuInstance_t instance : instances(*device, profile.id)) {
        nvmlGpuInstanceInfo_t info{};
        if (nvml_->nvmlGpuInstanceGetInfo(instance, &info) == NVML_SUCCESS_)
          this->name(*device, info.id,
                     all.emplace_back(MigSlice{i, name, static_cast<std::uint16_t>(info.placement.start), {}}));
      }
    }
  }
  std::sort(all.begin(), all.end(), [](const MigSlice& a, const MigSlice& b) {
    return std::tie(a.device, a.start) < std::tie(b.device, b.start);
  });
  return all;
}

}  // namespace lockstep
