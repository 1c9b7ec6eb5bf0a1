#include "shim/told_lines.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace lockstep {
namespace {

void say(ToldLines& lines, std::string_view text) {
  ASSERT_EQ(::write(lines.their_end(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

TEST(ToldLines, TheLatestWholeLineCounts) {
  auto lines = ToldLines::make();
  ASSERT_TRUE(lines.ok());
  EXPECT_FALSE(lines->read());
  say(*lines, "one\ntwo\nthr");
  EXPECT_TRUE(lines->read());
  EXPECT_EQ(lines->line(), "two");
  EXPECT_FALSE(lines->read());
  say(*lines, "ee\n");
  EXPECT_TRUE(lines->read());
  EXPECT_EQ(lines->line(), "three");
}

TEST(ToldLines, ALineWithoutEndIsNotKept) {
  auto lines = ToldLines::make();
  ASSERT_TRUE(lines.ok());
  say(*lines, std::string(ToldLines::kLineMost + 1, 'x'));
  EXPECT_FALSE(lines->read());
  say(*lines, std::string(50'000, 'x') + "\nshort\n");
  EXPECT_TRUE(lines->read());
  EXPECT_EQ(lines->line(), "short");
}

TEST(ToldLines, TheEndOfTheOtherSideIsSeen) {
  auto lines = ToldLines::make();
  ASSERT_TRUE(lines.ok());
  say(*lines, "last\n");
  lines->handed_on();
  EXPECT_TRUE(lines->read());
  EXPECT_EQ(lines->fd(), -1);
}

}  // namespace
}  // namespace lockstep
