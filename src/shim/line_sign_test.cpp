#include "shim/line_sign.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

int count(LineSign sign, std::string_view text, std::size_t piece) {
  int found = 0;
  for (std::size_t at = 0; at < text.size(); at += piece) found += sign.see(text.substr(at, piece)) ? 1 : 0;
  return found;
}

TEST(LineSign, OnlyABeginningOfALineCounts) {
  constexpr std::string_view kText = "saved 1\nnot saved\n\nsaved\r\n saved\nsave\nsaved 3";
  EXPECT_EQ(count(LineSign("saved"), kText, 1), 3) << "byte by byte each is a piece of its own";
  for (std::size_t piece = 2; piece < kText.size(); ++piece)
    EXPECT_GE(count(LineSign("saved"), kText, piece), 1) << piece;
  EXPECT_EQ(count(LineSign("saved"), kText, kText.size()), 1) << "in one piece it is told once";
}

TEST(LineSign, WithoutATextThereIsNone) { EXPECT_EQ(count(LineSign(), "a\nb\n\n", 1), 0); }

TEST(LineSign, AProgressBarBeginsLinesByCarriageReturns) {
  EXPECT_EQ(count(LineSign("ckpt"), "10%\r20%\rckpt 5\r", 1), 1);
}

TEST(LineSign, ALineThatBeginsNearlySoHidesNone) {
  EXPECT_EQ(count(LineSign("aab"), "aaab\naab\n", 1), 1);
  EXPECT_EQ(count(LineSign("saved"), "sav\nsaved\n", 1), 1) << "the end of a line within the text";
  EXPECT_EQ(count(LineSign("saved"), "sav\nsaved\n", 4), 1);
}

}  // namespace
}  // namespace lockstep
