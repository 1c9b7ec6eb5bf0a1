#include "simulate/scale/scale.h"

#include <algorithm>
#include <ctime>

#include "base/text.h"
#include "model/command.h"
#include "model/job.h"
#include "model/spec.h"
#include "simulate/caller.h"

namespace lockstep::sim {

namespace {

constexpr std::uint32_t kUsers = 50, kDepartments = 5;

std::uint32_t number_of(const Node& node) {
  return static_cast<std::uint32_t>(parse_uint(std::string_view(node.meta.name).substr(1)).value_or(0));
}

}  // namespace

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

std::vector<Ref<JobSpec>> scale_shapes(std::size_t count, std::uint32_t nodes, std::uint32_t devices_per_node,
                                       Rng& rng) {
  std::vector<Ref<JobSpec>> out;
  const std::uint32_t gang_max = std::clamp(nodes / 16, 1u, 256u);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t gang = 1, devices = devices_per_node;
    const double kind = rng.unit();
    if (kind < 0.05)
      devices = 0;
    else if (kind < 0.45)
      devices = std::max(1u, devices_per_node >> rng.between(1, 3));
    else if (kind > 0.65)
      gang = std::min(gang_max, static_cast<std::uint32_t>(2 << rng.below(1 + rng.below(7))) +
                                    static_cast<std::uint32_t>(rng.below(3)));
    GroupSpec group;
    group.nodes = group.tasks = {gang, gang};
    group.tasks_per_node = 1;
    group.per_task.cores = devices == 0 ? static_cast<std::uint32_t>(rng.between(1, 32))
                                        : devices * static_cast<std::uint32_t>(rng.between(1, 15));
    group.per_task.memory_mb = std::max(1u, devices) * 16'384 * rng.between(1, 14);
    if (devices > 0)
      group.per_node.devices = {{.type = "h100", .count = devices}};
    if (rng.chance(0.05))
      group.constraint = "big";
    JobSpec spec;
    spec.name = format("job{}", i);
    spec.user = UserId{1 + static_cast<std::uint32_t>(i % kUsers)};
    // Different for every one, so that no two shapes are the same.
    spec.time_limit = minutes(15 * (1 + std::min(rng.between(0, 191), rng.between(0, 191)))) +
                      seconds(static_cast<std::int64_t>(i / kUsers));
    spec.groups = {group};
    out.push_back(std::make_shared<const JobSpec>(std::move(spec)));
  }
  return out;
}

ScaleWorld::ScaleWorld(std::uint32_t nodes, std::uint32_t devices_per_node, std::uint64_t seed, std::uint32_t leaf)
    : rng(seed), devices_per_node_(devices_per_node), leaf_(leaf), planner_(std::make_unique<Planner>()) {
  must(StartEpoch{"scale"});
  for (std::uint32_t u = 1; u <= kUsers; ++u) {
    User user;
    user.meta.name = format("user{}", u);
    user.uid = 1000 + u;
    must(PutUser{user});
  }
  grow(nodes);
}

void ScaleWorld::grow(std::uint32_t nodes) {
  boots_.resize(nodes + 1);
  for (auto n = static_cast<std::uint32_t>(tables().nodes.size()) + 1; n <= nodes; ++n) must(NodeHello{facts(n, 0)});
}

Node ScaleWorld::facts(std::uint32_t number, std::uint32_t boot) const {
  Node node;
  node.meta.name = format("n{}", number);
  node.boot_id = format("boot{}", boot);
  node.cores = 128;
  node.sockets = 2;
  node.memory_mb = 2'000'000;
  node.features = number % 5 == 0 ? std::vector<std::string>{"big"} : std::vector<std::string>{};
  if (leaf_ > 0)
    node.domains = {format("block{}", number / leaf_ / 16), format("leaf{}", number / leaf_)};
  for (std::uint32_t d = 0; d < devices_per_node_; ++d) node.devices.push_back({.type = "h100", .minor = d});
  return node;
}

Answer ScaleWorld::must(CommandBody body) {
  Caller caller = kAdmin;
  if (const auto* submit = std::get_if<SubmitJob>(&body))
    caller = {submit->spec->user, submit->spec->priority.has_value()};
  Command command{caller, std::move(body), {}};
  for (;;) {
    auto outcome = apply(state_, command, now);
    CHECK(outcome.ok(), outcome.ok() ? "" : outcome.error().message);
    std::move(outcome->changes.begin(), outcome->changes.end(), std::back_inserter(unseen_));
    if (!outcome->rest)
      return outcome->answer;
    command.part = *outcome->rest;
  }
}

JobId ScaleWorld::submit(const Ref<JobSpec>& spec, double& seconds) {
  const double begin = cpu_seconds();
  const JobId id = submit(spec);
  seconds += cpu_seconds() - begin;
  return id;
}

void ScaleWorld::set_limits(std::uint64_t devices) {
  const auto part = [&](std::uint64_t permille) { return static_cast<std::int64_t>(devices * permille / 1000); };
  Qos qos = *tables().qos_named("normal");
  qos.limits.max_tres_per_user.gpus = part(100);
  must(PutQos{qos});
  for (std::uint32_t u = 1; u <= kUsers; ++u) {
    const std::string department = format("dep{}", u % kDepartments), group = format("group{}", u);
    Account account;
    account.meta.name = department;
    account.limits.grp_tres.gpus = part(u % kDepartments == 0 ? 150 : 300);
    if (!tables().account(department))
      must(PutAccount{account});
    account.meta.name = group;
    account.parent = department;
    account.shares = 1 + u % 3;
    account.limits.grp_tres.gpus = part(u % 4 == 0 ? 20 : 60);
    must(PutAccount{account});
    Association association;
    association.account = group;
    association.user = format("user{}", u);
    association.is_default = true;
    must(PutAssociation{association});
  }
  Policy policy;
  policy.weight_age = 10'000;
  policy.weight_job_size = 1'000;
  must(PutPolicy{policy});
}

void ScaleWorld::end(JobId id) {
  const Ref<Allocation> held = tables().job(id)->allocation;
  const AttemptNo attempt = tables().job(id)->attempt;
  must(EndJob{id, {}, false});
  for (const Grant& grant : held->grants) {
    const Node& node = *tables().node(grant.node);
    must(AgentReport{node.id, node.boot_id, id, attempt, MemberStopped{}});
  }
}

void ScaleWorld::drain(NodeId id, bool on) {
  must(UpdateNode{.name = tables().node(id)->meta.name, .drain = on, .reason = "measured"});
}

void ScaleWorld::back(NodeId id) {
  const std::uint32_t number = number_of(*tables().node(id));
  must(NodeHello{facts(number, ++boots_[number])});
}

void ScaleWorld::renew_planner() {
  planner_ = std::make_unique<Planner>();
  unseen_ = tables().snapshot();
}

std::uint64_t ScaleWorld::commit(std::vector<PlannedStart> starts, double& seconds) {
  const std::size_t proposed = starts.size();
  std::vector<JobId> jobs;
  for (const PlannedStart& start : starts) jobs.push_back(start.job);
  const double begin = cpu_seconds();
  const std::uint64_t applied = must(ApplyPlan{std::move(starts)}).starts_applied;
  seconds += cpu_seconds() - begin;
  for (const JobId id : jobs) {
    const Job* job = tables().job(id);
    if (!job || job->state != JobState::kStarting)
      continue;
    const Ref<Allocation> held = job->allocation;
    for (const Grant& grant : held->grants)
      must(AgentReport{grant.node, tables().node(grant.node)->boot_id, id, held->attempt, AttemptStarted{}});
  }
  CHECK(applied <= proposed);
  return applied;
}

void ScaleWorld::learn(std::vector<PlannedPacking> packings, double& seconds) {
  if (packings.empty())
    return;
  ApplyPlan plan;
  plan.packings = std::move(packings);
  const double begin = cpu_seconds();
  must(std::move(plan));
  seconds += cpu_seconds() - begin;
}

// Goes on until the planner has nothing left to propose, and measures each side apart.
ScaleWorld::Cycle ScaleWorld::cycle() {
  Cycle out;
  for (bool more = true; more;) {
    double begin = cpu_seconds();
    planner_->observe(unseen_);
    unseen_.clear();
    out.plan_s += cpu_seconds() - begin;
    more = !planner_->idle();
    while (!planner_->idle()) {
      begin = cpu_seconds();
      PlanChunk chunk = planner_->plan(now, {});
      const double took = cpu_seconds() - begin;
      out.plan_s += took;
      out.slice_s = std::max(out.slice_s, took);
      learn(std::move(chunk.packings), out.core_s);
      if (chunk.starts.empty()) {
        begin = cpu_seconds();
        planner_->observe(unseen_);
        planner_->settled();
        out.plan_s += cpu_seconds() - begin;
        unseen_.clear();
        continue;
      }
      for (const PlannedStart& start : chunk.starts) out.grants += start.grants.size();
      const std::uint64_t proposed = chunk.starts.size();
      const std::uint64_t applied = commit(std::move(chunk.starts), out.core_s);
      out.starts += applied;
      out.refused += proposed - applied;
      begin = cpu_seconds();
      planner_->observe(unseen_);
      planner_->settled();
      out.plan_s += cpu_seconds() - begin;
      unseen_.clear();
    }
  }
  const double begin = cpu_seconds();
  for (int slices = 0; slices < 1'000'000 && planner_->idle() && planner_->wake_at() <= now; ++slices) {
    const double from = cpu_seconds();
    CHECK(planner_->plan(now, {}).starts.empty());
    planner_->settled();
    out.slice_s = std::max(out.slice_s, cpu_seconds() - from);
  }
  out.deep_s = cpu_seconds() - begin;
  return out;
}

std::vector<PlannedStart> ScaleWorld::slice(double& seconds) {
  const double begin = cpu_seconds();
  planner_->observe(unseen_);
  unseen_.clear();
  PlanChunk chunk = planner_->plan(now, {});
  seconds += cpu_seconds() - begin;
  double unused = 0;
  if (!chunk.starts.empty())
    commit(chunk.starts, unused);
  planner_->observe(unseen_);
  unseen_.clear();
  planner_->settled();
  return std::move(chunk.starts);
}

PlannedStart ScaleWorld::next_start() {
  planner_->observe(unseen_);
  unseen_.clear();
  PlanChunk chunk;
  while (chunk.starts.empty() && !planner_->idle()) {
    chunk = planner_->plan(now, {});
    planner_->settled();
  }
  CHECK(!chunk.starts.empty(), "nothing can start");
  return std::move(chunk.starts.front());
}

std::vector<PlannedPreemption> ScaleWorld::peek(double& slice_s) {
  planner_->observe(unseen_);
  unseen_.clear();
  PlanChunk chunk;
  while (chunk.preemptions.empty() && !planner_->idle()) {
    const double begin = cpu_seconds();
    chunk = planner_->plan(now, {});
    slice_s = std::max(slice_s, cpu_seconds() - begin);
    CHECK(chunk.starts.empty());
    planner_->settled();
  }
  return std::move(chunk.preemptions);
}

double ScaleWorld::busy() const {
  std::uint64_t held = 0, all = 0;
  for (const auto& [id, node] : tables().nodes) {
    held += state_.load(id).devices.count();
    all += node->devices.size();
  }
  return all == 0 ? 0 : static_cast<double>(held) / static_cast<double>(all);
}

std::uint64_t ScaleWorld::promised(const std::vector<JobId>& jobs) const {
  return static_cast<std::uint64_t>(
      std::count_if(jobs.begin(), jobs.end(), [&](JobId id) { return bool{planner_->expected_start(id)}; }));
}

}  // namespace lockstep::sim
