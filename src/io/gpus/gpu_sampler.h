// What the GPUs of this machine do, looked at once a second or so: use, memory, power, heat, clocks, errors, and Xids
// since the last look. Values for accounting, health checks and whoever asks a node; no decision is made here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "io/gpus/nvml_library.h"

namespace lockstep {

// Why clocks are lower than they could be, of what matters to operators. Bits of GpuSample::slowed.
enum GpuSlowed : std::uint8_t {
  kSlowedByPowerCap = 1,
  kSlowedByHeat = 2,
  kSlowedByHardware = 4,  // a hardware slowdown, heat or power among its reasons
  kSlowedByPowerBrake = 8
};

enum class GpuRecovery : std::uint8_t { kNone, kReset, kReboot, kDrainPeers, kDrainAndReset, kUnknown };

// A process that computes on a GPU.
struct GpuProcess {
  std::uint32_t pid = 0;
  std::int64_t memory_mb = 0;      // that it holds there
  std::int32_t busy_percent = -1;  // of the GPU's time; -1 unknown, as where it is alone
};

struct GpuSample {
  std::uint32_t index = 0;  // as NVML counts
  bool answers = false;     // false: lost, all else is 0 then
  std::string uuid;
  std::int32_t utilization = -1;  // percent; -1 unknown, as of a GPU in MIG mode
  std::int64_t memory_total_mb = 0, memory_used_mb = 0;
  std::int64_t power_mw = 0, power_limit_mw = 0;
  std::int64_t energy_mj = -1;  // since the driver was loaded; -1 unknown
  std::int32_t celsius = 0;
  std::int32_t sm_mhz = 0, memory_mhz = 0;
  std::uint8_t slowed = 0;                              // GpuSlowed
  std::int64_t ecc_corrected = 0, ecc_uncorrected = 0;  // since the driver was loaded
  bool remap_pending = false, remap_failure = false;
  GpuRecovery recovery = GpuRecovery::kUnknown;
  std::uint32_t links_active = 0, links_down = 0;  // NVLinks; looked at every kLinksEvery samples only
  std::vector<std::uint32_t> xids;                 // since the last sample, in order; at most kXidsMost
  bool mig = false;
  std::vector<GpuProcess> processes;  // at most kProcessesMost
};

class GpuSampler {
 public:
  static constexpr int kLinksEvery = 30;
  static constexpr std::size_t kXidsMost = 64;
  static constexpr std::size_t kProcessesMost = 256;

  // Keeps NVML open, and begins to note Xids. kNotFound: no driver is installed.
  static Result<GpuSampler> open(const std::string& library = "libnvidia-ml.so.1");
  GpuSampler(GpuSampler&&) noexcept;
  ~GpuSampler();

  // Asks the driver; takes some ten microseconds a GPU beside what the driver takes. May be called from one thread.
  std::vector<GpuSample> sample();

  static std::string slowed_text(std::uint8_t slowed);     // "heat, power cap"; "" for none
  static const char* recovery_text(GpuRecovery recovery);  // "reset"; "" for none and unknown

 private:
  struct Watched {
    nvmlDevice_t device = nullptr;
    std::string uuid;
    std::uint32_t links_active = 0, links_down = 0;
    std::vector<std::uint32_t> xids;
    unsigned long long processes_seen_us = 0;  // the driver's clock: of the last process utilization that was read
  };
  explicit GpuSampler(NvmlSession session) : nvml_(std::move(session)) {}
  void watch();
  void take_events();
  void count_links(Watched& watched) const;
  void read(Watched& watched, GpuSample& sample) const;
  void read_processes(Watched& watched, GpuSample& sample) const;

  NvmlSession nvml_;
  nvmlEventSet_t events_ = nullptr;
  std::vector<Watched> watched_;
  int samples_ = 0;
};

}  // namespace lockstep
