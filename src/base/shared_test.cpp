// Shared values: equal to plain ones, shared by copies, apart after a change.
#include "base/shared.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/text.h"

namespace lockstep {
namespace {

TEST(SharedText, BehavesLikeText) {
  SharedText text = "abc", empty;
  EXPECT_EQ(text, "abc");
  EXPECT_EQ(text, std::string("abc"));
  EXPECT_EQ(text, std::string_view("abc"));
  EXPECT_NE(text, empty);
  EXPECT_TRUE(empty.empty());
  EXPECT_EQ(empty, "");
  EXPECT_EQ(SharedText(""), empty);
  EXPECT_EQ(text + "d", "abcd");
  EXPECT_EQ("x" + text, "xabc");
  EXPECT_EQ(format("<{:>5}>", text), "<  abc>");
  EXPECT_EQ(text.find('c'), 2u);
  EXPECT_EQ(text.substr(1), "bc");
  text += "d";
  EXPECT_EQ(text, "abcd");
  empty += "e";
  EXPECT_EQ(empty, "e");
  text.clear();
  EXPECT_TRUE(text.empty());
  const std::string plain = empty;
  const std::string_view view = empty;
  EXPECT_EQ(plain, view);
}

TEST(SharedText, CopiesShareUntilOneIsChanged) {
  SharedText a = "long enough to live on the heap";
  SharedText b = a;
  EXPECT_TRUE(a.shares_with(b));
  b += "!";
  EXPECT_FALSE(a.shares_with(b));
  EXPECT_EQ(a, "long enough to live on the heap");
  EXPECT_EQ(b, "long enough to live on the heap!");
  SharedText c = "long enough to live on the heap";
  EXPECT_EQ(a, c);
  EXPECT_FALSE(a.shares_with(c));
  c.share_with(a);
  EXPECT_TRUE(a.shares_with(c));
  b.share_with(a);  // not equal: left alone
  EXPECT_EQ(b.back(), '!');
  const SharedText moved = std::move(c);
  EXPECT_TRUE(moved.shares_with(a));
}

TEST(SharedList, ReadingSharesAndChangingCopies) {
  SharedList<int> a = {1, 2, 3};
  const SharedList<int> b = a;
  EXPECT_EQ(b[1], 2);
  EXPECT_EQ(b.back(), 3);
  EXPECT_TRUE(b.shares_with(a));
  a[1] = 7;
  EXPECT_EQ(b[1], 2);
  EXPECT_EQ(a, (std::vector<int>{1, 7, 3}));
  for (int& value : a) ++value;
  a.push_back(9);
  EXPECT_EQ(a, (std::vector<int>{2, 8, 4, 9}));
  EXPECT_EQ(b, (std::vector<int>{1, 2, 3}));
  SharedList<int> none;
  EXPECT_TRUE(none.empty());
  none.resize(2);
  EXPECT_EQ(none, (std::vector<int>{0, 0}));
  none.clear();
  EXPECT_EQ(none, SharedList<int>());
}

TEST(SharedText, ThreadsMayHoldTheSame) {
  const SharedText text = "shared by everybody who looks at it";
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&text] {
      for (int i = 0; i < 1000; ++i) {
        SharedText mine = text;
        mine += "x";
        ASSERT_EQ(mine.size(), text.size() + 1);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(text, "shared by everybody who looks at it");
}

}  // namespace
}  // namespace lockstep
