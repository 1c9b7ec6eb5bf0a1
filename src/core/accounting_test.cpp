#include "core/accounting.h"

#include "core/testing.h"
#include "model/job.h"

namespace lockstep {
namespace {

constexpr Caller kAlice{World::kAlice, false};

Account account(const char* name, const char* parent = "") {
  Account a;
  a.meta.name = name;
  a.parent = parent;
  return a;
}
Association association(const char* user, const char* where) {
  Association a;
  a.user = user;
  a.account = where;
  return a;
}
Qos qos(const char* name) {
  Qos q;
  q.meta.name = name;
  return q;
}

// Two accounts under one, alice in both, bob in one.
World with_accounts(std::uint32_t nodes = 2) {
  World w(nodes);
  w.must(PutAccount{account("science")});
  w.must(PutAccount{account("physics", "science")});
  w.must(PutAccount{account("biology", "science")});
  w.must(PutAssociation{association("alice", "physics")});
  w.must(PutAssociation{association("alice", "biology")});
  w.must(PutAssociation{association("bob", "biology")});
  return w;
}

JobSpec batch(const char* where, std::uint32_t gpus = 1, const char* under = "") {
  JobSpec spec = World::batch(1, gpus);
  spec.account = where;
  spec.qos = under;
  spec.time_limit = hours(1);
  return spec;
}

std::string refusal(World& w, JobSpec spec, Caller caller = kController) {
  auto outcome = w.run(SubmitJob{.spec = std::make_shared<const JobSpec>(std::move(spec))}, caller);
  return outcome.ok() ? "" : outcome.error().message;
}

TEST(Accounting, DefaultsOfAccountAndQos) {
  World w = with_accounts();
  const JobId first = w.submit(batch(""));
  EXPECT_EQ(w.job(first).spec->account, "physics");  // alice's first
  EXPECT_EQ(w.job(first).spec->qos, "normal");
  Association other = association("alice", "biology");
  other.is_default = true;
  w.must(PutAssociation{other});
  EXPECT_EQ(w.job(w.submit(batch(""))).spec->account, "biology");
  EXPECT_FALSE(w.state.tables().associations.at("physics/alice")->is_default);
  w.must(PutQos{qos("gold")});
  Account physics = account("physics", "science");
  physics.default_qos = "gold";
  physics.qos = {"gold"};
  w.must(PutAccount{physics});
  EXPECT_EQ(w.job(w.submit(batch("physics"))).spec->qos, "gold");
  EXPECT_NE(refusal(w, batch("physics", 1, "normal")), "");
  EXPECT_NE(refusal(w, batch("physics", 1, "none")), "");
}

TEST(Accounting, WithoutAssociationsEnforcedAnybodyMayChargeAnything) {
  World w = with_accounts();
  EXPECT_EQ(refusal(w, batch("elsewhere")), "");
  Policy policy;
  policy.enforce_associations = true;
  w.must(PutPolicy{policy});
  EXPECT_TRUE(refusal(w, batch("elsewhere")).starts_with("Invalid account or account/partition combination"));
  EXPECT_EQ(refusal(w, batch("physics")), "");
  JobSpec bobs = batch("physics");
  bobs.user = World::kBob;
  EXPECT_NE(refusal(w, bobs), "");
}

TEST(Accounting, APartitionsQosBindsEveryJobThere) {
  World w = with_accounts();
  Qos part = qos("part");
  part.limits.grp_jobs = 2;
  part.limits.max_submit_jobs_per_user = 5;
  w.must(PutQos{part});
  w.must(PutQos{qos("normal")});
  std::vector<JobId> before;
  for (int i = 0; i < 3; ++i) before.push_back(w.submit(batch("physics", 0)));
  EXPECT_EQ(w.start_what_fits(), 3u);
  Partition main = *w.state.tables().default_partition();
  main.qos = "part";
  w.must(PutPartition{main});  // what runs already counts from now on
  EXPECT_EQ(w.state.inner().ledger.of_qos("part").jobs, 3);
  w.submit(batch("physics", 0));
  w.submit(batch("biology", 0));
  EXPECT_TRUE(refusal(w, batch("physics", 0)).starts_with("QOSMaxSubmitJobPerUserLimit: QOS part allows 5 jobs"));
  EXPECT_EQ(w.start_what_fits(), 0u);
  for (int i = 0; i < 2; ++i) w.must(CancelJob{{before[static_cast<std::size_t>(i)], {}}});
  w.obey();
  EXPECT_EQ(w.start_what_fits(), 1u);
  main.qos.clear();
  w.must(PutPartition{main});
  EXPECT_EQ(w.start_what_fits(), 1u);
}

TEST(Accounting, ANodeCountsOnceHoweverManyJobsShareIt) {
  World w = with_accounts();
  for (int i = 0; i < 6; ++i) w.submit(batch("physics", 0));  // four fit on a node
  Account physics = account("physics", "science");
  physics.limits.grp_tres.nodes = 1;
  w.must(PutAccount{physics});
  EXPECT_EQ(w.start_what_fits(), 4u);
  physics.limits.grp_tres.nodes = 2;
  w.must(PutAccount{physics});
  EXPECT_EQ(w.start_what_fits(), 2u);
  // Set while jobs run it counts them, and of a user and an association as of an account.
  World other = with_accounts();
  for (int i = 0; i < 5; ++i) other.submit(batch("physics", 0));
  EXPECT_EQ(other.start_what_fits(), 5u);
  Qos normal = qos("normal");
  normal.limits.max_tres_per_user.nodes = 2;
  other.must(PutQos{normal});
  Association alices = association("alice", "physics");
  alices.limits.grp_tres.nodes = 2;
  other.must(PutAssociation{alices});
  for (int i = 0; i < 5; ++i) other.submit(batch("physics", 0));
  EXPECT_EQ(other.start_what_fits(), 3u);
}

TEST(Accounting, SubmitLimitsRefuseWithSlurmsWords) {
  World w = with_accounts();
  Qos normal = qos("normal");
  normal.limits.max_submit_jobs_per_user = 2;
  w.must(PutQos{normal});
  w.submit(batch("physics"));
  w.submit(batch("biology"));
  EXPECT_TRUE(refusal(w, batch("physics")).starts_with("QOSMaxSubmitJobPerUserLimit: QOS normal allows 2 jobs"));
  // Elements of an array count one by one.
  normal.limits = {};
  normal.limits.grp_submit_jobs = 12;
  w.must(PutQos{normal});
  SubmitJob array{.spec = std::make_shared<const JobSpec>(batch("physics"))};
  array.array = ArrayAsk{IntervalSet(0, 10), 0, 1};
  EXPECT_EQ(w.refused(array), Errc::kExhausted);
  array.array = ArrayAsk{IntervalSet(0, 9), 0, 1};
  const JobId id = w.submit(array);
  w.must(CancelJob{{id, std::nullopt}});
  EXPECT_EQ(refusal(w, batch("physics")), "");
}

TEST(Accounting, AStartOverALimitIsNotCommitted) {
  World w = with_accounts();
  Account science = account("science");
  science.limits.grp_tres.gpus = 10;
  w.must(PutAccount{science});
  const JobId first = w.submit(batch("physics", 8));
  const JobId second = w.submit(batch("biology", 4));
  const JobId third = w.submit(batch("biology", 2));
  EXPECT_EQ(w.start_what_fits(), 2u);  // 8 and 2
  EXPECT_EQ(w.state_of(first), JobState::kStarting);
  EXPECT_EQ(w.state_of(second), JobState::kPending);
  EXPECT_EQ(w.state_of(third), JobState::kStarting);
  EXPECT_EQ(w.state.inner().ledger.of_account("science").tres.gpus, 10);
  EXPECT_EQ(count_of(w.job(first).allocation->tres, "gres/gpu:h100"), 8);
  w.obey();
  w.end_script(first);
  EXPECT_EQ(w.state.inner().ledger.of_account("science").tres.gpus, 2);
  w.settle();
  EXPECT_EQ(w.state_of(second), JobState::kRunning);
}

TEST(Accounting, LimitsPerUserOfAQos) {
  World w = with_accounts();
  Qos normal = qos("normal");
  normal.limits.max_jobs_per_user = 1;
  w.must(PutQos{normal});
  const JobId first = w.submit(batch("physics"));
  const JobId second = w.submit(batch("physics"));
  JobSpec bobs = batch("biology");
  bobs.user = World::kBob;
  const JobId third = w.submit(bobs);
  w.settle();
  EXPECT_EQ(w.state_of(first), JobState::kRunning);
  EXPECT_EQ(w.state_of(second), JobState::kPending);
  EXPECT_EQ(w.state_of(third), JobState::kRunning);
  w.must(CancelJob{{first, std::nullopt}});
  w.obey();
  w.settle();
  EXPECT_EQ(w.state_of(second), JobState::kRunning);
}

TEST(Accounting, QuotasAreBorrowedAndKeptBack) {
  World w = with_accounts(3);
  Account physics = account("physics", "science"), biology = account("biology", "science");
  physics.quota.nominal.gpus = 8;
  physics.quota.borrow.gpus = 4;
  biology.quota.nominal.gpus = 8;
  biology.quota.lend.gpus = 3;
  w.must(PutAccount{physics});
  w.must(PutAccount{biology});
  std::vector<JobId> jobs;
  for (int i = 0; i < 6; ++i) jobs.push_back(w.submit(batch("physics", 2)));
  w.settle();
  EXPECT_EQ(w.state.inner().ledger.of_account("physics").tres.gpus, 10);  // its 8, and what fits of the 3 lent
  EXPECT_EQ(w.state.inner().ledger.quotas().borrowed("physics", "gres/gpu"), 2);
  JobSpec bobs = batch("biology", 6);
  bobs.user = World::kBob;
  const JobId own = w.submit(bobs);
  w.settle();
  EXPECT_EQ(w.state_of(own), JobState::kRunning);
  for (JobId id : jobs) w.must(CancelJob{{id, std::nullopt}});
  w.obey();
  EXPECT_EQ(w.state.inner().ledger.quotas().available("biology", "gres/gpu"), 10);
}

TEST(Accounting, LicencesAreCounted) {
  World w(2);
  JobSpec spec = batch("");
  spec.licenses = "matlab:2";
  EXPECT_TRUE(refusal(w, spec).starts_with("Invalid license specification"));
  Licence licence;
  licence.meta.name = "matlab";
  licence.total = 3;
  w.must(PutLicence{licence});
  const JobId first = w.submit(spec);
  const JobId second = w.submit(spec);
  spec.licenses = "matlab:4";
  EXPECT_NE(refusal(w, spec), "");
  w.settle();
  EXPECT_EQ(w.state_of(first), JobState::kRunning);
  EXPECT_EQ(w.state_of(second), JobState::kPending);
  EXPECT_EQ(w.state.inner().ledger.licences_in_use("matlab"), 2);
  EXPECT_EQ(w.refused(RemoveLicence{"matlab"}), Errc::kConflict);
  w.end_script(first);
  w.settle();
  EXPECT_EQ(w.state_of(second), JobState::kRunning);
}

TEST(Accounting, UseIsChargedWhenAnAttemptEnds) {
  World w = with_accounts();
  Policy policy;
  policy.half_life = {};
  w.must(PutPolicy{policy});
  const JobId id = w.submit(batch("physics", 2));
  w.settle();
  w.pass(seconds(100));
  EXPECT_TRUE(w.state.tables().usages.empty());  // nothing is written while it runs
  w.end_script(id);
  ASSERT_EQ(w.state.tables().usages.size(), 1u);
  const Usage& usage = *w.state.tables().usages.begin()->second;
  EXPECT_EQ(usage.account, "physics");
  EXPECT_EQ(usage.spent.cpu, 4 * 100'000);
  EXPECT_EQ(usage.spent.gpus, 2 * 100'000);
  EXPECT_EQ(usage.spent.memory_mb, 1000 * 100);
  EXPECT_EQ(usage.wall_ms, 100'000);
  // A requeued attempt is charged too, to the same record.
  const JobId again = w.submit(batch("physics", 2));
  w.settle();
  w.pass(seconds(50));
  w.must(RequeueJob{{again, std::nullopt}});
  w.obey();
  EXPECT_EQ(w.state.tables().usages.begin()->second->spent.cpu, 4 * 150'000);
  EXPECT_EQ(w.state.tables().usages.size(), 1u);
  w.must(ResetUsage{"science", "alice"});
  EXPECT_TRUE(w.state.tables().usages.empty());
}

// The controller was away: the time until its return is nobody's use.
TEST(Accounting, UseIsChargedUpToTheEndThatTheNodeSaw) {
  World w = with_accounts();
  Policy policy;
  policy.half_life = {};
  w.must(PutPolicy{policy});
  const JobId id = w.submit(batch("physics", 2));
  w.settle();
  const Instant started = w.job(id).started;
  w.pass(seconds(1000));
  const std::uint32_t node = w.first_node(id);
  w.must(AgentReport{w.id(node), w.boot(node), id, 1, ScriptEnded{{}, true}, seconds(900)});
  w.obey();
  EXPECT_EQ(w.state_of(id), JobState::kCompleted);
  EXPECT_EQ(w.job(id).ended, started + seconds(100));
  EXPECT_EQ(w.state.tables().usages.begin()->second->spent.cpu, 4 * 100'000);
  EXPECT_EQ(w.state.tables().usages.begin()->second->wall_ms, 100'000);
}

TEST(Accounting, MinutesRunOut) {
  World w = with_accounts();
  Account science = account("science");
  science.limits.grp_tres_mins.gpus = 10;
  w.must(PutAccount{science});
  const JobId id = w.submit(batch("physics", 2));
  JobSpec cores = batch("biology", 0);
  const JobId also = w.submit(cores);  // Slurm ends everybody in the account, whatever it uses
  w.settle();
  w.pass(minutes(5) - seconds(1));
  EXPECT_EQ(w.state_of(id), JobState::kRunning);
  w.pass(seconds(2));
  EXPECT_EQ(w.state_of(id), JobState::kCompleting);
  EXPECT_TRUE(std::any_of(w.events.begin(), w.events.end(), [&](const Event& e) {
    return e.job == id && e.what == "MinutesUsedUp" &&
           e.message == "GrpTRESMins of account science: 10 minutes of gres/gpu";
  }));
  w.obey();
  EXPECT_EQ(w.state_of(id), JobState::kTimeout);
  EXPECT_EQ(w.job(id).end_reason, "TimeLimit");
  EXPECT_EQ(w.state_of(also), JobState::kTimeout);
  const JobId next = w.submit(batch("physics", 1));
  w.settle();
  EXPECT_EQ(w.state_of(next), JobState::kPending);
  w.pass(hours(24 * 7));
  w.settle();
  EXPECT_EQ(w.state_of(next), JobState::kRunning);  // it has faded to 5
  w.pass(minutes(4));
  EXPECT_EQ(w.state_of(next), JobState::kRunning);
  w.pass(minutes(2));
  w.obey();
  EXPECT_EQ(w.state_of(next), JobState::kTimeout);
}

Policy with_half_life(Duration half_life) {
  Policy policy;
  policy.half_life = half_life;
  return policy;
}

TEST(Accounting, WhenMinutesAreUsedUpFollowsFromTheRecords) {
  World w = with_accounts();
  w.must(PutPolicy{with_half_life({})});
  Qos gold = qos("gold");
  gold.limits.grp_wall_mins = 30;
  gold.limits.max_tres_mins_per_job.gpus = 60;
  w.must(PutQos{gold});
  const JobId first = w.submit(batch("physics", 1, "gold"));
  w.settle();
  const Instant begin = w.now;
  EXPECT_EQ(w.state.next_timer(), begin + minutes(30));
  w.pass(minutes(10));
  const JobId second = w.submit(batch("biology", 1, "gold"));
  w.settle();
  EXPECT_EQ(w.state.next_timer(), begin + minutes(20));  // 10 and 2 × 10
  ClusterState again;
  again.restore(w.state.tables().snapshot());
  EXPECT_EQ(again.next_timer(), begin + minutes(20));
  // The bound is wider: later; a bound for each job comes first then.
  gold.limits.grp_wall_mins = 300;
  w.must(PutQos{gold});
  EXPECT_EQ(w.state.next_timer(), begin + minutes(60));  // the time limit
  gold.limits.max_tres_mins_per_job.gpus = 25;
  w.must(PutQos{gold});
  EXPECT_EQ(w.state.next_timer(), begin + minutes(25));
  w.pass(minutes(16));
  w.obey();
  EXPECT_EQ(w.state_of(first), JobState::kTimeout);
  EXPECT_EQ(w.state_of(second), JobState::kRunning);
  // Held at once is another matter: who runs goes on.
  gold.limits.grp_tres.gpus = 0;
  w.must(PutQos{gold});
  w.pass(minutes(5));
  EXPECT_EQ(w.state_of(second), JobState::kRunning);
  // A safe policy starts nothing that could use up too much, and ends nothing either.
  Policy safe = with_half_life({});
  safe.enforce_safe = true;
  w.must(PutPolicy{safe});
  gold.limits.grp_wall_mins = 1;
  w.must(PutQos{gold});
  w.pass(minutes(5));
  EXPECT_EQ(w.state_of(second), JobState::kRunning);
  w.must(PutPolicy{with_half_life({})});
  w.pass(seconds(1));
  EXPECT_EQ(w.state_of(second), JobState::kCompleting);
}

TEST(Accounting, UseThatFadesAsFastAsItGrowsIsNeverUsedUp) {
  World w = with_accounts();
  w.must(PutPolicy{with_half_life(hours(1))});
  Account physics = account("physics", "science");
  // One GPU for ever tends to 60 / ln 2 = 86.56 minutes.
  physics.limits.grp_tres_mins.gpus = 87;
  w.must(PutAccount{physics});
  JobSpec spec = batch("physics", 1);
  spec.time_limit = hours(100);
  const JobId id = w.submit(spec);
  w.settle();
  EXPECT_EQ(w.state.next_timer(), w.now + hours(100));
  w.pass(hours(20));
  EXPECT_EQ(w.state_of(id), JobState::kRunning);
  physics.limits.grp_tres_mins.gpus = 86;
  w.must(PutAccount{physics});
  EXPECT_LE(w.state.next_timer(), w.now);
  w.pass(seconds(1));
  EXPECT_EQ(w.state_of(id), JobState::kCompleting);
}

TEST(Accounting, WhatIsInUseCannotBeRemoved) {
  World w = with_accounts();
  EXPECT_EQ(w.refused(RemoveAccount{"science"}), Errc::kConflict);
  const JobId id = w.submit(batch("physics"));
  EXPECT_EQ(w.refused(RemoveAccount{"physics"}), Errc::kConflict);
  EXPECT_EQ(w.refused(RemoveAssociation{"physics/alice"}), Errc::kConflict);
  EXPECT_EQ(w.refused(RemoveQos{"normal"}), Errc::kConflict);
  w.must(CancelJob{{id, std::nullopt}});
  w.must(RemoveAssociation{"physics/alice"});
  EXPECT_TRUE(w.state.tables().associations.at("biology/alice")->is_default);
  w.must(RemoveAccount{"physics"});
  w.must(RemoveAccount{"biology"});
  w.must(RemoveAccount{"science"});
  EXPECT_TRUE(w.state.tables().associations.empty());
  EXPECT_EQ(w.refused(RemoveAccount{"science"}), Errc::kNotFound);
  EXPECT_EQ(w.refused(RemoveQos{"nothing"}), Errc::kNotFound);
  w.must(RemoveQos{"normal"});
}

TEST(Accounting, ContradictionsAreRefused) {
  World w = with_accounts();
  EXPECT_EQ(w.refused(PutAccount{account("a/b")}), Errc::kInvalid);
  EXPECT_EQ(w.refused(PutAccount{account("")}), Errc::kInvalid);
  EXPECT_EQ(w.refused(PutAccount{account("x", "nowhere")}), Errc::kNotFound);
  EXPECT_EQ(w.refused(PutAccount{account("science", "physics")}), Errc::kInvalid);
  EXPECT_EQ(w.refused(PutAssociation{association("alice", "nowhere")}), Errc::kNotFound);
  Account bad = account("x");
  bad.limits.grp_tres.others = {{"foo", 1}};
  EXPECT_EQ(w.refused(PutAccount{bad}), Errc::kInvalid);
  bad = account("x");
  bad.limits.grp_jobs = -7;
  EXPECT_EQ(w.refused(PutAccount{bad}), Errc::kInvalid);
  bad = account("x");
  bad.quota.nominal.gpus = 4;
  bad.quota.lend.gpus = 5;
  EXPECT_EQ(w.refused(PutAccount{bad}), Errc::kInvalid);
  bad = account("x");
  bad.qos = {"none"};
  EXPECT_EQ(w.refused(PutAccount{bad}), Errc::kNotFound);
  bad.qos = {"normal"};
  bad.default_qos = "gold";
  EXPECT_EQ(w.refused(PutAccount{bad}), Errc::kNotFound);
  w.must(PutQos{qos("gold")});
  EXPECT_EQ(w.refused(PutAccount{bad}), Errc::kInvalid);
  Qos silver = qos("silver"), gold = qos("gold");
  silver.preempts = {"gold"};
  w.must(PutQos{silver});
  gold.preempts = {"silver"};
  EXPECT_EQ(w.refused(PutQos{gold}), Errc::kInvalid);
  Policy policy;
  policy.age_max = {};
  EXPECT_EQ(w.refused(PutPolicy{policy}), Errc::kInvalid);
  EXPECT_EQ(w.refused(PutQos{gold, 1}), Errc::kConflict);
}

TEST(Accounting, OnlyAdministratorsAndCoordinatorsChangeIt) {
  World w = with_accounts();
  EXPECT_EQ(w.refused(PutAccount{account("mine")}, kAlice), Errc::kDenied);
  EXPECT_EQ(w.refused(PutQos{qos("mine")}, kAlice), Errc::kDenied);
  EXPECT_EQ(w.refused(PutAssociation{association("carl", "physics")}, kAlice), Errc::kDenied);
  Account physics = account("physics", "science");
  physics.coordinators = {"alice"};
  w.must(PutAccount{physics});
  w.must(PutAssociation{association("carl", "physics")}, kAlice);
  w.must(PutAccount{account("optics", "physics")}, kAlice);
  EXPECT_EQ(w.refused(PutAccount{physics}, kAlice), Errc::kDenied);
  EXPECT_EQ(w.refused(PutAssociation{association("carl", "biology")}, kAlice), Errc::kDenied);
}

TEST(Accounting, MovingAJobToAnotherAccountMovesItsCounts) {
  World w = with_accounts();
  const JobId id = w.submit(batch("physics"));
  EXPECT_EQ(w.state.inner().ledger.of_account("physics").submitted, 1);
  UpdateJob update;
  update.target = {id, std::nullopt};
  update.account = "biology";
  w.must(update);
  EXPECT_EQ(w.state.inner().ledger.of_account("physics").submitted, 0);
  EXPECT_EQ(w.state.inner().ledger.of_account("biology").submitted, 1);
  Account science = account("science");
  science.limits.grp_submit_jobs = 1;
  w.must(PutAccount{science});
  update.account = "";
  update.qos = "none";
  EXPECT_EQ(w.refused(update), Errc::kInvalid);
}

TEST(Accounting, RestoredFromTheLogItIsTheSame) {
  World w = with_accounts();
  for (int i = 0; i < 3; ++i) w.submit(batch("physics", 2));
  w.settle();
  ClusterState other;
  other.restore(w.state.tables().snapshot());
  check_invariants(other);
  EXPECT_EQ(other.inner().ledger, w.state.inner().ledger);
  EXPECT_EQ(other.tables().default_account("alice"), "physics");
}

}  // namespace
}  // namespace lockstep
