// Waits, slowdowns, utilisation.
#include "sim/queue_figures.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace lockstep::sim {
namespace {

std::size_t width_of(std::int64_t size, std::int64_t capacity) {
  const double share = static_cast<double>(size) / static_cast<double>(capacity);
  return static_cast<std::size_t>(std::lower_bound(kWidths.begin(), kWidths.end() - 1, share) - kWidths.begin());
}

void add_width(WidthFigures& into, const WidthFigures& more) {
  if (more.jobs == 0)
    return;
  const auto n = static_cast<double>(into.jobs), m = static_cast<double>(more.jobs);
  into.avg_wait_s = (into.avg_wait_s * n + more.avg_wait_s * m) / (n + m);
  into.max_wait_s = std::max(into.max_wait_s, more.max_wait_s);
  into.jobs += more.jobs;
}

}  // namespace

// Goes through the jobs once for what adds up, then divides.
QueueFigures figures_of(std::span<const TraceJob> jobs, std::span<const std::int64_t> start_s, std::int64_t capacity,
                        std::int64_t gang_size) {
  CHECK(!jobs.empty() && jobs.size() == start_s.size() && capacity > 0);
  QueueFigures figures{.jobs = jobs.size()};
  std::vector<double> waits;
  waits.reserve(jobs.size());
  double area = 0, area_wait = 0, gang_wait = 0;
  std::int64_t last_start_s = 0, last_end_s = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    CHECK(start_s[i] >= jobs[i].submit_s);
    const double wait = static_cast<double>(start_s[i] - jobs[i].submit_s);
    const double run = static_cast<double>(jobs[i].run_s);
    const double job_area = run * static_cast<double>(jobs[i].size);
    waits.push_back(wait);
    figures.avg_wait_s += wait;
    figures.avg_bsld += std::max(1.0, (wait + run) / std::max(run, 10.0));
    area += job_area;
    area_wait += job_area * wait;
    if (jobs[i].size >= gang_size) {
      ++figures.gangs;
      gang_wait += wait;
    }
    WidthFigures& width = figures.by_width[width_of(jobs[i].size, capacity)];
    ++width.jobs;
    width.avg_wait_s += wait;  // divided below
    width.max_wait_s = std::max(width.max_wait_s, wait);
    last_start_s = std::max(last_start_s, start_s[i]);
    last_end_s = std::max(last_end_s, start_s[i] + jobs[i].run_s);
  }
  const double n = static_cast<double>(jobs.size());
  figures.avg_wait_s /= n;
  figures.avg_bsld /= n;
  const auto rank = static_cast<std::size_t>(std::ceil(0.99 * n)) - 1;
  std::nth_element(waits.begin(), waits.begin() + static_cast<std::ptrdiff_t>(rank), waits.end());
  figures.p99_wait_s = waits[rank];
  figures.max_wait_s = *std::max_element(waits.begin(), waits.end());
  figures.area_wait_s = area > 0 ? area_wait / area : 0;
  const auto of_pool = [&](std::int64_t until_s) {
    const double span = static_cast<double>(until_s - jobs.front().submit_s);
    return span > 0 ? area / (static_cast<double>(capacity) * span) : 0;
  };
  figures.utilization = of_pool(last_end_s);
  figures.utilization_to_last_start = of_pool(last_start_s);
  for (WidthFigures& width : figures.by_width)
    width.avg_wait_s /= static_cast<double>(std::max<std::size_t>(width.jobs, 1));
  figures.gang_wait_s = figures.gangs ? gang_wait / static_cast<double>(figures.gangs) : 0;
  return figures;
}

QueueFigures mean_of(std::span<const QueueFigures> runs) {
  CHECK(!runs.empty());
  QueueFigures mean;
  const double n = static_cast<double>(runs.size());
  for (const QueueFigures& run : runs) {
    mean.jobs += run.jobs;
    mean.gangs += run.gangs;
    for (std::size_t w = 0; w < kWidths.size(); ++w) add_width(mean.by_width[w], run.by_width[w]);
    for (double QueueFigures::*figure :
         {&QueueFigures::avg_wait_s, &QueueFigures::avg_bsld, &QueueFigures::p99_wait_s, &QueueFigures::max_wait_s,
          &QueueFigures::area_wait_s, &QueueFigures::utilization, &QueueFigures::utilization_to_last_start,
          &QueueFigures::gang_wait_s})
      mean.*figure += run.*figure / n;
  }
  return mean;
}

}  // namespace lockstep::sim
