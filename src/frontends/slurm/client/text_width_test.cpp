#include "frontends/slurm/client/text_width.h"

#include <gtest/gtest.h>

namespace lockstep::slurm {
namespace {

TEST(TextWidth, CountsColumnsOfATerminal) {
  EXPECT_EQ(width_of(""), 0u);
  EXPECT_EQ(width_of("train"), 5u);
  EXPECT_EQ(width_of("größe"), 5u);
  EXPECT_EQ(width_of("e\u0301t"), 2u) << "a mark that combines";
  EXPECT_EQ(width_of("訓練"), 4u);
  EXPECT_EQ(width_of("\U0001f680x"), 3u);
  EXPECT_EQ(width_of("\xff\xfe"), 2u) << "no UTF-8";
}

TEST(TextWidth, CutsNoCharacterInTwo) {
  EXPECT_EQ(cut_to_width("train", 9), "train");
  EXPECT_EQ(cut_to_width("train", 3), "tra");
  EXPECT_EQ(cut_to_width("größe", 3), "grö");
  EXPECT_EQ(cut_to_width("größe", 5), "größe");
  EXPECT_EQ(cut_to_width("訓練", 3), "訓");
  EXPECT_EQ(cut_to_width("訓練", 0), "");
  EXPECT_EQ(cut_to_width("e\u0301t", 1), "e\u0301") << "a mark stays with its letter";
  EXPECT_EQ(cut_to_width("gr\xc3", 9), "gr\xc3");
  for (std::size_t width = 0; width < 12; ++width) EXPECT_LE(width_of(cut_to_width("aß訓\U0001f680z", width)), width);
}

}  // namespace
}  // namespace lockstep::slurm
