// What is measured of a log once every job has a start.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "sim/queue_trace.h"

namespace lockstep::sim {

// Jobs by how much of the machine they take: who gains what others pay for.
inline constexpr std::array<double, 4> kWidths{0.125, 0.25, 0.5, 1};  // up to this share each
struct WidthFigures {
  std::size_t jobs = 0;
  double avg_wait_s = 0, max_wait_s = 0;
};

struct QueueFigures {
  std::size_t jobs = 0;
  double avg_wait_s = 0;
  double avg_bsld = 0;    // max(1, (wait + run) / max(run, 10 s))
  double p99_wait_s = 0;  // the wait that 99 % of the jobs do not exceed
  double max_wait_s = 0;
  double area_wait_s = 0;                // mean of the waits weighted by size * run time: what the machine-hours waited
  double utilization = 0;                // of the pool from the first submission to the last end
  double utilization_to_last_start = 0;  // the same to the last start: how RLScheduler counts
  double gang_wait_s = 0;                // mean over the jobs of gang_size or more; 0: there are none
  std::size_t gangs = 0;
  std::array<WidthFigures, kWidths.size()> by_width;
};

QueueFigures figures_of(std::span<const TraceJob> jobs, std::span<const std::int64_t> start_s, std::int64_t capacity,
                        std::int64_t gang_size = 8);

// Every figure by itself, over runs of equal weight; jobs and gangs are added up. By width every job has equal weight,
// since a run may have none of a width, and the longest wait is that of all runs.
QueueFigures mean_of(std::span<const QueueFigures> runs);

}  // namespace lockstep::sim
