// Nodes that are heard all the time and do not do as they are told.
#include "core/confirm.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "core/testing.h"
#include "model/job.h"
#include "model/plan.h"
#include "rules/preempt.h"

namespace lockstep {
namespace {

const Duration kConfirmWithin = CoreSettings().unkillable_after;

class Confirm : public ::testing::Test {
 protected:
  Confirm() { w_.pass(minutes(10)); }  // every node has been heard for a while

  JobId start(JobSpec spec = World::batch()) {
    const JobId job = w_.submit(std::move(spec));
    w_.settle();
    return job;
  }
  void cancel(JobId job) {
    w_.must(CancelJob{.target = {.job = job}});
    w_.obey();
  }
  // The node goes on to renew its lease, and does nothing.
  void hang(std::uint32_t node) { w_.silent.insert(node); }
  void do_at_last(std::uint32_t node, JobId job) {
    w_.silent.erase(node);
    (void)w_.report(node, job, MemberStopped{});
  }
  std::string said(std::uint32_t node) const { return reason_of(w_.node(node)).words; }
  bool closed(std::uint32_t node) const { return !node_usable(w_.node(node)); }
  void resume(std::uint32_t node) {
    UpdateNode ask;
    ask.name = World::name_of(node);
    ask.drain = false;
    w_.must(ask);
  }

  World w_{2};
};

TEST_F(Confirm, ANodeThatDoesNotStopAJobTakesNothingUntilItHas) {
  const JobId job = start(World::batch(2));
  hang(2);
  cancel(job);
  w_.pass(w_.job(job).spec->kill_wait + kConfirmWithin - seconds(1));
  EXPECT_FALSE(closed(2));
  w_.pass(seconds(2));
  EXPECT_TRUE(closed(2));
  EXPECT_FALSE(closed(1)) << "it has stopped its part";
  EXPECT_EQ(said(2), format("Kill task failed: job {} (drained while that lasts)", job.value));
  EXPECT_TRUE(reason_of(w_.node(2)).at);
  const JobId next = start();
  EXPECT_EQ(w_.first_node(next), 1u);
  EXPECT_EQ(w_.state_of(job), JobState::kCompleting) << "nothing proves that it has stopped";
  do_at_last(2, job);
  EXPECT_FALSE(closed(2));
  EXPECT_EQ(said(2), "");
  EXPECT_EQ(w_.state_of(job), JobState::kCancelled);
}

TEST_F(Confirm, NobodyWaitsForThePlaceOfAVictimThatDoesNotGo) {
  Qos low, high;
  low.meta.name = "low";
  high.meta.name = "high";
  high.preempts = {"low"};
  w_.must(PutQos{low});
  w_.must(PutQos{high});
  JobSpec spec = World::batch(1, World::kGpus);
  spec.qos = "low";
  const JobId victim = start(spec);
  const std::uint32_t on = w_.first_node(victim);
  hang(on);
  spec.qos = "high";
  const JobId urgent = w_.submit(spec);
  ApplyPlan plan;
  plan.preemptions.push_back({.job = urgent,
                              .read = w_.job(urgent).meta.seq,
                              .partition = w_.job(victim).allocation->partition,
                              .grants = w_.job(victim).allocation->grants,
                              .victims = {victim}});
  w_.must(plan);
  w_.obey();
  ASSERT_TRUE(w_.job(urgent).promise && w_.job(urgent).promise->held);
  w_.pass(minutes(3));
  EXPECT_FALSE(w_.job(urgent).promise) << "it may be given another place";
  w_.settle();
  EXPECT_EQ(w_.state_of(urgent), JobState::kRunning);
  EXPECT_NE(w_.first_node(urgent), on);
}

TEST_F(Confirm, ANodeThatDoesNotPauseAJob) {
  const JobId job = start();
  const std::uint32_t on = w_.first_node(job);
  hang(on);
  w_.must(SuspendJob{{.job = job}});
  w_.obey();
  w_.pass(minutes(2));
  EXPECT_TRUE(closed(on));
  w_.must(ResumeJob{{.job = job}});
  EXPECT_TRUE(closed(on)) << "it does not answer to that either";
  w_.silent.erase(on);
  w_.obey();
  EXPECT_FALSE(closed(on));
  w_.must(SuspendJob{{.job = job}});
  w_.obey();
  w_.pass(minutes(5));
  EXPECT_FALSE(closed(on)) << "it has said that it paused";
}

TEST_F(Confirm, WhatANodeDoesNotStartIsGivenUp) {
  hang(1);
  hang(2);
  const JobId job = start();
  const std::uint32_t on = w_.first_node(job);
  ASSERT_EQ(w_.state_of(job), JobState::kStarting);
  w_.pass(kStartWithin + kConfirmWithin - seconds(1));
  EXPECT_EQ(w_.state_of(job), JobState::kStarting);
  ASSERT_EQ(w_.actions.size(), 1u) << "it is told once more";
  EXPECT_TRUE(std::holds_alternative<StartAttempt>(w_.actions.front().body));
  w_.pass(seconds(2));
  EXPECT_EQ(w_.state_of(job), JobState::kCompleting);
  EXPECT_TRUE(w_.job(job).requeue_after);
  w_.pass(minutes(2));
  EXPECT_TRUE(closed(on)) << "it does not say that nothing of it runs either";
  w_.silent.clear();
  do_at_last(on, job);
  w_.pass(minutes(1));
  w_.settle();
  EXPECT_EQ(w_.state_of(job), JobState::kRunning);
}

// What a site's programs may take around a job is nothing that a node owes an answer in.
TEST_F(Confirm, HooksHaveTheirOwnTime) {
  for (const std::uint32_t i : {1u, 2u}) {
    Node facts = w_.node(i);
    facts.hooks_take = minutes(10);
    w_.must(NodeHello{facts});
  }
  hang(1);
  hang(2);
  const JobId slow = start();
  const std::uint32_t at = w_.first_node(slow);
  w_.pass(kStartWithin + minutes(10) - seconds(1));
  EXPECT_EQ(w_.state_of(slow), JobState::kStarting);
  EXPECT_TRUE(w_.actions.empty()) << "its prolog has its time";
  w_.pass(kConfirmWithin * 2 + seconds(2));
  EXPECT_EQ(w_.state_of(slow), JobState::kCompleting);
  const Duration patience = w_.job(slow).spec->kill_wait + kConfirmWithin + minutes(20);
  w_.pass(patience - kConfirmWithin * 2);
  EXPECT_FALSE(closed(at));
  w_.pass(kConfirmWithin * 4);
  EXPECT_TRUE(closed(at));
}

TEST_F(Confirm, TheControllersOwnPauseCountsAgainstNobody) {
  const JobId job = start();
  const std::uint32_t on = w_.first_node(job);
  hang(on);
  cancel(job);
  w_.wait(minutes(10));  // nothing of the controller runs; answers wait in its sockets
  w_.must(Tick{});
  EXPECT_FALSE(closed(on));
  w_.pass(seconds(59));
  EXPECT_FALSE(closed(on));
  w_.pass(seconds(2));
  EXPECT_TRUE(closed(on)) << "now it was heard, and did nothing";
}

TEST_F(Confirm, ANodeThatWasNotHeardHasItsTimeFromItsReturn) {
  const JobId job = start();
  const std::uint32_t on = w_.first_node(job);
  hang(on);
  cancel(job);
  w_.must(NodeAway{w_.id(on), w_.node(on).seen_at});
  w_.pass(minutes(5));
  EXPECT_TRUE(w_.node(on).unconfirmed.empty());
  w_.hello(on);
  w_.pass(w_.job(job).spec->kill_wait + kConfirmWithin - seconds(1));
  EXPECT_FALSE(closed(on));
  w_.pass(kConfirmWithin + seconds(1));
  EXPECT_TRUE(closed(on));
  // It stays so over another break, a new controller, and what the node says of itself.
  w_.must(StartEpoch{"test"});
  w_.hello(on);
  EXPECT_TRUE(closed(on));
  EXPECT_NE(said(on), "");
  w_.reboot(on);
  EXPECT_FALSE(closed(on)) << "a new boot proves that nothing of it runs";
}

TEST_F(Confirm, AnAdministratorOpensItAllTheSame) {
  const JobId job = start();
  const std::uint32_t on = w_.first_node(job);
  hang(on);
  cancel(job);
  w_.pass(minutes(2));
  ASSERT_TRUE(closed(on));
  resume(on);
  EXPECT_FALSE(closed(on));
  EXPECT_EQ(said(on), "");
  w_.pass(minutes(30));
  EXPECT_FALSE(closed(on)) << "who resumed it knows";
  EXPECT_EQ(w_.state_of(job), JobState::kCompleting);
  do_at_last(on, job);
  EXPECT_EQ(w_.state_of(job), JobState::kCancelled);
}

TEST_F(Confirm, EachJobThatHangsKeepsItClosed) {
  const JobId first = start(), second = start();
  ASSERT_EQ(w_.first_node(first), w_.first_node(second));
  const std::uint32_t on = w_.first_node(first);
  hang(on);
  cancel(first);
  w_.pass(seconds(20));
  cancel(second);
  w_.pass(minutes(3));
  EXPECT_EQ(said(on), format("Kill task failed: job {} and 1 more (drained while that lasts)", first.value));
  (void)w_.report(on, first, MemberStopped{});
  EXPECT_TRUE(closed(on));
  EXPECT_EQ(said(on), format("Kill task failed: job {} (drained while that lasts)", second.value));
  do_at_last(on, second);
  EXPECT_FALSE(closed(on));
}

TEST_F(Confirm, WhoResumesWhatHeDrainedSeesWhatHangsAsWell) {
  const JobId job = start();
  const std::uint32_t on = w_.first_node(job);
  UpdateNode drained;
  drained.name = World::name_of(on);
  drained.drain = true;
  drained.reason = "fan";
  w_.must(drained);
  hang(on);
  cancel(job);
  w_.pass(minutes(2));
  const std::string hangs = format("Kill task failed: job {} (drained while that lasts)", job.value);
  EXPECT_EQ(said(on), "fan; " + hangs);
  resume(on);
  EXPECT_TRUE(closed(on));
  EXPECT_EQ(said(on), hangs);
  resume(on);
  EXPECT_FALSE(closed(on));
}

TEST_F(Confirm, WhatWasForgivenIsNotWaitedFor) {
  const JobId job = start(World::batch(2));
  hang(1);
  hang(2);
  w_.must(NodeAway{w_.id(2), w_.node(2).seen_at});
  cancel(job);
  w_.pass(minutes(2));
  ASSERT_TRUE(closed(1));
  EXPECT_FALSE(w_.job(job).hangs);
  resume(1);
  EXPECT_FALSE(closed(1));
  EXPECT_TRUE(w_.job(job).hangs);
  // The other node has its time when it is back, and that it hangs there nobody has forgiven.
  w_.hello(2);
  w_.pass(minutes(2));
  EXPECT_TRUE(closed(2));
  EXPECT_FALSE(closed(1));
  do_at_last(1, job);
  do_at_last(2, job);
  EXPECT_EQ(w_.state_of(job), JobState::kCancelled);
  EXPECT_FALSE(w_.job(job).hangs);
  EXPECT_FALSE(closed(2));
}

TEST_F(Confirm, NobodyAsksForWhatIsKnownOrAway) {
  const JobId job = start(World::batch(2));
  hang(1);
  hang(2);
  cancel(job);
  w_.must(NodeAway{w_.id(2), w_.node(2).seen_at});
  w_.pass(minutes(2));
  ASSERT_TRUE(closed(1));
  EXPECT_FALSE(w_.job(job).confirm_by) << "no timer goes round while nothing can change";
}

TEST_F(Confirm, AClosedNodeThatIsLostSaysSo) {
  const JobId job = start();
  const std::uint32_t on = w_.first_node(job);
  hang(on);
  cancel(job);
  w_.pass(minutes(2));
  ASSERT_TRUE(closed(on));
  w_.must(NodeFenced{w_.id(on), w_.node(on).boot_id, "switched off"});
  EXPECT_EQ(w_.state_of(job), JobState::kCancelled);
  EXPECT_TRUE(w_.node(on).unconfirmed.empty());
  EXPECT_NE(said(on), "");
}

TEST_F(Confirm, WhatWasForgivenHangsAnewWithTheNextOrder) {
  const JobId job = start();
  const std::uint32_t on = w_.first_node(job);
  hang(on);
  w_.must(SuspendJob{{.job = job}});
  w_.obey();
  w_.pass(minutes(2));
  ASSERT_TRUE(closed(on));
  resume(on);
  EXPECT_FALSE(closed(on));
  cancel(job);
  w_.pass(minutes(2));
  EXPECT_TRUE(closed(on)) << "nobody has forgiven that it does not stop";
  EXPECT_TRUE(w_.job(job).hangs);
  do_at_last(on, job);
  EXPECT_FALSE(closed(on));
}

TEST_F(Confirm, NothingIsForgivenAnyMoreWhenItHasPausedAtLast) {
  const JobId job = start();
  const std::uint32_t on = w_.first_node(job);
  hang(on);
  w_.must(SuspendJob{{.job = job}});
  w_.pass(minutes(2));
  resume(on);
  ASSERT_TRUE(w_.job(job).hangs);
  w_.silent.erase(on);
  w_.obey();
  EXPECT_FALSE(w_.job(job).hangs);
  EXPECT_TRUE(w_.node(on).unconfirmed.empty());
}

}  // namespace
}  // namespace lockstep
