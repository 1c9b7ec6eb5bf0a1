// Options and output of the queue simulators.
#include "simulate/workloads/queue_report.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/text.h"

namespace lockstep::sim {
namespace {

struct Setting {
  std::string_view name;
  std::int64_t OrderPolicy::*number = nullptr;
  Duration OrderPolicy::*duration = nullptr;
};
constexpr Setting kSettings[] = {
    {"spread_min", nullptr, &OrderPolicy::spread_min},
    {"spread_max", nullptr, &OrderPolicy::spread_max},
    {"backlog_permille", &OrderPolicy::backlog_permille},
    {"doubling_permille", &OrderPolicy::doubling_permille},
    {"short_run", nullptr, &OrderPolicy::short_run},
    {"predicted_min", nullptr, &OrderPolicy::predicted_min},
    {"steep", &OrderPolicy::steep},
    {"spare_permille", &OrderPolicy::spare_permille},
    {"filler_permille", &OrderPolicy::filler_permille},
    {"overdue_after", nullptr, &OrderPolicy::overdue_after},
};

constexpr const char* kWidthWords[kWidths.size()] = {"1/8", "1/4", "1/2", "all"};

}  // namespace

Result<OrderPolicy> order_policy_of(const Options& options) {
  OrderPolicy policy;
  for (const std::string& pair : split(options.text_or("--order", ""), ',')) {
    const std::size_t equals = pair.find('=');
    const auto value =
        equals == std::string::npos ? std::nullopt : parse_int(std::string_view(pair).substr(equals + 1));
    if (!value || *value < -1'000'000'000 || *value > 1'000'000'000)
      return invalid(format("--order takes NAME=NUMBER,…, not {}", pair), "--order");
    const Setting* found = nullptr;
    for (const Setting& setting : kSettings)
      if (setting.name == std::string_view(pair).substr(0, equals))
        found = &setting;
    if (!found)
      return invalid(format("the order has no setting {}", pair.substr(0, equals)), "--order");
    if (found->number)
      policy.*found->number = *value;
    else
      policy.*found->duration = seconds(*value);
  }
  TRY(policy.validate());
  return policy;
}

Result<double> submit_factor_of(const Options& options) {
  const std::string text = options.text_or("--scale-submit", "0");
  const auto percent = parse_int(text);
  if (!percent || *percent < -90 || *percent > 1000)
    return invalid(format("--scale-submit takes percent from -90 to 1000, not {}", text), "--scale-submit");
  return 1 + static_cast<double>(*percent) / 100;
}

void add_figures(JsonText& json, const QueueFigures& figures) {
  json.field("jobs", figures.jobs)
      .field("avg_wait_s", figures.avg_wait_s)
      .field("avg_bsld", figures.avg_bsld)
      .field("p99_wait_s", figures.p99_wait_s)
      .field("max_wait_s", figures.max_wait_s)
      .field("area_wait_s", figures.area_wait_s)
      .field("utilization", figures.utilization)
      .field("utilization_to_last_start", figures.utilization_to_last_start);
  json.key("by_width").array();
  for (std::size_t w = 0; w < kWidths.size(); ++w) {
    const WidthFigures& width = figures.by_width[w];
    json.object()
        .field("up_to", kWidths[w])
        .field("jobs", width.jobs)
        .field("avg_wait_s", width.avg_wait_s)
        .field("max_wait_s", width.max_wait_s)
        .end();
  }
  json.end();
}

void print_figures(const QueueFigures& figures) {
  const auto line = [](const char* name, double value, const char* unit, int digits) {
    std::printf("%-28s %14.*f %s\n", name, digits, value, unit);
  };
  std::printf("%-28s %14zu\n", "jobs", figures.jobs);
  line("mean wait", figures.avg_wait_s, "s", 1);
  line("mean bounded slowdown", figures.avg_bsld, "", 3);
  line("99th percentile of waits", figures.p99_wait_s / 3600, "h", 2);
  line("longest wait", figures.max_wait_s / 3600, "h", 2);
  line("mean wait by work", figures.area_wait_s, "s", 1);
  for (std::size_t w = 0; w < kWidths.size(); ++w)
    if (const WidthFigures& width = figures.by_width[w]; width.jobs > 0)
      std::printf("jobs of up to %-5s of it    %14.1f s (%zu), longest %.2f h\n", kWidthWords[w], width.avg_wait_s,
                  width.jobs, width.max_wait_s / 3600);
  line("utilisation", 100 * figures.utilization, "%", 2);
  line("utilisation to last start", 100 * figures.utilization_to_last_start, "%", 2);
}

Result<void> write_starts(const std::string& path, std::span<const TraceJob> jobs,
                          std::span<const std::int64_t> start_s) {
  const auto failed = [&] { return os_error(path); };
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"), &std::fclose);
  if (!file)
    return failed();
  bool good = std::fputs("id,start\n", file.get()) >= 0;
  for (std::size_t i = 0; i < jobs.size() && good; ++i)
    good = std::fprintf(file.get(), "%lld,%lld\n", static_cast<long long>(jobs[i].id),
                        static_cast<long long>(start_s[i])) > 0;
  if (!good || std::fclose(file.release()) != 0)
    return failed();
  return {};
}

}  // namespace lockstep::sim
