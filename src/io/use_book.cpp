#include "io/use_book.h"

#include <algorithm>

#include "base/text.h"

namespace lockstep {
namespace {

constexpr std::int64_t kBytesOfMiB = 1 << 20;

// Of two accounts of the same work: each figure that says more.
WorkUse larger_of(const WorkUse& a, const WorkUse& b) {
  if (a.tasks == 0)
    return b;
  if (b.tasks == 0)
    return a;
  WorkUse out = a;
  out.user = std::max(a.user, b.user);
  out.system = std::max(a.system, b.system);
  out.read_bytes = std::max(a.read_bytes, b.read_bytes);
  out.written_bytes = std::max(a.written_bytes, b.written_bytes);
  out.tasks = std::max(a.tasks, b.tasks);
  if (b.memory_peak > a.memory_peak) {
    out.memory_peak = b.memory_peak;
    out.memory_peak_rank = b.memory_peak_rank;
  }
  out.memory_sum = std::max(a.memory_sum, b.memory_sum);
  out.gpu = std::max(a.gpu, b.gpu);
  out.gpu_memory_peak = std::max(a.gpu_memory_peak, b.gpu_memory_peak);
  return out;
}

}  // namespace

std::vector<GpuShare> gpu_shares(const std::vector<GpuSample>& samples,
                                 const std::function<std::optional<WorkId>(pid_t)>& work_of) {
  std::vector<GpuShare> out;
  for (const GpuSample& sample : samples) {
    struct Of {
      std::int64_t memory_mb = 0;
      std::int32_t busy = -1;
    };
    std::map<WorkId, Of> parts;
    for (const GpuProcess& process : sample.processes)
      if (const auto key = work_of(static_cast<pid_t>(process.pid))) {
        Of& part = parts[*key];
        part.memory_mb += process.memory_mb;
        if (process.busy_percent >= 0)
          part.busy = std::max(part.busy, 0) + process.busy_percent;
      }
    const std::int32_t all = std::max(sample.utilization, 0);
    for (const auto& [key, part] : parts) {
      const std::int32_t busy = parts.size() == 1 ? all
                                : part.busy >= 0  ? std::min(part.busy, all)
                                                  : all / static_cast<std::int32_t>(parts.size());
      out.push_back({key, sample.index, part.memory_mb, static_cast<std::uint32_t>(busy)});
    }
  }
  return out;
}

WorkUse UseBook::Part::use() const {
  WorkUse out = seen;
  if (memory.empty())
    return out;
  WorkUse now = seen;
  now.tasks = static_cast<std::uint32_t>(memory.size());
  now.memory_peak = now.memory_sum = 0;
  for (const auto& [rank, bytes] : memory) {
    now.memory_sum += bytes;
    if (bytes > now.memory_peak) {
      now.memory_peak = bytes;
      now.memory_peak_rank = rank;
    }
  }
  const auto least =
      std::min_element(cpu.begin(), cpu.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (least != cpu.end()) {
    now.least_cpu = least->second;
    now.least_cpu_rank = least->first;
  }
  return larger_of(now, out);
}

void UseBook::see(const std::vector<WorkLook>& looks) {
  std::map<WorkId, Part> still;
  for (const WorkLook& look : looks) {
    auto known = parts_.extract(look.key);
    Part& part = known.empty() ? still[look.key] : still.insert(std::move(known)).position->second;
    part.begun = part.begun || !look.tasks.empty();
    part.seen.user = std::max(part.seen.user, look.user);
    part.seen.system = std::max(part.seen.system, look.system);
    part.seen.read_bytes = std::max(part.seen.read_bytes, look.read_bytes);
    part.seen.written_bytes = std::max(part.seen.written_bytes, look.written_bytes);
    for (const TaskLook& task : look.tasks) {
      std::int64_t& peak = part.memory[task.rank];
      peak = std::max(peak, task.memory);
      Duration& cpu = part.cpu[task.rank];
      cpu = std::max(cpu, task.cpu);
    }
  }
  parts_ = std::move(still);
}

void UseBook::see(const std::vector<GpuSample>& samples, const std::vector<GpuShare>& shares, Duration over) {
  for (const GpuSample& sample : samples) {
    Gpu& gpu = gpus_[sample.index];
    gpu.over = gpu.over + over;
    gpu.busy = gpu.busy + over * std::max(sample.utilization, 0) / 100;
    gpu.last.device = static_cast<std::uint16_t>(sample.index);
    gpu.last.memory_mb = sample.memory_used_mb;
    gpu.last.watts = static_cast<std::uint32_t>(std::max<std::int64_t>(0, sample.power_mw) / 1000);
    gpu.last.celsius = static_cast<std::uint32_t>(std::max(sample.celsius, 0));
  }
  for (const GpuShare& share : shares) {
    WorkUse& seen = parts_[share.key].seen;
    seen.gpu = seen.gpu + over * share.busy_percent / 100;
    seen.gpu_memory_peak = std::max(seen.gpu_memory_peak, share.memory_mb * kBytesOfMiB);
  }
}

WorkUse UseBook::complete(const WorkId& key, const WorkUse& counted) const {
  const auto part = parts_.find(key);
  if (part == parts_.end())
    return counted;
  const WorkUse seen = part->second.use();
  WorkUse out = larger_of(counted, seen);
  out.gpu = seen.gpu;  // of these nobody else knows
  out.gpu_memory_peak = seen.gpu_memory_peak;
  return out;
}

std::vector<WorkSample> UseBook::work() const {
  std::vector<WorkSample> out;
  for (const auto& [key, part] : parts_)
    if (part.begun)
      out.push_back({key.job, key.attempt, key.part, part.use()});
  return out;
}

std::vector<DeviceSample> UseBook::take_devices() {
  std::vector<DeviceSample> out;
  for (auto& [index, gpu] : gpus_) {
    if (gpu.over > Duration{})
      gpu.last.busy_percent = static_cast<std::uint32_t>(gpu.busy.us * 100 / gpu.over.us);
    gpu.busy = gpu.over = {};
    out.push_back(gpu.last);
  }
  return out;
}

std::vector<std::string> UseBook::lines() const {
  std::vector<std::string> out;
  for (const auto& [key, part] : parts_)
    if (const WorkUse use = part.use(); use != WorkUse{})
      out.push_back(text_of(key) + " " + text_of(use));
  return out;
}

void UseBook::restore(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    const auto blank = line.find(' ');
    const auto key = parse_work_id(std::string_view(line).substr(0, blank));
    const auto use = blank == line.npos ? std::nullopt : parse_work_use(std::string_view(line).substr(blank + 1));
    if (key && use)
      parts_[*key].seen = *use;
  }
}

}  // namespace lockstep
