#include "simulate/scale/scale_wide.h"

#include <algorithm>

#include "model/job.h"
#include "model/spec.h"
#include "simulate/scale/scale.h"

namespace lockstep::sim {

namespace {

constexpr std::uint32_t kWideNodes = 10'000, kWideDevices = 8;
constexpr std::size_t kUnseenMost = 500;  // reports before the planner looks, or their changes take memory

Ref<JobSpec> job_on_all(Launch launch, std::uint32_t tasks_per_node) {
  JobSpec spec;
  spec.user = UserId{1};
  spec.time_limit = hours(48);
  GroupSpec group;
  group.launch = launch;
  group.argv = {"true"};
  group.nodes = {kWideNodes, kWideNodes};
  group.tasks = {kWideNodes * tasks_per_node, kWideNodes * tasks_per_node};
  group.tasks_per_node = tasks_per_node;
  group.per_task = {.cores = 8, .memory_mb = 100'000};
  group.per_node.devices = {{.type = "h100", .count = kWideDevices}};
  spec.groups = {group};
  return std::make_shared<const JobSpec>(std::move(spec));
}

// What every node of the job says, one after the other; f(place) is what it says. Seconds in the core.
template <class F>
double each_reports(ScaleWorld& world, const Job& job, F&& f) {
  const Ref<Allocation> held = job.allocation;
  const JobId id = job.id;
  double seconds = 0;
  for (std::size_t from = 0; from < held->grants.size(); from += kUnseenMost) {
    const double begin = cpu_seconds();
    for (std::size_t i = from; i < std::min(held->grants.size(), from + kUnseenMost); ++i) {
      const Node& node = *world.tables().node(held->grants[i].node);
      world.must(AgentReport{node.id, node.boot_id, id, held->attempt, f(i)});
    }
    seconds += cpu_seconds() - begin;
    world.cycle();
  }
  return seconds;
}

ReportBody ended(const Step& step, std::size_t place) {
  StepEnded body{.step = step.number};
  for (const std::uint32_t rank : step.places[place].ranks) body.results.push_back({rank, {}});
  return body;
}

// A task has the index of its grant: they were given out in that order.
void measure_tasks(std::uint64_t seed, WideTimes& out) {
  ScaleWorld world(kWideNodes, kWideDevices, seed);
  const JobId id = world.submit(job_on_all(Launch::kTasks, 1));
  const auto job = [&]() -> const Job& { return *world.tables().job(id); };
  double begin = cpu_seconds();
  world.must(ApplyPlan{{world.next_start()}});
  double seconds = cpu_seconds() - begin;
  seconds += each_reports(world, job(), [](std::size_t) { return AttemptStarted{}; });
  CHECK(job().state == JobState::kRunning);
  begin = cpu_seconds();
  std::size_t told = 0;
  for (const Grant& grant : job().allocation->grants) told += reconcile(world.state(), grant.node, {}).size();
  out.renewals_ms = (cpu_seconds() - begin) * 1e3;
  CHECK(told >= kWideNodes);
  const auto index = [](std::size_t i) { return static_cast<std::uint32_t>(i); };
  seconds += each_reports(world, job(), [&](std::size_t i) { return TaskStarted{0, index(i), 1}; });
  seconds += each_reports(world, job(), [&](std::size_t i) { return TaskEnded{0, index(i), 1, {}}; });
  CHECK(job().state == JobState::kCompleting);
  seconds += each_reports(world, job(), [](std::size_t) { return MemberStopped{}; });
  begin = cpu_seconds();
  for (int parts = 0; job().state == JobState::kCompleting && parts < 1000; ++parts) world.must(Tick{});
  seconds += cpu_seconds() - begin;
  CHECK(job().state == JobState::kCompleted);
  out.tasks_ms = seconds * 1e3;
}

}  // namespace

WideTimes measure_wide(std::uint64_t seed) {
  ScaleWorld world(kWideNodes, kWideDevices, seed);
  const JobId id = world.submit(job_on_all(Launch::kNothing, kWideDevices));
  WideTimes out;
  const PlannedStart start = world.next_start();
  double begin = cpu_seconds();
  world.must(ApplyPlan{{start}});
  double job_s = cpu_seconds() - begin;
  out.nodes = start.grants.size();
  out.plan_ms = job_s * 1e3;
  const auto job = [&]() -> const Job& { return *world.tables().job(id); };
  job_s += each_reports(world, job(), [](std::size_t) { return AttemptStarted{}; });
  CHECK(job().state == JobState::kRunning);

  auto spec = std::make_shared<StepSpec>();
  spec->argv = {"true"};
  spec->tasks = kWideNodes * kWideDevices;
  begin = cpu_seconds();
  const StepNo number = world.must(CreateStep{id, spec}).step;
  double step_s = cpu_seconds() - begin;
  step_s += each_reports(world, job(), [&](std::size_t) { return StepStarted{number}; });
  const auto step = [&]() -> const Step& { return *world.tables().step(id, number); };
  CHECK(step().state == StepState::kRunning);
  step_s += each_reports(world, job(), [&](std::size_t i) { return ended(step(), i); });
  CHECK(step().state == StepState::kEnded);

  begin = cpu_seconds();
  world.must(EndJob{id, {}, false});
  job_s += cpu_seconds() - begin;
  job_s += each_reports(world, job(), [](std::size_t) { return MemberStopped{}; });
  CHECK(job().state == JobState::kCompleted);
  out.job_ms = job_s * 1e3;
  out.step_ms = step_s * 1e3;
  measure_tasks(seed, out);
  return out;
}

}  // namespace lockstep::sim
