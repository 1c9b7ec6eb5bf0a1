// lockstep-sim queue: a job log through one flat pool of processors.
#include <cstdio>
#include <memory>

#include "base/text.h"
#include "simulate/command.h"
#include "simulate/workloads/queue_policies.h"
#include "simulate/workloads/queue_report.h"

namespace lockstep::sim {
namespace {

struct Window {
  std::size_t start = 0, count = 0;
};
struct QueueOptions {
  std::string log;
  std::int64_t procs = 0;
  QueueChoice choice;
  bool strict_loop = false, backfill = true;
  std::vector<Window> windows;  // none: the whole log
  double submit_factor = 1;
  bool json = false;
  std::string starts;
};

Result<std::vector<Window>> windows_of(const std::string& text) {
  std::vector<Window> windows;
  for (const std::string& part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    const auto start = parse_uint(std::string_view(part).substr(0, colon));
    const auto count = parse_uint(colon == std::string::npos ? "" : std::string_view(part).substr(colon + 1));
    if (!start || count.value_or(0) == 0)
      return invalid(format("--window takes START:COUNT,…, not {}", part), "--window");
    windows.push_back({*start, *count});
  }
  return windows;
}

Result<QueueOptions> read_options(std::span<char*> words) {
  const Options options = TRY(Options::parse(
      words, {"--log", "--procs", "--policy", "--loop", "--window", "--scale-submit", "--starts", "--order"},
      {"--oracle", "--no-backfill", "--json"}));
  QueueOptions read;
  read.log = TRY(options.text("--log"));
  TRY(options.text("--procs"));
  read.procs = static_cast<std::int64_t>(TRY(options.count_or("--procs", 1, 1, 1'000'000'000)));
  const std::string loop = options.text_or("--loop", "own");
  if (loop != "own" && loop != "rl")
    return invalid(format("--loop is own or rl, not {}", loop), "--loop");
  read.strict_loop = loop == "rl";
  read.backfill = !options.has("--no-backfill");
  if (!read.backfill && !read.strict_loop)
    return invalid("--no-backfill goes with --loop rl", "--no-backfill");
  read.choice = {.policy = options.text_or("--policy", "default"),
                 .oracle = options.has("--oracle"),
                 .order = TRY(order_policy_of(options))};
  read.choice.published_events = read.choice.policy != "default" && read.choice.policy != "turns";
  read.windows = TRY(windows_of(options.text_or("--window", "")));
  read.submit_factor = TRY(submit_factor_of(options));
  read.json = options.has("--json");
  read.starts = options.text_or("--starts", "");
  if (!read.starts.empty() && read.windows.size() > 1)
    return invalid("--starts goes with one window", "--starts");
  return read;
}

struct QueueResult {
  std::vector<QueueFigures> figures;  // by window
  std::size_t published = 0, as_published = 0;
  LeftOut left_out;
};

Result<std::vector<std::int64_t>> starts_of(std::span<const TraceJob> jobs, const QueueOptions& options) {
  if (!options.strict_loop) {
    QueueRun run = TRY(run_policy(jobs, 1, static_cast<std::int32_t>(options.procs), options.choice));
    return std::move(run.start_s);
  }
  const std::unique_ptr<StrictPolicy> policy = TRY(strict_policy(options.choice.policy, jobs, options.procs));
  return run_strict_loop(jobs, options.procs, options.backfill, *policy);
}

Result<QueueResult> simulate(const QueueOptions& options) {
  const QueueTrace trace = TRY(read_queue_trace(options.log));
  QueueResult result;
  result.left_out = trace.left_out;
  std::vector<Window> windows = options.windows;
  if (windows.empty())
    windows.push_back({0, trace.jobs.size()});
  for (const Window& window : windows) {
    const std::vector<TraceJob> jobs =
        scaled(TRY(window_of(trace.jobs, window.start, window.count)), options.submit_factor);
    const std::vector<std::int64_t> start_s = TRY(starts_of(jobs, options));
    result.figures.push_back(figures_of(jobs, start_s, options.procs));
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      result.published += jobs[i].published_start_s.has_value();
      result.as_published += jobs[i].published_start_s == start_s[i];
    }
    if (!options.starts.empty())
      TRY(write_starts(options.starts, jobs, start_s));
  }
  return result;
}

void print(const QueueOptions& options, const QueueResult& result) {
  const QueueFigures mean = mean_of(result.figures);
  const char* const loop = options.strict_loop ? "rl" : "flat";
  if (!options.json) {
    std::printf("%-28s %14s\n%-28s %14s\n", "policy", options.choice.policy.c_str(), "loop", loop);
    print_figures(mean);
    if (result.published)
      std::printf("%-28s %14zu of %zu\n", "starts as published", result.as_published, result.published);
    if (result.left_out.all())
      std::printf("%s\n", words_of(result.left_out).c_str());
    return;
  }
  JsonText json;
  json.object().field("policy", options.choice.policy).field("loop", loop);
  add_figures(json, mean);
  json.field("left_out", result.left_out.all());
  if (result.published)
    json.field("published_starts", result.published).field("starts_as_published", result.as_published);
  if (result.figures.size() > 1) {
    json.key("windows").array();
    for (const QueueFigures& figures : result.figures) {
      json.object();
      add_figures(json, figures);
      json.end();
    }
    json.end();
  }
  std::printf("%s\n", json.end().take().c_str());
}

int run_queue(std::span<char*> words) {
  const auto options = read_options(words);
  if (!options.ok())
    return usage_error(kQueueCommand, options.error());
  const auto result = simulate(*options);
  if (!result.ok()) {
    std::fprintf(stderr, "lockstep-sim queue: %s\n", result.error().message.c_str());
    return result.error().field.empty() ? 1 : 2;
  }
  print(*options, *result);
  return 0;
}

}  // namespace

const SimCommand kQueueCommand = {
    "queue",
    "lockstep-sim queue --log FILE.swf|.csv[.gz] --procs N [--policy fcfs|easy|conservative|easy-sjbf|default|turns] "
    "[--oracle]\n"
    "    [--window START:COUNT,…] [--scale-submit PERCENT] [--starts FILE] [--json] [--order NAME=VALUE,…]\n"
    "lockstep-sim queue --loop rl [--no-backfill] --policy fcfs|sjf|f1|wfp3|unicep|default --log FILE --procs N …\n"
    "    a job log through a flat pool of processors: waits and slowdowns, the mean over the windows\n"
    "    default: the core and the planner as they are; turns: their order and predictions alone, for studies\n",
    run_queue};

}  // namespace lockstep::sim
