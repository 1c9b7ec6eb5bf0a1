#include "base/mutant.h"
#include "base/text.h"
#include "core/testing.h"
#include "model/job.h"
#include "rules/preempt.h"
#include "rules/usage.h"

namespace lockstep {
namespace {

struct Preemption : testing::Test {
  World world{2};

  void qos(const std::string& name, std::vector<std::string> preempts = {}, PreemptMode mode = PreemptMode::kCluster,
           Duration grace = {}) {
    Qos record;
    record.meta.name = name;
    record.preempts = std::move(preempts);
    record.preempt_mode = mode;
    record.grace = grace;
    world.must(PutQos{record});
  }
  JobId submit(const std::string& qos, std::uint32_t nodes = 1, std::uint32_t gpus = 8, std::int32_t checkpoint = 0) {
    JobSpec spec = World::batch(nodes, gpus);
    spec.qos = qos;
    spec.checkpoint_signal = checkpoint;
    return world.submit(spec);
  }
  // The place the victim has, for the job.
  PlannedPreemption over(JobId job, JobId victim) {
    PlannedPreemption out{
        .job = job, .read = world.job(job).meta.seq, .partition = "main", .grants = {}, .victims = {}};
    out.partition = world.job(victim).allocation->partition;
    out.grants = world.job(victim).allocation->grants;
    out.victims = {victim};
    return out;
  }
  bool apply(PlannedPreemption planned) {
    const JobId job = planned.job;
    ApplyPlan plan;
    plan.preemptions.push_back(std::move(planned));
    world.must(plan);
    return world.job(job).promise != nullptr;
  }
  bool start_on_its_place(JobId job) {
    const Promise promise = *world.job(job).promise;
    PlannedStart start{
        .job = job, .read = world.job(job).meta.seq, .partition = promise.partition, .grants = promise.grants};
    return world.must(ApplyPlan{std::vector{start}}).starts_applied == 1;
  }
};

TEST_F(Preemption, requeue_holds_the_place_until_the_job_starts) {
  qos("low");
  qos("high", {"low"});
  const JobId a = submit("low"), b = submit("low");
  world.settle();
  const JobId urgent = submit("high");
  ASSERT_TRUE(apply(over(urgent, a)));
  EXPECT_EQ(world.state_of(a), JobState::kCompleting);
  EXPECT_FALSE(start_on_its_place(urgent));  // the victim is not gone yet
  world.obey();
  EXPECT_EQ(world.state_of(a), JobState::kPending);
  EXPECT_EQ(world.job(a).restarts, 0u);
  EXPECT_EQ(world.job(a).preemptions, 1u);
  world.pass(minutes(1));
  // The place is free, and nobody gets it but the one it is held for.
  PlannedStart back{.job = a,
                    .read = world.job(a).meta.seq,
                    .partition = world.job(urgent).promise->partition,
                    .grants = world.job(urgent).promise->grants};
  EXPECT_EQ(world.must(ApplyPlan{std::vector{back}}).starts_applied, 0u);
  EXPECT_TRUE(start_on_its_place(urgent));
  EXPECT_EQ(world.job(urgent).promise, nullptr);
  EXPECT_EQ(world.state_of(b), JobState::kRunning);
}

TEST_F(Preemption, what_is_held_outlasts_the_controller) {
  qos("low", {}, PreemptMode::kCancel, seconds(60));
  qos("high", {"low"});
  const JobId a = submit("low");
  world.settle();
  const JobId urgent = submit("high");
  ASSERT_TRUE(apply(over(urgent, a)));
  world.must(StartEpoch{"test"});
  ASSERT_NE(world.job(urgent).promise, nullptr);
  EXPECT_NE(world.job(a).eviction, nullptr);
  world.pass(minutes(2));
  world.obey();
  EXPECT_FALSE(start_on_its_place(urgent));
  for (std::uint32_t i = 1; world.id(i); ++i) world.hello(i);
  EXPECT_TRUE(start_on_its_place(urgent));
}

// To run it again would be to run it twice.
TEST_F(Preemption, what_had_ended_by_itself_is_not_requeued) {
  qos("low");
  qos("high", {"low"});
  const JobId a = submit("low");
  world.settle();
  const JobId urgent = submit("high");
  ASSERT_TRUE(apply(over(urgent, a)));
  ASSERT_EQ(world.state_of(a), JobState::kCompleting);
  (void)world.report(world.first_node(a), a, ScriptEnded{{}, true});
  world.obey();
  EXPECT_EQ(world.state_of(a), JobState::kCompleted);
  EXPECT_EQ(world.job(a).preemptions, 0u);
  EXPECT_TRUE(start_on_its_place(urgent));
}

TEST_F(Preemption, nobody_preempts_without_the_right) {
  qos("low");
  qos("high", {"low"});
  const JobId a = submit("high"), b = submit("low");
  world.settle();
  const JobId low = submit("low"), high = submit("high");
  EXPECT_FALSE(apply(over(low, a)));
  EXPECT_FALSE(apply(over(low, b)));
  EXPECT_FALSE(apply(over(high, a)));
  PlannedPreemption too_small = over(high, b);
  too_small.grants[0].node = world.job(a).allocation->grants[0].node;  // the place is another one
  EXPECT_FALSE(apply(too_small));
  EXPECT_TRUE(apply(over(high, b)));
  EXPECT_EQ(world.state_of(a), JobState::kRunning);
}

TEST_F(Preemption, what_is_not_taken_says_why) {
  qos("low", {}, PreemptMode::kSuspend);
  qos("high", {"low"});
  const JobId a = submit("low"), b = submit("low");
  world.settle();
  const JobId urgent = submit("high");
  const auto refused = [&](auto part, auto list) {
    ApplyPlan plan;
    (plan.*list).push_back(part);
    const Answer answer = world.must(plan);
    EXPECT_EQ(answer.refused.size(), 1u);
    if (answer.refused.empty())
      return std::string("nothing");
    const RefusedPart& one = answer.refused[0];
    return format("{} {} {} {}", static_cast<int>(one.part), one.job.value, one.reason, one.detail);
  };
  const auto preemption = [&](PlannedPreemption planned) { return refused(planned, &ApplyPlan::preemptions); };
  EXPECT_EQ(preemption(over(b, a)), format("2 {} JobChanged ", b.value)) << "it runs";
  EXPECT_EQ(preemption(over(submit("low"), a)), format("2 {} NoRight {}", urgent.value + 1, a.value));
  PlannedPreemption twice = over(urgent, a);
  twice.victims.push_back(a);
  EXPECT_EQ(preemption(twice), format("2 {} VictimChanged {}", urgent.value, a.value));
  PlannedPreemption elsewhere = over(urgent, a);
  elsewhere.grants = world.job(b).allocation->grants;
  EXPECT_EQ(preemption(elsewhere), format("2 {} Taken ", urgent.value));
  elsewhere.grants[0].tasks = 0;
  EXPECT_EQ(preemption(elsewhere).substr(0, 14), format("2 {} NotAsAsked", urgent.value).substr(0, 14));
  EXPECT_EQ(refused(PlannedPromise{.job = a, .promise = {}}, &ApplyPlan::promises),
            format("1 {} JobChanged ", a.value));
  EXPECT_EQ(refused(PlannedResume{.job = a}, &ApplyPlan::resumes), format("3 {} JobChanged ", a.value));
  ASSERT_TRUE(apply(over(urgent, a)));
  EXPECT_EQ(refused(PlannedResume{.job = a}, &ApplyPlan::resumes), format("3 {} Taken ", a.value)) << "it is held";
  EXPECT_EQ(refused(PlannedGrowth{.job = a}, &ApplyPlan::growths), format("4 {} JobChanged ", a.value));
  EXPECT_EQ(refused(PlannedPacking{.read = 77, .packing = nullptr}, &ApplyPlan::packings), "5 0 RecordChanged ");
}

TEST_F(Preemption, grace_warns_first_and_stops_later) {
  qos("low", {}, PreemptMode::kCancel, seconds(60));
  qos("high", {"low"});
  const JobId a = submit("low");
  world.settle();
  const JobId urgent = submit("high");
  ASSERT_TRUE(apply(over(urgent, a)));
  EXPECT_EQ(world.state_of(a), JobState::kRunning);
  EXPECT_EQ(world.job(urgent).promise->at, world.now + seconds(60));
  world.obey();
  EXPECT_EQ(world.told_of<SignalAttempt>(a), 2u);
  EXPECT_EQ(world.told_of<StopAttempt>(a), 0u);
  world.pass(seconds(61));
  world.obey();
  EXPECT_EQ(world.state_of(a), JobState::kPreempted);
  EXPECT_TRUE(start_on_its_place(urgent));
}

TEST_F(Preemption, a_hold_that_falls_pardons_who_still_runs) {
  qos("low", {}, PreemptMode::kCancel, seconds(60));
  qos("high", {"low"});
  const JobId a = submit("low");
  world.settle();
  for (int way = 0; way < 3; ++way) {
    const JobId urgent = submit("high");
    ASSERT_TRUE(apply(over(urgent, a)));
    ASSERT_NE(world.job(a).eviction, nullptr);
    if (way == 0)
      world.must(CancelJob{{urgent, {}}});
    else if (way == 1)
      world.must(HoldJob{{urgent, {}}});
    else
      world.must(UpdateNode{.name = world.node(world.first_node(a)).meta.name, .drain = true});
    EXPECT_EQ(world.job(a).eviction, nullptr) << way;
    EXPECT_EQ(world.job(urgent).promise, nullptr) << way;
    if (way == 1)
      world.must(CancelJob{{urgent, {}}});
  }
  world.pass(minutes(5));
  EXPECT_EQ(world.state_of(a), JobState::kRunning);
}

TEST_F(Preemption, a_checkpoint_ends_the_grace) {
  qos("low", {}, PreemptMode::kCheckpoint, minutes(10));
  qos("high", {"low"});
  const JobId a = submit("low", 1, 8, 12);
  world.settle();
  world.pass(seconds(30));
  const JobId urgent = submit("high");
  ASSERT_TRUE(apply(over(urgent, a)));
  world.obey();
  EXPECT_EQ(world.state_of(a), JobState::kRunning);
  world.pass(seconds(5));
  world.must(MarkCheckpoint{a});
  world.obey();
  EXPECT_EQ(world.state_of(a), JobState::kPending);
  EXPECT_TRUE(start_on_its_place(urgent));
}

TEST_F(Preemption, suspended_jobs_keep_memory_and_give_up_the_rest) {
  qos("low", {}, PreemptMode::kSuspend);
  qos("high", {"low"});
  JobSpec spec = World::batch(1, 8);
  spec.qos = "low";
  spec.time_limit = minutes(10);
  const JobId a = world.submit(spec);
  world.settle();
  const Instant end = world.job(a).limit_end;
  const JobId urgent = submit("high");
  ASSERT_TRUE(apply(over(urgent, a)));
  EXPECT_EQ(world.state_of(a), JobState::kSuspended);
  EXPECT_FALSE(start_on_its_place(urgent));  // nobody has said yet that it has stopped
  EXPECT_TRUE(world.state.load(world.id(world.first_node(a))).cores.any());
  world.obey();
  EXPECT_EQ(world.job(a).members, std::vector{MemberState::kPaused});
  EXPECT_FALSE(world.state.load(world.id(world.first_node(a))).cores.any());
  EXPECT_EQ(world.state.load(world.id(world.first_node(a))).memory_mb, 1000);
  ASSERT_TRUE(start_on_its_place(urgent));
  world.obey();
  ApplyPlan resume;
  resume.resumes.push_back({a, 0});
  world.must(resume);
  EXPECT_EQ(world.state_of(a), JobState::kSuspended);  // its cores are another's
  world.must(ResumeJob{{a, {}}});                      // it waits for room as it is
  EXPECT_EQ(world.state_of(a), JobState::kSuspended);
  world.pass(minutes(20));
  world.end_script(urgent);
  EXPECT_EQ(world.state_of(a), JobState::kSuspended);
  world.must(resume);
  EXPECT_EQ(world.state_of(a), JobState::kRunning);
  EXPECT_EQ(world.job(a).limit_end, end + minutes(20));
  EXPECT_EQ(world.job(a).members, std::vector{MemberState::kPaused});
  world.obey();
  EXPECT_EQ(world.job(a).members, std::vector{MemberState::kRunning});
  // By hand: not resumed by the planner.
  world.must(SuspendJob{{a, {}}});
  world.must(resume);
  EXPECT_EQ(world.state_of(a), JobState::kSuspended);
  world.must(CancelJob{{a, {}}});
  world.obey();
  EXPECT_EQ(world.state_of(a), JobState::kCancelled);
}

TEST_F(Preemption, what_is_to_go_on_goes_on_when_there_is_room) {
  const JobId a = submit("");
  world.settle();
  const std::uint32_t node = world.first_node(a);
  world.must(SuspendJob{{a, {}}});
  world.obey();
  const JobId other = submit("", 1, 8), third = submit("", 1, 8);
  world.settle();
  const JobId in_the_way = world.job(other).allocation->grants[0].node == world.id(node) ? other : third;
  ASSERT_EQ(world.first_node(in_the_way), node);
  ApplyPlan resume;
  resume.resumes.push_back({a, 0});
  world.must(ResumeJob{{a, {}}});  // asked, and not refused
  world.must(resume);
  EXPECT_EQ(world.state_of(a), JobState::kSuspended);
  world.must(SuspendJob{{a, {}}});  // and taken back
  world.must(ResumeJob{{a, {}}});
  world.end_script(in_the_way);
  world.must(resume);
  EXPECT_EQ(world.state_of(a), JobState::kRunning);
  world.obey();
  EXPECT_EQ(world.job(a).members, std::vector{MemberState::kRunning});
}

TEST_F(Preemption, an_order_to_go_on_can_be_taken_back) {
  const JobId a = submit("");
  world.settle();
  const std::uint32_t node = world.first_node(a);
  world.must(SuspendJob{{a, {}}});
  world.obey();
  const JobId other = submit(""), third = submit("");
  world.settle();
  world.must(ResumeJob{{a, {}}});
  world.must(SuspendJob{{a, {}}});
  EXPECT_EQ(world.refused(SuspendJob{{a, {}}}), Errc::kConflict);  // as any that is suspended
  world.end_script(world.first_node(other) == node ? other : third);
  ApplyPlan resume;
  resume.resumes.push_back({a, 0});
  world.must(resume);
  EXPECT_EQ(world.state_of(a), JobState::kSuspended);
}

TEST_F(Preemption, late_words_of_a_pause_free_nothing) {
  const JobId a = submit("", 2);
  world.settle();
  const auto say = [&](std::uint32_t node, bool paused, std::uint32_t number) {
    EXPECT_TRUE(world.report(node, a, MemberPaused{paused, number}).ok());
  };
  const auto cores = [&](std::uint32_t node) { return world.state.load(world.id(node)).cores.count(); };
  world.must(SuspendJob{{a, {}}});
  say(1, true, 1);
  EXPECT_EQ(cores(1), 0u);
  EXPECT_EQ(cores(2), 4u);
  world.must(ResumeJob{{a, {}}});
  EXPECT_EQ(cores(1), 4u);
  world.must(SuspendJob{{a, {}}});
  // Of the first node the core does not know whether it went on in between.
  EXPECT_EQ(cores(1), 4u);
  say(1, true, 1);
  say(1, false, 2);
  say(1, false, 3);
  EXPECT_EQ(cores(1), 4u);
  say(1, true, 3);
  say(1, true, 3);
  EXPECT_EQ(cores(1), 0u);
  EXPECT_EQ(cores(2), 4u);
  // Its end does not free what has not stopped either.
  world.must(CancelJob{{a, {}}});
  EXPECT_EQ(cores(2), 4u);
  for (const Action& action : world.actions)
    if (const auto* stop = std::get_if<StopAttempt>(&action.body)) {
      EXPECT_EQ(stop->kill_wait, Duration{});
    }
  world.obey();
  EXPECT_EQ(world.state_of(a), JobState::kCancelled);
}

TEST_F(Preemption, whoever_differs_is_told_again) {
  const JobId a = submit("");
  world.settle();
  const auto told = [&](bool holding_paused) {
    std::vector<std::pair<bool, std::uint32_t>> out;
    for (const Action& action :
         reconcile(world.state, world.id(1), std::vector<Holding>{{a, 1, false, {}, {}, holding_paused}}))
      if (const auto* pause = std::get_if<PauseAttempt>(&action.body))
        out.emplace_back(pause->paused, pause->number);
    return out;
  };
  using Orders = std::vector<std::pair<bool, std::uint32_t>>;
  EXPECT_EQ(told(false), Orders{});
  world.must(SuspendJob{{a, {}}});
  world.actions.clear();  // lost on the way
  EXPECT_EQ(told(false), (Orders{{true, 1}}));
  EXPECT_EQ(told(true), (Orders{{true, 1}}));  // not confirmed yet
  EXPECT_TRUE(world.report(1, a, MemberPaused{true, 1}).ok());
  EXPECT_EQ(told(true), Orders{});
  world.must(ResumeJob{{a, {}}});
  world.actions.clear();
  EXPECT_EQ(told(true), (Orders{{false, 2}}));
  EXPECT_EQ(told(false), (Orders{{false, 2}}));
  EXPECT_TRUE(world.report(1, a, MemberPaused{false, 2}).ok());
  EXPECT_EQ(told(false), Orders{});
}

TEST_F(Preemption, late_word_of_an_earlier_pause_frees_nothing) {
  const JobId a = submit("");
  world.settle();
  world.must(SuspendJob{{a, {}}});
  world.must(ResumeJob{{a, {}}});
  world.must(SuspendJob{{a, {}}});
  const auto held_after_late_word = [&] {
    EXPECT_TRUE(world.report(1, a, MemberPaused{true, 1}).ok());
    return world.state.load(world.id(1)).cores.count();
  };
  EXPECT_EQ(held_after_late_word(), 4u);
  planted = Mutant::kStalePause;  // what the test sees, it would see of the bug
  EXPECT_EQ(held_after_late_word(), 0u);
  planted = Mutant::kNone;
}

TEST_F(Preemption, a_node_lost_in_a_pause_keeps_its_cores_until_proof) {
  const JobId a = submit("", 2);
  world.settle();
  world.must(SuspendJob{{a, {}}});
  EXPECT_TRUE(world.report(1, a, MemberPaused{true, 1}).ok());
  world.lose(2);
  EXPECT_EQ(world.state_of(a), JobState::kSuspended);
  EXPECT_EQ(world.state.load(world.id(1)).cores.count(), 0u);
  EXPECT_EQ(world.state.load(world.id(2)).cores.count(), 4u);
  world.fence(2);
  world.obey();
  EXPECT_EQ(world.state_of(a), JobState::kPending);
  EXPECT_EQ(world.job(a).restarts, 1u);
  world.reboot(2);
  world.pass(minutes(5));
  world.settle();
  EXPECT_EQ(world.state_of(a), JobState::kRunning);
  EXPECT_EQ(world.job(a).pauses, 0u);
}

TEST_F(Preemption, what_was_to_start_in_a_pause_starts_after_it) {
  const JobId a = world.submit(World::tasks(2, RestartRule::kAlways, true));
  world.settle();
  const TaskKey key{a, 0, 0};
  const auto task = [&] { return *world.state.tables().tasks.at(key); };
  world.must(SuspendJob{{a, {}}});
  world.obey();
  const std::uint32_t node = world.first_node(a);
  EXPECT_TRUE(world.report(node, a, TaskEnded{0, 0, 1, {1, 0, false}}).ok());
  EXPECT_EQ(task().state, TaskState::kWaiting);
  world.pass(minutes(1));
  EXPECT_FALSE(task().retry_at);
  EXPECT_EQ(world.told_of<StartPart>(a), 2u);
  world.must(ResumeJob{{a, {}}});
  world.obey();
  EXPECT_EQ(task().state, TaskState::kRunning);
  EXPECT_EQ(task().incarnation, 2u);
}

TEST_F(Preemption, a_pause_is_not_charged) {
  Policy policy;
  policy.half_life = {};
  world.must(PutPolicy{policy});
  Account account;
  account.meta.name = "lab";
  world.must(PutAccount{account});
  Association association;
  association.account = "lab";
  association.user = "alice";
  world.must(PutAssociation{association});
  JobSpec spec = World::batch();
  spec.account = "lab";
  const JobId a = world.submit(spec);
  world.settle();
  const auto spent_s = [&] {
    const auto uses = world.state.inner().running_use();
    const Spendings all(world.state.tables(), uses, world.now, {});
    return all.of_account("lab").tres.cpu / 1000;
  };
  world.pass(minutes(1));
  EXPECT_EQ(spent_s(), 240);
  world.must(SuspendJob{{a, {}}});
  world.obey();
  EXPECT_EQ(spent_s(), 240);
  world.pass(minutes(10));
  EXPECT_EQ(spent_s(), 240);
  world.must(ResumeJob{{a, {}}});
  world.obey();
  world.pass(minutes(1));
  EXPECT_EQ(spent_s(), 480);
  world.must(SuspendJob{{a, {}}});
  world.pass(minutes(1));
  world.must(CancelJob{{a, {}}});
  world.obey();
  EXPECT_EQ(spent_s(), 480);
  EXPECT_EQ(world.job(a).suspended_before, minutes(11));
}

TEST_F(Preemption, scavengers_go_for_everybody_and_never_the_other_way) {
  Qos spare;
  spare.meta.name = "spare";
  spare.scavenger = true;
  world.must(PutQos{spare});
  qos("low");
  const JobId a = submit("spare"), b = submit("low");
  world.settle();
  const JobId normal = submit("low"), other = submit("spare");
  EXPECT_FALSE(apply(over(other, b)));
  EXPECT_FALSE(apply(over(other, a)));
  EXPECT_TRUE(apply(over(normal, a)));
}

TEST_F(Preemption, exempt_time_protects_the_young) {
  qos("low");
  qos("high", {"low"});
  Policy policy;
  policy.preempt_exempt = minutes(5);
  world.must(PutPolicy{policy});
  const JobId a = submit("low");
  world.settle();
  const JobId urgent = submit("high");
  EXPECT_FALSE(apply(over(urgent, a)));
  world.pass(minutes(5));
  EXPECT_TRUE(apply(over(urgent, a)));
}

TEST_F(Preemption, tiers_decide_where_the_policy_says_so) {
  Partition top = *world.state.tables().default_partition();
  top.meta.name = "top";
  top.is_default = false;
  top.tier = 5;
  world.must(PutPartition{top});
  const JobId a = submit("");
  world.settle();
  JobSpec spec = World::batch(1, 8);
  spec.partitions = {"top"};
  const JobId urgent = world.submit(spec);
  PlannedPreemption planned = over(urgent, a);
  planned.partition = "top";
  EXPECT_FALSE(apply(planned));
  Policy policy;
  policy.preempt_by_tier = true;
  world.must(PutPolicy{policy});
  EXPECT_TRUE(apply(planned));
}

TEST_F(Preemption, guarantees_are_claimed_back_and_no_more_than_that) {
  const auto account = [&](const char* name, std::int64_t gpus) {
    Account record;
    record.meta.name = name;
    record.quota.nominal.gpus = gpus;
    world.must(PutAccount{record});
  };
  account("ours", 8);
  account("theirs", 8);
  const auto ask = [&](const char* account, std::uint32_t gpus) {
    JobSpec spec = World::batch(1, gpus);
    spec.account = account;
    return world.submit(spec);
  };
  const JobId a = ask("theirs", 8), b = ask("theirs", 8);
  world.settle();
  const JobId mine = ask("ours", 8), more = ask("ours", 8);
  EXPECT_FALSE(apply(over(mine, b)));
  Policy policy;
  policy.preempt_for_quota = true;
  world.must(PutPolicy{policy});
  EXPECT_TRUE(apply(over(mine, b)));
  world.obey();
  EXPECT_TRUE(start_on_its_place(mine));
  world.obey();
  EXPECT_FALSE(apply(over(more, a)));  // beyond its guarantee, and nobody borrows
}

TEST_F(Preemption, an_array_preempts_by_its_first_waiting_element) {
  qos("low");
  qos("high", {"low"});
  const JobId a = submit("low"), b = submit("low");
  world.settle();
  JobSpec spec = World::batch(1, 8);
  spec.qos = "high";
  const JobId array = world.submit_array(spec, "3-5");
  apply(over(array, a));
  world.obey();
  const JobId element = world.element(array, 3).id;
  ASSERT_NE(world.job(element).promise, nullptr);
  EXPECT_TRUE(start_on_its_place(element));
  EXPECT_EQ(world.state_of(b), JobState::kRunning);
}

}  // namespace
}  // namespace lockstep
