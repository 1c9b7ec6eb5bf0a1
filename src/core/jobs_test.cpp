#include "core/testing.h"
#include "model/job.h"

namespace lockstep {
namespace {

constexpr Caller kBobCalls{World::kBob, false};

SubmitJob ask_for(JobSpec spec) { return {.spec = std::make_shared<const JobSpec>(std::move(spec))}; }

TEST(Submit, GivesRisingIdsAndNeverTheSameTwice) {
  World w(1);
  EXPECT_EQ(w.submit(World::batch()), JobId(1));
  EXPECT_EQ(w.submit(World::batch()), JobId(2));
  JobSpec bad = World::batch();
  bad.groups.clear();
  EXPECT_EQ(w.refused(ask_for(bad)), Errc::kInvalid);
  EXPECT_EQ(w.submit(World::batch()), JobId(3));
  w.must(CancelJob{{JobId(3), {}}});
  w.pass(hours(1));  // forgotten
  EXPECT_EQ(w.state.tables().job(JobId(3)), nullptr);
  ClusterState again;
  again.restore(w.state.tables().snapshot());
  EXPECT_EQ(again.tables().seq, w.state.tables().seq);
  w.state = std::move(again);
  EXPECT_EQ(w.submit(World::batch()), JobId(4));
}

TEST(Submit, RefusesWhatMakesNoSense) {
  World w(2);
  const auto refuse = [&](auto change) {
    JobSpec spec = World::batch();
    change(spec);
    return w.refused(ask_for(std::move(spec)));
  };
  EXPECT_EQ(refuse([](JobSpec& s) { s.partitions = {"nowhere"}; }), Errc::kInvalid);
  EXPECT_EQ(refuse([](JobSpec& s) { s.groups[0].tasks = {0, 0}; }), Errc::kInvalid);
  EXPECT_EQ(refuse([](JobSpec& s) { s.groups[0].tasks = {2, 1}; }), Errc::kInvalid);
  EXPECT_EQ(refuse([](JobSpec& s) { s.groups[0].tasks = {UINT32_MAX, UINT32_MAX}; }), Errc::kInvalid);
  EXPECT_EQ(refuse([](JobSpec& s) { s.groups[0].nodes = {3, 2}; }), Errc::kInvalid);
  EXPECT_EQ(refuse([](JobSpec& s) { s.groups[0].per_task.memory_mb = -1; }), Errc::kInvalid);
  EXPECT_EQ(refuse([](JobSpec& s) { s.groups[0].per_task.memory_mb = INT64_MAX; }), Errc::kInvalid);
  EXPECT_EQ(refuse([](JobSpec& s) { s.groups[0].per_task.cores = UINT32_MAX; }), Errc::kInvalid);
  EXPECT_EQ(refuse([](JobSpec& s) { s.groups[0].constraint = "a&(b"; }), Errc::kInvalid);
  EXPECT_EQ(refuse([](JobSpec& s) { s.time_limit = seconds(-1); }), Errc::kInvalid);
  EXPECT_EQ(refuse([](JobSpec& s) { s.time_limit = {INT64_MAX}; }), Errc::kInvalid);
  EXPECT_EQ(refuse([](JobSpec& s) { s.deadline = WallTime{1}; }), Errc::kInvalid);
  EXPECT_EQ(refuse([](JobSpec& s) { s.begin = WallTime{INT64_MAX}; }), Errc::kInvalid);
  EXPECT_EQ(refuse([](JobSpec& s) { s.script.clear(); }), Errc::kInvalid);
  EXPECT_EQ(refuse([](JobSpec& s) { s.signal_ahead.signal = 99; }), Errc::kInvalid);
  EXPECT_EQ(refuse([](JobSpec& s) { s.dependencies = {{Dependency::Type::kAfterOk, JobId(7), {}}}; }), Errc::kInvalid);
  EXPECT_EQ(refuse([](JobSpec& s) { s.groups.push_back(s.groups[0]); }), Errc::kInvalid);  // two scripts
  EXPECT_EQ(refuse([](JobSpec& s) { s.groups[0].nodes = s.groups[0].tasks = {3, 3}; }), Errc::kImpossible);
  EXPECT_EQ(refuse([](JobSpec& s) { s.groups[0].per_node.devices = {{"gpu", "", 9}}; }), Errc::kImpossible);
  EXPECT_EQ(w.refused(SubmitJob{}), Errc::kInvalid);
  SubmitJob array = ask_for(World::batch());
  array.array = ArrayAsk{};
  EXPECT_EQ(w.refused(array), Errc::kInvalid);
  array.array = ArrayAsk{IntervalSet(0, 1'000'000'000), 0, 1};
  EXPECT_EQ(w.refused(array), Errc::kInvalid);
  EXPECT_TRUE(w.state.tables().jobs.empty());
}

TEST(Submit, AnythingIsPossibleBeforeTheFirstNode) {
  World w;
  const JobId job = w.submit(World::batch(100, 64));
  EXPECT_EQ(w.state_of(job), JobState::kPending);
}

TEST(Submit, EqualSpecsAreSharedAndCheckedAgainWhenNodesChange) {
  World w(2);
  const JobId a = w.submit(World::batch(2)), b = w.submit(World::batch(2));
  EXPECT_EQ(w.job(a).spec, w.job(b).spec);
  w.lose(2);  // it may come back
  w.submit(World::batch(2));
  w.must(RemoveNode{"n2"});
  EXPECT_EQ(w.refused(ask_for(World::batch(2))), Errc::kImpossible);
  Partition main = *w.state.tables().default_partition();
  JobSpec one = World::batch(1);
  w.submit(one);
  main.allow_accounts = {"physics"};
  w.must(PutPartition{main});
  EXPECT_EQ(w.refused(ask_for(one)), Errc::kDenied);
}

// What waits there starts all the same, and may be changed; what is elsewhere does not come in.
TEST(Submit, AClosedPartitionTakesNoNewJobs) {
  World w(1);
  Partition night = *w.state.tables().default_partition();
  night.meta.name = "night";
  night.is_default = false;
  w.must(PutPartition{night});
  JobSpec spec = World::batch(1);
  spec.partitions = {"night"};
  const JobId waits = w.submit(spec), elsewhere = w.submit(World::batch(1));
  night.closed = true;
  w.must(PutPartition{night});
  const auto refused = w.run(ask_for(spec));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "partition night takes no new jobs");
  EXPECT_FALSE(w.run(UpdateJob{.target = {elsewhere, {}}, .partitions = std::vector<std::string>{"night"}}).ok());
  w.must(UpdateJob{.target = {waits, {}}, .time_limit = minutes(5)});
  spec.partitions = {"night", "main"};
  w.submit(spec);
  EXPECT_GE(w.start_what_fits(), 1u);
  EXPECT_TRUE(w.job(waits).allocation);
  night.closed = false;
  w.must(PutPartition{night});
  w.submit(spec);
}

TEST(Submit, OnlyForOneself) {
  World w(1);
  EXPECT_EQ(w.refused(ask_for(World::batch()), kBobCalls), Errc::kDenied);
  JobSpec urgent = World::batch();
  urgent.priority = 5;
  EXPECT_EQ(w.refused(ask_for(urgent), kAliceCalls), Errc::kDenied);
  w.must(ask_for(World::batch()), kAliceCalls);
}

TEST(Submit, TimeLimitsOfPartitions) {
  World w(1);
  Partition brief;
  brief.meta.name = "brief";
  brief.nodes = {"n1"};
  brief.time_max = hours(1);
  brief.time_default = minutes(5);
  w.must(PutPartition{brief});
  JobSpec spec = World::batch();
  spec.time_limit = hours(2);
  spec.partitions = {"brief"};
  const JobId long_one = w.submit(spec);  // it waits until the partition allows it
  EXPECT_EQ(w.start_what_fits(), 0u);
  UpdateJob longer;
  longer.target = {long_one, {}};
  longer.time_limit = hours(3);
  const auto no = w.run(longer, kAliceCalls);
  ASSERT_FALSE(no.ok());
  EXPECT_NE(no.error().message.find("180 minutes are more than the 60 that partition brief allows"), std::string::npos)
      << no.error().message;
  longer.time_limit = minutes(30);
  w.must(longer, kAliceCalls);
  EXPECT_EQ(w.start_what_fits(), 1u);
  w.must(CancelJob{{long_one, {}}});
  w.obey();
  spec.partitions = {"brief", "main"};
  w.submit(spec);
  spec.partitions = {"brief"};
  spec.time_limit = {};
  const JobId job = w.submit(spec);
  w.settle();
  EXPECT_EQ(w.job(job).limit_end, w.now + minutes(5));
}

TEST(Submit, ANodeOfAnotherPartitionIsToldFromOneThatIsNotThere) {
  World w(2);
  Partition brief;
  brief.meta.name = "brief";
  brief.nodes = {"n1"};
  w.must(PutPartition{brief});
  JobSpec spec = World::batch();
  spec.partitions = {"brief"};
  spec.groups[0].only_nodes = {"n2"};
  const auto elsewhere = w.run(ask_for(spec), kAliceCalls);
  ASSERT_FALSE(elsewhere.ok());
  EXPECT_EQ(elsewhere.error().code, Errc::kImpossible);
  EXPECT_EQ(elsewhere.error().message, "node n2 is not in partition brief");
  spec.groups[0].only_nodes = {"n9"};
  EXPECT_EQ(w.refused(ask_for(spec), kAliceCalls), Errc::kInvalid);
  spec.groups[0].only_nodes = {"n1"};
  w.must(ask_for(spec), kAliceCalls);
}

TEST(Submit, APartitionsMemoryIsThatOfWhoNamesNone) {
  World w(1);
  Partition main = *w.state.tables().default_partition();
  main.memory_per_core_mb = 3000;
  w.must(PutPartition{main});
  JobSpec spec = World::batch();
  const JobId names_it = w.submit(spec);
  spec.groups[0].per_task.memory_mb = 0;
  const JobId open = w.submit(spec);
  w.settle();
  EXPECT_EQ(w.job(names_it).allocation->tres.memory_mb, 1000);
  EXPECT_EQ(w.job(open).allocation->tres.memory_mb, 4 * 3000);
}

TEST(Submit, GpusThatNoNodeHasAreSpreadOverAsFewAsCanBe) {
  World w(3);
  JobSpec spec = World::batch();
  spec.groups[0].nodes = {0, 0};
  spec.groups[0].tasks_per_node = 0;
  spec.groups[0].per_job = {{"gpu", "", 16}};
  const JobId job = w.submit(spec);
  w.settle();
  ASSERT_EQ(w.state_of(job), JobState::kRunning);
  EXPECT_EQ(w.job(job).allocation->tres.gpus, 16);
  EXPECT_EQ(w.job(job).allocation->tres.nodes, 2);
  spec.groups[0].per_job = {{"gpu", "", 25}};
  EXPECT_EQ(w.refused(ask_for(spec)), Errc::kImpossible);
  spec.groups[0].per_job = {{"gpu", "", 16}};
  spec.options.push_back({"ntasks", "1"});  // one task runs on one node
  EXPECT_EQ(w.refused(ask_for(spec)), Errc::kImpossible);
  spec.options.clear();
  spec.groups[0].per_job = {{"gpu", "", 8}};
  EXPECT_EQ(w.job(w.submit(spec)).spec->groups[0].nodes, (CountRange{0, 0}));
}

TEST(Submit, GpusAreSpreadAsTheCoresAndTheMemoryOfEachAllow) {
  World w(3);
  JobSpec spec = World::batch();
  GroupSpec& group = spec.groups[0];
  group.nodes = {0, 0};
  group.tasks_per_node = 0;
  group.per_task = {};
  group.cores_per_device = 4;
  group.per_job = {{"gpu", "", 8}};  // a node of 16 cores has those of four
  const auto nodes_of = [&] {
    const JobId job = w.submit(spec);
    w.settle();
    EXPECT_EQ(w.state_of(job), JobState::kRunning);
    const auto nodes = w.job(job).allocation ? w.job(job).allocation->tres.nodes : 0;
    EXPECT_EQ(w.job(job).allocation->tres.gpus, static_cast<std::int64_t>(group.per_job[0].count));
    w.must(CancelJob{{job, {}}});
    w.obey();
    return nodes;
  };
  EXPECT_EQ(nodes_of(), 2);
  group.cores_per_device = 0;
  group.per_task.cores = 1;
  group.memory_per_device_mb = 16'000;  // of 64,000
  EXPECT_EQ(nodes_of(), 2);
  group.memory_per_device_mb = 0;
  group.per_job = {{"gpu", "", 12}};
  group.only_nodes = {"n3"};
  group.nodes = {1, 1};  // as the command line counts those named
  EXPECT_EQ(nodes_of(), 2);
  group.only_nodes = {"n2", "n3"};
  group.nodes = group.tasks = {2, 2};
  EXPECT_EQ(nodes_of(), 2);
}

TEST(Submit, ExclusiveHoldsEverythingOfItsNodes) {
  World w(2);
  JobSpec spec = World::batch(1);
  spec.groups[0].sharing = Sharing::kExclusive;
  spec.groups[0].all_cores = true;
  const JobId job = w.submit(spec);
  w.settle();
  EXPECT_EQ(w.job(job).allocation->tres.cpu, World::kCores);
  EXPECT_EQ(w.job(job).allocation->tres.gpus, World::kGpus);
  EXPECT_EQ(w.job(job).allocation->tres.memory_mb, 1000);  // only what is asked for, as with Slurm
  Qos small;
  small.meta.name = "small";
  small.limits.max_tres_per_user.gpus = 4;
  w.must(PutQos{small});
  spec.qos = "small";
  w.submit(spec);
  EXPECT_EQ(w.start_what_fits(), 0u);  // nobody walks past a limit of GPUs by asking for the node
}

TEST(Submit, AtMostSoManyJobs) {
  CoreSettings settings;
  settings.jobs_max = 2;
  World w(1, settings);
  w.submit(World::batch());
  w.submit(World::batch());
  EXPECT_EQ(w.refused(ask_for(World::batch())), Errc::kExhausted);
}

TEST(Cancel, PendingAtOnceRunningWhenStopped) {
  World w(1);
  const JobId running = w.submit(World::batch(1, 8)), pending = w.submit(World::batch(1, 8));
  w.settle();
  w.must(CancelJob{{pending, {}}}, kAliceCalls);
  EXPECT_EQ(w.state_of(pending), JobState::kCancelled);
  EXPECT_EQ(w.job(pending).cancelled_by, World::kAlice);
  w.must(CancelJob{{running, {}}}, kAliceCalls);
  EXPECT_EQ(w.state_of(running), JobState::kCompleting);
  w.actions.clear();  // lost on the way: cancel again
  w.must(CancelJob{{running, {}}}, kAliceCalls);
  EXPECT_EQ(w.actions.size(), 1u);
  w.obey();
  EXPECT_EQ(w.state_of(running), JobState::kCancelled);
  w.must(CancelJob{{running, {}}}, kAliceCalls);
}

TEST(Cancel, NeedsARight) {
  World w(1);
  const JobId job = w.submit(World::batch());
  EXPECT_EQ(w.refused(CancelJob{{job, {}}}, kBobCalls), Errc::kDenied);
  EXPECT_EQ(w.refused(CancelJob{{JobId(9), {}}}), Errc::kNotFound);
  EXPECT_EQ(w.refused(CancelJob{{job, IntervalSet(0, 1)}}), Errc::kNotFound);  // no array
}

TEST(Cancel, OfAJobThatWouldBeRequeuedWins) {
  World w(2);
  const JobId job = w.submit(World::batch(2));
  w.settle();
  w.lose(2);
  w.must(CancelJob{{job, {}}});
  w.obey();
  w.fence(2);
  EXPECT_EQ(w.state_of(job), JobState::kCancelled);
}

TEST(Cancel, WithASignalOnlySendsIt) {
  World w(2);
  const JobId job = w.submit(World::batch(2));
  EXPECT_EQ(w.refused(CancelJob{{job, {}}, 10, {}}), Errc::kConflict);
  w.settle();
  w.must(CancelJob{{job, {}}, 10, SignalReach::kScript});
  ASSERT_EQ(w.actions.size(), 2u);
  const auto& signal = std::get<SignalAttempt>(w.actions[0].body);
  EXPECT_TRUE(signal.reach == SignalReach::kScript && signal.signal == 10);
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
}

TEST(Cancel, ASignalForAJobThatHasEndedIsRefused) {
  World w(1);
  const JobId job = w.submit(World::batch());
  w.must(CancelJob{{job, {}}});
  ASSERT_EQ(w.state_of(job), JobState::kCancelled);
  const auto sent = w.run(CancelJob{{job, {}}, 10, {}});
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.error().field, "ended");
  w.must(CancelJob{{job, {}}});  // to end it again is nothing
  SubmitJob array{.spec = std::make_shared<const JobSpec>(World::batch())};
  array.array = ArrayAsk{IntervalSet(0, 2), 0, 1};
  const JobId all = w.submit(std::move(array));
  w.must(CancelJob{{all, IntervalSet(0, 1)}});
  w.must(CancelJob{{all, {}}, 10, {}});  // one still waits
  w.must(CancelJob{{all, {}}});
  const auto late = w.run(CancelJob{{all, {}}, 10, {}});
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().field, "ended");
}

TEST(Hold, ByUserAndByAdministrator) {
  World w(1);
  const JobId job = w.submit(World::batch());
  w.must(HoldJob{{job, {}}, false}, kAliceCalls);
  EXPECT_EQ(w.job(job).hold, Hold::kUser);
  EXPECT_EQ(w.start_what_fits(), 0u);
  EXPECT_EQ(w.refused(HoldJob{{job, {}}, true}, kAliceCalls), Errc::kDenied);
  w.must(HoldJob{{job, {}}, true});
  EXPECT_EQ(w.job(job).hold, Hold::kAdmin);
  EXPECT_EQ(w.refused(ReleaseJob{{job, {}}}, kAliceCalls), Errc::kDenied);
  w.must(ReleaseJob{{job, {}}});
  w.settle();
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
  EXPECT_EQ(w.refused(HoldJob{{job, {}}, false}), Errc::kConflict);
}

TEST(Requeue, RunningEndedAndHeld) {
  World w(1);
  const JobId job = w.submit(World::batch());
  w.settle();
  w.must(RequeueJob{{job, {}}, false}, kAliceCalls);
  EXPECT_TRUE(w.job(job).requeue_after);
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kPending);
  w.pass(seconds(2));
  w.settle();
  w.end_script(job, {1, 0, false});
  EXPECT_EQ(w.state_of(job), JobState::kFailed);
  w.must(RequeueJob{{job, {}}, true});
  EXPECT_EQ(w.job(job).hold, Hold::kUser);
  EXPECT_EQ(w.job(job).restarts, 2u);
  EXPECT_EQ(w.job(job).exit.code, 0);
  w.must(ReleaseJob{{job, {}}});
  w.pass(seconds(2));
  w.settle();
  EXPECT_EQ(w.job(job).attempt, 3u);
  const JobId interactive = w.submit(World::interactive());
  w.settle();
  EXPECT_EQ(w.refused(RequeueJob{{interactive, {}}, false}), Errc::kInvalid);
}

TEST(Requeue, NotOfWhatItsOwnerLetsRunOnceOnlyNorOfWhatWaits) {
  World w(1);
  JobSpec spec = World::batch();
  spec.requeue = false;
  const JobId job = w.submit(spec);
  for (const bool hold : {false, true}) EXPECT_EQ(w.refused(RequeueJob{{job, {}}, hold}), Errc::kConflict);
  w.settle();
  EXPECT_EQ(w.refused(RequeueJob{{job, {}}, false}), Errc::kConflict);  // to an administrator as well
  UpdateJob allow;
  allow.target = {job, {}};
  allow.requeue = true;
  w.must(allow, kAliceCalls);
  w.must(RequeueJob{{job, {}}, false}, kAliceCalls);
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kPending);
  EXPECT_EQ(w.refused(RequeueJob{{job, {}}, false}), Errc::kConflict);
  const JobId ended = w.submit(spec);
  w.settle();
  w.end_script(ended);
  EXPECT_EQ(w.refused(RequeueJob{{ended, {}}, false}), Errc::kConflict);
  const JobId array = w.submit_array(spec, "0-1");
  w.settle();
  EXPECT_EQ(w.refused(RequeueJob{{array, {}}, false}), Errc::kConflict);
}

TEST(Update, ChangesWhatIsAskedAndIsCheckedLikeASubmission) {
  World w(2);
  const JobId job = w.submit(World::batch(2));
  UpdateJob u;
  u.target = {job, {}};
  u.name = "other";
  u.nodes = CountRange{1, 1};
  u.if_seq = w.job(job).meta.seq;
  w.must(u, kAliceCalls);
  EXPECT_EQ(w.job(job).spec->name, "other");
  EXPECT_EQ(w.job(job).spec->groups[0].tasks, (CountRange{1, 1}));
  EXPECT_EQ(w.job(job).meta.generation, 2u);
  EXPECT_EQ(w.refused(u, kAliceCalls), Errc::kConflict);  // the seq has moved on
  u.if_seq = 0;
  u.nodes = CountRange{9, 9};
  EXPECT_EQ(w.refused(u, kAliceCalls), Errc::kImpossible);
  u.nodes.reset();
  u.partitions = std::vector<std::string>{"nowhere"};
  EXPECT_EQ(w.refused(u, kAliceCalls), Errc::kInvalid);
  EXPECT_EQ(w.refused(u, kBobCalls), Errc::kDenied);
  u.partitions.reset();
  u.priority = 7;
  EXPECT_EQ(w.refused(u, kAliceCalls), Errc::kDenied);
  w.must(u);
  EXPECT_EQ(w.job(job).priority, 7u);
}

TEST(Update, TimeLimitOfARunningJobMoves) {
  World w(1);
  JobSpec spec = World::batch();
  spec.time_limit = hours(1);
  const JobId job = w.submit(spec);
  w.settle();
  UpdateJob u;
  u.target = {job, {}};
  u.time_limit = minutes(10);
  w.must(u, kAliceCalls);
  EXPECT_EQ(w.job(job).limit_end, w.job(job).started + minutes(10));
  EXPECT_EQ(w.state.next_timer(), w.job(job).limit_end);
  u.time_limit = hours(3);
  EXPECT_EQ(w.refused(u, kAliceCalls), Errc::kDenied);
  w.must(u);
  u.time_limit.reset();
  u.nodes = CountRange{2, 2};
  EXPECT_EQ(w.refused(u), Errc::kConflict);
}

TEST(Timers, LimitWarnsThenStrikes) {
  World w(1);
  JobSpec spec = World::batch();
  spec.time_limit = minutes(10);
  spec.signal_ahead = {10, minutes(1), true};
  const JobId job = w.submit(spec);
  w.settle();
  w.pass(minutes(9));
  EXPECT_TRUE(w.job(job).warned);
  ASSERT_EQ(w.actions.size(), 1u);
  EXPECT_TRUE(std::get<SignalAttempt>(w.actions[0].body).reach == SignalReach::kScript);
  w.obey();
  w.pass(minutes(1));
  EXPECT_EQ(w.state_of(job), JobState::kCompleting);
  (void)w.report(1, job, ScriptEnded{{0, 15, false}});
  w.obey();
  EXPECT_EQ(w.state_of(job), JobState::kTimeout);
  EXPECT_EQ(w.job(job).end_reason, "TimeLimit");
  EXPECT_EQ(w.job(job).exit.signal, 15);
}

TEST(Timers, AWarningThatIsDueAtTheStartComesWhenTheJobIsThere) {
  for (const auto& [limit, ahead, due] :
       {std::tuple(minutes(1), seconds(90), seconds(30)), std::tuple(minutes(10), minutes(10), seconds(30)),
        std::tuple(seconds(20), minutes(1), seconds(10)), std::tuple(minutes(10), minutes(9), minutes(1))}) {
    World w(1);
    JobSpec spec = World::batch();
    spec.time_limit = limit;
    spec.signal_ahead = {10, ahead, false};
    const JobId job = w.submit(spec);
    w.settle();
    w.pass(due - millis(1));
    EXPECT_FALSE(w.job(job).warned) << limit.us << " " << ahead.us;
    w.pass(millis(1));
    EXPECT_TRUE(w.job(job).warned) << limit.us << " " << ahead.us;
    EXPECT_EQ(w.state_of(job), JobState::kRunning);
  }
}

TEST(Timers, BeginFollowsTheWallClock) {
  World w(1);
  JobSpec spec = World::batch();
  spec.begin = WallTime{w.now.us + 60'000'000};
  const JobId job = w.submit(spec);
  EXPECT_EQ(w.job(job).hold, Hold::kBeginTime);
  EXPECT_EQ(w.state.next_timer(), w.now + seconds(60));
  w.must(SetWallOffset{seconds(20)});  // the calendar is ahead
  EXPECT_EQ(w.state.next_timer(), w.now + seconds(40));
  w.pass(seconds(39));
  EXPECT_EQ(w.job(job).hold, Hold::kBeginTime);
  w.pass(seconds(1));
  EXPECT_EQ(w.job(job).hold, Hold::kNone);
  EXPECT_EQ(w.job(job).eligible, w.now);
}

TEST(Timers, DeadlineLeavesRoomForTheWholeRun) {
  World w(1);
  JobSpec spec = World::batch();
  spec.hold = true;
  spec.time_limit = minutes(10);
  spec.deadline = WallTime{w.now.us + hours(1).us};
  const JobId job = w.submit(spec);
  w.pass(minutes(49));
  EXPECT_EQ(w.state_of(job), JobState::kPending);
  w.pass(minutes(1));
  EXPECT_EQ(w.state_of(job), JobState::kDeadline);
}

TEST(Timers, EndedJobsAreForgotten) {
  World w(1);
  const JobId job = w.submit(World::interactive());
  w.settle();
  auto step = std::make_shared<StepSpec>();
  step->argv = {"true"};
  w.must(CreateStep{job, step});
  w.must(EndJob{job, {}, false});
  w.obey();
  EXPECT_EQ(w.state.next_timer(), w.now + seconds(300));
  w.pass(seconds(300));
  EXPECT_TRUE(w.state.tables().jobs.empty());
  EXPECT_TRUE(w.state.tables().steps.empty());
}

// A user with more than a handful of variants would pay the whole memory for each job.
TEST(Jobs, EqualSpecificationsAreSharedAmongSeveralVariants) {
  World w(1);
  std::vector<JobId> first;
  for (int round = 0; round < 2; ++round)
    for (std::uint32_t cores = 1; cores <= 12; ++cores) {
      JobSpec spec = World::batch();
      spec.groups[0].per_task.cores = cores;
      const JobId id = w.submit(spec);
      if (round == 0)
        first.push_back(id);
      else
        EXPECT_EQ(w.job(id).spec, w.job(first[cores - 1]).spec);
    }
}

}  // namespace
}  // namespace lockstep
