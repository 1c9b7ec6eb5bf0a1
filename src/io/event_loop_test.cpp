#include "io/event_loop.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace lockstep {
namespace {

TEST(EventLoop, RunsPostedTasksInOrderUntilStopped) {
  const auto loop = make_event_loop();
  std::string seen;
  loop->post([&] { seen += 'a'; });
  loop->post([&] { seen += 'b'; });
  loop->post([&] { loop->stop(); });
  loop->run();
  EXPECT_EQ(seen, "ab");
  loop->post([&] { seen += 'c'; });
  loop->post([&] { loop->stop(); });
  loop->run();  // may run again
  EXPECT_EQ(seen, "abc");
}

TEST(EventLoop, AStopBeforeRunCounts) {
  const auto loop = make_event_loop();
  loop->stop();
  loop->run();
}

TEST(EventLoop, TimersFireInOrderAndCancelledOnesNever) {
  const auto loop = make_event_loop();
  std::string seen;
  loop->after(millis(3), [&] { loop->stop(); });
  loop->after(millis(2), [&] { seen += 'b'; });
  const TimerId gone = loop->after(millis(1), [&] { seen += 'x'; });
  loop->after(millis(0), [&] {
    seen += 'a';
    loop->cancel(gone);
  });
  loop->after(kForever, [&] { seen += 'y'; });
  loop->run();
  EXPECT_EQ(seen, "ab");
}

TEST(EventLoop, ATimerWhoseExpiryIsInFlightCanStillBeCancelled) {
  const auto loop = make_event_loop();
  bool fired = false;
  TimerId second = 0;
  loop->after(Duration{0}, [&] { loop->cancel(second); });
  second = loop->after(Duration{0}, [&] { fired = true; });
  loop->after(millis(2), [&] { loop->stop(); });
  loop->run();
  EXPECT_FALSE(fired);
}

TEST(EventLoop, WatchesADescriptorItDoesNotOwn) {
  const auto loop = make_event_loop();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  int calls = 0;
  loop->watch(ends[0], [&] {
    char c;
    ASSERT_EQ(read(ends[0], &c, 1), 1);
    if (++calls < 3) {
      ASSERT_EQ(write(ends[1], "x", 1), 1);
    } else {
      loop->unwatch(ends[0]);
      loop->stop();
    }
  });
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  loop->run();
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(close(ends[0]), 0);  // still ours
  EXPECT_EQ(close(ends[1]), 0);
}

TEST(EventLoop, OtherThreadsMayPost) {
  const auto loop = make_event_loop();
  int count = 0;
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i)
      loop->post([&] {
        if (++count == 1000)
          loop->stop();
      });
  });
  loop->run();
  other.join();
  EXPECT_EQ(count, 1000);
}

}  // namespace
}  // namespace lockstep
