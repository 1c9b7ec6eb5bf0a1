#include "io/gpus/gpu_sampler.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr unsigned int kGpusMost = 64;

std::uint8_t slowed_of(unsigned long long reasons) {
  std::uint8_t slowed = 0;
  if ((reasons & NVML_CLOCKS_REASON_SW_POWER_CAP_) != 0)
    slowed |= kSlowedByPowerCap;
  if ((reasons & (NVML_CLOCKS_REASON_SW_THERMAL_ | NVML_CLOCKS_REASON_HW_THERMAL_)) != 0)
    slowed |= kSlowedByHeat;
  if ((reasons & NVML_CLOCKS_REASON_HW_SLOWDOWN_) != 0)
    slowed |= kSlowedByHardware;
  if ((reasons & NVML_CLOCKS_REASON_HW_POWER_BRAKE_) != 0)
    slowed |= kSlowedByPowerBrake;
  return slowed;
}

}  // namespace

Result<GpuSampler> GpuSampler::open(const std::string& library) {
  GpuSampler sampler(TRY(NvmlSession::open(library)));
  sampler.watch();
  return sampler;
}

GpuSampler::GpuSampler(GpuSampler&& other) noexcept
    : nvml_(std::move(other.nvml_)),
      events_(std::exchange(other.events_, nullptr)),
      watched_(std::move(other.watched_)),
      samples_(other.samples_) {}

GpuSampler::~GpuSampler() {
  if (events_)
    nvml_->nvmlEventSetFree(events_);
}

// A driver that cannot tell of one kind of event still tells of the others.
void GpuSampler::watch() {
  unsigned int count = 0;
  nvml_->nvmlDeviceGetCount_v2(&count);
  if (nvml_->nvmlEventSetCreate(&events_) != NVML_SUCCESS_)
    events_ = nullptr;
  for (unsigned int i = 0; i < std::min(count, kGpusMost); ++i) {
    Watched watched;
    char uuid[96] = "";
    if (nvml_->nvmlDeviceGetHandleByIndex_v2(i, &watched.device) != NVML_SUCCESS_)
      watched.device = nullptr;
    else if (nvml_->nvmlDeviceGetUUID(watched.device, uuid, sizeof uuid) == NVML_SUCCESS_)
      watched.uuid = uuid;
    unsigned long long types = 0;
    if (watched.device && events_ && nvml_->nvmlDeviceGetSupportedEventTypes(watched.device, &types) == NVML_SUCCESS_ &&
        (types & NVML_EVENT_XID_))
      nvml_->nvmlDeviceRegisterEvents(watched.device, NVML_EVENT_XID_, events_);
    watched_.push_back(std::move(watched));
  }
}

void GpuSampler::take_events() {
  nvmlEventData_t event{};
  for (std::size_t n = 0; events_ && n < kXidsMost && nvml_->nvmlEventSetWait_v2(events_, &event, 0) == NVML_SUCCESS_;
       ++n)
    for (Watched& watched : watched_)
      if (watched.device == event.device && event.eventType == NVML_EVENT_XID_ && watched.xids.size() < kXidsMost)
        watched.xids.push_back(static_cast<std::uint32_t>(event.eventData));
}

void GpuSampler::count_links(Watched& watched) const {
  watched.links_active = watched.links_down = 0;
  for (unsigned int link = 0; link < NVML_NVLINK_MAX_LINKS_; ++link) {
    unsigned int active = 0;
    if (nvml_->nvmlDeviceGetNvLinkState(watched.device, link, &active) == NVML_SUCCESS_)
      ++(active != 0 ? watched.links_active : watched.links_down);
  }
}

std::vector<GpuSample> GpuSampler::sample() {
  take_events();
  std::vector<GpuSample> samples;
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    Watched& watched = watched_[i];
    GpuSample sample;
    sample.index = static_cast<std::uint32_t>(i);
    sample.uuid = watched.uuid;
    sample.xids = std::exchange(watched.xids, {});
    // One that did not answer at the start may have been reset since.
    if (!watched.device && nvml_->nvmlDeviceGetHandleByIndex_v2(sample.index, &watched.device) != NVML_SUCCESS_)
      watched.device = nullptr;
    if (watched.device && samples_ % kLinksEvery == 0)
      count_links(watched);
    if (watched.device)
      read(watched, sample);
    samples.push_back(std::move(sample));
  }
  ++samples_;
  return samples;
}

void GpuSampler::read(Watched& watched, GpuSample& sample) const {
  nvmlMemory_t memory{};
  if (nvml_->nvmlDeviceGetMemoryInfo(watched.device, &memory) != NVML_SUCCESS_)
    return;
  sample.answers = true;
  sample.memory_total_mb = static_cast<std::int64_t>(memory.total >> 20);
  sample.memory_used_mb = static_cast<std::int64_t>(memory.used >> 20);
  unsigned int modes[2]{};
  sample.mig = nvml_->nvmlDeviceGetMigMode(watched.device, modes, modes + 1) == NVML_SUCCESS_ && modes[0] == 1;
  nvmlUtilization_t rates{};
  if (nvml_->nvmlDeviceGetUtilizationRates(watched.device, &rates) == NVML_SUCCESS_)
    sample.utilization = static_cast<std::int32_t>(rates.gpu);
  unsigned int value = 0;
  if (nvml_->nvmlDeviceGetPowerUsage(watched.device, &value) == NVML_SUCCESS_)
    sample.power_mw = value;
  if (nvml_->nvmlDeviceGetEnforcedPowerLimit(watched.device, &value) == NVML_SUCCESS_)
    sample.power_limit_mw = value;
  if (nvml_->nvmlDeviceGetTemperature(watched.device, 0, &value) == NVML_SUCCESS_)
    sample.celsius = static_cast<std::int32_t>(value);
  if (nvml_->nvmlDeviceGetClockInfo(watched.device, NVML_CLOCK_SM_, &value) == NVML_SUCCESS_)
    sample.sm_mhz = static_cast<std::int32_t>(value);
  if (nvml_->nvmlDeviceGetClockInfo(watched.device, NVML_CLOCK_MEM_, &value) == NVML_SUCCESS_)
    sample.memory_mhz = static_cast<std::int32_t>(value);
  unsigned long long wide = 0;
  if (nvml_->nvmlDeviceGetTotalEnergyConsumption(watched.device, &wide) == NVML_SUCCESS_)
    sample.energy_mj = static_cast<std::int64_t>(wide);
  if (nvml_->nvmlDeviceGetCurrentClocksThrottleReasons(watched.device, &wide) == NVML_SUCCESS_ ||
      nvml_->nvmlDeviceGetCurrentClocksEventReasons(watched.device, &wide) == NVML_SUCCESS_)
    sample.slowed = slowed_of(wide);
  const auto errors = [&](int type) {
    return nvml_->nvmlDeviceGetTotalEccErrors(watched.device, type, NVML_VOLATILE_ECC_, &wide) == NVML_SUCCESS_
               ? static_cast<std::int64_t>(wide)
               : 0;
  };
  sample.ecc_corrected = errors(NVML_MEMORY_ERROR_TYPE_CORRECTED_);
  sample.ecc_uncorrected = errors(NVML_MEMORY_ERROR_TYPE_UNCORRECTED_);
  unsigned int rows[4]{};
  if (nvml_->nvmlDeviceGetRemappedRows(watched.device, rows, rows + 1, rows + 2, rows + 3) == NVML_SUCCESS_) {
    sample.remap_pending = rows[2] != 0;
    sample.remap_failure = rows[3] != 0;
  }
  nvmlFieldValue_t field{};
  field.fieldId = NVML_FI_DEV_GET_GPU_RECOVERY_ACTION_;
  if (nvml_->nvmlDeviceGetFieldValues(watched.device, 1, &field) == NVML_SUCCESS_ &&
      field.nvmlReturn == NVML_SUCCESS_ && field.value.uiVal < static_cast<unsigned int>(GpuRecovery::kUnknown))
    sample.recovery = static_cast<GpuRecovery>(field.value.uiVal);
  sample.links_active = watched.links_active;
  sample.links_down = watched.links_down;
  read_processes(watched, sample);
}

// Which of several keeps the GPU busy the driver tells by samples of its own, about the time since the last one read.
void GpuSampler::read_processes(Watched& watched, GpuSample& sample) const {
  std::array<nvmlProcessInfo_t, kProcessesMost> list;
  unsigned int count = kProcessesMost;
  if (nvml_->nvmlDeviceGetComputeRunningProcesses_v3(watched.device, &count, list.data()) != NVML_SUCCESS_) {
    count = kProcessesMost;
    if (nvml_->nvmlDeviceGetComputeRunningProcesses_v2(watched.device, &count, list.data()) != NVML_SUCCESS_)
      return;
  }
  // Clients of MPS are a list of their own.
  unsigned int clients = kProcessesMost - count;
  if (clients > 0 &&
      nvml_->nvmlDeviceGetMPSComputeRunningProcesses_v3(watched.device, &clients, list.data() + count) == NVML_SUCCESS_)
    count += clients;
  constexpr unsigned long long kUnknown = ~0ULL;
  for (unsigned int i = 0; i < count; ++i)
    sample.processes.push_back(
        {list[i].pid, list[i].usedGpuMemory == kUnknown ? 0 : static_cast<std::int64_t>(list[i].usedGpuMemory >> 20)});
  if (count < 2)
    return;
  std::array<nvmlProcessUtilizationSample_t, kProcessesMost> uses;
  unsigned int used = kProcessesMost;
  if (nvml_->nvmlDeviceGetProcessUtilization(watched.device, uses.data(), &used, watched.processes_seen_us) !=
      NVML_SUCCESS_)
    return;
  for (unsigned int i = 0; i < used; ++i) {
    watched.processes_seen_us = std::max(watched.processes_seen_us, uses[i].timeStamp);
    for (GpuProcess& process : sample.processes)
      if (process.pid == uses[i].pid)
        process.busy_percent = static_cast<std::int32_t>(std::min(uses[i].smUtil, 100U));
  }
}

std::string GpuSampler::slowed_text(std::uint8_t slowed) {
  std::vector<std::string> words;
  if ((slowed & kSlowedByHeat) != 0)
    words.emplace_back("heat");
  if ((slowed & kSlowedByPowerBrake) != 0)
    words.emplace_back("power brake");
  if ((slowed & kSlowedByHardware) != 0)
    words.emplace_back("hardware");
  if ((slowed & kSlowedByPowerCap) != 0)
    words.emplace_back("power cap");
  return join(words, ", ");
}

const char* GpuSampler::recovery_text(GpuRecovery recovery) {
  switch (recovery) {
    case GpuRecovery::kReset: return "reset";
    case GpuRecovery::kReboot: return "reboot";
    case GpuRecovery::kDrainPeers: return "drain peers";
    case GpuRecovery::kDrainAndReset: return "drain and reset";
    case GpuRecovery::kNone:
    case GpuRecovery::kUnknown: break;
  }
  return "";
}

}  // namespace lockstep
