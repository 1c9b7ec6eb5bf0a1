// For tests: a cluster whose nodes do at once what they are told, and a planner that starts whatever fits. Every
// command is followed by check_invariants(), and a reader that only sees the changes must end up with the same tables.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "core/cluster.h"
#include "core/inner.h"
#include "model/job.h"
#include "model/plan.h"

namespace lockstep {

inline constexpr Caller kController{{}, true};

class World {
 public:
  static constexpr UserId kAlice{1};
  static constexpr UserId kBob{2};
  static constexpr std::uint32_t kCores = 16;
  static constexpr std::uint32_t kGpus = 8;

  explicit World(std::uint32_t nodes = 0, CoreSettings settings = {}) : state(settings) {
    must(StartEpoch{"test"});
    for (const char* name : {"alice", "bob"}) {
      User user;
      user.meta.name = name;
      user.uid = 1000 + static_cast<std::uint32_t>(state.tables().users.size());
      must(PutUser{user});
    }
    for (std::uint32_t i = 1; i <= nodes; ++i) hello(i);
    actions.clear();
  }

  // --- commands ---

  Result<Outcome> run(CommandBody body, Caller caller = kController, Reading read = {}) {
    return run(Command{caller, std::move(body), {}, std::move(read), {}});
  }
  Result<Outcome> run(Command command) {
    const auto before = state.tables().snapshot();
    auto outcome = apply(state, command, now);
    while (outcome.ok() && outcome->rest) {
      command.part = *outcome->rest;
      auto more = apply(state, command, now);
      if (!more.ok())
        return more;
      more->changes.insert(more->changes.begin(), outcome->changes.begin(), outcome->changes.end());
      more->actions.insert(more->actions.begin(), outcome->actions.begin(), outcome->actions.end());
      more->events.insert(more->events.begin(), outcome->events.begin(), outcome->events.end());
      outcome = std::move(more);
    }
    check_invariants(state);
    if (!outcome.ok()) {
      const auto after = state.tables().snapshot();
      EXPECT_EQ(before.size(), after.size());
      for (std::size_t i = 0; i < before.size() && i < after.size(); ++i)
        EXPECT_EQ(before[i].record, after[i].record) << "an error changed something: " << outcome.error().message;
      return outcome;
    }
    Seq last = reader.seq;
    for (const Change& change : outcome->changes) {
      EXPECT_GT(change.seq, last);
      last = change.seq;
      reader.apply(change);
      history.push_back(change);
    }
    EXPECT_EQ(reader.seq, state.tables().seq);
    for (const Action& action : outcome->actions) actions.push_back(action);
    for (const Event& event : outcome->events) events.push_back(event);
    return outcome;
  }
  Answer must(CommandBody body, Caller caller = kController) {
    auto outcome = run(std::move(body), caller);
    EXPECT_TRUE(outcome.ok()) << (outcome.ok() ? "" : outcome.error().message);
    return outcome.ok() ? outcome->answer : Answer{};
  }
  Errc refused(CommandBody body, Caller caller = kController) {
    auto outcome = run(std::move(body), caller);
    EXPECT_FALSE(outcome.ok());
    return outcome.ok() ? Errc::kInternal : outcome.error().code;
  }

  // --- nodes ---

  static std::string name_of(std::uint32_t i) { return "n" + std::to_string(i); }
  NodeId hello(std::uint32_t i) {
    Node facts;
    facts.meta.name = name_of(i);
    facts.boot_id = boot(i);
    facts.cores = kCores;
    facts.memory_mb = 64'000;
    for (std::uint32_t d = 0; d < kGpus; ++d) {
      Device device;
      device.type = "h100";
      device.minor = d;
      facts.devices.push_back(device);
    }
    return must(NodeHello{facts}).node;
  }
  std::string boot(std::uint32_t i) { return name_of(i) + "-boot" + std::to_string(boots[i]); }
  NodeId id(std::uint32_t i) const {
    const Node* node = state.tables().node(name_of(i));
    return node ? node->id : NodeId{};
  }
  const Node& node(std::uint32_t i) const { return *state.tables().node(name_of(i)); }
  void lose(std::uint32_t i) {
    silent.insert(i);
    must(NodeLost{id(i)});
  }
  void fence(std::uint32_t i) {
    must(NodeFenced{id(i), node(i).boot_id, "power"});
    ++boots[i];
  }
  void reboot(std::uint32_t i) {
    silent.erase(i);
    ++boots[i];
    hello(i);
  }

  // --- jobs ---

  static JobSpec batch(std::uint32_t nodes = 1, std::uint32_t gpus = 0) {
    JobSpec spec;
    spec.name = "train";
    spec.front_end = "slurm";
    spec.user = kAlice;
    spec.script = "5cr1p7";
    GroupSpec group;
    group.launch = Launch::kScript;
    group.tasks = group.nodes = {nodes, nodes};
    group.tasks_per_node = 1;
    group.per_task.cores = 4;
    group.per_task.memory_mb = 1000;
    if (gpus != 0)
      group.per_node.devices.push_back({"gpu", "", gpus});
    spec.groups.push_back(group);
    return spec;
  }
  static JobSpec interactive(std::uint32_t nodes = 1) {
    JobSpec spec = batch(nodes);
    spec.groups[0].launch = Launch::kNothing;
    spec.script.clear();
    spec.interactive = true;
    return spec;
  }
  // nodes tasks of one replica each, restarted by rule.
  static JobSpec tasks(std::uint32_t count, RestartRule rule, bool endless) {
    JobSpec spec = batch(0);
    spec.script.clear();
    GroupSpec& group = spec.groups[0];
    group.launch = Launch::kTasks;
    group.tasks = {count, count};
    group.nodes = {0, 0};
    group.tasks_per_node = 0;
    group.argv = {"serve"};
    group.restart = rule;
    group.endless = endless;
    return spec;
  }

  JobId submit(JobSpec spec) { return submit(SubmitJob{.spec = std::make_shared<const JobSpec>(std::move(spec))}); }
  JobId submit(SubmitJob ask) { return must(std::move(ask)).job; }
  JobId submit_array(JobSpec spec, const std::string& indices, std::uint32_t throttle = 0) {
    SubmitJob ask{.spec = std::make_shared<const JobSpec>(std::move(spec))};
    ask.array = ArrayAsk{IntervalSet::parse(indices).value(), throttle, 1};
    return submit(std::move(ask));
  }
  const Job& job(JobId id) const {
    const Job* job = state.tables().job(id);
    CHECK(job, "no such job");
    return *job;
  }
  JobState state_of(JobId id) const { return job(id).state; }
  const Job& element(JobId array, std::uint32_t index) const { return job(state.inner().elements.at(array).at(index)); }
  std::size_t elements_in(JobId array, JobState wanted) const {
    std::size_t count = 0;
    for (const auto& [id, job] : state.tables().jobs) count += job->array_job == array && job->state == wanted;
    return count;
  }

  // --- the planner: first come, first served, whatever fits ---

  std::vector<PlannedStart> plan() const {
    std::vector<PlannedStart> out;
    std::map<NodeId, NodeLoad> loads;
    std::map<JobId, std::uint32_t> proposed;
    for (const auto& [id, node] : state.tables().nodes) loads[id] = state.load(id);
    for (const auto& [id, job] : state.tables().jobs) {
      if (job->state != JobState::kPending || job->hold != Hold::kNone || job->begin_after > now)
        continue;
      const JobId array = job->array ? id : job->array_job;
      std::vector<std::uint32_t> indices{0};
      if (job->array) {
        indices.clear();
        for (const Interval& part : job->array->waiting.intervals())
          for (std::uint64_t i = part.low; i <= part.high && indices.size() < 64; ++i)
            indices.push_back(static_cast<std::uint32_t>(i));
      }
      for (std::uint32_t index : indices) {
        const ArrayState* bounds = array ? state.tables().job(array)->array.get() : nullptr;
        if (bounds && bounds->throttle != 0 && bounds->running + proposed[array] >= bounds->throttle)
          break;
        auto grants = place(*job->spec, loads);
        if (!grants)
          break;
        const std::string partition =
            job->spec->partitions.empty() ? state.tables().default_partition()->meta.name : job->spec->partitions[0];
        out.push_back({id, job->array != nullptr, index, job->meta.seq, partition, *grants});
        if (array)
          ++proposed[array];
      }
    }
    return out;
  }
  std::uint32_t start_what_fits() { return must(ApplyPlan{plan()}).starts_applied; }

  // --- the agents ---

  Result<Outcome> report(std::uint32_t i, JobId id, ReportBody body) {
    return report(i, id, job(id).attempt, std::move(body));
  }
  Result<Outcome> report(std::uint32_t i, JobId id, AttemptNo attempt, ReportBody body) {
    return run(AgentReport{this->id(i), boot(i), id, attempt, std::move(body)});
  }
  // The nodes carry out what they were told, in order, until there is nothing left to do. Silent nodes hear nothing.
  void obey() {
    while (!actions.empty()) {
      const Action action = actions.front();
      actions.pop_front();
      const Node* node = state.tables().node(action.node);
      const auto number = static_cast<std::uint32_t>(std::stoul(node->meta.name.substr(1)));
      if (silent.contains(number))
        continue;
      const auto say = [&](ReportBody body) { (void)report(number, action.job, action.attempt, std::move(body)); };
      struct Visitor {
        const decltype(say)& tell;
        void operator()(const StartAttempt&) const { tell(AttemptStarted{}); }
        void operator()(const StopAttempt&) const { tell(MemberStopped{}); }
        void operator()(const SignalAttempt&) const {}
        void operator()(const PauseAttempt& a) const { tell(MemberPaused{a.paused, a.number}); }
        void operator()(const StartPart& a) const {
          if (const auto* step = std::get_if<StepPart>(&a.part))
            tell(StepStarted{step->step});
          else if (const auto* task = std::get_if<TaskPart>(&a.part))
            tell(TaskStarted{task->group, task->index, task->incarnation});
        }
        void operator()(const StopPart& a) const {
          if (const auto* step = std::get_if<StepPart>(&a.part))
            tell(StepEnded{step->step, {}});
          else if (const auto* task = std::get_if<TaskPart>(&a.part))
            tell(TaskEnded{task->group, task->index, task->incarnation, {0, 15, false}});
        }
        void operator()(const SignalPart&) const {}
      };
      told.push_back(action);
      std::visit(Visitor{say}, action.body);
    }
  }
  // Starts what fits, lets it come up.
  void settle() {
    while (start_what_fits() > 0) obey();
    obey();
  }
  std::uint32_t first_node(JobId id) const {
    const Node& node = *state.tables().node(job(id).allocation->grants.at(0).node);
    return static_cast<std::uint32_t>(std::stoul(node.meta.name.substr(1)));
  }
  void end_script(JobId id, ExitStatus exit = {}) {
    (void)report(first_node(id), id, ScriptEnded{exit});
    obey();
  }

  void wait(Duration span) { now = now + span; }
  // Time passes; every timer on the way is acted on.
  void pass(Duration span) {
    const Instant until = now + span;
    while (state.next_timer() <= until) {
      now = std::max(now, state.next_timer());
      must(Tick{});
    }
    now = until;
  }

  template <class A>
  std::size_t told_of(JobId job) const {
    return static_cast<std::size_t>(std::count_if(
        told.begin(), told.end(), [&](const Action& a) { return a.job == job && std::holds_alternative<A>(a.body); }));
  }

  ClusterState state;
  Instant now{1'700'000'000'000'000};
  std::deque<Action> actions;  // not carried out yet
  std::vector<Action> told;
  std::vector<Event> events;
  std::vector<Change> history;
  Tables reader;
  std::map<std::uint32_t, std::uint32_t> boots;
  std::set<std::uint32_t> silent;

 private:
  std::optional<std::vector<Grant>> place(const JobSpec& spec, std::map<NodeId, NodeLoad>& loads) const {
    auto taken = loads;
    std::vector<Grant> all;
    const Partition* partition =
        spec.partitions.empty() ? state.tables().default_partition() : state.tables().partition(spec.partitions[0]);
    for (std::size_t g = 0; g < spec.groups.size(); ++g) {
      std::vector<Candidate> candidates;
      for (const auto& [id, node] : state.tables().nodes)
        if (node_usable(*node) && eligible(*node, *partition, spec.groups[g]))
          candidates.push_back({node.get(), &taken[id]});
      auto grants = place_group(candidates, spec.groups[g], static_cast<std::uint16_t>(g));
      if (!grants)
        return std::nullopt;
      for (Grant& grant : *grants) {
        if (!take(taken[grant.node], *state.tables().node(grant.node), grant).ok())
          return std::nullopt;
        all.push_back(grant);
      }
    }
    loads = std::move(taken);
    return all;
  }
};

inline constexpr Caller kAliceCalls{World::kAlice, false};

}  // namespace lockstep
