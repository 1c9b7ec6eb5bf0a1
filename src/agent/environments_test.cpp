#include "agent/environments.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

ToAgent launch(const std::string& environment) {
  LaunchStep step;
  step.process.env = {"A=new"};
  step.process.env_base = environment;
  return step;
}

TEST(Environments, ALaunchIsFilledInFromWhatCameBefore) {
  Environments all;
  ToAgent short_one = launch("");
  EXPECT_TRUE(all.complete(short_one).ok());
  EXPECT_EQ(process_of(short_one)->env, std::vector<std::string>{"A=new"});
  const std::string lines("A=old\0B=2\0", 10);
  ASSERT_TRUE(all.announced({"one", lines.size(), ""}).ok());
  all.add("one", lines.substr(0, 4));
  ToAgent early = launch("one");
  EXPECT_FALSE(all.complete(early).ok()) << "half of it has come";
  all.add("one", lines.substr(4));
  for (int twice = 0; twice < 2; ++twice) {
    ToAgent whole = launch("one");
    ASSERT_TRUE(all.complete(whole).ok());
    EXPECT_EQ(process_of(whole)->env, (std::vector<std::string>{"B=2", "A=new"}));
  }
}

TEST(Environments, WhatIsToBeForgottenMakesRoomAndMoreIsRefused) {
  Environments all;
  ASSERT_TRUE(all.announced({"one", 8 << 20, ""}).ok());
  EXPECT_FALSE(all.announced({"one", 8 << 20, ""}).ok()) << "twice";
  for (int i = 2; i <= 32; ++i) ASSERT_TRUE(all.announced({std::to_string(i), 8 << 20, ""}).ok());
  EXPECT_EQ(all.bytes(), kLongEnvironmentsMax);
  EXPECT_FALSE(all.announced({"more", 1, ""}).ok());
  EXPECT_TRUE(all.announced({"more", 8 << 20, " one 99"}).ok());
  ToAgent gone = launch("one");
  EXPECT_FALSE(all.complete(gone).ok());
}

TEST(Environments, HalfOfOneIsNone) {
  Environments all;
  ASSERT_TRUE(all.announced({"half", 10, ""}).ok());
  all.add("half", "A=1");
  all.ended("half");
  EXPECT_EQ(all.bytes(), 0u);
  ASSERT_TRUE(all.announced({"half", 4, ""}).ok()) << "it may come again";
  all.add("half", std::string("B=2\0", 4));
  all.ended("half");
  ToAgent whole = launch("half");
  EXPECT_TRUE(all.complete(whole).ok());
}

}  // namespace
}  // namespace lockstep
