#include "io/gpus/mig_slices.h"

#include <gtest/gtest.h>

#include "io/gpus/test_gpus.h"

namespace lockstep {
namespace {

DevicePart part(std::uint16_t device, const char* profile, std::uint16_t start) {
  return {.device = device, .mig = profile, .slice = start};
}

std::vector<std::string> shown(const MigSlices& slices) {
  std::vector<std::string> out;
  const auto all = slices.list();
  for (const MigSlice& slice : *all)
    out.push_back(std::to_string(slice.device) + " " + slice.profile + "@" + std::to_string(slice.start));
  return out;
}
using Lines = std::vector<std::string>;

TEST(MigSlices, ComeAndGoWithTheirJob) {
  const TestGpus gpus("count = 2\ntype = h100\nmig = 1\n");
  auto slices = MigSlices::open(TestGpus::library());
  ASSERT_TRUE(slices.ok()) << slices.error().message;
  const std::vector<DevicePart> first{part(1, "3g.40gb", 4), part(1, "1g.10gb", 0)}, second{part(1, "1g.10gb", 2)};
  const auto made = slices->create(first);
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_EQ(made->size(), 2u);
  EXPECT_TRUE((*made)[0].uuid.starts_with("MIG-")) << (*made)[0].uuid;
  EXPECT_NE((*made)[0].uuid, (*made)[1].uuid);
  ASSERT_TRUE(slices->create(second).ok());
  EXPECT_EQ(shown(*slices), (Lines{"1 1g.10gb@0", "1 1g.10gb@2", "1 3g.40gb@4"}));
  ASSERT_TRUE(slices->destroy(first).ok());
  EXPECT_EQ(shown(*slices), Lines{"1 1g.10gb@2"}) << "the other job's stays";
  EXPECT_TRUE(slices->destroy(first).ok()) << "a second time does nothing";
}

TEST(MigSlices, AnAgentThatStartsAgainFindsThem) {
  const TestGpus gpus("count = 1\ntype = a100\nmig = 0\n");
  std::string uuid;
  {
    auto before = MigSlices::open(TestGpus::library());
    uuid = before->create({part(0, "2g.20gb", 2)})->at(0).uuid;
  }
  auto after = MigSlices::open(TestGpus::library());
  EXPECT_EQ(after->create({part(0, "2g.20gb", 2)})->at(0).uuid, uuid);
  EXPECT_EQ(shown(*after), Lines{"0 2g.20gb@2"});
}

TEST(MigSlices, WhatCannotBeMadeLeavesNothing) {
  const TestGpus gpus("count = 2\ntype = h100\nmig = 0\n");
  auto slices = MigSlices::open(TestGpus::library());
  ASSERT_TRUE(slices->create({part(0, "3g.40gb", 4)}).ok());
  const auto taken = slices->create({part(0, "1g.10gb", 0), part(0, "1g.20gb", 6)});
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, Errc::kConflict) << taken.error().message;
  EXPECT_EQ(shown(*slices), Lines{"0 3g.40gb@4"});
  EXPECT_EQ(slices->create({part(0, "5g.50gb", 0)}).error().code, Errc::kUnsupported);
  EXPECT_EQ(slices->create({part(1, "1g.10gb", 0)}).error().code, Errc::kUnsupported) << "not in MIG mode";
  EXPECT_FALSE(slices->create({part(0, "1g.10gb", 7)}).ok()) << "no placement of it";
  EXPECT_FALSE(slices->create({part(9, "1g.10gb", 0)}).ok());
  EXPECT_EQ(shown(*slices), Lines{"0 3g.40gb@4"});
}

TEST(MigSlices, PartsThatAreNoSlicesAreLeftAlone) {
  const TestGpus gpus("count = 1\ntype = l40s\n");
  auto slices = MigSlices::open(TestGpus::library());
  const auto made = slices->create({{.device = 0, .milli = 500}});
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made->empty());
  EXPECT_TRUE(slices->destroy({{.device = 0, .milli = 500}}).ok());
}

}  // namespace
}  // namespace lockstep
