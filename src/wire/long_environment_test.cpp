#include "wire/long_environment.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"

namespace lockstep {
namespace {

std::string lines(std::initializer_list<std::string> all) {
  std::string out;
  for (const std::string& line : all) out.append(line).push_back('\0');
  return out;
}

TEST(LongEnvironment, AShortOneStaysWithItsLaunch) {
  const EnvironmentParts parts = split_environment(lines({"A=1", "none", "=x", "SLURM_B=2"}));
  EXPECT_EQ(parts.lines, (std::vector<std::string>{"A=1", "SLURM_B=2"}));
  EXPECT_EQ(parts.rest, "");
}

TEST(LongEnvironment, TheRestOfALongOneComesBackBehindWhatCounts) {
  std::string many = lines({"PATH=/bin", "SLURM_JOB_ID=7", "X_HET_GROUP_0=1", "PATHS=no", "none", "HOSTNAME=login"});
  for (int i = 0; i < 5'000; ++i) many += lines({format("VARIABLE_{}={}", i, i)});
  const EnvironmentParts parts = split_environment(many);
  EXPECT_EQ(parts.lines,
            (std::vector<std::string>{"PATH=/bin", "SLURM_JOB_ID=7", "X_HET_GROUP_0=1", "HOSTNAME=login"}));
  ProcessSpec process;
  process.env = {"PATH=/bin", "VARIABLE_17=mine", "HOSTNAME=n1"};
  process.env_base = "id";
  complete_environment(process, parts.rest);
  EXPECT_EQ(process.env_base, "");
  EXPECT_EQ(process.env.size(), 5'000u + 1 + 2) << "PATHS and all variables but one, and what the launch says";
  EXPECT_EQ(std::count(process.env.begin(), process.env.end(), "VARIABLE_17=mine"), 1);
  EXPECT_EQ(std::count(process.env.begin(), process.env.end(), "VARIABLE_17=17"), 0);
  EXPECT_EQ(process.env.back(), "HOSTNAME=n1");
}

TEST(LongEnvironment, WhatLaunchesLookAtIsNoWayAroundIt) {
  std::string many;
  for (int i = 0; i < 50'000; ++i) many += lines({format("SLURM_{}=x", i)});
  const EnvironmentParts parts = split_environment(many);
  std::size_t kept = 0;
  for (const std::string& line : parts.lines) kept += line.size();
  EXPECT_LE(kept, kLongEnvironment);
  EXPECT_GT(parts.rest.size(), many.size() - 2 * kLongEnvironment);
}

TEST(LongEnvironment, ItsAnnouncementIsReadBack) {
  const auto head = decode_long_environment(encode(LongEnvironment{"ab12", 70'000, " cd ef"}));
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head->id, "ab12");
  EXPECT_EQ(head->bytes, 70'000u);
  EXPECT_EQ(head->forget, " cd ef");
  EXPECT_EQ(decode_long_environment("ab12 5")->forget, "");
  for (const char* bad : {"", "ab12", "ab12 ", " 5", "ab12 0", "ab12 x", "ab12 99999999999"})
    EXPECT_FALSE(decode_long_environment(bad).ok()) << bad;
}

}  // namespace
}  // namespace lockstep
