#include "join.h"

#include <gtest/gtest.h>

#include "model/agent_messages.h"

namespace lockstep {
namespace {

constexpr std::int64_t kNow = 1'800'000'000'000'000;

Ping good() {
  Ping ping;
  ping.version = "9.9";
  ping.wall_us = kNow;
  ping.protocol_min = kProtocolMin;
  ping.protocol_max = kProtocolMax;
  return ping;
}

TEST(Join, AControllerThatFitsAndAnOlderOneThatSaysLess) {
  EXPECT_TRUE(check_fits(good(), kNow, "c port 1").ok());
  EXPECT_TRUE(check_fits(good(), kNow + minutes(4).us, "c port 1").ok());
  EXPECT_TRUE(check_fits({}, kNow, "c port 1").ok());
}

TEST(Join, ClocksThatDisagreeAreNamedWithBothTimes) {
  for (const Duration off : {minutes(6), Duration{} - hours(30)}) {
    const auto fits = check_fits(good(), kNow + off.us, "c port 1");
    ASSERT_FALSE(fits.ok());
    const std::string& why = fits.error().message;
    EXPECT_NE(why.find("the clock of this machine says 2027-"), std::string::npos) << why;
    EXPECT_NE(why.find(std::to_string(std::abs(off.seconds())) + " s apart"), std::string::npos) << why;
    EXPECT_NE(why.find("timedatectl"), std::string::npos) << why;
  }
}

TEST(Join, AControllerOfAnotherProtocolIsNamedWithItsVersion) {
  Ping later = good();
  later.protocol_min = kProtocolMax + 1;
  later.protocol_max = kProtocolMax + 2;
  const auto fits = check_fits(later, kNow, "c port 1");
  ASSERT_FALSE(fits.ok());
  EXPECT_NE(fits.error().message.find("is Lockstep 9.9 and speaks protocols 2 to 3"), std::string::npos)
      << fits.error().message;
}

}  // namespace
}  // namespace lockstep
