// lockstep-sim gpu: a job log of gangs through nodes of GPUs.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/text.h"
#include "sim/node_tree.h"
#include "simulate/command.h"
#include "simulate/workloads/node_topology.h"
#include "simulate/workloads/queue_policies.h"
#include "simulate/workloads/queue_report.h"

namespace lockstep::sim {
namespace {

struct GpuOptions {
  std::string log, topology, starts;
  std::int32_t nodes = 0, gpus_per_node = 0;
  QueueChoice choice;
  double submit_factor = 1;
  bool json = false;
};

struct GpuResult {
  QueueFigures figures;
  std::size_t partial_starts = 0;  // gangs that were given less than they asked for
  double best_level_share = 1;     // of the jobs with two or more GPUs
  double allreduce_slowdown = 1;   // mean over their GPU-seconds
  LeftOut left_out;                // of the log
};

Result<GpuOptions> read_options(std::span<char*> words) {
  const Options options = TRY(Options::parse(
      words, {"--log", "--nodes", "--gpus-per-node", "--topology", "--policy", "--scale-submit", "--starts", "--order"},
      {"--oracle", "--json"}));
  GpuOptions read;
  read.log = TRY(options.text("--log"));
  TRY(options.text("--nodes"));
  TRY(options.text("--gpus-per-node"));
  read.nodes = static_cast<std::int32_t>(TRY(options.count_or("--nodes", 1, 1, 1'000'000)));
  read.gpus_per_node = static_cast<std::int32_t>(TRY(options.count_or("--gpus-per-node", 1, 1, 1024)));
  read.choice = {.policy = options.text_or("--policy", "default"),
                 .oracle = options.has("--oracle"),
                 .order = TRY(order_policy_of(options))};
  read.topology = options.text_or("--topology", "");
  read.submit_factor = TRY(submit_factor_of(options));
  read.starts = options.text_or("--starts", "");
  read.json = options.has("--json");
  return read;
}

// An estimate, not a measurement: a ring is as fast as its slowest link. Inside a node links are taken to be eight
// times as fast as those of one leaf switch, and every level of switches above to be oversubscribed two to one.
double ring_time(std::int32_t level) { return level == 0 ? 1 : 8 * std::exp2(level - 1); }

void measure_places(std::span<const TraceJob> jobs, const QueueRun& run, const NodeTree& tree, std::int32_t per_node,
                    GpuResult& result) {
  std::size_t gangs = 0, at_best = 0;
  double weight = 0, slowdown = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    std::int64_t devices = 0;
    for (const GangPool::Part& part : run.places[i]) devices += part.devices;
    result.partial_starts += devices < jobs[i].size;
    if (jobs[i].size < 2)
      continue;
    const std::int32_t level = tree.level_of(run.places[i]);
    const std::int32_t best = tree.best_level(static_cast<std::int32_t>((jobs[i].size + per_node - 1) / per_node));
    ++gangs;
    at_best += level <= best;
    const double gpu_s = static_cast<double>(jobs[i].size) * static_cast<double>(jobs[i].run_s);
    weight += gpu_s;
    slowdown += gpu_s * ring_time(level) / ring_time(best);
  }
  if (gangs)
    result.best_level_share = static_cast<double>(at_best) / static_cast<double>(gangs);
  if (weight > 0)
    result.allreduce_slowdown = slowdown / weight;
}

Result<GpuResult> simulate(GpuOptions options) {
  const QueueTrace trace = TRY(read_queue_trace(options.log));
  const std::vector<TraceJob> jobs = scaled(trace.jobs, options.submit_factor);
  NodeTree tree = NodeTree::flat(options.nodes);
  if (!options.topology.empty()) {
    options.choice.topology = TRY(read_node_topology(options.topology, options.nodes));
    tree = NodeTree::of(*options.choice.topology, node_names(options.nodes, &*options.choice.topology));
  }
  const QueueRun run = TRY(run_policy(jobs, options.nodes, options.gpus_per_node, options.choice));
  GpuResult result;
  result.left_out = trace.left_out;
  result.figures = figures_of(jobs, run.start_s, std::int64_t{options.nodes} * options.gpus_per_node);
  measure_places(jobs, run, tree, options.gpus_per_node, result);
  if (!options.starts.empty())
    TRY(write_starts(options.starts, jobs, run.start_s));
  return result;
}

void print(const GpuOptions& options, const GpuResult& result) {
  if (options.json) {
    JsonText json;
    json.object().field("policy", options.choice.policy).field("loop", "flat nodes");
    add_figures(json, result.figures);
    json.field("gangs_of_8", result.figures.gangs)
        .field("gang_wait_s", result.figures.gang_wait_s)
        .field("partial_starts", result.partial_starts)
        .field("best_level_share", result.best_level_share)
        .field("allreduce_slowdown", result.allreduce_slowdown)
        .field("left_out", result.left_out.all());
    std::printf("%s\n", json.end().take().c_str());
    return;
  }
  std::printf("%-28s %14s\n%-28s %14s\n", "policy", options.choice.policy.c_str(), "loop", "flat nodes");
  print_figures(result.figures);
  std::printf("%-28s %14.1f s (%zu)\n", "mean wait of gangs of 8+", result.figures.gang_wait_s, result.figures.gangs);
  std::printf("%-28s %14zu\n", "gangs started in part", result.partial_starts);
  std::printf("%-28s %14.2f %%\n", "gangs at their best level", 100 * result.best_level_share);
  std::printf("%-28s %14.3f\n", "all-reduce slow-down (est.)", result.allreduce_slowdown);
  if (result.left_out.all())
    std::printf("%s\n", words_of(result.left_out).c_str());
}

int run_gpu(std::span<char*> words) {
  const auto options = read_options(words);
  if (!options.ok())
    return usage_error(kGpuCommand, options.error());
  const auto result = simulate(*options);
  if (!result.ok()) {
    std::fprintf(stderr, "lockstep-sim gpu: %s\n", result.error().message.c_str());
    return result.error().field.empty() ? 1 : 2;
  }
  print(*options, *result);
  return 0;
}

}  // namespace

const SimCommand kGpuCommand = {
    "gpu",
    "lockstep-sim gpu --log FILE.csv[.gz] --nodes N --gpus-per-node G [--policy fifo|easy|easy-sjbf|default|turns] "
    "[--oracle]\n"
    "    [--topology FILE] [--scale-submit PERCENT] [--starts FILE] [--json] [--order NAME=VALUE,…]\n"
    "    a log of gangs (id,gpus,reqtime,run,submit,vc) through nodes of GPUs\n",
    run_gpu};

}  // namespace lockstep::sim
