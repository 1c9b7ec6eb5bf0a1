#include "simulate/workloads/planner_run.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "core/cluster.h"
#include "model/command.h"
#include "model/job.h"
#include "model/spec.h"
#include "sched/planner.h"
#include "simulate/caller.h"
#include "simulate/workloads/node_topology.h"

namespace lockstep::sim {

namespace {

constexpr std::int64_t kBase = 10'000'000;  // seconds of cluster time at which logs begin: turns may lie before
constexpr std::uint32_t kPartOfNode = CoreSet::kCapacity;

class LogWorld {
 public:
  LogWorld(std::span<const TraceJob> jobs, std::int32_t nodes, std::int32_t devices, const Topology* topology)
      : jobs_(jobs), topology_(topology), flat_(nodes == 1), devices_(devices) {
    run_.start_s.resize(jobs.size(), -1);
    run_.places.resize(jobs.size());
    first_s_ = jobs.empty() ? 0 : jobs.front().submit_s;
  }

  Result<QueueRun> run(std::int32_t nodes) {
    set_up(nodes);
    for (std::size_t next = 0; next < jobs_.size() || !ends_.empty();) {
      Instant at = planner_.idle() ? planner_.wake_at() : now_;
      if (next < jobs_.size())
        at = std::min(at, instant(jobs_[next].submit_s));
      if (!ends_.empty())
        at = std::min(at, ends_.begin()->first);
      CHECK(at < kNever, "jobs wait and nothing is to come");
      now_ = std::max(now_, at);
      while (!ends_.empty() && ends_.begin()->first <= now_) end(ends_.extract(ends_.begin()).value().second);
      for (; next < jobs_.size() && instant(jobs_[next].submit_s) <= now_; ++next) TRY(submit(next));
      plan();
    }
    return std::move(run_);
  }

 private:
  Instant instant(std::int64_t second) const { return Instant{} + seconds(kBase + second - first_s_); }

  void must(CommandBody body) {
    auto outcome = apply(state_, {kAdmin, std::move(body)}, now_);
    CHECK(outcome.ok(), outcome.ok() ? "" : outcome.error().message);
    std::move(outcome->changes.begin(), outcome->changes.end(), std::back_inserter(unseen_));
  }

  void set_up(std::int32_t count) {
    now_ = Instant{} + seconds(kBase - 1);
    must(StartEpoch{"log"});
    Partition partition;
    partition.meta.name = "main";
    partition.nodes = {"ALL"};
    partition.is_default = true;
    must(PutPartition{partition});
    if (topology_)
      must(PutTopology{*topology_});
    const std::vector<std::string> names = flat_ ? std::vector<std::string>() : node_names(count, topology_);
    const std::int32_t one = flat_ ? std::min<std::int32_t>(devices_, kPartOfNode) : devices_;
    for (std::int32_t n = 0, left = flat_ ? devices_ : count; left > 0; ++n) {
      Node node;
      node.meta.name = flat_ ? format("n{}", n + 1) : names[static_cast<std::size_t>(n)];
      node.boot_id = "1";
      node.cores = static_cast<std::uint32_t>(flat_ && devices_ > one ? 1 : one);
      node.memory_mb = 1'000'000;
      for (std::int32_t d = 0; !flat_ && d < devices_; ++d)
        node.devices.push_back({.type = "gpu", .minor = static_cast<std::uint32_t>(d)});
      left -= flat_ ? static_cast<std::int32_t>(node.cores) : 1;
      must(NodeHello{node});
    }
  }

  static GroupSpec members(std::uint32_t nodes, std::uint32_t devices, std::uint32_t cores) {
    GroupSpec group;
    group.nodes = group.tasks = {nodes, nodes};
    group.tasks_per_node = 1;
    group.per_task.cores = cores;
    if (devices > 0)
      group.per_node.devices = {{.count = devices}};
    return group;
  }

  UserId user(const std::string& name) {
    const auto [it, fresh] = users_.try_emplace(name);
    if (fresh) {
      User user;
      user.meta.name = name.empty() ? "somebody" : name;
      user.uid = 1000 + static_cast<std::uint32_t>(users_.size());
      auto outcome = apply(state_, {kAdmin, PutUser{user}}, now_);
      CHECK(outcome.ok());
      std::move(outcome->changes.begin(), outcome->changes.end(), std::back_inserter(unseen_));
      it->second = outcome->answer.user;
    }
    return it->second;
  }

  Result<void> submit(std::size_t number) {
    const TraceJob& asked = jobs_[number];
    JobSpec spec;
    spec.user = user(asked.user);
    spec.time_limit = seconds(asked.limit_s);
    const auto size = static_cast<std::uint32_t>(asked.size), per_node = static_cast<std::uint32_t>(devices_);
    std::vector<GroupSpec> groups;
    if (flat_)
      groups.push_back(devices_ > static_cast<std::int32_t>(kPartOfNode) ? members(size, 0, 1) : members(1, 0, size));
    else if (size <= per_node)
      groups.push_back(members(1, size, 1));
    else
      groups.push_back(members(size / per_node, per_node, 1));
    if (!flat_ && size > per_node && size % per_node != 0)
      groups.push_back(members(1, size % per_node, 1));
    spec.groups = std::move(groups);
    auto outcome = apply(state_, {kAdmin, SubmitJob{.spec = std::make_shared<const JobSpec>(std::move(spec))}}, now_);
    if (!outcome.ok())
      return Error{Errc::kImpossible, format("job {}: {}", asked.id, outcome.error().message), {}};
    number_of_[outcome->answer.job] = number;
    std::move(outcome->changes.begin(), outcome->changes.end(), std::back_inserter(unseen_));
    return {};
  }

  void end(JobId id) {
    const Ref<Allocation> held = state_.tables().job(id)->allocation;
    const AttemptNo attempt = state_.tables().job(id)->attempt;
    must(EndJob{id, {}, false});
    for (const Grant& grant : held->grants) must(AgentReport{grant.node, "1", id, attempt, MemberStopped{}});
  }

  void plan() {
    planner_.observe(unseen_);
    unseen_.clear();
    for (bool due = planner_.wake_at() <= now_; due || !planner_.idle(); due = false) {
      ++run_.passes;
      PlanChunk chunk = planner_.plan(now_, {.jobs = 1u << 20, .starts = 1u << 20});
      if (!chunk.empty()) {
        const std::vector<PlannedStart> starts = chunk.starts;
        must(ApplyPlan{Plan(std::move(chunk))});
        for (const PlannedStart& start : starts) started(start.job);
        planner_.observe(unseen_);
        unseen_.clear();
      }
      planner_.settled();
    }
  }

  void started(JobId id) {
    const Job* job = state_.tables().job(id);
    CHECK(job && job->state == JobState::kStarting, "the core refused a start");
    const Ref<Allocation> held = job->allocation;
    const std::size_t number = number_of_.at(id);
    run_.start_s[number] = (now_ - instant(0)).seconds();
    for (const Grant& grant : held->grants) {
      run_.places[number].push_back({static_cast<std::int32_t>(grant.node.value) - 1,
                                     static_cast<std::int32_t>(flat_ ? grant.cores.count() : grant.devices.count())});
      must(AgentReport{grant.node, "1", id, held->attempt, AttemptStarted{}});
    }
    ends_.insert({now_ + seconds(std::min(jobs_[number].run_s, jobs_[number].limit_s)), id});
  }

  std::span<const TraceJob> jobs_;
  const Topology* topology_;
  bool flat_;
  std::int32_t devices_;
  std::int64_t first_s_ = 0;
  ClusterState state_;
  Planner planner_;
  Instant now_;
  std::vector<Change> unseen_;
  std::map<std::string, UserId> users_;
  std::map<JobId, std::size_t> number_of_;
  std::set<std::pair<Instant, JobId>> ends_;
  QueueRun run_;
};

}  // namespace

Result<QueueRun> run_planner(std::span<const TraceJob> jobs, std::int32_t nodes, std::int32_t devices_per_node,
                             const Topology* topology) {
  return LogWorld(jobs, nodes, devices_per_node, topology).run(nodes);
}

}  // namespace lockstep::sim
