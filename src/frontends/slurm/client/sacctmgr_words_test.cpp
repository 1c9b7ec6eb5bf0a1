#include "frontends/slurm/client/sacctmgr_words.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "frontends/slurm/client/scontrol_reservation.h"
#include "model/tres_names.h"

namespace lockstep::slurm {
namespace {

TEST(SacctmgrWords, Keys) {
  const KeyWord plain = key_word("GrpTRES=cpu=10,gres/gpu=4");
  EXPECT_EQ(plain.key, "grptres");
  EXPECT_EQ(plain.value, "cpu=10,gres/gpu=4");
  EXPECT_EQ(key_word("physics").key, "");
  EXPECT_EQ(key_word("physics").value, "physics");
  EXPECT_EQ(key_word("QOS+=gold").sign, '+');
  EXPECT_EQ(key_word("QOS-=gold").key, "qos");
  EXPECT_EQ(key_word("Description=\"a b\"").value, "a b");
  EXPECT_EQ(key_word("=x").key, "");
}

TEST(SacctmgrWords, Lists) {
  std::vector<std::string> list{"gold"};
  change_list(list, key_word("qos+=silver,gold"));
  EXPECT_EQ(list, (std::vector<std::string>{"gold", "silver"}));
  change_list(list, key_word("qos-=gold"));
  EXPECT_EQ(list, (std::vector<std::string>{"silver"}));
  change_list(list, key_word("qos=normal"));
  EXPECT_EQ(list, (std::vector<std::string>{"normal"}));
  change_list(list, key_word("qos="));
  EXPECT_TRUE(list.empty());
}

TEST(SacctmgrWords, Limits) {
  Limits limits;
  EXPECT_TRUE(*set_limit(limits, key_word("GrpTRES=cpu=10,mem=4G,gres/gpu:h100=2")));
  EXPECT_EQ(limits.grp_tres.cpu, 10);
  EXPECT_EQ(limits.grp_tres.memory_mb, 4096);
  EXPECT_EQ(bound_of(limits.grp_tres, "gres/gpu:h100"), 2);
  EXPECT_TRUE(*set_limit(limits, key_word("GrpTRES=cpu=-1")));
  EXPECT_EQ(limits.grp_tres.cpu, kNoLimit);
  EXPECT_EQ(limits.grp_tres.memory_mb, 4096);
  EXPECT_TRUE(*set_limit(limits, key_word("GrpTRES=-1")));
  EXPECT_TRUE(bounds_nothing(limits.grp_tres));
  EXPECT_TRUE(*set_limit(limits, key_word("MaxCPUs=8")));
  EXPECT_EQ(limits.max_tres_per_job.cpu, 8);
  EXPECT_TRUE(*set_limit(limits, key_word("MaxWall=1-12:00:00")));
  EXPECT_EQ(limits.max_wall_mins_per_job, 36 * 60);
  EXPECT_TRUE(*set_limit(limits, key_word("MaxWall=-1")));
  EXPECT_EQ(limits.max_wall_mins_per_job, kNoLimit);
  EXPECT_TRUE(*set_limit(limits, key_word("MaxSubmitJobsPerUser=5")));
  EXPECT_EQ(limits.max_submit_jobs_per_user, 5);
  EXPECT_FALSE(*set_limit(limits, key_word("colour=red")));
  for (const char* bad : {"GrpTRES=cpu", "GrpTRES=cpu=x", "GrpTRES=cpu=-2", "GrpTRES=foo=1", "GrpJobs=many",
                          "GrpJobs=-5", "MaxWall=soon", "GrpTRES=mem=99999999999999T"})
    EXPECT_FALSE(set_limit(limits, key_word(bad)).ok()) << bad;
}

TEST(SacctmgrWords, TresText) {
  TresLimit limit;
  ASSERT_TRUE(read_tres("mem=1500,cpu=4,node=2,license/matlab=3", limit).ok());
  EXPECT_EQ(tres_text(limit), "cpu=4,mem=1500M,node=2,license/matlab=3");
  ASSERT_TRUE(read_tres("mem=2T", limit).ok());
  EXPECT_EQ(tres_text(limit), "cpu=4,mem=2T,node=2,license/matlab=3");
}

TEST(SacctmgrWords, Records) {
  Account account;
  EXPECT_TRUE(*set_account(account, key_word("parent=root")));
  EXPECT_TRUE(*set_account(account, key_word("fairshare=parent")));
  EXPECT_EQ(account.shares, kParentShares);
  EXPECT_TRUE(*set_account(account, key_word("QuotaTRES=gres/gpu=8")));
  EXPECT_TRUE(*set_account(account, key_word("LendTRES=gres/gpu=2")));
  EXPECT_EQ(account.quota.nominal.gpus, 8);
  EXPECT_EQ(account.quota.lend.gpus, 2);
  Qos qos;
  EXPECT_TRUE(*set_qos(qos, key_word("flags=DenyOnLimit,NoDecay")));
  EXPECT_EQ(flags_text(qos), "DenyOnLimit,NoDecay");
  EXPECT_TRUE(*set_qos(qos, key_word("flags-=nodecay")));
  EXPECT_EQ(flags_text(qos), "DenyOnLimit");
  EXPECT_TRUE(*set_qos(qos, key_word("usagefactor=0.25")));
  EXPECT_EQ(qos.usage_factor_milli, 250u);
  EXPECT_TRUE(*set_qos(qos, key_word("gracetime=00:01:30")));
  EXPECT_EQ(qos.grace, seconds(90));
  EXPECT_TRUE(*set_qos(qos, key_word("gracetime=00:00:00")));  // as sacctmgr prints none
  EXPECT_EQ(qos.grace, Duration{});
  EXPECT_FALSE(set_qos(qos, key_word("gracetime=")).ok());
  EXPECT_TRUE(*set_qos(qos, key_word("preemptmode=requeue")));
  EXPECT_EQ(qos.preempt_mode, PreemptMode::kRequeue);
  EXPECT_FALSE(set_qos(qos, key_word("flags=Nonsense")).ok());
  EXPECT_FALSE(set_qos(qos, key_word("priority=-3")).ok());
  Policy policy;
  EXPECT_TRUE(*set_policy(policy, key_word("PriorityWeightFairshare=5000")));
  EXPECT_TRUE(*set_policy(policy, key_word("PriorityWeightTRES=cpu=1000,gres/gpu=2000.5")));
  EXPECT_TRUE(*set_policy(policy, key_word("PriorityDecayHalfLife=14-0")));
  EXPECT_TRUE(*set_policy(policy, key_word("AccountingStorageEnforce=limits,qos")));
  EXPECT_EQ(policy.weight_fair_share, 5000u);
  EXPECT_EQ(policy.weight_tres[1].milli, 2'000'500);
  EXPECT_EQ(policy.half_life, hours(14 * 24));
  EXPECT_TRUE(policy.enforce_associations && policy.enforce_qos && !policy.enforce_safe);
  EXPECT_FALSE(set_policy(policy, key_word("PriorityUsageResetPeriod=never")).ok());
}

TEST(ScontrolReservation, Words) {
  const WallTime now{1'700'000'000'000'000};
  Reservation r;
  ASSERT_TRUE(set_reservation(r,
                              {{"reservationname", "maint"},
                               {"starttime", "now+1hour"},
                               {"duration", "2:00:00"},
                               {"users", "root,ann"},
                               {"nodes", "n[1-3]"},
                               {"flags", "MAINT,IGNORE_JOBS,WEEKLY,PURGE_COMP=00:10:00"},
                               {"licenses", "matlab:2"}},
                              now, 3600)
                  .ok());
  EXPECT_EQ(r.start.us, now.us + hours(1).us);
  EXPECT_EQ(r.duration, hours(2));
  EXPECT_EQ(r.nodes, (std::vector<std::string>{"n1", "n2", "n3"}));
  EXPECT_TRUE(r.maint && r.ignore_jobs && r.purge_comp && !r.overlap);
  EXPECT_EQ(r.purge_after, minutes(10));
  EXPECT_EQ(r.recurrence, Recurrence::kWeekly);
  EXPECT_EQ(r.licenses, (std::vector<NamedCount>{{"matlab", 2}}));
  ASSERT_TRUE(set_reservation(r, {{"flags+", "OVERLAP"}, {"users-", "ann"}, {"nodes+", "n4"}}, now, 3600).ok());
  EXPECT_TRUE(r.overlap && r.maint);
  EXPECT_EQ(r.users, (std::vector<std::string>{"root"}));
  EXPECT_EQ(r.nodes.size(), 4u);
  Reservation by_end;
  ASSERT_TRUE(set_reservation(by_end, {{"endtime", "now+30minutes"}, {"nodecnt", "2"}}, now, 0).ok());
  EXPECT_EQ(by_end.duration, minutes(30));
  EXPECT_EQ(by_end.node_count, 2u);
  for (const auto& [key, value] : {std::pair{"flags", "NONSENSE"},
                                   {"starttime", "whenever"},
                                   {"nodecnt", "0"},
                                   {"duration", "long"},
                                   {"colour", "red"},
                                   {"nodes", "n[3-1"}})
    EXPECT_FALSE(set_reservation(r, {{key, value}}, now, 0).ok()) << key;
}

TEST(ScontrolReservation, CoresOfNamedNodesAreCountedNodeByNode) {
  const WallTime now{1'700'000'000'000'000};
  const auto cores = [&](const std::vector<std::pair<std::string, std::string>>& pairs) {
    Reservation r;
    const auto set = set_reservation(r, pairs, now, 0);
    return set ? format("{} on {}", r.tres.cpu, join(r.nodes, ",")) : set.error().message.substr(0, 32);
  };
  EXPECT_EQ(cores({{"corecnt", "4"}}), "4 on ");
  EXPECT_EQ(cores({{"nodes", "n[1-2]"}, {"corecnt", "4,6"}}), "10 on n1,n2");
  EXPECT_EQ(cores({{"corecnt", "4,6"}, {"nodes", "n[1-2]"}}), "10 on n1,n2");
  EXPECT_EQ(cores({{"nodes", "n[1-2]"}, {"corecnt", "4"}}), "Core count for reservation node ");
  EXPECT_EQ(cores({{"corecnt", "x"}}), "Invalid core count x");
  EXPECT_EQ(cores({{"corecnt", "0"}}), "Invalid core count 0");
}

TEST(ScontrolReservation, WhatANewOneNeeds) {
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"starttime", "now"}, {"duration", "10"}, {"nodes", "n1"}, {"users", "ann"}};
  EXPECT_TRUE(check_new_reservation(pairs).ok());
  const char* kWords[] = {"A start time must be given.", "An end time or duration must be given.",
                          "CoreCnt, Nodes, NodeCnt, BurstBuffer, Licenses or Watts must be specified.",
                          "Either Users/Groups and/or Accounts must be specified."};
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    auto less = pairs;
    less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(check_new_reservation(less).error().message, format("{}  No reservation created.", kWords[i]));
  }
  pairs[1].first = "endtime";
  pairs[2] = {"corecnt", "4"};
  pairs[3] = {"accounts+", "proj"};
  EXPECT_TRUE(check_new_reservation(pairs).ok());
}

}  // namespace
}  // namespace lockstep::slurm
