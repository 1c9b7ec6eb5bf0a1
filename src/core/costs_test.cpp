// What one command may cost, counted in records written, orders given and timers worked out: never more than a few
// hundred, whatever a user has prepared. The rest is done by parts of the command, or by Ticks, also after a restart.
#include <algorithm>

#include "base/rng.h"
#include "core/arrays.h"
#include "core/testing.h"
#include "core/txn.h"
#include "model/job.h"

namespace lockstep {
namespace {

constexpr std::size_t kMost = 1200;  // of each; one command may write some hundred records and their arrays
constexpr std::uint32_t kElements = 300'000;

class Costs : public ::testing::Test {
 protected:
  Costs() {
    run(StartEpoch{"test"});
    User user;
    user.meta.name = "alice";
    user.uid = 1000;
    run(PutUser{user});
  }

  Result<Outcome> step(const Command& command) {
    const std::uint64_t timers = state.inner().timers_worked_out;
    auto outcome = apply(state, command, now);
    if (outcome.ok()) {
      changes = std::max(changes, outcome->changes.size());
      actions = std::max(actions, outcome->actions.size());
    }
    refreshed = std::max<std::uint64_t>(refreshed, state.inner().timers_worked_out - timers);
    ++steps;
    return outcome;
  }
  // A command with all its parts.
  Answer run(CommandBody body) {
    Command command{kController, std::move(body), {}};
    for (;;) {
      auto outcome = step(command);
      EXPECT_TRUE(outcome.ok()) << (outcome.ok() ? "" : outcome.error().message);
      if (!outcome.ok() || !outcome->rest)
        return outcome.ok() ? outcome->answer : Answer{};
      command.part = *outcome->rest;
    }
  }
  // Ticks until nothing is due.
  void tick() {
    for (int i = 0; i < 100'000 && state.next_timer() <= now; ++i) (void)step({kController, Tick{}, {}});
    EXPECT_GT(state.next_timer(), now) << "it does not come to an end";
  }
  void measure() { changes = actions = refreshed = steps = 0; }
  void expect_bounded() const {
    EXPECT_LE(changes, kMost);
    EXPECT_LE(actions, kMost);
    EXPECT_LE(refreshed, 3 * kMost);
  }
  // The controller dies, and another one reads what was committed.
  void restart() {
    const auto records = state.tables().snapshot();
    ClusterState fresh(state.settings());
    fresh.restore(records);
    state = std::move(fresh);
    run(StartEpoch{"test"});
  }

  JobId submit(JobSpec spec, std::uint32_t elements = 0) {
    SubmitJob ask{.spec = std::make_shared<const JobSpec>(std::move(spec))};
    if (elements != 0)
      ask.array = ArrayAsk{IntervalSet(0, elements - 1), 0, 1};
    return run(std::move(ask)).job;
  }
  static JobSpec held() {
    JobSpec spec = World::batch();
    spec.hold = true;
    return spec;
  }
  static JobSpec after(Dependency::Type type, JobId on) {
    JobSpec spec = World::batch();
    spec.dependencies = {{type, on, {}}};
    return spec;
  }
  // An array whose elements all have records of their own.
  JobId diverged(std::uint32_t elements) {
    const JobId id = submit(held(), elements);
    for (std::uint32_t from = 0; from < elements; from += 10'000)
      run(HoldJob{{id, IntervalSet(from, std::min(elements, from + 10'000) - 1)}});
    return id;
  }
  const Job& job(JobId id) const { return *state.tables().job(id); }
  std::size_t count(JobState is) const {
    return static_cast<std::size_t>(std::count_if(state.tables().jobs.begin(), state.tables().jobs.end(),
                                                  [&](const auto& entry) { return entry.second->state == is; }));
  }

  ClusterState state;
  Instant now{1'000'000'000'000};
  std::size_t changes = 0, actions = 0, steps = 0;
  std::uint64_t refreshed = 0;
};

TEST_F(Costs, AnArrayThatAnotherAwaitsElementByElementIsCancelled) {
  for (const bool kill : {true, false}) {
    const JobId first = submit(held(), kElements);
    JobSpec spec = after(Dependency::Type::kAfterCorr, first);
    spec.kill_on_invalid_dependency = kill;
    const JobId second = submit(spec, kElements),
                third = submit(after(Dependency::Type::kAfterCorr, second), kElements);
    measure();
    run(CancelJob{{first, {}}});
    tick();
    expect_bounded();
    EXPECT_EQ(job(first).state, JobState::kCancelled);
    EXPECT_EQ(is_final(job(second).state), kill);
    EXPECT_EQ(is_final(job(third).state), kill);
    EXPECT_TRUE(kill || job(second).hold == Hold::kDependencyNever);
    check_invariants(state);
  }
}

TEST_F(Costs, ElementsThatMayRunAtLastGetTheirRecordsByAndBy) {
  const JobId first = submit(held(), 3000);
  JobSpec spec = after(Dependency::Type::kAfterCorr, first);
  spec.hold = true;
  const JobId second = submit(spec, 3000);
  run(CancelJob{{first, IntervalSet(0, 2998)}});  // at once, and without records
  measure();
  spec = *job(second).spec;
  UpdateJob update{.target = {second, {}}};
  update.dependencies = std::vector<Dependency>{{Dependency::Type::kAfterCorr, first, {}}};
  run(update);
  run(ReleaseJob{{second, {}}});
  restart();
  tick();
  expect_bounded();
  EXPECT_EQ(job(second).array->waiting, IntervalSet(2999, 2999));
  EXPECT_EQ(job(second).hold, Hold::kDependency);
  check_invariants(state);
}

TEST_F(Costs, ManyWaitForOne) {
  const JobId one = submit(held());
  for (int i = 0; i < 20'000; ++i)
    submit(after(i % 2 == 0 ? Dependency::Type::kAfterOk : Dependency::Type::kAfterAny, one));
  measure();
  run(CancelJob{{one, {}}});
  expect_bounded();
  EXPECT_LT(count(JobState::kCancelled), 2000u);
  restart();
  tick();
  expect_bounded();
  EXPECT_EQ(count(JobState::kCancelled), 10'001u);
  for (const auto& [id, record] : state.tables().jobs)
    ASSERT_TRUE(record->state != JobState::kPending || record->hold == Hold::kNone);
  check_invariants(state);
}

TEST_F(Costs, AChainFallsLinkByLink) {
  const JobId first = submit(held());
  JobId last = first;
  for (int i = 0; i < 20'000; ++i) last = submit(after(Dependency::Type::kAfterOk, last));
  measure();
  UpdateJob update{.target = {first, {}}};
  update.dependencies = std::vector<Dependency>{{Dependency::Type::kAfterOk, last, {}}};
  const auto refused = step({kController, update, {}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kExhausted);
  EXPECT_NE(refused.error().message.find("10000"), std::string::npos);
  run(CancelJob{{first, {}}});
  expect_bounded();
  EXPECT_EQ(job(last).state, JobState::kPending);
  restart();
  tick();
  expect_bounded();
  EXPECT_EQ(count(JobState::kCancelled), 20'001u);
}

TEST_F(Costs, AChainByNameFallsLinkByLink) {
  const JobId first = submit(held());
  for (int i = 0; i < 5000; ++i) {
    JobSpec spec = World::batch();
    spec.dependencies = {{Dependency::Type::kSingleton, {}, {}}, {Dependency::Type::kAfterOk, first, {}}};
    submit(spec);
  }
  JobSpec last = World::batch();
  last.dependencies = {{Dependency::Type::kSingleton, {}, {}}};
  const JobId single = submit(last);
  measure();
  run(CancelJob{{first, {}}});
  expect_bounded();
  restart();
  tick();
  expect_bounded();
  EXPECT_EQ(count(JobState::kCancelled), 5001u);
  EXPECT_EQ(job(single).hold, Hold::kNone);
  check_invariants(state);
}

TEST_F(Costs, AnArrayOfRecordsIsChangedInParts) {
  constexpr std::uint32_t kRecords = 20'000;
  measure();
  const JobId id = diverged(kRecords);
  expect_bounded();
  const auto holds = [&](Hold hold) {
    return std::count_if(state.tables().jobs.begin(), state.tables().jobs.end(),
                         [&](const auto& entry) { return entry.second->array_job && entry.second->hold == hold; });
  };
  EXPECT_EQ(holds(Hold::kUser), kRecords);
  run(ReleaseJob{{id, {}}});
  EXPECT_EQ(holds(Hold::kNone), kRecords);
  run(HoldJob{{id, {}}});
  EXPECT_EQ(holds(Hold::kUser), kRecords);
  UpdateJob update{.target = {id, {}}};
  update.comment = "seen";
  run(update);
  for (const auto& [number, record] : state.tables().jobs) ASSERT_EQ(record->spec->comment, "seen");
  const JobId waiting = submit(after(Dependency::Type::kAfterAny, id));
  run(RequeueJob{{id, {}}, true});
  run(CancelJob{{id, {}}});
  tick();
  EXPECT_EQ(count(JobState::kCancelled), kRecords + 1);
  EXPECT_EQ(job(waiting).hold, Hold::kNone);
  // Elements that were kept for the one that waited are forgotten all the same.
  now = now + state.settings().keep_ended;
  tick();
  EXPECT_EQ(state.tables().jobs.size(), 1u);
  expect_bounded();
  check_invariants(state);
}

TEST_F(Costs, EndedElementsOfAnAwaitedArrayCostNothing) {
  const JobId id = diverged(2000);
  run(CancelJob{{id, IntervalSet(0, 1998)}});
  const JobId waiting = submit(after(Dependency::Type::kAfterAny, id));
  now = now + state.settings().keep_ended;
  tick();
  EXPECT_EQ(count(JobState::kCancelled), 1999u);  // listed: somebody waits for their array
  EXPECT_EQ(state.next_timer(), kNever);
  measure();
  run(HoldJob{{waiting, {}}});
  run(ReleaseJob{{waiting, {}}});
  EXPECT_LT(refreshed, 20u) << "waiting for an array looks at all of its elements";
  run(CancelJob{{waiting, {}}});
  now = now + state.settings().keep_ended;
  tick();
  EXPECT_EQ(count(JobState::kCancelled), 0u);
  expect_bounded();
  check_invariants(state);
}

TEST_F(Costs, TimersThatAreDueAtOnceAreActedOnByAndBy) {
  for (int i = 0; i < 20'000; ++i) {
    JobSpec spec = World::batch();
    spec.begin = WallTime{now.us + 60'000'000};
    submit(spec);
  }
  now = now + minutes(2);
  measure();
  tick();
  expect_bounded();
  EXPECT_GT(steps, 20u);
  for (const auto& [id, record] : state.tables().jobs) ASSERT_EQ(record->hold, Hold::kNone);
}

TEST_F(Costs, ANodeWithManyJobsIsProvenStoppedInParts) {
  for (const bool fenced : {true, false}) {
    Node facts;
    facts.meta.name = "n1";
    facts.boot_id = fenced ? "boot-1" : "boot-2";
    facts.cores = CoreSet::kCapacity;
    facts.memory_mb = 1'000'000;
    const NodeId node = run(NodeHello{facts}).node;
    JobSpec spec = World::batch();
    spec.groups[0].per_task.cores = 1;
    spec.groups[0].per_task.memory_mb = 1;
    std::uint32_t started = 0;
    for (; started < CoreSet::kCapacity; ++started) {
      PlannedStart start;
      start.job = submit(spec);
      start.read = job(start.job).meta.seq;
      start.partition = "main";
      start.grants.resize(1);
      start.grants[0].node = node;
      start.grants[0].tasks = 1;
      start.grants[0].memory_mb = 1;
      start.grants[0].cores.set(started);
      ASSERT_EQ(run(ApplyPlan{{start}}).starts_applied, 1u);
    }
    measure();
    if (fenced) {
      run(NodeFenced{node, "boot-1", "power"});
      EXPECT_EQ(state.tables().node(node)->link, NodeLink::kLost);
    } else {
      facts.boot_id = "boot-3";
      run(NodeHello{facts});
      EXPECT_EQ(state.tables().node(node)->link, NodeLink::kUp);
    }
    EXPECT_GE(steps, started / Txn::kWorkMost);
    expect_bounded();
    EXPECT_EQ(state.load(node), NodeLoad{});
    check_invariants(state);
  }
}

TEST_F(Costs, AWideJobThatHangsClosesItsNodesInParts) {
  constexpr std::uint32_t kNodes = 10'000;
  PlannedStart start;
  start.partition = "main";
  start.grants.resize(kNodes);
  for (std::uint32_t i = 0; i < kNodes; ++i) {
    Node facts;
    facts.meta.name = "n" + std::to_string(i + 1);
    facts.boot_id = "boot";
    facts.cores = 4;
    facts.memory_mb = 4000;
    start.grants[i].node = run(NodeHello{facts}).node;
    start.grants[i].tasks = 1;
    start.grants[i].cores = CoreSet::first_n(4);
    start.grants[i].memory_mb = 1000;
  }
  now = now + minutes(10);
  start.job = submit(World::batch(kNodes));
  start.read = job(start.job).meta.seq;
  ASSERT_EQ(run(ApplyPlan{{start}}).starts_applied, 1u);
  run(CancelJob{.target = {.job = start.job}});
  actions = 0;  // each node is told in one part
  now = state.next_timer();
  changes = refreshed = 0;
  tick();
  expect_bounded();
  for (const auto& [id, node] : state.tables().nodes) ASSERT_TRUE(node_drained(*node)) << node->meta.name;
  EXPECT_GE(state.next_timer(), kNever) << "nobody asks once more";
  check_invariants(state);
  // The disk answers again: each node opens with its own word, whatever the others do.
  for (const Grant& grant : start.grants) {
    run(AgentReport{grant.node, "boot", start.job, 1, MemberStopped{}});
    ASSERT_FALSE(node_drained(*state.tables().node(grant.node)));
  }
  EXPECT_EQ(job(start.job).state, JobState::kCancelled);
  expect_bounded();
}

TEST_F(Costs, AReservationLetsManyJobsGo) {
  World w(1);
  Reservation r;
  r.meta.name = "class";
  r.start = WallTime{now.us + hours(1).us};
  r.duration = hours(1);
  r.nodes = {"ALL"};
  r.users = {"alice"};
  r.no_hold_jobs_after = true;
  run(PutReservation{r});
  for (int i = 0; i < 5000; ++i) {
    JobSpec spec = World::batch();
    spec.reservation = "class";
    submit(spec);
  }
  measure();
  run(RemoveReservation{"class"});
  expect_bounded();
  EXPECT_TRUE(state.tables().reservations.empty());
  for (const auto& [id, record] : state.tables().jobs) ASSERT_EQ(record->spec->reservation, "");
}

// One job on so many nodes, which all report: how many of its members were looked at over its life.
std::uint64_t looks_at_members(std::uint32_t nodes) {
  ClusterState state;
  Instant now{1'000'000'000'000};
  const auto run = [&](CommandBody body) {
    Command command{kController, std::move(body), {}};
    auto outcome = apply(state, command, now);
    EXPECT_TRUE(outcome.ok()) << (outcome.ok() ? "" : outcome.error().message);
    return outcome.ok() ? outcome->answer : Answer{};
  };
  run(StartEpoch{"test"});
  User user;
  user.meta.name = "alice";
  user.uid = 1000;
  run(PutUser{user});
  PlannedStart start;
  start.partition = "main";
  start.grants.resize(nodes);
  for (std::uint32_t i = 0; i < nodes; ++i) {
    Node facts;
    facts.meta.name = "n" + std::to_string(i + 1);
    facts.boot_id = "boot";
    facts.cores = 4;
    facts.memory_mb = 4000;
    start.grants[i].node = run(NodeHello{facts}).node;
    start.grants[i].tasks = 1;
    start.grants[i].cores = CoreSet::first_n(4);
    start.grants[i].memory_mb = 1000;
  }
  start.job = run(SubmitJob{.spec = std::make_shared<const JobSpec>(World::batch(nodes))}).job;
  start.read = state.tables().job(start.job)->meta.seq;
  EXPECT_EQ(run(ApplyPlan{{start}}).starts_applied, 1u);
  const auto report = [&](std::size_t i, ReportBody body) {
    run(AgentReport{start.grants[i].node, "boot", start.job, 1, std::move(body)});
  };
  for (std::size_t i = 0; i < nodes; ++i) report(i, AttemptStarted{});
  EXPECT_EQ(state.tables().job(start.job)->state, JobState::kRunning);
  report(0, ScriptEnded{});
  for (std::size_t i = 0; i + 1 < nodes; ++i) report(i, MemberStopped{});
  const std::uint64_t looks = state.inner().seats.at(start.job).looked_at();
  report(nodes - 1, MemberStopped{});
  EXPECT_EQ(state.tables().job(start.job)->state, JobState::kCompleted);
  EXPECT_EQ(state.tables().job(start.job)->ran_on, nodes == 40 ? "n[1-40]" : "n[1-160]");
  return looks;
}

TEST(Seats, AWideJobCostsEachOfItsNodesOnce) {
  const std::uint64_t few = looks_at_members(40), many = looks_at_members(160);
  EXPECT_GE(few, 3u * 40u);
  EXPECT_LE(many, 4 * few + 10) << "a report of one node looks at the others";
}

TEST_F(Costs, TheStepsOfAJobEndInParts) {
  for (const bool node_first : {true, false}) {
    World w(1);
    const JobId id = w.submit(World::batch(1));
    w.settle();
    auto spec = std::make_shared<StepSpec>();
    spec->argv = {"true"};
    spec->tasks = 1;
    spec->overlap = true;
    state = std::move(w.state);
    now = w.now;
    constexpr int kSteps = 1500;
    for (int i = 0; i < kSteps; ++i) run(CreateStep{id, spec});
    spec = std::make_shared<StepSpec>(*spec);
    spec->overlap = false;
    run(CreateStep{id, spec});
    run(CreateStep{id, spec});
    ASSERT_EQ(state.inner().waiting_steps.at(id).size(), 1u);
    measure();
    const NodeId node = job(id).allocation->grants[0].node;
    const std::string boot = state.tables().node(node)->boot_id;
    if (!node_first)
      run(AgentReport{node, boot, id, 1, ScriptEnded{}});
    run(AgentReport{node, boot, id, 1, MemberStopped{}});
    EXPECT_EQ(job(id).state, JobState::kCompleting);
    run(CancelJob{{id, {}}});  // meanwhile
    check_invariants(state);
    restart();
    check_invariants(state);
    tick();
    expect_bounded();
    EXPECT_GT(steps, 3u);
    EXPECT_TRUE(is_final(job(id).state) || job(id).state == JobState::kPending);
    EXPECT_TRUE(state.inner().live_steps.empty() && state.inner().waiting_steps.empty());
    for (const auto& [key, step] : state.tables().steps) ASSERT_EQ(step->state, StepState::kEnded);
    check_invariants(state);
  }
}

// The end of a task is one record, however many others its job has: none of them is looked at, no timer is worked out
// for the job, and none of its members. The last one ends the job.
TEST_F(Costs, ATaskThatEndsLooksAtNoOther) {
  constexpr std::uint32_t kNodes = 20, kEach = 50, kTasks = kNodes * kEach;
  JobSpec spec = World::tasks(kTasks, RestartRule::kOnFailure, false);
  spec.groups[0].restarts_max = 1;
  spec.groups[0].per_task = {};
  const JobId id = submit(std::move(spec));
  PlannedStart start{id, false, 0, job(id).meta.seq, state.tables().default_partition()->meta.name, {}};
  for (std::uint32_t n = 0; n < kNodes; ++n) {
    Node facts;
    facts.meta.name = World::name_of(n);
    facts.boot_id = "boot";
    facts.cores = kEach;
    facts.memory_mb = 1000;
    Grant grant{.node = run(NodeHello{facts}).node, .tasks = kEach};
    for (std::uint32_t core = 0; core < kEach; ++core) grant.cores.set(core);
    start.grants.push_back(std::move(grant));
  }
  ASSERT_EQ(run(ApplyPlan{{start}}).starts_applied, 1u);
  const auto report = [&](std::size_t n, ReportBody body) {
    return run(AgentReport{job(id).allocation->grants[n].node, "boot", id, job(id).attempt, std::move(body)});
  };
  for (std::size_t n = 0; n < kNodes; ++n) report(n, AttemptStarted{});
  for (std::uint32_t t = 0; t < kTasks; ++t) report(t / kEach, TaskStarted{0, t, 1});
  ASSERT_EQ(state.inner().open_tasks.at(id), kTasks);

  const std::uint64_t read = state.inner().tasks_read, members = state.inner().seats.at(id).looked_at();
  const auto expect_one_record = [&] {
    EXPECT_EQ(changes, 1u);
    EXPECT_EQ(refreshed, 0u);
    EXPECT_EQ(actions, 0u);
  };
  measure();
  for (std::uint32_t t = 0; t < kTasks; ++t) report(t / kEach, TaskEnded{0, t, 1, {3, 0, false}});
  expect_one_record();  // it starts again
  now = now + seconds(1);
  tick();
  for (std::uint32_t t = 0; t < kTasks; ++t) report(t / kEach, TaskStarted{0, t, 2});
  measure();
  for (std::uint32_t t = 0; t + 1 < kTasks; ++t) report(t / kEach, TaskEnded{0, t, 2, {}});
  expect_one_record();
  EXPECT_EQ(state.inner().seats.at(id).looked_at(), members);
  EXPECT_EQ(state.inner().open_tasks.at(id), 1u);
  EXPECT_EQ(job(id).state, JobState::kRunning);
  report(kNodes - 1, TaskEnded{0, kTasks - 1, 2, {}});
  EXPECT_EQ(job(id).state, JobState::kCompleting);
  EXPECT_EQ(job(id).ending, JobState::kCompleted);
  EXPECT_EQ(state.inner().tasks_read, read);
  check_invariants(state);
}

TEST_F(Costs, WhoIsAwaitedAlreadyIsNotLookedAtAgain) {
  std::vector<Dependency> on;
  for (int i = 0; i < 300; ++i) on.push_back({Dependency::Type::kAfterAny, submit(held()), {}});
  JobSpec spec = World::batch();
  spec.dependencies = on;
  submit(spec);
  measure();
  JobId last;
  for (int i = 0; i < 20; ++i) last = submit(spec);
  EXPECT_LT(refreshed, 20u) << "one more who waits makes all of its dependencies be looked at";
  for (const Dependency& d : on) run(CancelJob{{d.job, {}}});
  tick();
  EXPECT_EQ(job(last).hold, Hold::kNone);
  check_invariants(state);
}

TEST_F(Costs, AnAccountGoesWithAllThatIsInIt) {
  Account account;
  for (const char* name : {"big", "other"}) {
    account.meta.name = name;
    run(PutAccount{account});
  }
  for (int i = 0; i < 2000; ++i) {
    Association association;
    association.account = i % 2 == 0 ? "big" : "other";
    association.user = "u" + std::to_string(i / 2);
    run(PutAssociation{association});
  }
  ASSERT_EQ(state.tables().default_account("u7"), "big");
  measure();
  run(RemoveAccount{"big"});
  expect_bounded();
  EXPECT_GT(steps, 2u);
  EXPECT_EQ(state.tables().account("big"), nullptr);
  EXPECT_EQ(state.tables().associations.size(), 1000u);
  check_invariants(state);
}

TEST_F(Costs, UseIsForgottenInParts) {
  Account account;
  for (const char* name : {"a", "a-b", "c"}) {
    account.meta.name = name;
    account.parent = account.meta.name == "a-b" ? "a" : "";
    run(PutAccount{account});
  }
  const JobId id = submit(held());
  std::vector<Change> records = state.tables().snapshot();
  Seq seq = state.tables().seq;
  for (const char* where : {"a", "a-b", "c"})
    for (std::uint32_t user = 1; user <= 1500; ++user) {
      Usage usage;
      usage.account = where;
      usage.user = UserId(user);
      usage.meta.name = usage_name(usage);
      usage.meta.seq = ++seq;
      records.push_back({seq, std::make_shared<const Usage>(usage), false});
    }
  ClusterState fresh(state.settings());
  fresh.restore(records);
  state = std::move(fresh);
  measure();
  run(ResetUsage{"c", "alice"});
  EXPECT_EQ(state.tables().usages.size(), 4499u);
  run(ResetUsage{"a", ""});
  expect_bounded();
  EXPECT_EQ(state.tables().usages.size(), 1499u);
  run(ResetUsage{"", ""});
  expect_bounded();
  EXPECT_TRUE(state.tables().usages.empty());
  EXPECT_EQ(job(id).state, JobState::kPending);
}

TEST(Sets, WhatOneHasAndTheOtherHasNot) {
  Rng rng(7);
  for (int round = 0; round < 2000; ++round) {
    IntervalSet a, b, naive;
    for (int i = 0; i < 8; ++i) {
      const auto low = static_cast<std::uint32_t>(rng.below(40)), more = static_cast<std::uint32_t>(rng.below(6));
      (i % 2 ? a : b).insert(low, low + more);
    }
    if (round % 3 == 0)
      a.insert(UINT32_MAX - 3, UINT32_MAX), b.insert(UINT32_MAX - static_cast<std::uint32_t>(rng.below(5)), UINT32_MAX);
    naive = a;
    for (const Interval& part : b.intervals()) naive.erase(part.low, part.high);
    ASSERT_EQ(without(a, b), naive) << a.text() << " without " << b.text();
  }
}

}  // namespace
}  // namespace lockstep
