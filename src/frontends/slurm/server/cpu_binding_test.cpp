#include "frontends/slurm/server/cpu_binding.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace lockstep::slurm {
namespace {

// A node of two sockets with four cores each, of which the step has all but the last.
BindingPlace two_sockets(std::uint32_t tasks, std::uint32_t each = 1) {
  BindingPlace place;
  place.cores = CoreSet::first_n(7);
  place.node_cores = 8;
  place.node_sockets = 2;
  place.tasks = tasks;
  place.cores_per_task = each;
  return place;
}

std::string masks(std::string_view binding, const BindingPlace& place) {
  std::string out;
  for (const CoreSet& set : bound_cores(binding, place)) out += (out.empty() ? "" : ",") + mask_text(set);
  return out;
}

TEST(CpuBinding, NothingIsBoundUnlessItIsAsked) {
  for (const char* word : {"", "none", "no", "quiet", "v,none", "verbose", "fast", "map_cpu"})
    EXPECT_EQ(masks(word, two_sockets(2)), "") << word;
  BindingPlace none = two_sockets(2);
  none.cores = {};
  EXPECT_EQ(masks("cores", none), "");
}

TEST(CpuBinding, CoresGoRoundTheSockets) {
  EXPECT_EQ(masks("cores", two_sockets(4)), "0x1,0x10,0x2,0x20");
  EXPECT_EQ(masks("q,threads", two_sockets(3, 2)), "0x3,0x30,0xc");
  BindingPlace block = two_sockets(3, 2);
  block.cyclic = false;
  EXPECT_EQ(masks("cores", block), "0x3,0xc,0x30");
  EXPECT_EQ(masks("cores", two_sockets(2, 3)), "0x7,0x70");
  EXPECT_EQ(masks("cores", two_sockets(2, 5)), "0x1f,0x60") << "more than a socket has";
  EXPECT_EQ(masks("cores", two_sockets(9)), "0x1,0x10,0x2,0x20,0x4,0x40,0x8,0x1,0x10") << "tasks share then";
}

TEST(CpuBinding, SocketsAndLdomsAreWhole) {
  EXPECT_EQ(masks("sockets", two_sockets(2)), "0xf,0x70");
  EXPECT_EQ(masks("ldoms", two_sockets(1)), "0xf");
  EXPECT_EQ(masks("rank_ldom", two_sockets(3)), "0xf,0x70,0xf");
  EXPECT_EQ(masks("map_ldom:1,0", two_sockets(2)), "0x70,0xf");
  EXPECT_EQ(masks("mask_ldom:0x3", two_sockets(1)), "0x7f");
}

TEST(CpuBinding, ListsAreTakenInTurnAndWithinTheStep) {
  EXPECT_EQ(masks("map_cpu:2,5", two_sockets(3)), "0x4,0x20,0x4");
  EXPECT_EQ(masks("v,map_cpu:1*2,3", two_sockets(3)), "0x2,0x2,0x8");
  EXPECT_EQ(masks("mask_cpu:0x81,F0", two_sockets(2)), "0x1,0x70");
  EXPECT_EQ(masks("map_cpu:7", two_sockets(1)), "0x7f") << "not the step's";
  EXPECT_EQ(masks("rank", two_sockets(2)), "0x1,0x2");
}

TEST(CpuBinding, WordsWithoutSenseDoNoHarm) {
  for (const char* words :
       {"map_cpu:x", "mask_cpu:zz", "mask_cpu:0x", "map_ldom:99999999999999999999", "map_cpu:,,",
        "mask_cpu:ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"})
    EXPECT_EQ(masks(words, two_sockets(1)), "0x7f") << words;
  EXPECT_EQ(bound_cores("map_cpu:1*99999999999", two_sockets(3)).size(), 3u);
}

TEST(CpuBinding, TheSecondPartOfADistribution) {
  EXPECT_TRUE(spreads_over_sockets(""));
  EXPECT_TRUE(spreads_over_sockets("block"));
  EXPECT_TRUE(spreads_over_sockets("block:cyclic"));
  EXPECT_FALSE(spreads_over_sockets("cyclic:block"));
}

TEST(CpuBinding, MasksAreHexadecimal) {
  EXPECT_EQ(mask_text({}), "0x0");
  CoreSet set;
  set.set(0), set.set(5), set.set(64);
  EXPECT_EQ(mask_text(set), "0x10000000000000021");
}

}  // namespace
}  // namespace lockstep::slurm
