#include "pmi/world.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "pmi/testing.h"

namespace lockstep {
namespace {

TEST(PmiWorldTest, WhoIsWhere) {
  const PmiWorld world = world_with({{0, 2}, {1, 3, 4}}, 1);
  EXPECT_EQ(world.size(), 5u);
  EXPECT_EQ(world.node_of(2), 0u);
  EXPECT_EQ(world.node_of(4), 1u);
  EXPECT_EQ(world.node_of(5), std::nullopt);
  EXPECT_EQ(world.local_of(3), 1u);
  EXPECT_EQ(world.local_of(0), std::nullopt);
}

TEST(PmiWorldTest, MappingsAsClientsReadThem) {
  const auto mapping = [](std::vector<std::vector<std::uint32_t>> ranks) {
    return process_mapping(world_with(std::move(ranks)), 1000);
  };
  EXPECT_EQ(mapping({{0, 1, 2, 3}}), "(vector,(0,1,4))");
  EXPECT_EQ(mapping({{0, 1}, {2, 3}, {4, 5}}), "(vector,(0,3,2))");
  EXPECT_EQ(mapping({{0, 1, 2}, {3}}), "(vector,(0,1,3),(1,1,1))");
  EXPECT_EQ(mapping({{0, 2, 4}, {1, 3, 5}}), "(vector,(0,2,1))");         // once round, and again from the first
  EXPECT_EQ(mapping({{0, 3}, {1, 4}, {2}}), "(vector,(0,3,1),(0,2,1))");  // the last round is not whole
  EXPECT_EQ(mapping({{1}, {0}}), "(vector,(1,1,1),(0,1,1))");
  EXPECT_EQ(process_mapping(world_with({{0, 1, 2}, {3}}), 12), "");
}

TEST(PmiWorldTest, RoundTrip) {
  for (const PmiWorld& world : {world_with({{0}}), world_with({{0, 2}, {1, 3}}, 1, PmiWorld::Kind::kPmix)}) {
    const auto read = decode_pmi_world(encode_pmi_world(world));
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(*read, world);
  }
}

TEST(PmiWorldTest, RefusesWhatIsNoWorld) {
  const auto why = [](const PmiWorld& world) {
    const auto read = decode_pmi_world(encode_pmi_world(world));
    return read.ok() ? std::string("taken") : read.error().message;
  };
  EXPECT_EQ(why(world_with({{0, 1}, {1}})), "rank 1 is on two nodes of a world");
  EXPECT_EQ(why(world_with({{0}, {2}})), "a world with a rank that is on no node");
  EXPECT_EQ(why(world_with({{1, 0}})), "a world with a rank that is too high, or out of order");
  EXPECT_EQ(why(world_with({{0}, {}}, 1)), "a world that is cut off, or has no part here");
  EXPECT_EQ(why(world_with({{kPmiRanksMax}})), "a world with a rank that is too high, or out of order");
  const std::string whole = encode_pmi_world(world_with({{0, 1}, {2, 3}}, 1));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decode_pmi_world(std::string_view(whole).substr(0, size)).ok()) << size;
  Rng rng(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string broken = whole;
    for (int j = 0; j < 3; ++j) broken[rng.below(broken.size())] = static_cast<char>(rng.below(256));
    (void)decode_pmi_world(broken);
  }
}

}  // namespace
}  // namespace lockstep
