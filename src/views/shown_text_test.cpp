#include "views/shown_text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(ShownText, PlainTextIsNotTouched) {
  std::string buffer;
  const std::string_view name = "train v2 (éclair, 訓練)";
  EXPECT_EQ(shown(name), name);
  const std::string_view ascii = "a=b\\c 'd' \"e\"";
  EXPECT_EQ(shown(ascii, buffer).data(), ascii.data());  // not even copied
}

TEST(ShownText, NothingMovesTheCursorOrForgesALine) {
  EXPECT_EQ(shown("a\nb\tc\rd"), "a\\nb\\tc\\x0dd");
  EXPECT_EQ(shown("\x1b[2J\x07\x7f"), "\\x1b[2J\\x07\\x7f");
  EXPECT_EQ(shown(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(shown("\xc2\x9b"
                  "31m"),
            "\\u009b31m");  // the one-byte CSI, as UTF-8
  EXPECT_EQ(shown("a\xe2\x80\xae"
                  "b"),
            "a\\u202eb");
  EXPECT_EQ(shown("\xe2\x80\xa8"), "\\u2028");
}

TEST(ShownText, BytesThatAreNoTextAreShownAsBytes) {
  EXPECT_EQ(shown("\x9b"
                  "31m"),
            "\\x9b31m");
  EXPECT_EQ(shown("\xc3"), "\\xc3");
  EXPECT_EQ(shown("\xc0\x8a"), "\\xc0\\x8a");           // an overlong line feed
  EXPECT_EQ(shown("\xe0\x82\x9b"), "\\xe0\\x82\\x9b");  // an overlong CSI
  EXPECT_EQ(shown("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80");
}

TEST(ShownText, OurOwnLinesStay) { EXPECT_EQ(shown_lines("one\ntwo\x1b[m\n"), "one\ntwo\\x1b[m\n"); }

}  // namespace
}  // namespace lockstep
