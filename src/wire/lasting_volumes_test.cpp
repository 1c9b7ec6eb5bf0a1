#include "wire/lasting_volumes.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(LastingVolumes, AWordForEachThatWasAskedFor) {
  using enum LastingFate;
  const auto fates = decode_lasting(R"({"volumes":["kept","passing","coming","gone","eaten",7]})", 6);
  ASSERT_TRUE(fates.ok());
  EXPECT_EQ(*fates, (std::vector<LastingFate>{kKept, kPassing, kComing, kGone, kUnknown, kUnknown}));
  for (const char* bad : {"", "[]", "{}", R"({"volumes":{}})", R"({"volumes":["kept"]})", "nonsense"})
    EXPECT_FALSE(decode_lasting(bad, 2).ok()) << bad;
}

}  // namespace
}  // namespace lockstep
