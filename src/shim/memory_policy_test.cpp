#include "shim/memory_policy.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Mode = MemoryPolicy::Mode;

MemoryPolicy policy(Mode mode, std::initializer_list<std::uint32_t> nodes) {
  MemoryPolicy out;
  out.mode = mode;
  for (const auto node : nodes) out.nodes.set(node);
  return out;
}

TEST(MemoryPolicy, FollowsTheWordsOfMemBind) {
  EXPECT_EQ(memory_policy("", 0), policy(Mode::kNone, {}));
  EXPECT_EQ(memory_policy("none", 0), policy(Mode::kNone, {}));
  EXPECT_EQ(memory_policy("quiet,local", 3), policy(Mode::kLocal, {}));
  EXPECT_EQ(memory_policy("rank", 3), policy(Mode::kBound, {3}));
  EXPECT_EQ(memory_policy("prefer,map_mem:1,0", 2), policy(Mode::kPreferred, {1}));
  EXPECT_EQ(memory_policy("map_mem:0*2,1", 1), policy(Mode::kBound, {0}));
  EXPECT_EQ(memory_policy("map_mem:0*2,1", 2), policy(Mode::kBound, {1}));
  EXPECT_EQ(memory_policy("v,mask_mem:0x3,0X10", 0), policy(Mode::kBound, {0, 1}));
  EXPECT_EQ(memory_policy("mask_mem:0x3,0x10", 1), policy(Mode::kBound, {4}));
}

TEST(MemoryPolicy, BindsNothingByWhatIsNotUnderstood) {
  for (const char* bad : {"map_mem:", "map_mem:x", "map_mem:999999", "mask_mem:0xg", "mask_mem:", "mask_mem:0", "mine",
                          ",,,", "map_mem:0*999999999999"})
    EXPECT_LE(memory_policy(bad, 4000).nodes.count(), 1u) << bad;
  EXPECT_EQ(memory_policy("map_mem:999999", 0).mode, Mode::kNone);
  EXPECT_EQ(memory_policy("mask_mem:0xg", 0).mode, Mode::kNone);
}

}  // namespace
}  // namespace lockstep
