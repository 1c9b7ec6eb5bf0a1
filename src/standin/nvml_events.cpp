// NVML's calls, played by a simulated machine: waiting for Xids and memory errors. An event is a fault that the driving
// file did not have when the GPU was registered, or when the last event of it was told.
#include <time.h>

#include <algorithm>
#include <deque>

#include "standin/machine.h"

using namespace standin;

struct nvmlEventSet_st {
  struct Watched {
    nvmlDevice_t device = nullptr;
    unsigned long long types = 0;
    std::vector<unsigned int> xids;
    unsigned long long corrected = 0, uncorrected = 0;
  };
  std::vector<Watched> watched;
  std::deque<nvmlEventData_t> events;
};

namespace {

constexpr unsigned long long kSupported = NVML_EVENT_SINGLE_BIT_ECC_ | NVML_EVENT_DOUBLE_BIT_ECC_ | NVML_EVENT_XID_;
constexpr std::size_t kEventsMax = 1024;

void note(nvmlEventSet_st::Watched& watched, const Gpu& gpu) {
  watched.xids = gpu.xids;
  watched.corrected = gpu.corrected;
  watched.uncorrected = gpu.uncorrected;
}

void look(const Hold& hold, nvmlEventSet_st& set, nvmlEventSet_st::Watched& watched) {
  const Gpu& gpu = gpu_of(hold, watched.device);
  const auto tell = [&](unsigned long long type, unsigned long long data) {
    if ((watched.types & type) != 0 && set.events.size() < kEventsMax)
      set.events.push_back({watched.device, type, data, NVML_NO_INSTANCE_, NVML_NO_INSTANCE_});
  };
  auto before = watched.xids;
  for (const unsigned int xid : gpu.xids)
    if (const auto old = std::find(before.begin(), before.end(), xid); old != before.end())
      before.erase(old);
    else
      tell(NVML_EVENT_XID_, xid);
  if (gpu.corrected > watched.corrected)
    tell(NVML_EVENT_SINGLE_BIT_ECC_, 0);
  if (gpu.uncorrected > watched.uncorrected)
    tell(NVML_EVENT_DOUBLE_BIT_ECC_, 0);
  note(watched, gpu);
}

long long clock_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000ll + now.tv_nsec / 1'000'000;
}

// False while there is none.
nvmlReturn_t take(nvmlEventSet_st& set, nvmlEventData_t& data, bool& found) {
  const Hold hold;
  if (!started(hold))
    return NVML_ERROR_UNINITIALIZED_;
  for (auto& watched : set.watched) look(hold, set, watched);
  found = !set.events.empty();
  if (found) {
    data = set.events.front();
    set.events.pop_front();
  }
  return NVML_SUCCESS_;
}

}  // namespace

EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  const Hold hold;
  if (!started(hold))
    return NVML_ERROR_UNINITIALIZED_;
  NEED(set);
  *set = new nvmlEventSet_st();
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  NEED(set);
  delete set;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long* types) {
  ENTER(device);
  NEED(types);
  *types = kSupported;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
  ENTER(device);
  NEED(set);
  if ((types & ~kSupported) != 0)
    return NVML_ERROR_NOT_SUPPORTED_;
  for (auto& watched : set->watched)
    if (watched.device == device)
      return watched.types |= types, NVML_SUCCESS_;
  set->watched.push_back({device, types, {}, 0, 0});
  note(set->watched.back(), gpu_of(hold, device));
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data, unsigned int timeout_ms) {
  NEED(set && data);
  constexpr long long kLookMs = 50;
  const long long until = clock_ms() + timeout_ms;
  for (;;) {
    bool found = false;
    if (const nvmlReturn_t looked = take(*set, *data, found); looked != NVML_SUCCESS_ || found)
      return looked;
    const long long left = until - clock_ms();
    if (left <= 0)
      return NVML_ERROR_TIMEOUT_;
    const timespec pause{0, static_cast<long>(std::min(left, kLookMs)) * 1'000'000};
    nanosleep(&pause, nullptr);
  }
}
EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t* data, unsigned int timeout_ms) {
  return nvmlEventSetWait_v2(set, data, timeout_ms);
}
