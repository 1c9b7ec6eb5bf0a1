#include "frontends/slurm/server/use_columns.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "model/records.h"
#include "model/step.h"

namespace lockstep::slurm {

namespace {

std::string kib_text(std::int64_t bytes) { return format("{}K", bytes >> 10); }
std::string disk_text(std::int64_t bytes) { return format("{:.2f}M", static_cast<double>(bytes) / (1 << 20)); }
std::string clock_text(std::int64_t seconds) {
  return format("{:02}:{:02}:{:02}", seconds / 3'600, seconds / 60 % 60, seconds % 60);
}

// The node that a rank of the step runs on. A job's record has left by the time when its steps are old; without it the
// only node of a list is known.
std::string node_of_rank(const UseLine& line, std::uint32_t rank) {
  if (const Step* step = line.tables.step(line.job, line.step); step && step->attempt == line.attempt)
    for (const StepPlace& place : step->places)
      if (std::binary_search(place.ranks.begin(), place.ranks.end(), rank))
        if (const Node* node = line.tables.node(place.node))
          return node->meta.name;
  return std::string(line.only_node);
}

// GPU time over all tasks as a share of the time so far: 250 is two and a half GPUs without a pause. Of a second at
// least, and not of whole ones: what has run for 1.9 would seem to have used twice as many.
std::int64_t gpu_percent(const UseLine& line) {
  return line.use.gpu.us / (std::max(seconds(1), line.elapsed).us / 100);
}

std::string in_text(const UseLine& line, std::int64_t memory, std::int64_t cpu_seconds, std::int64_t read) {
  return format("cpu={},mem={}", clock_text(cpu_seconds), kib_text(memory)) +
         (line.use.read_bytes > 0 ? format(",fs/disk={}", read) : std::string());
}

bool used_gpus(const WorkUse& use) { return use.gpu > Duration{} || use.gpu_memory_peak > 0; }

constexpr std::array kUseColumns = {
    UseColumn{"avecpu",
              [](const UseLine& l) { return clock_text((l.use.user + l.use.system).seconds() / l.use.tasks); }},
    UseColumn{"avediskread", [](const UseLine& l) { return disk_text(l.use.read_bytes / l.use.tasks); }},
    UseColumn{"avediskwrite", [](const UseLine& l) { return disk_text(l.use.written_bytes / l.use.tasks); }},
    UseColumn{"averss", [](const UseLine& l) { return kib_text(l.use.memory_sum / l.use.tasks); }},
    UseColumn{"maxrss", [](const UseLine& l) { return kib_text(l.use.memory_peak); }},
    UseColumn{"maxrssnode", [](const UseLine& l) { return node_of_rank(l, l.use.memory_peak_rank); }},
    UseColumn{"maxrsstask", [](const UseLine& l) { return std::to_string(l.use.memory_peak_rank); }},
    UseColumn{"mincpu", [](const UseLine& l) { return clock_text(l.use.least_cpu.seconds()); }},
    UseColumn{"mincpunode", [](const UseLine& l) { return node_of_rank(l, l.use.least_cpu_rank); }},
    UseColumn{"mincputask", [](const UseLine& l) { return std::to_string(l.use.least_cpu_rank); }},
    UseColumn{"systemcpu", [](const UseLine& l) { return cpu_text(l.use.system); }},
    UseColumn{"tresusageinave",
              [](const UseLine& l) {
                const std::uint32_t tasks = l.use.tasks;
                return in_text(l, l.use.memory_sum / tasks, (l.use.user + l.use.system).seconds() / tasks,
                               l.use.read_bytes / tasks) +
                       (used_gpus(l.use) ? format(",gres/gpuutil={}", gpu_percent(l) / tasks) : std::string());
              }},
    // Of CPU time, disks and GPUs each task's own share is not kept: theirs is the average.
    UseColumn{"tresusageinmax",
              [](const UseLine& l) {
                const std::uint32_t tasks = l.use.tasks;
                return in_text(l, l.use.memory_peak, (l.use.user + l.use.system).seconds() / tasks,
                               l.use.read_bytes / tasks) +
                       (used_gpus(l.use) ? format(",gres/gpumem={}M,gres/gpuutil={}", l.use.gpu_memory_peak >> 20,
                                                  gpu_percent(l) / tasks)
                                         : std::string());
              }},
    UseColumn{"tresusageintot",
              [](const UseLine& l) {
                return in_text(l, l.use.memory_sum, (l.use.user + l.use.system).seconds(), l.use.read_bytes) +
                       (used_gpus(l.use) ? format(",gres/gpuutil={}", gpu_percent(l)) : std::string());
              }},
    UseColumn{"tresusageoutave",
              [](const UseLine& l) { return format("fs/disk={}", l.use.written_bytes / l.use.tasks); }},
    UseColumn{"tresusageouttot", [](const UseLine& l) { return format("fs/disk={}", l.use.written_bytes); }},
    UseColumn{"usercpu", [](const UseLine& l) { return cpu_text(l.use.user); }},
};
static_assert(std::is_sorted(kUseColumns.begin(), kUseColumns.end(),
                             [](const UseColumn& a, const UseColumn& b) { return a.name < b.name; }));

}  // namespace

const UseColumn* use_column(std::string_view name) {
  const auto at = std::lower_bound(kUseColumns.begin(), kUseColumns.end(), name,
                                   [](const UseColumn& one, std::string_view wanted) { return one.name < wanted; });
  return at == kUseColumns.end() || at->name != name ? nullptr : &*at;
}

std::string cpu_text(Duration cpu) {
  const std::int64_t all = cpu.us / 1'000'000, days = all / 86'400, hours = all / 3'600 % 24, minutes = all / 60 % 60;
  if (days > 0)
    return format("{}-{:02}:{:02}:{:02}", days, hours, minutes, all % 60);
  if (hours > 0)
    return format("{:02}:{:02}:{:02}", hours, minutes, all % 60);
  return format("{:02}:{:02}.{:03}", minutes, all % 60, cpu.us / 1'000 % 1'000);
}

}  // namespace lockstep::slurm
