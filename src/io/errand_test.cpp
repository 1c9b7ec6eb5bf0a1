#include "io/errand.h"

#include <gtest/gtest.h>

#include <thread>

#include "io/event_loop.h"

namespace lockstep {
namespace {

TEST(Errand, IsDoneBesideTheLoopAndToldOnIt) {
  const auto loop = make_event_loop();
  Errand errand(*loop);
  const auto own = std::this_thread::get_id();
  std::thread::id worked, told;
  std::vector<std::string> said;
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(errand
                    .start(
                        [&]() -> Result<void> {
                          worked = std::this_thread::get_id();
                          return invalid("no");
                        },
                        [&](const Result<void>& result) {
                          told = std::this_thread::get_id();
                          said.push_back(result.error().message);
                          loop->stop();
                        })
                    .ok());
    EXPECT_TRUE(errand.is_out());
    loop->run();
    EXPECT_FALSE(errand.is_out());
  }
  EXPECT_EQ(said, (std::vector<std::string>{"no", "no"}));
  EXPECT_EQ(told, own);
  EXPECT_NE(worked, own);
}

TEST(Errand, NobodyIsToldWhenItsOwnerIsGone) {
  const auto loop = make_event_loop();
  bool told = false;
  {
    Errand errand(*loop);
    ASSERT_TRUE(errand.start([] { return Result<void>(); }, [&](const Result<void>&) { told = true; }).ok());
  }
  loop->after(Duration{}, [&] { loop->stop(); });
  loop->run();
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace lockstep
