// Shares and turns of what is not enough for all.
#include "base/fair_share.h"

#include <gtest/gtest.h>

#include "base/fair_queue.h"
#include "base/mutant.h"
#include "base/rng.h"

namespace lockstep {
namespace {

constexpr auto kReserved = FairShare::Standing::kReserved;

std::size_t take_all(FairShare& share, std::string_view holder) {
  std::size_t n = 0;
  while (share.take(holder, 1)) ++n;
  return n;
}

TEST(FairShare, TheGreedyLeaveRoomForWhoeverComesLast) {
  FairShare share({.limit = 1600, .each = 400});
  EXPECT_EQ(take_all(share, "a"), 400u);
  EXPECT_EQ(take_all(share, "b"), 400u);
  EXPECT_EQ(take_all(share, "c"), 400u);
  EXPECT_EQ(take_all(share, "d"), 200u);  // crowded: no more than is left free
  EXPECT_EQ(take_all(share, "e"), 100u);
  EXPECT_TRUE(share.take("f", 1));
  EXPECT_EQ(share.greediest(), "c");
  EXPECT_EQ(share.total(), 1501u);
}

TEST(FairShare, AnnouncedSizesCannotWrapAround) {
  FairShare share({.limit = 100, .each = 100, .reserve = 10});
  EXPECT_TRUE(share.take("a", 10));
  for (const std::size_t much : {SIZE_MAX, SIZE_MAX - 5, SIZE_MAX / 2, std::size_t{101}}) {
    EXPECT_FALSE(share.take("a", much));
    EXPECT_FALSE(share.take("root", much, kReserved));
  }
  EXPECT_EQ(share.total(), 10u);
}

// What the ordinary test of reserved lanes asks; the planted bug must fail it.
bool root_gets_in_when_all_is_taken() {
  FairShare share({.limit = 64, .each = 16, .reserve = 8});
  for (char name = 'a'; name <= 'z'; ++name) take_all(share, std::string(1, name));
  bool in = true;
  for (int i = 0; i < 8; ++i) in = share.take("root", 1, kReserved) && in;
  for (char name = 'a'; name <= 'z'; ++name) in = !share.take(std::string(1, name), 16) && in;
  return in;
}

TEST(FairShare, ReservedHoldersAlwaysGetIn) { EXPECT_TRUE(root_gets_in_when_all_is_taken()); }

TEST(FairShare, ThePlantedBugIsNoticed) {
  planted = Mutant::kLaneStarved;
  const bool in = root_gets_in_when_all_is_taken();
  planted = Mutant::kNone;
  EXPECT_FALSE(in);
}

TEST(FairShare, SumsStayTrue) {
  Rng rng(7);
  FairShare share({.limit = 1000, .each = 300, .reserve = 100});
  std::map<std::string, std::size_t> held;
  for (int i = 0; i < 20'000; ++i) {
    const std::string who = "h" + std::to_string(rng.below(6));
    const std::size_t amount = rng.below(120);
    if (rng.below(2) == 0 && share.take(who, amount, who == "h0" ? kReserved : FairShare::Standing::kOrdinary))
      held[who] += amount;
    else if (held[who] >= amount) {
      share.give(who, amount);
      held[who] -= amount;
    }
    std::size_t sum = 0, most = 0;
    for (const auto& [name, n] : held) {
      sum += n;
      EXPECT_EQ(share.held(name), n);
      EXPECT_LE(n, name == "h0" ? 1100u : 300u);
      if (name != "h0")
        most = std::max(most, n);
    }
    EXPECT_EQ(share.total(), sum);
    EXPECT_LE(sum, 1100u);
    EXPECT_EQ(share.held(share.greediest()), most);
  }
}

TEST(FairQueue, EveryonesFirstComesBeforeAnybodysSecond) {
  FairQueue<std::string, int> queue;
  for (int i = 0; i < 5; ++i) queue.push("greedy", i);
  queue.push("late", 10);
  std::vector<int> served;
  while (const auto next = queue.pop()) {
    served.push_back(*next);
    if (served.size() == 3)
      queue.push("later", 20);
  }
  EXPECT_EQ(served, (std::vector{0, 10, 1, 20, 2, 3, 4}));
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace lockstep
