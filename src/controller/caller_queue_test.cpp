#include "controller/caller_queue.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(CallerQueue, CallersTakeTurns) {
  CallerQueue<int> queue;
  for (int i = 0; i < 4; ++i) queue.push("ann", i);
  queue.push("bob", 10);
  queue.push("bob", 11);
  std::vector<int> order;
  while (!queue.empty()) order.push_back(queue.pop().second);
  EXPECT_EQ(order, (std::vector<int>{0, 10, 1, 11, 2, 3}));
}

TEST(CallerCounts, OneCallerCannotTakeAllPlaces) {
  CallerCounts counts({.each = 2, .all = 3, .reserved = 1});
  EXPECT_TRUE(counts.enter("ann", false, "questions").ok());
  EXPECT_TRUE(counts.enter("ann", false, "questions").ok());
  const auto own = counts.enter("ann", false, "questions");
  ASSERT_FALSE(own.ok());
  EXPECT_NE(own.error().message.find("ann has 2 questions"), std::string::npos);
  EXPECT_TRUE(counts.enter("bob", false, "questions").ok());
  EXPECT_FALSE(counts.enter("cid", false, "questions").ok());  // all places are taken
  EXPECT_TRUE(counts.enter("root", true, "questions").ok());   // but for the administrators'
  EXPECT_FALSE(counts.enter("root", true, "questions").ok());
  counts.leave("ann");
  counts.leave("root");
  EXPECT_TRUE(counts.enter("cid", false, "questions").ok());
}

}  // namespace
}  // namespace lockstep
