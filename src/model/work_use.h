// What the processes of a script or a step have used: as the kernel counted it for those that were waited for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace lockstep {

struct WorkUse {
  Duration user, system;                           // of all its processes
  std::int64_t read_bytes = 0, written_bytes = 0;  // from and to disks
  std::uint32_t tasks = 0;                         // whose shares these are: 0 = nothing is known
  std::int64_t memory_peak = 0, memory_sum = 0;    // bytes: the task that held most at once, and all tasks' such peaks
  std::uint32_t memory_peak_rank = 0;
  Duration least_cpu;  // of the task that computed least
  std::uint32_t least_cpu_rank = 0;
  Duration gpu;                      // time in which a kernel ran, over all its GPUs
  std::int64_t gpu_memory_peak = 0;  // bytes: the most that it held of one GPU
  friend bool operator==(const WorkUse&, const WorkUse&) = default;

  void add(const WorkUse& other) {
    if (other.tasks == 0)
      return;
    if (tasks == 0 || other.memory_peak > memory_peak) {
      memory_peak = other.memory_peak;
      memory_peak_rank = other.memory_peak_rank;
    }
    if (tasks == 0 || other.least_cpu < least_cpu) {
      least_cpu = other.least_cpu;
      least_cpu_rank = other.least_cpu_rank;
    }
    user = user + other.user;
    system = system + other.system;
    read_bytes += other.read_bytes;
    written_bytes += other.written_bytes;
    tasks += other.tasks;
    memory_sum += other.memory_sum;
    gpu = gpu + other.gpu;
    gpu_memory_peak = std::max(gpu_memory_peak, other.gpu_memory_peak);
  }
};

// Twelve numbers in this order, the times in microseconds: user, system, bytes read, bytes written, tasks, memory of
// the task that held most, of all tasks, rank of that one, least CPU time of a task, rank of that one, GPU time, GPU
// memory. Older texts lack the last two.
std::string text_of(const WorkUse& use);
std::optional<WorkUse> parse_work_use(std::string_view text);

}  // namespace lockstep
