// lockstep-sim scale: what planning a large cluster costs, after every kind of event.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <set>

#include "base/text.h"
#include "model/job.h"
#include "model/spec.h"
#include "simulate/command.h"
#include "simulate/scale/scale.h"
#include "simulate/scale/scale_victims.h"
#include "simulate/scale/scale_wide.h"

namespace lockstep::sim {
namespace {

constexpr std::uint32_t kSmall = 2000;  // nodes while the queue is submitted

struct ScaleRun {
  std::uint32_t nodes = 10'000, devices = 8;
  std::uint64_t pending = 10'000, shapes = 0, seed = 1, events = 100;
  std::uint32_t leaf = 0;
  bool limits = false, json = false;
};

struct Times {
  std::vector<double> ms;
  void add(double seconds) { ms.push_back(seconds * 1e3); }
  double at(double part) {
    if (ms.empty())
      return 0;
    std::sort(ms.begin(), ms.end());
    return ms[std::min(ms.size() - 1, static_cast<std::size_t>(part * static_cast<double>(ms.size())))];
  }
};

double peak_mib() {
  double mib = 0;
  if (std::FILE* file = std::fopen("/proc/self/status", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, file))
      if (long kib = 0; std::sscanf(line, "VmHWM: %ld kB", &kib) == 1)
        mib = static_cast<double>(kib) / 1024;
    std::fclose(file);
  }
  return mib;
}

void progress(const char* what, double since) { std::fprintf(stderr, "%7.1f s  %s\n", wall_seconds() - since, what); }

class Measure {
 public:
  explicit Measure(const ScaleRun& run)
      : run_(run), world_(std::min(run.nodes, kSmall), run.devices, run.seed, run.leaf), begin_(wall_seconds()) {
    if (run.limits)
      world_.set_limits(std::uint64_t{run.nodes} * run.devices);
  }

  // All is submitted while the cluster is small: looking at every node for each new kind of job takes long.
  void queue() {
    shapes_ = scale_shapes(run_.shapes, run_.nodes, run_.devices, world_.rng);
    for (std::uint64_t i = 0; i < run_.pending; ++i)
      world_.submit(shapes_[i < shapes_.size() ? i : world_.rng.below(shapes_.size())]);
    progress("queue submitted", begin_);
  }

  // The running half: jobs that go ahead of the queue until everything is held, planned like any other.
  void fill() {
    std::vector<Ref<JobSpec>> fillers;
    for (const Ref<JobSpec>& spec : scale_shapes(500, run_.nodes, run_.devices, world_.rng)) {
      JobSpec longer = *spec;
      longer.time_limit = longer.time_limit + hours(1);
      longer.priority = 4'000'000'000;
      fillers.push_back(std::make_shared<const JobSpec>(std::move(longer)));
    }
    std::vector<JobId> asked_for;
    const std::uint64_t all = std::uint64_t{run_.nodes} * run_.devices;
    for (std::uint64_t asked = 0; asked < all + all / 20;) {
      const Ref<JobSpec>& spec = fillers[world_.rng.below(fillers.size())];
      const GroupSpec& group = spec->groups[0];
      asked += std::uint64_t{group.nodes.min} * (group.per_node.devices.empty() ? 0 : group.per_node.devices[0].count);
      asked_for.push_back(world_.submit(spec));
    }
    world_.grow(run_.nodes);
    progress("nodes joined", begin_);
    const auto filled = world_.cycle();
    fill_starts_ = filled.starts;
    fill_us_ = filled.plan_s / static_cast<double>(std::max<std::uint64_t>(1, filled.starts)) * 1e6;
    for (const JobId id : asked_for)
      if (world_.tables().job(id)->state == JobState::kPending)
        world_.must(CancelJob{.target = {id, {}}});
    progress("cluster filled", begin_);
  }

  void first_plan() {
    world_.renew_planner();
    first_ = world_.cycle();
    const std::vector<JobId> waiting = pending();
    promised_ = world_.promised(waiting);
    queued_ = waiting.size();
    busy_ = world_.busy();
    progress("first full plan", begin_);
  }

  void event(const std::string& name, std::uint64_t count, const std::function<void()>& act) {
    for (std::uint64_t i = 0; i < count; ++i) {
      world_.now = world_.now + millis(world_.rng.between(100, 900));
      act();
      const auto cycle = world_.cycle();
      by_event_[name].add(cycle.plan_s);
      slice_s_ = std::max(slice_s_, cycle.slice_s);
      if (cycle.deep_s > 0.01)
        deep_.add(cycle.deep_s);
      all_.add(cycle.plan_s);
      starts_ += cycle.starts;
      refused_ += cycle.refused;
    }
    progress(name.c_str(), begin_);
  }

  void events() {
    const std::uint64_t n = run_.events;
    event("job_end", n, [&] { world_.end(pick(running())); });
    event("submit", n, [&] { world_.submit(shapes_[world_.rng.below(shapes_.size())]); });
    event("cancel", n, [&] { world_.must(CancelJob{.target = {pick(pending()), {}}}); });
    std::vector<NodeId> lost;
    event("node_down", n, [&] {
      lost.push_back(any_node());
      world_.lose(lost.back());
    });
    std::size_t next = 0;
    event("node_up", lost.size(), [&] { world_.back(lost[next++]); });
    const std::uint32_t some = std::max(1u, run_.nodes / 50);
    for (std::uint64_t round = 0; round < std::max<std::uint64_t>(1, n / 20); ++round) {
      std::set<NodeId> drained;
      while (drained.size() < some) drained.insert(any_node());
      event(format("drain_{}", some), 1, [&] {
        for (const NodeId id : drained) world_.drain(id, true);
      });
      event(format("resume_{}", some), 1, [&] {
        for (const NodeId id : drained) world_.drain(id, false);
      });
    }
    reservations(some);
  }

  // Maintenance windows over so many nodes, one after the other, each taken back again.
  void reservations(std::uint32_t some) {
    Reservation maintenance;
    maintenance.meta.name = "maintenance";
    maintenance.duration = hours(4);
    maintenance.users = {"root"};
    maintenance.ignore_jobs = maintenance.maint = true;
    for (std::uint64_t round = 0; round < std::max<std::uint64_t>(2, run_.events / 20); ++round) {
      std::set<std::string> names;
      while (names.size() < some) names.insert(world_.tables().node(any_node())->meta.name);
      maintenance.nodes.assign(names.begin(), names.end());
      event(format("reserve_{}", some), 1, [&] {
        maintenance.start = WallTime{world_.now.us + hours(3).us};
        world_.must(PutReservation{maintenance});
      });
      event(format("unreserve_{}", some), 1, [&] { world_.must(RemoveReservation{"maintenance"}); });
    }
  }

  // A job that fits comes while a full plan is under way: the slice in progress, and the one that places it.
  void in_pass() {
    JobSpec spec = *shapes_[0];
    spec.groups[0].nodes = spec.groups[0].tasks = {1, 1};
    spec.groups[0].constraint.clear();
    spec.groups[0].per_task = {.cores = 1, .memory_mb = 16};
    spec.groups[0].per_node.devices.clear();
    spec.time_limit = seconds(30);
    const auto quick = std::make_shared<const JobSpec>(spec);
    for (std::uint64_t i = 0; i < run_.events; ++i) {
      world_.end(pick(running()));
      double before = 0, during = 0, placed = 0;
      for (std::uint64_t skip = world_.rng.below(4); skip > 0; --skip) world_.slice(before);
      world_.slice(during);
      const JobId id = world_.submit(quick);
      bool found = false;
      for (int tries = 0; tries < 1000 && !found; ++tries) {
        const auto starts = world_.slice(placed);
        found = std::any_of(starts.begin(), starts.end(), [&](const PlannedStart& s) { return s.job == id; });
      }
      if (found)
        in_pass_.add(during + placed);
      else
        ++not_placed_;
      world_.cycle();
    }
    progress("in the middle of a pass", begin_);
  }

  // What the core takes for a kind of job that it has not seen before.
  void new_kinds() {
    for (std::uint64_t i = 0; i < run_.events; ++i) {
      JobSpec spec = *shapes_[world_.rng.below(shapes_.size())];
      spec.time_limit = spec.time_limit + millis(static_cast<std::int64_t>(i) + 1);
      double seconds = 0;
      const JobId id = world_.submit(std::make_shared<const JobSpec>(std::move(spec)), seconds);
      new_kind_.add(seconds);
      world_.must(CancelJob{.target = {id, {}}});
    }
  }

  // Gangs of three on a cluster of their own: what planning and committing one costs.
  void gangs() {
    ScaleWorld world(5'000, 8, run_.seed, run_.leaf);
    JobSpec spec = *shapes_[0];
    GroupSpec& group = spec.groups[0];
    group = {};
    group.nodes = group.tasks = {3, 3};
    group.tasks_per_node = 1;
    group.per_task = {.cores = 8, .memory_mb = 10'000};
    group.per_node.devices = {{.type = "h100", .count = 2}};
    const auto gang = std::make_shared<const JobSpec>(spec);
    for (int i = 0; i < 3'000; ++i) world.submit(gang);
    const auto cycle = world.cycle();
    gang_plan_us_ = cycle.plan_s / static_cast<double>(cycle.starts) * 1e6;
    gang_commit_us_ = cycle.core_s / static_cast<double>(cycle.starts) * 1e6;
  }

  void victims() { victims_ = measure_victims(run_.seed); }
  void wide() { wide_ = measure_wide(run_.seed); }

  // All that was measured: one line of JSON, or a table.
  void print() {
    first_.plan_s += first_.deep_s;
    const double us = first_.plan_s / static_cast<double>(std::max<std::uint64_t>(1, run_.pending)) * 1e6;
    std::string events;
    for (auto& [name, times] : by_event_)
      events += format("{}\"{}\":{{\"p50\":{:.2f},\"max\":{:.2f}}}", events.empty() ? "" : ",", name, times.at(0.5),
                       times.at(1));
    if (run_.json) {
      std::printf(
          "{\"nodes\":%u,\"pending\":%llu,\"shapes\":%zu,\"busy\":%.4f,\"cycle_ms\":{\"first\":%.1f,\"p50\":%.2f,"
          "\"max\":%.2f},\"by_event\":{%s},\"us_per_job\":%.3f,\"placed\":%llu,\"promised\":%llu,\"queued\":%llu,"
          "\"limits\":%s,\"fit_in_pass_ms\":{\"p50\":%.2f,\"max\":%.2f,\"missed\":%llu},\"new_kind_ms\":{\"p50\":%.3f,"
          "\"max\":%.3f},\"fill_us_per_start\":%.1f,"
          "\"refused\":%llu,\"slice_ms_max\":%.2f,\"gang_us\":{\"plan\":%.1f,\"commit\":%.1f},\"victims_ms\":{\"p50\":%"
          ".2f,\"max\":%.2f},\"wide_ms\":{\"plan\":%.2f,\"job\":%.2f,\"step\":%.2f,\"tasks\":%.2f,\"renewals\":%.2f},"
          "\"deep_ms\":{\"p50\":%."
          "1f,\"max\":%.1f},\"rss_mib\":%.0f}\n",
          run_.nodes, static_cast<unsigned long long>(run_.pending), shapes_.size(), busy_, first_.plan_s * 1e3,
          all_.at(0.5), all_.at(1), events.c_str(), us, static_cast<unsigned long long>(first_.starts + starts_),
          static_cast<unsigned long long>(promised_), static_cast<unsigned long long>(queued_),
          run_.limits ? "true" : "false", in_pass_.at(0.5), in_pass_.at(1),
          static_cast<unsigned long long>(not_placed_), new_kind_.at(0.5), new_kind_.at(1), fill_us_,
          static_cast<unsigned long long>(refused_), slice_s_ * 1e3, gang_plan_us_, gang_commit_us_, victims_.p50_ms,
          victims_.max_ms, wide_.plan_ms, wide_.job_ms, wide_.step_ms, wide_.tasks_ms, wide_.renewals_ms, deep_.at(0.5),
          deep_.at(1), peak_mib());
      return;
    }
    std::printf("%u nodes x %u, %.1f %% busy, %llu queued of %zu shapes, %llu promised, %.0f MiB\n", run_.nodes,
                run_.devices, busy_ * 100, static_cast<unsigned long long>(queued_), shapes_.size(),
                static_cast<unsigned long long>(promised_), peak_mib());
    std::printf("%-22s %10s %10s\n", "planning, ms", "p50", "max");
    std::printf("%-22s %10.1f %10s   %.2f us a job\n", "first full plan", first_.plan_s * 1e3, "", us);
    for (auto& [name, times] : by_event_)
      std::printf("%-22s %10.2f %10.2f\n", name.c_str(), times.at(0.5), times.at(1));
    std::printf("%-22s %10.2f %10.2f\n", "every event", all_.at(0.5), all_.at(1));
    std::printf("%-22s %10.2f %10.2f   %llu not placed\n", "fits, in mid-pass", in_pass_.at(0.5), in_pass_.at(1),
                static_cast<unsigned long long>(not_placed_));
    std::printf("%-22s %10s %10.2f\n", "one slice", "", slice_s_ * 1e3);
    std::printf("%-22s %10.3f %10.3f   in the core\n", "a new kind submitted", new_kind_.at(0.5), new_kind_.at(1));
    if (!deep_.ms.empty())
      std::printf("%-22s %10.2f %10.2f   the far end of the queue, once a minute, when idle\n", "in between",
                  deep_.at(0.5), deep_.at(1));
    std::printf("a gang of 3 on 5000 nodes: %.1f us to plan, %.1f us to commit\n", gang_plan_us_, gang_commit_us_);
    std::printf("victims among %llu of %llu nodes: %.2f ms, at most %.2f\n",
                static_cast<unsigned long long>(victims_.candidates), static_cast<unsigned long long>(victims_.nodes),
                victims_.p50_ms, victims_.max_ms);
    std::printf("a job on %llu nodes: %.1f ms to start and stop, of these %.1f for its plan; a step on them %.1f ms\n",
                static_cast<unsigned long long>(wide_.nodes), wide_.job_ms, wide_.plan_ms, wide_.step_ms);
    std::printf("a task on each of them: %.1f ms to start and end, %.1f ms for a renewal of every node\n",
                wide_.tasks_ms, wide_.renewals_ms);
    std::printf("filling the cluster: %llu starts, %.1f us each; %llu starts refused by the core\n",
                static_cast<unsigned long long>(fill_starts_), fill_us_, static_cast<unsigned long long>(refused_));
  }

 private:
  std::vector<JobId> in_state(JobState state) const {
    std::vector<JobId> out;
    for (const auto& [id, job] : world_.tables().jobs)
      if (job->state == state)
        out.push_back(id);
    return out;
  }
  std::vector<JobId> running() const { return in_state(JobState::kRunning); }
  std::vector<JobId> pending() const { return in_state(JobState::kPending); }
  JobId pick(const std::vector<JobId>& jobs) { return jobs[world_.rng.below(jobs.size())]; }
  NodeId any_node() { return NodeId{1 + static_cast<std::uint32_t>(world_.rng.below(run_.nodes))}; }

  ScaleRun run_;
  ScaleWorld world_;
  double begin_;
  std::vector<Ref<JobSpec>> shapes_;
  ScaleWorld::Cycle first_;
  double busy_ = 0, fill_us_ = 0;
  std::uint64_t promised_ = 0, queued_ = 0, starts_ = 0, refused_ = 0, fill_starts_ = 0, not_placed_ = 0;
  std::map<std::string, Times> by_event_;
  VictimTimes victims_;
  WideTimes wide_;
  double gang_plan_us_ = 0, gang_commit_us_ = 0;
  Times all_, in_pass_, new_kind_, deep_;
  double slice_s_ = 0;
};

Result<ScaleRun> read_options(std::span<char*> words) {
  const Options options =
      TRY(Options::parse(words, {"--nodes", "--gpus-per-node", "--pending", "--shapes", "--seed", "--events", "--leaf"},
                         {"--limits", "--json"}));
  ScaleRun run;
  run.nodes = static_cast<std::uint32_t>(TRY(options.count_or("--nodes", run.nodes, 1, 1'000'000)));
  run.devices = static_cast<std::uint32_t>(TRY(options.count_or("--gpus-per-node", run.devices, 1, 64)));
  run.pending = TRY(options.count_or("--pending", run.pending, 1, 2'000'000));
  run.shapes = TRY(options.count_or("--shapes", std::max<std::uint64_t>(2000, run.pending / 20), 1, 2'000'000));
  run.seed = TRY(options.count_or("--seed", run.seed, 0));
  run.events = TRY(options.count_or("--events", run.events, 1, 100'000));
  run.leaf = static_cast<std::uint32_t>(TRY(options.count_or("--leaf", 0, 0, 1'000'000)));
  run.limits = options.has("--limits");
  run.json = options.has("--json");
  return run;
}

int scale(std::span<char*> words) {
  const auto run = read_options(words);
  if (!run.ok())
    return usage_error(kScaleCommand, run.error());
  Measure measure(*run);
  measure.queue();
  measure.fill();
  measure.first_plan();
  measure.events();
  measure.in_pass();
  measure.new_kinds();
  measure.gangs();
  measure.victims();
  measure.wide();
  measure.print();
  return 0;
}

}  // namespace

const SimCommand kScaleCommand{
    "scale",
    "lockstep-sim scale [--nodes N] [--gpus-per-node G] [--pending J] [--shapes S] [--seed S]\n"
    "                   [--events E] [--leaf N] [--limits] [--json]\n"
    "    fills a cluster, queues J jobs of S shapes, and times the planner: the first full\n"
    "    plan, then until it has nothing left to plan after E events of every class;\n"
    "    --leaf: with a topology of N nodes on a leaf, 16 leaves to a block\n"
    "    --limits: with accounts, limits that bind, and priority by age, size and fair share\n",
    scale};

}  // namespace lockstep::sim
