#include "io/nvml.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/text.h"
#include "io/gpus/nvml_library.h"
#include "io/memory_nodes.h"

namespace lockstep {

namespace {

// By NVML where the kernel does not show the device, as in a container.
std::int32_t numa_of(const NvmlLibrary& nvml, nvmlDevice_t handle, const std::string& bus_id) {
  if (const std::int32_t node = memory_node_of(bus_id); node >= 0)
    return node;
  constexpr unsigned int kWords = 2;
  constexpr unsigned int kNearest = 0;  // NVML_AFFINITY_SCOPE_NODE
  unsigned long words[kWords] = {};
  if (nvml.nvmlDeviceGetMemoryAffinity(handle, kWords, words, kNearest) != NVML_SUCCESS_)
    return -1;
  std::int32_t found = -1;
  for (std::int32_t node = 0; node < static_cast<std::int32_t>(kWords * 64); ++node)
    if (words[node / 64] >> (node % 64) & 1)
      found = found < 0 ? node : -2;
  return found < 0 ? -1 : found;
}

class NvmlDevices : public DeviceSource {
 public:
  explicit NvmlDevices(std::string library) : path_(std::move(library)) {}

  Result<std::vector<Device>> list() override {
    const auto session = NvmlSession::open(path_);
    if (!session && session.error().code == Errc::kNotFound)
      return std::vector<Device>();  // no driver: no GPUs
    if (!session)
      return session.error();
    return read(**session);
  }

 private:
  Result<std::vector<Device>> read(const NvmlLibrary& nvml) const {
    unsigned int count = 0;
    if (const auto code = nvml.nvmlDeviceGetCount_v2(&count); code != NVML_SUCCESS_)
      return Error{Errc::kUnavailable, format("NVML does not count its devices: {}", nvml.words(code)), {}};
    std::vector<Device> devices;
    std::vector<nvmlDevice_t> handles;
    for (unsigned int i = 0; i < std::min(count, DeviceSet::kCapacity); ++i) {
      Device device;
      device.minor = i;
      nvmlDevice_t handle = nullptr;
      device.healthy = nvml.nvmlDeviceGetHandleByIndex_v2(i, &handle) == NVML_SUCCESS_;
      if (device.healthy)
        describe(nvml, handle, device);
      devices.push_back(std::move(device));
      handles.push_back(handle);
    }
    // A device that has fallen off the bus does not say what it was: its neighbours' type keeps its place countable.
    for (Device& device : devices)
      if (device.type.empty() && !devices.empty()) {
        const auto known =
            std::find_if(devices.begin(), devices.end(), [](const Device& d) { return !d.type.empty(); });
        device.type = known == devices.end() ? "gpu" : known->type;
      }
    find_islands(nvml, handles, devices);
    return devices;
  }

  static void describe(const NvmlLibrary& nvml, nvmlDevice_t handle, Device& device) {
    char text[128] = "";
    if (nvml.nvmlDeviceGetName(handle, text, sizeof text) == NVML_SUCCESS_)
      device.type = gpu_type_of(text);
    if (nvml.nvmlDeviceGetUUID(handle, text, sizeof text) == NVML_SUCCESS_)
      device.uuid = text;
    else
      device.healthy = false;
    unsigned int minor = 0;
    if (nvml.nvmlDeviceGetMinorNumber(handle, &minor) == NVML_SUCCESS_)
      device.minor = minor;
    nvmlMemory_t memory{};
    if (nvml.nvmlDeviceGetMemoryInfo(handle, &memory) == NVML_SUCCESS_)
      device.memory_mb = static_cast<std::int64_t>(memory.total >> 20);
    nvmlPciInfo_t pci{};
    if (nvml.nvmlDeviceGetPciInfo_v3(handle, &pci) == NVML_SUCCESS_) {
      device.bus_id = pci.busId;
      device.numa = numa_of(nvml, handle, device.bus_id);
    }
    unsigned long long errors = 0;
    if (nvml.nvmlDeviceGetTotalEccErrors(handle, NVML_MEMORY_ERROR_TYPE_UNCORRECTED_, NVML_VOLATILE_ECC_, &errors) ==
            NVML_SUCCESS_ &&
        errors > 0)
      device.healthy = false;
    unsigned int mig = 0, pending = 0;
    device.mig = nvml.nvmlDeviceGetMigMode(handle, &mig, &pending) == NVML_SUCCESS_ && mig == 1;
  }

  // Devices that NVLink joins, directly or through a shared switch, form an island.
  static void find_islands(const NvmlLibrary& nvml, const std::vector<nvmlDevice_t>& handles,
                           std::vector<Device>& devices) {
    std::vector<std::int32_t> island(devices.size());
    std::iota(island.begin(), island.end(), 0);
    const auto merge = [&](std::int32_t a, std::int32_t b) {
      const std::int32_t low = std::min(island[static_cast<std::size_t>(a)], island[static_cast<std::size_t>(b)]);
      const std::int32_t high = std::max(island[static_cast<std::size_t>(a)], island[static_cast<std::size_t>(b)]);
      std::replace(island.begin(), island.end(), high, low);
    };
    std::map<std::string, std::int32_t> by_bus, first_on_switch;
    for (std::size_t i = 0; i < devices.size(); ++i)
      if (!devices[i].bus_id.empty())
        by_bus[devices[i].bus_id] = static_cast<std::int32_t>(i);
    if (nvml.nvmlDeviceGetNvLinkState && nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2)
      for (std::size_t i = 0; i < devices.size(); ++i) {
        if (!devices[i].healthy)
          continue;
        for (unsigned int link = 0; link < NVML_NVLINK_MAX_LINKS_; ++link) {
          unsigned int active = 0;
          nvmlPciInfo_t remote{};
          if (nvml.nvmlDeviceGetNvLinkState(handles[i], link, &active) != NVML_SUCCESS_ || !active)
            continue;
          if (nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2(handles[i], link, &remote) != NVML_SUCCESS_)
            continue;
          const auto self = static_cast<std::int32_t>(i);
          if (const auto peer = by_bus.find(remote.busId); peer != by_bus.end())
            merge(self, peer->second);
          else
            merge(self, first_on_switch.emplace(remote.busId, self).first->second);
        }
      }
    for (std::size_t i = 0; i < devices.size(); ++i) devices[i].island = island[i];
  }

  std::string path_;
};

}  // namespace

std::unique_ptr<DeviceSource> make_nvml_devices(std::string library) {
  return std::make_unique<NvmlDevices>(std::move(library));
}

std::string gpu_type_of(const std::string& product_name) {
  std::vector<std::string> words;
  for (const auto& word : split_words(lower(product_name)))
    if (word != "nvidia" && word != "tesla" && word != "geforce" && word != "quadro" && word != "graphics" &&
        word != "device")
      words.push_back(word);
  if (words.empty())
    return "gpu";
  // "rtx 4090" and "rtx a6000" are one name; elsewhere the model is the first word, up to its form factor.
  if (words[0] == "rtx" && words.size() > 1)
    return words[0] + words[1];
  return words[0].substr(0, words[0].find('-'));
}

}  // namespace lockstep
