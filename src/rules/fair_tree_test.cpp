#include "rules/fair_tree.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/accounting.h"
#include "model/records.h"

namespace lockstep {
namespace {

// root ── A (40 shares, 45 used) ── a1 (1, 30), a2 (1, 15)
//      ├─ B (60, 30)             ── b1 (1, 10), B2 (3, 20) ── b21 (1, 20), b22 (1, 0)
//      └─ u (10, 25)
struct Example {
  std::vector<ShareNode> tree{
      {kNobody, false, 40, 45},  // 0 A
      {0, true, 1, 30},          // 1 a1
      {0, true, 1, 15},          // 2 a2
      {kNobody, false, 60, 30},  // 3 B
      {3, true, 1, 10},          // 4 b1
      {3, false, 3, 20},         // 5 B2
      {5, true, 1, 20},          // 6 b21
      {5, true, 1, 0},           // 7 b22
      {kNobody, true, 10, 25},   // 8 u
  };
};

TEST(FairTree, LevelsByHand) {
  const auto shares = fair_tree(Example().tree);
  // Top level: 110 shares, 100 used.
  EXPECT_DOUBLE_EQ(shares[0].shares_norm, 40.0 / 110);
  EXPECT_DOUBLE_EQ(shares[0].use_norm, 0.45);
  EXPECT_DOUBLE_EQ(shares[0].level, 40.0 / 110 / 0.45);  // 0.808
  EXPECT_DOUBLE_EQ(shares[3].level, 60.0 / 110 / 0.30);  // 1.818
  EXPECT_DOUBLE_EQ(shares[8].level, 10.0 / 110 / 0.25);  // 0.364
  EXPECT_DOUBLE_EQ(shares[1].level, 0.5 / (30.0 / 45));
  EXPECT_DOUBLE_EQ(shares[5].level, 0.75 / (20.0 / 30));
  EXPECT_TRUE(std::isinf(shares[7].level));
}

TEST(FairTree, EverybodyBelowABetterAccountComesFirst) {
  const auto shares = fair_tree(Example().tree);
  // B (1.82): B2 (1.125) before b1 (0.75): b22 (inf), b21, b1. Then A (0.81): a2 (1.5), a1 (0.75). Then u.
  EXPECT_EQ(shares[7].rank, 6u);
  EXPECT_EQ(shares[6].rank, 5u);
  EXPECT_EQ(shares[4].rank, 4u);
  EXPECT_EQ(shares[2].rank, 3u);
  EXPECT_EQ(shares[1].rank, 2u);
  EXPECT_EQ(shares[8].rank, 1u);
  EXPECT_DOUBLE_EQ(shares[7].factor, 1.0);
  EXPECT_DOUBLE_EQ(shares[8].factor, 1.0 / 6);
}

TEST(FairTree, EqualSiblingUsersShareARank) {
  const auto shares = fair_tree({{kNobody, true, 1, 5}, {kNobody, true, 1, 5}, {kNobody, true, 1, 10}});
  EXPECT_EQ(shares[0].rank, 3u);
  EXPECT_EQ(shares[1].rank, 3u);
  EXPECT_EQ(shares[2].rank, 1u);
}

TEST(FairTree, AUserEqualToAnAccountHasTheRankOfItsBest) {
  const auto shares = fair_tree({{kNobody, true, 1, 10},   // u
                                 {kNobody, false, 1, 10},  // A
                                 {1, true, 1, 10},         // a1
                                 {1, true, 1, 0}});        // a2
  EXPECT_EQ(shares[0].rank, 3u);
  EXPECT_EQ(shares[3].rank, 3u);
  EXPECT_EQ(shares[2].rank, 1u);
}

TEST(FairTree, ChildrenOfEqualAccountsAreMerged) {
  const auto shares = fair_tree({{kNobody, false, 1, 10},  // A
                                 {0, true, 1, 8},          // level 0.5 / 0.8
                                 {0, true, 1, 2},          // 0.5 / 0.2
                                 {kNobody, false, 1, 10},  // B
                                 {3, true, 1, 6},          // 0.5 / 0.6
                                 {3, true, 1, 4}});        // 0.5 / 0.4
  EXPECT_EQ(shares[2].rank, 4u);
  EXPECT_EQ(shares[5].rank, 3u);
  EXPECT_EQ(shares[4].rank, 2u);
  EXPECT_EQ(shares[1].rank, 1u);
}

TEST(FairTree, NothingUsedMeansEveryoneFirst) {
  const auto shares = fair_tree({{kNobody, false, 1, 0}, {0, true, 1, 0}, {kNobody, false, 5, 0}, {2, true, 7, 0}});
  EXPECT_DOUBLE_EQ(shares[1].factor, 1.0);
  EXPECT_DOUBLE_EQ(shares[3].factor, 1.0);
}

TEST(FairTree, NoSharesComeLast) {
  const auto shares = fair_tree({{kNobody, true, 0, 0}, {kNobody, true, 1, 1000}});
  EXPECT_EQ(shares[0].rank, 1u);
  EXPECT_EQ(shares[1].rank, 2u);
}

TEST(FairTree, ParentSharesOfAnAccountLendItsChildrenUpwards) {
  const auto shares = fair_tree({{kNobody, false, kParentShares, 90},  // A
                                 {0, true, 1, 60},                     // competes at the top
                                 {0, true, 1, 30},
                                 {kNobody, true, 1, 45}});
  EXPECT_EQ(shares[2].rank, 3u);
  EXPECT_EQ(shares[3].rank, 2u);
  EXPECT_EQ(shares[1].rank, 1u);
}

TEST(FairTree, ParentSharesOfAUserStandAsTheAccount) {
  const auto shares = fair_tree({{kNobody, false, 1, 90},       // A: level 0.5 / 0.9
                                 {0, true, kParentShares, 80},  // as A
                                 {0, true, kParentShares, 10},  // as A
                                 {kNobody, true, 1, 10}});      // 0.5 / 0.1
  EXPECT_EQ(shares[3].rank, 3u);
  EXPECT_EQ(shares[1].rank, 2u);
  EXPECT_EQ(shares[2].rank, 2u);
}

TEST(FairShares, OfADirectory) {
  Directory d;
  const auto user = [&](std::uint32_t id, const char* name) {
    User u;
    u.id = UserId(id);
    u.meta.name = name;
    d.users[u.id] = std::make_shared<const User>(u);
  };
  user(1, "ann");
  user(2, "bo");
  user(3, "cy");
  const auto account = [&](const char* name, const char* parent, std::uint32_t shares) {
    Account a;
    a.meta.name = name;
    a.parent = parent;
    a.shares = shares;
    d.accounts[name] = std::make_shared<const Account>(a);
  };
  account("science", "", 1);
  account("physics", "science", 3);
  account("biology", "science", 1);
  const auto association = [&](const char* who, const char* where) {
    Association a;
    a.user = who;
    a.account = where;
    a.meta.name = association_name(where, who, "");
    d.associations[a.meta.name] = std::make_shared<const Association>(a);
  };
  association("ann", "physics");
  association("bo", "biology");
  const auto spent = [&](std::uint32_t id, const char* where, std::int64_t billing) {
    Usage u;
    u.account = where;
    u.user = UserId(id);
    u.spent.billing = billing;
    u.as_of = Instant{1};
    u.meta.name = usage_name(u);
    d.usages[u.meta.name] = std::make_shared<const Usage>(u);
  };
  spent(1, "physics", 600);
  spent(2, "biology", 300);
  spent(3, "biology", 100);
  const FairShares shares(d, Spendings(d, {}, Instant{1}, {}));
  // physics 0.75 / 0.6, biology 0.25 / 0.4; in biology cy (0.5 / 0.25) before bo (0.5 / 0.75).
  EXPECT_DOUBLE_EQ(shares.factor(d, "physics", UserId(1), ""), 1.0);
  EXPECT_DOUBLE_EQ(shares.factor(d, "biology", UserId(3), ""), 2.0 / 3);
  EXPECT_DOUBLE_EQ(shares.factor(d, "biology", UserId(2), ""), 1.0 / 3);
  EXPECT_DOUBLE_EQ(shares.factor(d, "biology", UserId(9), ""), 1.0);
  EXPECT_EQ(shares.use_of_all(), 1000);
  ASSERT_EQ(shares.rows().size(), 7u);
  EXPECT_EQ(shares.rows()[1].account, "science");
  EXPECT_EQ(shares.rows()[1].raw_use, 1000);
  EXPECT_EQ(shares.rows()[2].account, "biology");
  EXPECT_EQ(shares.rows()[3].user, "bo");
}

}  // namespace
}  // namespace lockstep
