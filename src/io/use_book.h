// UseBook: remembers what looks at running work have found, so that a part's peaks and its GPU time are known when it
// ends, and its use so far at any moment before. It looks at nothing itself.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/gpus/gpu_sampler.h"
#include "io/work_looks.h"
#include "model/agent_messages.h"

namespace lockstep {

// What a part has of one GPU at the moment of a sample.
struct GpuShare {
  WorkId key;
  std::uint32_t gpu = 0;
  std::int64_t memory_mb = 0;
  std::uint32_t busy_percent = 0;
};
// Of whom the processes on each GPU are. Where several parts are on one and the driver does not tell them apart, its
// busy time is theirs in equal shares.
std::vector<GpuShare> gpu_shares(const std::vector<GpuSample>& samples,
                                 const std::function<std::optional<WorkId>(pid_t)>& work_of);

class UseBook {
 public:
  // All that is there: what is not named any more is forgotten.
  void see(const std::vector<WorkLook>& looks);
  // over: the time that these samples speak for.
  void see(const std::vector<GpuSample>& samples, const std::vector<GpuShare>& shares, Duration over);

  // What the part has used, of what its shim counted when it ended and of what was seen here. The larger counts.
  WorkUse complete(const WorkId& key, const WorkUse& counted) const;
  void forget(const WorkId& key) { parts_.erase(key); }

  std::vector<WorkSample> work() const;      // what runs, up to now
  std::vector<DeviceSample> take_devices();  // of the time since this was asked last

  // What an agent that ends has seen, for the next one: a line for each part.
  std::vector<std::string> lines() const;
  void restore(const std::vector<std::string>& lines);

 private:
  struct Part {
    WorkUse seen;                                  // but for the tasks' figures
    std::map<std::uint32_t, std::int64_t> memory;  // peak of each rank, bytes
    std::map<std::uint32_t, Duration> cpu;         // of each rank, so far
    bool begun = false;                            // its tasks have been seen
    WorkUse use() const;
  };
  struct Gpu {
    Duration busy, over;
    DeviceSample last;
  };
  std::map<WorkId, Part> parts_;
  std::map<std::uint32_t, Gpu> gpus_;
};

}  // namespace lockstep
