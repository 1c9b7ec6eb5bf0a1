#include "simulate/scale/scale_victims.h"

#include <algorithm>

#include "model/spec.h"
#include "simulate/scale/scale.h"

namespace lockstep::sim {

namespace {

constexpr std::uint32_t kNodes = 2000, kDevices = 8, kCandidates = 700;
constexpr int kRounds = 10;

Ref<JobSpec> gang_of(std::uint32_t nodes, std::uint32_t devices, const char* qos) {
  JobSpec spec;
  spec.user = UserId{1};
  spec.qos = qos;
  spec.time_limit = hours(48);
  GroupSpec group;
  group.launch = Launch::kScript;
  group.nodes = group.tasks = {nodes, nodes};
  group.tasks_per_node = 1;
  group.per_task = {.cores = devices * 8, .memory_mb = devices * 100'000};
  group.per_node.devices = {{.type = "h100", .count = devices}};
  spec.script = "0";
  spec.groups = {group};
  return std::make_shared<const JobSpec>(std::move(spec));
}

}  // namespace

// Fills a cluster with jobs that may be preempted and measures how long the planner looks for victims for larger ones.
VictimTimes measure_victims(std::uint64_t seed) {
  ScaleWorld world(kNodes, kDevices, seed);
  Qos low, high;
  low.meta.name = "low";
  high.meta.name = "high";
  high.preempts = {"low"};
  world.must(PutQos{low});
  world.must(PutQos{high});
  // Of every age, single ones, parts of nodes, and gangs; the rest of the cluster is busy with what nobody may stop.
  for (std::uint32_t i = 0; i < kCandidates; ++i) {
    const double kind = world.rng.unit();
    if (kind < 0.5)
      world.submit(gang_of(1, kDevices, "low"));
    else if (kind < 0.8)
      world.submit(gang_of(1, 1u << world.rng.below(3), "low"));
    else
      world.submit(gang_of(static_cast<std::uint32_t>(world.rng.between(2, 8)), kDevices, "low"));
    if (i % 50 != 49)
      continue;
    world.cycle();
    world.now = world.now + minutes(7);
  }
  for (std::uint32_t i = 0; i < kNodes; ++i) world.submit(gang_of(1, kDevices, ""));
  world.cycle();

  VictimTimes out;
  std::vector<double> ms;
  for (const std::uint32_t nodes : {1u, 8u, 32u, 128u, 256u})
    for (int round = 0; round < kRounds; ++round) {
      world.now = world.now + seconds(5);
      const JobId job = world.submit(gang_of(nodes, kDevices - static_cast<std::uint32_t>(round % 2), "high"));
      double slice_s = 0;
      const auto found = world.peek(slice_s);
      CHECK(!found.empty() && found[0].job == job && found[0].grants.size() == nodes, "no victims were found");
      ms.push_back(slice_s * 1e3);
      out.victims_max = std::max<std::uint64_t>(out.victims_max, found[0].victims.size());
      world.must(CancelJob{.target = {job, {}}});
      world.cycle();
    }
  std::sort(ms.begin(), ms.end());
  out.p50_ms = ms[ms.size() / 2];
  out.max_ms = ms.back();
  out.candidates = kCandidates;
  out.nodes = kNodes;
  return out;
}

}  // namespace lockstep::sim
