#include "rules/priority.h"

#include <gtest/gtest.h>

#include "model/accounting.h"
#include "model/job.h"
#include "model/records.h"
#include "model/spec.h"
#include "model/tres.h"

namespace lockstep {
namespace {

TEST(Priority, SumOfWeightedFactors) {
  Policy policy;
  policy.weight_age = 1000;
  policy.weight_assoc = 10;
  policy.weight_fair_share = 10'000;
  policy.weight_job_size = 100;
  policy.weight_partition = 2000;
  policy.weight_qos = 5000;
  policy.weight_tres = {{"cpu", 2'000'000}, {"gres/gpu", 4'000'000}};
  PriorityFactors factors;
  factors.age = 0.5;
  factors.assoc = 1;
  factors.fair_share = 0.25;
  factors.job_size = 0.1;
  factors.partition = 1;
  factors.qos = 0.2;
  factors.tres = {{"cpu", 0.5}, {"gres/gpu", 0.125}};
  factors.nice = 100;
  const PriorityParts parts = priority_parts(policy, factors);
  EXPECT_EQ(parts.age, 500);
  EXPECT_EQ(parts.fair_share, 2500);
  EXPECT_EQ(parts.job_size, 10);
  EXPECT_EQ(parts.partition, 2000);
  EXPECT_EQ(parts.qos, 1000);
  ASSERT_EQ(parts.tres.size(), 2u);
  EXPECT_EQ(parts.tres[0].second, 1000);
  EXPECT_EQ(parts.tres[1].second, 500);
  EXPECT_EQ(parts.total, 500u + 10 + 2500 + 10 + 2000 + 1000 + 1000 + 500 - 100);
}

TEST(Priority, FitsThirtyTwoBitsAndIsNeverZero) {
  Policy policy;
  policy.weight_age = policy.weight_qos = policy.weight_fair_share = UINT32_MAX;
  PriorityFactors factors;
  factors.age = factors.qos = factors.fair_share = 1;
  EXPECT_EQ(priority_parts(policy, factors).total, UINT32_MAX);
  factors = {};
  factors.nice = INT32_MAX;
  EXPECT_EQ(priority_parts(policy, factors).total, 1u);
  factors.nice = -1000;
  EXPECT_EQ(priority_parts(policy, factors).total, 1000u);
}

TEST(Priority, Factors) {
  Policy policy;
  policy.age_max = hours(10);
  EXPECT_DOUBLE_EQ(age_factor(policy, hours(5)), 0.5);
  EXPECT_DOUBLE_EQ(age_factor(policy, hours(20)), 1);
  EXPECT_DOUBLE_EQ(age_factor(policy, Duration{}), 0);
  Tres job, cluster;
  job.nodes = 10;
  job.cpu = 320;
  cluster.nodes = 100;
  cluster.cpu = 6400;
  EXPECT_DOUBLE_EQ(size_factor(policy, job, cluster), 0.075);
  policy.favor_small = true;
  EXPECT_DOUBLE_EQ(size_factor(policy, job, cluster), 0.925);
  EXPECT_DOUBLE_EQ(part_of(1, 0), 0);
}

TEST(Priority, FactorsOfADirectory) {
  Directory d;
  for (const auto& [name, priority] : {std::pair{"low", 10u}, {"high", 40u}}) {
    Qos qos;
    qos.meta.name = name;
    qos.priority = priority;
    d.qos[name] = std::make_shared<const Qos>(qos);
  }
  Policy policy;
  policy.weight_tres = {{"gres/gpu", 1'000'000}};
  d.policy_record = std::make_shared<const Policy>(policy);
  Partition partition;
  partition.priority = 5;
  JobSpec spec;
  spec.qos = "low";
  spec.nice = 7;
  Tres job, cluster;
  job.gpus = 8;
  cluster.gpus = 64;
  const PriorityFactors factors = still_factors(d, spec, &partition, job, cluster, 20);
  EXPECT_DOUBLE_EQ(factors.qos, 0.25);
  EXPECT_DOUBLE_EQ(factors.partition, 0.25);
  EXPECT_DOUBLE_EQ(factors.tres.at(0).second, 0.125);
  EXPECT_EQ(factors.nice, 7);
}

TEST(Priority, WithoutFactors) {
  JobSpec spec;
  EXPECT_EQ(plain_priority(spec), 2'147'483'648u);
  spec.nice = 100;
  EXPECT_EQ(plain_priority(spec), 2'147'483'548u);
  spec.nice = INT32_MIN;
  EXPECT_EQ(plain_priority(spec), UINT32_MAX);
  spec.priority = 5;
  EXPECT_EQ(plain_priority(spec), 5u);
}

}  // namespace
}  // namespace lockstep
