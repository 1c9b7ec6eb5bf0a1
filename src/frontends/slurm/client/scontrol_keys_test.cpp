#include "frontends/slurm/client/scontrol_keys.h"

#include <gtest/gtest.h>

namespace lockstep::slurm {
namespace {

constexpr auto kJob = ScontrolEntity::kJob, kNode = ScontrolEntity::kNode, kPartition = ScontrolEntity::kPartition,
               kReservation = ScontrolEntity::kReservation;

std::string whole(ScontrolEntity entity, std::string_view word) {
  const auto whole = whole_key(entity, word);
  return whole.ok() ? *whole : "refused: " + whole.error().message;
}

TEST(ScontrolKeys, ABeginningIsEnough) {
  EXPECT_EQ(whole(kJob, "timel"), "timelimit");
  EXPECT_EQ(whole(kJob, "nic"), "nice");
  EXPECT_EQ(whole(kJob, "part"), "partition");
  EXPECT_EQ(whole(kJob, "start"), "starttime");
  EXPECT_EQ(whole(kNode, "reas"), "reason");
  EXPECT_EQ(whole(kNode, "stat"), "state");
  EXPECT_EQ(whole(kPartition, "maxt"), "maxtime");
  EXPECT_EQ(whole(kReservation, "start"), "starttime");
  EXPECT_EQ(whole(kReservation, "dur"), "duration");
  EXPECT_EQ(whole(kReservation, "user+"), "users+");
  EXPECT_EQ(whole(kReservation, "users-"), "users-");
}

TEST(ScontrolKeys, OneThatBeginsAnotherIsItself) {
  EXPECT_EQ(whole(kJob, "name"), "name");
  EXPECT_EQ(whole(kJob, "job"),
            "refused: Update of this parameter is not supported: job may mean jobid, jobname\n"
            "Request aborted");
  EXPECT_EQ(whole(kJob, "reserv"), "reservation");
  EXPECT_EQ(whole(kPartition, "priority"), "priority");
  EXPECT_EQ(whole(kPartition, "prio"), "priority");
}

TEST(ScontrolKeys, WhatMayMeanSeveralIsRefusedAndWhatMeansNothingIsLeft) {
  EXPECT_EQ(whole(kJob, "time"),
            "refused: Update of this parameter is not supported: time may mean timelimit, timemin\n"
            "Request aborted");
  EXPECT_EQ(whole(kJob, "n").find("refused"), 0u);
  EXPECT_EQ(whole(kJob, "burstbuffer"), "burstbuffer");
  EXPECT_EQ(whole(kJob, "timelimits"), "timelimits");
  EXPECT_EQ(whole(kJob, ""), "");
}

}  // namespace
}  // namespace lockstep::slurm
