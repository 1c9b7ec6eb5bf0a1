// Every kind of limit at its boundary: what is just allowed, and what is one too many.
#include "rules/limits.h"

#include <gtest/gtest.h>

#include <deque>

#include "model/job.h"

namespace lockstep {
namespace {

class LimitsTest : public ::testing::Test {
 protected:
  LimitsTest() {
    for (const auto& [id, name] : {std::pair{1u, "ann"}, {2u, "bo"}}) {
      User user;
      user.id = UserId(id);
      user.uid = 1000 + id;
      user.meta.name = name;
      directory.users[user.id] = std::make_shared<const User>(user);
    }
    partition.meta.name = "main";
    account("science", "");
    account("physics", "science");
    qos("gold");
    Association a;
    a.account = "physics";
    a.user = "ann";
    put(a);
    spec.user = UserId(1);
    spec.account = "physics";
    spec.qos = "gold";
    ask.spec = &spec;
    ask.partition = &partition;
    ask.tres.cpu = 4;
    ask.tres.memory_mb = 1000;
    ask.tres.nodes = 2;
    ask.tres.gpus = 8;
    ask.tres.billing = 4;
    ask.tres.others = {{"gres/gpu:h100", 8}, {"license/matlab", 2}};
    ask.limit = hours(1);
  }

  void account(const char* name, const char* parent, const Limits& limits = {}) {
    Account a;
    a.meta.name = name;
    a.parent = parent;
    a.limits = limits;
    const Account* before = directory.account(name);
    const Ref<Account> keep = before ? directory.accounts[name] : nullptr;
    directory.accounts[name] = std::make_shared<const Account>(a);
    ledger.index(keep.get(), &a);
  }
  Qos& qos(const char* name) {
    auto q = std::make_shared<Qos>();
    q->meta.name = name;
    directory.qos[name] = q;
    return *q;
  }
  void put(Association a) {
    a.meta.name = association_name(a.account, a.user, a.partition);
    directory.associations[a.meta.name] = std::make_shared<const Association>(a);
  }
  void own(const Limits& limits) {
    Association a;
    a.account = "physics";
    a.user = "ann";
    a.limits = limits;
    put(a);
  }
  Limits& gold() { return const_cast<Qos&>(*directory.qos["gold"]).limits; }

  // Jobs that run already.
  void run(UserId user, const char* account, const char* qos_name, Tres tres, Duration limit = hours(1)) {
    auto s = std::make_shared<JobSpec>();
    s->user = user;
    s->account = account;
    s->qos = qos_name;
    auto allocation = std::make_shared<Allocation>();
    allocation->partition = "main";
    allocation->tres = std::move(tres);
    allocation->granted = now;
    allocation->limit = limit;
    Job job;
    job.spec = s;
    job.state = JobState::kRunning;
    job.allocation = allocation;
    jobs.push_back(job);
    ledger.index(nullptr, &jobs.back());
  }
  void end_all() {
    for (const Job& job : jobs) ledger.index(&job, nullptr);
    jobs.clear();
  }

  std::optional<Denial> denial() {
    return first_denial_to_start(directory, ledger, ask, now, [this]() -> const Spendings& {
      std::vector<RunningUse> running;
      for (const Job& job : jobs) running.push_back({job.spec.get(), job.allocation.get()});
      spendings.emplace(directory, running, now, Instant{});
      return *spendings;
    });
  }
  std::string reason() {
    const auto no = denial();
    return no ? no->reason : "";
  }
  std::string submit_reason(std::int64_t count = 1) {
    const auto no = first_denial_to_submit(directory, ledger, ask, count);
    return no ? no->reason : "";
  }

  Directory directory;
  Ledger ledger;
  Partition partition;
  JobSpec spec;
  LimitAsk ask;
  Instant now{1'700'000'000'000'000};
  std::deque<Job> jobs;
  std::optional<Spendings> spendings;
};

TEST_F(LimitsTest, NothingIsBoundWithoutLimits) {
  EXPECT_EQ(reason(), "");
  EXPECT_EQ(submit_reason(1'000'000), "");
}

// Every amount of every TRES limit of a job alone, at the bound and one below.
struct Case {
  TresLimit Limits::*member;
  const char* resource;
  std::int64_t bound;  // just enough
  const char *qos_word, *assoc_word;
};

TEST_F(LimitsTest, AmountsOfOneJob) {
  ask.per_node = Tres{2, 500, 1, 4, 0, {}};
  const Case cases[] = {
      {&Limits::max_tres_per_job, "cpu", 4, "QOSMaxCpuPerJobLimit", "AssocMaxCpuPerJobLimit"},
      {&Limits::max_tres_per_job, "mem", 1000, "QOSMaxMemoryPerJob", "AssocMaxMemPerJob"},
      {&Limits::max_tres_per_job, "node", 2, "QOSMaxNodePerJobLimit", "AssocMaxNodePerJobLimit"},
      {&Limits::max_tres_per_job, "gres/gpu", 8, "QOSMaxGRESPerJob", "AssocMaxGRESPerJob"},
      {&Limits::max_tres_per_job, "gres/gpu:h100", 8, "QOSMaxGRESPerJob", "AssocMaxGRESPerJob"},
      {&Limits::max_tres_per_job, "billing", 4, "QOSMaxBillingPerJob", "AssocMaxBillingPerJob"},
      {&Limits::max_tres_per_job, "license/matlab", 2, "QOSMaxLicensePerJob", "AssocMaxLicensePerJob"},
      {&Limits::max_tres_per_node, "cpu", 2, "QOSMaxCpuPerNode", "AssocMaxCpuPerNode"},
      {&Limits::max_tres_per_node, "gres/gpu", 4, "QOSMaxGRESPerNode", "AssocMaxGRESPerNode"},
      {&Limits::max_tres_mins_per_job, "cpu", 240, "QOSMaxCpuMinutesPerJobLimit", "AssocMaxCpuMinutesPerJobLimit"},
      {&Limits::max_tres_mins_per_job, "gres/gpu", 480, "QOSMaxGRESMinutesPerJob", "AssocMaxGRESMinutesPerJob"},
  };
  for (const Case& c : cases) {
    Limits limits;
    set_bound(limits.*c.member, c.resource, c.bound);
    gold() = limits;
    EXPECT_EQ(reason(), "") << c.qos_word;
    set_bound(gold().*c.member, c.resource, c.bound - 1);
    ASSERT_EQ(reason(), c.qos_word);
    EXPECT_EQ(denial()->lasting, c.member != &Limits::max_tres_per_node);
    gold() = {};
    own(limits);
    EXPECT_EQ(reason(), "") << c.assoc_word;
    set_bound(limits.*c.member, c.resource, c.bound - 1);
    own(limits);
    ASSERT_EQ(reason(), c.assoc_word);
    EXPECT_EQ(denial()->holder, "user ann in account physics");
    own({});
  }
}

TEST_F(LimitsTest, AmountsHeldTogether) {
  Tres held;
  held.cpu = 10;
  held.gpus = 16;
  const auto check = [&](Limits& limits, TresLimit Limits::*member, const char* resource, std::int64_t bound,
                         const char* word, const auto& apply) {
    limits = {};
    set_bound(limits.*member, resource, bound);
    apply(limits);
    EXPECT_EQ(reason(), "") << word;
    set_bound(limits.*member, resource, bound - 1);
    apply(limits);
    ASSERT_EQ(reason(), word);
    EXPECT_FALSE(denial()->lasting);
    set_bound(limits.*member, resource, 1);  // less than the job alone
    apply(limits);
    EXPECT_TRUE(denial()->lasting);
    limits = {};
    apply(limits);
  };
  Limits limits;
  const auto to_gold = [&](const Limits& l) { gold() = l; };
  const auto to_own = [&](const Limits& l) { own(l); };
  const auto to_physics = [&](const Limits& l) { account("physics", "science", l); };
  const auto to_science = [&](const Limits& l) { account("science", "", l); };
  run(UserId(1), "physics", "gold", held);
  check(limits, &Limits::grp_tres, "cpu", 14, "QOSGrpCpuLimit", to_gold);
  check(limits, &Limits::grp_tres, "gres/gpu", 24, "QOSGrpGRES", to_gold);
  check(limits, &Limits::grp_tres, "cpu", 14, "AssocGrpCpuLimit", to_own);
  check(limits, &Limits::grp_tres, "gres/gpu", 24, "AssocGrpGRES", to_physics);
  check(limits, &Limits::grp_tres, "gres/gpu", 24, "AssocGrpGRES", to_science);
  check(limits, &Limits::max_tres_per_user, "cpu", 14, "QOSMaxCpuPerUserLimit", to_gold);
  check(limits, &Limits::max_tres_per_user, "gres/gpu", 24, "QOSMaxGRESPerUser", to_gold);
  check(limits, &Limits::max_tres_per_account, "gres/gpu", 24, "MaxGRESPerAccount", to_gold);
  // Another user's do not count per user, but count together.
  end_all();
  run(UserId(2), "physics", "gold", held);
  limits = {};
  limits.max_tres_per_user.gpus = 8;
  gold() = limits;
  EXPECT_EQ(reason(), "");
  limits.grp_tres.gpus = 23;
  gold() = limits;
  EXPECT_EQ(reason(), "QOSGrpGRES");
  end_all();
  EXPECT_EQ(reason(), "");
}

TEST_F(LimitsTest, NumbersOfJobs) {
  for (int i = 0; i < 3; ++i) run(UserId(1), "physics", "gold", {});
  const auto bound = [&](std::int64_t Limits::*member, const char* qos_word, const char* assoc_word) {
    Limits limits;
    for (const std::int64_t value : {4, 3}) {
      limits.*member = value;
      if (qos_word) {
        gold() = limits;
        EXPECT_EQ(reason(), value == 4 ? "" : qos_word);
        gold() = {};
      }
      if (assoc_word) {
        own(limits);
        EXPECT_EQ(reason(), value == 4 ? "" : assoc_word);
        own({});
      }
    }
  };
  bound(&Limits::grp_jobs, "QOSGrpJobsLimit", "AssocGrpJobsLimit");
  bound(&Limits::max_jobs_per_user, "QOSMaxJobsPerUserLimit", nullptr);
  bound(&Limits::max_jobs_per_account, "MaxJobsPerAccount", nullptr);
  bound(&Limits::max_jobs, nullptr, "AssocMaxJobsLimit");
  // An account's MaxJobs is what its users get.
  Limits limits;
  limits.max_jobs = 3;
  account("science", "", limits);
  EXPECT_EQ(reason(), "AssocMaxJobsLimit");
  spec.user = UserId(2);
  EXPECT_EQ(reason(), "");
}

TEST_F(LimitsTest, SubmittedJobs) {
  run(UserId(1), "physics", "gold", {});
  const auto bound = [&](std::int64_t Limits::*member, const char* qos_word, const char* assoc_word) {
    Limits limits;
    limits.*member = 10;
    if (qos_word) {
      gold() = limits;
      EXPECT_EQ(submit_reason(9), "");
      EXPECT_EQ(submit_reason(10), qos_word);
      gold() = {};
    }
    if (assoc_word) {
      own(limits);
      EXPECT_EQ(submit_reason(9), "");
      EXPECT_EQ(submit_reason(10), assoc_word);
      own({});
    }
  };
  bound(&Limits::grp_submit_jobs, "QOSGrpSubmitJobsLimit", "AssocGrpSubmitJobsLimit");
  bound(&Limits::max_submit_jobs_per_user, "QOSMaxSubmitJobPerUserLimit", nullptr);
  bound(&Limits::max_submit_jobs_per_account, "MaxSubmitJobsPerAccount", nullptr);
  bound(&Limits::max_submit_jobs, nullptr, "AssocMaxSubmitJobLimit");
}

TEST_F(LimitsTest, ArrayElementsCountOneByOne) {
  Job array;
  array.spec = std::make_shared<JobSpec>(spec);
  auto state = std::make_shared<ArrayState>();
  state->waiting = IntervalSet(0, 99);
  array.array = state;
  ledger.index(nullptr, &array);
  EXPECT_EQ(ledger.of_qos("gold").submitted, 100);
  EXPECT_EQ(ledger.of_account("science").submitted, 100);
  EXPECT_EQ(ledger.of_account("science").jobs, 0);
  ledger.index(&array, nullptr);
  EXPECT_EQ(ledger.of_qos("gold"), Use{});
}

TEST_F(LimitsTest, WallTime) {
  Limits limits;
  limits.max_wall_mins_per_job = 60;
  gold() = limits;
  EXPECT_EQ(reason(), "");
  ask.limit = hours(1) + micros(1);
  EXPECT_EQ(reason(), "QOSMaxWallDurationPerJobLimit");
  EXPECT_TRUE(denial()->lasting);
  gold() = {};
  own(limits);
  EXPECT_EQ(reason(), "AssocMaxWallDurationPerJobLimit");
  ask.limit = kForever;
  EXPECT_EQ(reason(), "AssocMaxWallDurationPerJobLimit");
}

TEST_F(LimitsTest, Minimum) {
  gold().min_tres_per_job.gpus = 9;
  EXPECT_EQ(reason(), "");  // a place may give more than was asked for
  ask.per_node = Tres{};
  gold().min_tres_per_job.gpus = 8;
  EXPECT_EQ(reason(), "");
  gold().min_tres_per_job.gpus = 9;
  EXPECT_EQ(reason(), "QOSMinGRES");
  gold().min_tres_per_job = {};
  set_bound(gold().min_tres_per_job, "cpu", 5);
  EXPECT_EQ(reason(), "QOSMinCpuNotSatisfied");
}

TEST_F(LimitsTest, RunMinutes) {
  Tres held;
  held.cpu = 10;
  run(UserId(1), "physics", "gold", held, minutes(30));  // 300 minutes to go, and 240 asked for
  gold().grp_tres_run_mins.cpu = 540;
  EXPECT_EQ(reason(), "");
  gold().grp_tres_run_mins.cpu = 539;
  EXPECT_EQ(reason(), "QOSGrpCPURunMinutesLimit");
  now = now + minutes(1);  // as time goes by it needs less
  EXPECT_EQ(reason(), "");
}

TEST_F(LimitsTest, PastMinutes) {
  Usage usage;
  usage.account = "physics";
  usage.user = UserId(1);
  usage.qos = "gold";
  usage.as_of = now;
  usage.spent.cpu = 100 * 60'000;
  usage.wall_ms = 50 * 60'000;
  usage.meta.name = usage_name(usage);
  directory.usages[usage.meta.name] = std::make_shared<const Usage>(usage);
  Limits limits;
  limits.grp_tres_mins.cpu = 101;
  gold() = limits;
  EXPECT_EQ(reason(), "");  // something is left
  gold().grp_tres_mins.cpu = 100;
  EXPECT_EQ(reason(), "QOSGrpCPUMinutesLimit");
  gold() = {};
  limits.grp_tres_mins.cpu = 100;
  account("science", "", limits);
  EXPECT_EQ(reason(), "AssocGrpCPUMinutesLimit");
  now = now + hours(24);  // it has faded a little
  EXPECT_EQ(reason(), "");
  Policy policy;
  policy.enforce_safe = true;
  directory.policy_record = std::make_shared<const Policy>(policy);
  EXPECT_EQ(reason(), "AssocGrpCPUMinutesLimit");  // not enough for 240 more
  limits = {};
  limits.grp_wall_mins = 50 + 60;
  account("science", "", limits);
  EXPECT_EQ(reason(), "");
  limits.grp_wall_mins = 50;
  account("science", "", limits);
  EXPECT_EQ(reason(), "AssocGrpWallLimit");
}

TEST_F(LimitsTest, AQosHidesTheSameLimitOfAssociations) {
  Limits tight, wide;
  tight.max_tres_per_job.gpus = 1;
  tight.max_tres_per_job.cpu = 1;
  wide.max_tres_per_job.gpus = 100;
  own(tight);
  gold() = wide;
  EXPECT_EQ(reason(), "AssocMaxCpuPerJobLimit");  // the QOS says nothing of cpus
  wide.max_tres_per_job.cpu = 100;
  gold() = wide;
  EXPECT_EQ(reason(), "");
}

TEST_F(LimitsTest, TheNearestAssociationCountsForMaxLimits) {
  Limits tight, wide;
  tight.max_tres_per_job.gpus = 1;
  wide.max_tres_per_job.gpus = 100;
  account("science", "", tight);
  EXPECT_EQ(reason(), "AssocMaxGRESPerJob");
  EXPECT_EQ(denial()->holder, "account science");
  own(wide);
  EXPECT_EQ(reason(), "");
}

TEST_F(LimitsTest, GroupLimitsBindAtEveryAccount) {
  Limits tight, wide;
  tight.grp_tres.gpus = 7;
  wide.grp_tres.gpus = 100;
  account("science", "", tight);
  account("physics", "science", wide);
  EXPECT_EQ(reason(), "AssocGrpGRES");
  EXPECT_EQ(denial()->message(), "AssocGrpGRES: account science allows 7 gres/gpu, 8 asked for");
}

TEST_F(LimitsTest, PartitionQosGoesFirstUnlessOverridden) {
  qos("queue").limits.max_tres_per_job.gpus = 100;
  partition.qos = "queue";
  gold().max_tres_per_job.gpus = 1;
  EXPECT_EQ(reason(), "");
  const_cast<Qos&>(*directory.qos["gold"]).override_partition = true;
  EXPECT_EQ(reason(), "QOSMaxGRESPerJob");
}

TEST_F(LimitsTest, DenyOnLimitRefusesAtSubmit) {
  gold().max_tres_per_job.gpus = 1;
  EXPECT_EQ(submit_reason(), "");
  const_cast<Qos&>(*directory.qos["gold"]).deny_on_limit = true;
  EXPECT_EQ(submit_reason(), "QOSMaxGRESPerJob");
  gold() = {};
  gold().grp_tres.gpus = 7;
  EXPECT_EQ(submit_reason(), "QOSGrpGRES");
}

TEST_F(LimitsTest, Licences) {
  Licence licence;
  licence.meta.name = "matlab";
  licence.total = 5;
  directory.licences["matlab"] = std::make_shared<const Licence>(licence);
  Tres held;
  held.others = {{"license/matlab", 3}};
  EXPECT_FALSE(licence_denial(directory, ledger, ask.tres));
  run(UserId(2), "physics", "gold", held);
  EXPECT_FALSE(licence_denial(directory, ledger, ask.tres));
  const auto kept = licence_denial(directory, ledger, ask.tres, {{"matlab", 1}});
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->reason, "Licenses");
  EXPECT_FALSE(kept->lasting);
  ask.tres.others = {{"license/matlab", 6}};
  EXPECT_TRUE(licence_denial(directory, ledger, ask.tres)->lasting);
  ask.tres.others = {{"license/ansys", 1}};
  EXPECT_TRUE(licence_denial(directory, ledger, ask.tres)->lasting);
}

TEST_F(LimitsTest, AProposedStartCountsUntilItIsAnswered) {
  gold().grp_tres.gpus = 8;
  const Claim claim{&spec, "main", &ask.tres, now + hours(1), now};
  EXPECT_EQ(reason(), "");
  ledger.count(claim, 1);
  EXPECT_EQ(reason(), "QOSGrpGRES");
  ledger.count(claim, -1);
  EXPECT_EQ(reason(), "");
  EXPECT_EQ(ledger.of_qos("gold"), Use{});
}

TEST_F(LimitsTest, MovingAnAccountMovesWhatItHolds) {
  Tres held;
  held.gpus = 8;
  run(UserId(1), "physics", "gold", held);
  EXPECT_EQ(ledger.of_account("science").tres.gpus, 8);
  account("physics", "");
  EXPECT_EQ(ledger.of_account("science").tres.gpus, 0);
  EXPECT_EQ(ledger.of_account("physics").tres.gpus, 8);
}

TEST_F(LimitsTest, Standing) {
  JobSpec job;
  job.user = UserId(1);
  directory.qos.erase("gold");
  EXPECT_EQ(standing_of(directory, job)->qos, "");
  qos("normal");
  EXPECT_EQ(standing_of(directory, job)->qos, "normal");
  qos("gold");
  User ann = *directory.users[UserId(1)];
  ann.account = "physics";
  directory.users[UserId(1)] = std::make_shared<const User>(ann);
  EXPECT_EQ(standing_of(directory, job)->account, "physics");
  Account physics = *directory.accounts["physics"];
  physics.default_qos = "gold";
  physics.qos = {"gold", "normal"};
  directory.accounts["physics"] = std::make_shared<const Account>(physics);
  EXPECT_EQ(standing_of(directory, job)->qos, "gold");
  job.qos = "silver";
  EXPECT_FALSE(standing_of(directory, job).ok());  // there is none
  qos("silver");
  EXPECT_FALSE(standing_of(directory, job).ok());  // there is, but not for this account
  job.qos = "normal";
  EXPECT_TRUE(standing_of(directory, job).ok());
  Policy policy;
  policy.enforce_associations = true;
  directory.policy_record = std::make_shared<const Policy>(policy);
  EXPECT_TRUE(standing_of(directory, job).ok());
  job.user = UserId(2);
  EXPECT_FALSE(standing_of(directory, job).ok());
}

TEST_F(LimitsTest, RootNeedsNoAssociationAndNamesAreFolded) {
  Policy policy;
  policy.enforce_associations = true;
  directory.policy_record = std::make_shared<const Policy>(policy);
  User root;
  root.id = UserId(9);
  root.meta.name = "root";
  directory.users[root.id] = std::make_shared<const User>(root);
  JobSpec job;
  job.user = root.id;
  EXPECT_TRUE(standing_of(directory, job).ok());
  job.account = "physics";
  EXPECT_TRUE(standing_of(directory, job).ok());
  job.account = "nowhere";
  EXPECT_FALSE(standing_of(directory, job).ok());
  root.realm = "farm";  // root of somebody's machine is not the cluster's
  directory.users[root.id] = std::make_shared<const User>(root);
  job.account = "";
  EXPECT_FALSE(standing_of(directory, job).ok());

  job.user = UserId(1);
  job.account = "PHYSICS";
  job.qos = "Gold";
  const auto standing = standing_of(directory, job);
  ASSERT_TRUE(standing.ok());
  EXPECT_EQ(standing->account, "physics");
  EXPECT_EQ(standing->qos, "gold");
  account("Capital", "");
  Association own;
  own.account = "Capital";
  own.user = "ann";
  put(own);
  job.account = "Capital";  // as it is written, where there is such a one
  EXPECT_EQ(standing_of(directory, job)->account, "Capital");
}

TEST_F(LimitsTest, Partitions) {
  EXPECT_FALSE(partition_refuses(partition, "physics", "gold"));
  partition.deny_accounts = {"physics"};
  EXPECT_EQ(partition_refuses(partition, "physics", "gold"), "AccountNotAllowed");
  partition.allow_accounts = {"physics"};  // then the other list is ignored
  EXPECT_FALSE(partition_refuses(partition, "physics", "gold"));
  partition.allow_qos = {"silver"};
  EXPECT_EQ(partition_refuses(partition, "physics", "gold"), "QOSNotAllowed");
}

TEST(Tres, Licenses) {
  const auto l = parse_licenses("matlab:2,ansys;matlab=3");
  ASSERT_TRUE(l.ok());
  EXPECT_EQ(*l, (std::vector<NamedCount>{{"ansys", 1}, {"matlab", 5}}));
  for (const char* bad : {",", "a:", "a:-1", "a:x", "a:99999999999999999999", "a b", "a|b"})
    EXPECT_FALSE(parse_licenses(bad).ok()) << bad;
}

TEST(Tres, Billing) {
  Tres tres{4, 2048, 1, 2, 0, {{"gres/gpu:h100", 2}}};
  EXPECT_EQ(billing_of(tres, {}), 4);
  EXPECT_EQ(billing_of(tres, {{"cpu", 1000}, {"gres/gpu", 2500}, {"mem", 250}}), 10);  // 4 + 5 + 0.5
  EXPECT_EQ(billing_of(tres, {{"gres/gpu:h100", 100}}), 0);
  EXPECT_EQ(billing_of({INT64_MAX, 0, 0, 0, 0, {}}, {{"cpu", INT64_MAX}}), INT64_MAX);
}

TEST(Tres, LeastOfASpec) {
  JobSpec spec;
  spec.licenses = "matlab:2";
  GroupSpec group;
  group.tasks = {8, 8};
  group.tasks_per_node = 4;
  group.per_task.cores = 2;
  group.per_task.memory_mb = 100;
  group.per_node.devices = {{"gpu", "h100", 4}};
  spec.groups = {group};
  const Tres least = least_tres(spec);
  EXPECT_EQ(least.cpu, 16);
  EXPECT_EQ(least.memory_mb, 800);
  EXPECT_EQ(least.nodes, 2);
  EXPECT_EQ(least.gpus, 8);
  EXPECT_EQ(count_of(least, "gres/gpu:h100"), 8);
  EXPECT_EQ(count_of(least, "license/matlab"), 2);
}

}  // namespace
}  // namespace lockstep
