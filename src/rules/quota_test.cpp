#include "rules/quota.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

class QuotaTest : public ::testing::Test {
 protected:
  void account(const char* name, const char* parent, std::int64_t nominal, std::int64_t borrow = kNoLimit,
               std::int64_t lend = kNoLimit) {
    Account a;
    a.meta.name = name;
    a.parent = parent;
    a.quota.nominal.gpus = nominal;
    a.quota.borrow.gpus = borrow;
    a.quota.lend.gpus = lend;
    accounts[name] = std::make_shared<const Account>(a);
  }
  static Tres gpus(std::int64_t count) {
    Tres tres;
    tres.gpus = count;
    return tres;
  }
  QuotaTree tree() const { return QuotaTree(accounts, {}); }
  std::map<std::string, Ref<Account>, std::less<>> accounts;
};

TEST_F(QuotaTest, NothingIsGovernedWithoutAGuarantee) {
  account("a", "", kNoLimit);
  EXPECT_TRUE(tree().empty());
  EXPECT_FALSE(tree().first_excess("a", gpus(1000)));
  EXPECT_FALSE(tree().governs("a", "gres/gpu"));
}

TEST_F(QuotaTest, SiblingsLendWhatTheyDoNotUse) {
  account("a", "", 40);
  account("b", "", 60);
  auto t = tree();
  EXPECT_EQ(t.available("a", "gres/gpu"), 100);
  t.add("a", gpus(90), 1);
  EXPECT_EQ(t.borrowed("a", "gres/gpu"), 50);
  EXPECT_EQ(t.available("b", "gres/gpu"), 10);  // its own guarantee is lent: to be claimed back
  EXPECT_TRUE(t.first_excess("b", gpus(11)));
  EXPECT_FALSE(t.first_excess("b", gpus(10)));
  t.add("a", gpus(90), -1);
  EXPECT_EQ(t.available("b", "gres/gpu"), 100);
  EXPECT_EQ(t.borrowed("a", "gres/gpu"), 0);
  EXPECT_FALSE(t.first_excess("elsewhere", gpus(5000)));  // not in the tree
}

TEST_F(QuotaTest, BorrowingLimit) {
  account("a", "", 40, 10);
  account("b", "", 60);
  auto t = tree();
  EXPECT_EQ(t.available("a", "gres/gpu"), 50);
  t.add("a", gpus(50), 1);
  const auto no = t.first_excess("a", gpus(1));
  ASSERT_TRUE(no);
  EXPECT_EQ(no->bound, 50);
  EXPECT_EQ(no->in_use, 50);
  EXPECT_EQ(t.available("b", "gres/gpu"), 50);
}

TEST_F(QuotaTest, LendingLimitKeepsSomeBack) {
  account("a", "", 40);
  account("b", "", 60, kNoLimit, 20);
  auto t = tree();
  EXPECT_EQ(t.available("a", "gres/gpu"), 60);  // 40 and the 20 that b lends
  t.add("a", gpus(60), 1);
  EXPECT_EQ(t.available("b", "gres/gpu"), 40);  // what it keeps
  t.add("b", gpus(40), 1);
  EXPECT_EQ(t.available("b", "gres/gpu"), 0);
  t.add("a", gpus(60), -1);
  EXPECT_EQ(t.available("b", "gres/gpu"), 60);
  EXPECT_EQ(t.available("a", "gres/gpu"), 60);
}

TEST_F(QuotaTest, NothingIsLentWithALimitOfZero) {
  account("a", "", 40);
  account("b", "", 60, 0, 0);
  auto t = tree();
  EXPECT_EQ(t.available("a", "gres/gpu"), 40);
  EXPECT_EQ(t.available("b", "gres/gpu"), 60);
}

TEST_F(QuotaTest, TreesOfSeveralLevels) {
  account("science", "", kNoLimit, 0);  // borrows nothing from outside
  account("physics", "science", 30);
  account("biology", "science", 20, kNoLimit, 5);
  account("industry", "", 50);
  auto t = tree();
  EXPECT_EQ(t.available("physics", "gres/gpu"), 35);
  EXPECT_EQ(t.available("biology", "gres/gpu"), 50);
  EXPECT_EQ(t.available("industry", "gres/gpu"), 85);  // 50 + 30 + 5
  t.add("industry", gpus(85), 1);
  EXPECT_EQ(t.available("physics", "gres/gpu"), 0);
  EXPECT_EQ(t.available("biology", "gres/gpu"), 15);
  EXPECT_TRUE(t.first_excess("physics", gpus(36), true));   // it could never have them
  EXPECT_FALSE(t.first_excess("physics", gpus(35), true));  // only now it cannot
  t.add("industry", gpus(40), -1);
  EXPECT_EQ(t.available("physics", "gres/gpu"), 35);
}

TEST_F(QuotaTest, TakingAndReturningInAnyOrderLeavesNothing) {
  account("a", "", 8, 4, 3);
  account("a1", "a", 5, 2, 1);
  account("a2", "a", kNoLimit);
  account("b", "", 10, kNoLimit, 4);
  const auto fresh = tree();
  auto t = tree();
  const std::pair<const char*, std::int64_t> steps[] = {{"a1", 7}, {"b", 3}, {"a2", 4}, {"a", 2}, {"a1", 1}, {"b", 9}};
  for (const auto& [name, count] : steps) t.add(name, gpus(count), 1);
  // The same as summed up from nothing.
  std::map<std::string, Tres, std::less<>> use{{"a1", gpus(8)}, {"b", gpus(12)}, {"a2", gpus(4)}, {"a", gpus(2)}};
  const QuotaTree summed(accounts, use);
  for (const char* name : {"a", "a1", "a2", "b"})
    EXPECT_EQ(t.available(name, "gres/gpu"), summed.available(name, "gres/gpu")) << name;
  for (const auto& [name, count] : steps) t.add(name, gpus(count), -1);
  for (const char* name : {"a", "a1", "a2", "b"})
    EXPECT_EQ(t.available(name, "gres/gpu"), fresh.available(name, "gres/gpu")) << name;
}

TEST_F(QuotaTest, AnAccountWithoutAGuaranteeLivesOnWhatOthersLend) {
  account("a", "", 8);
  account("guest", "", kNoLimit);
  auto t = tree();
  EXPECT_EQ(t.available("guest", "gres/gpu"), 8);
  t.add("a", gpus(6), 1);
  EXPECT_EQ(t.available("guest", "gres/gpu"), 2);
}

}  // namespace
}  // namespace lockstep
