#include "io/http2_connection.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

class Posts final : public EventLoop {
 public:
  void post(std::function<void()> task) override { tasks.push_back(std::move(task)); }
  TimerId after(Duration, std::function<void()>) override { return 1; }
  void cancel(TimerId) override {}
  void watch(int, std::function<void()>) override {}
  void unwatch(int) override {}
  void run() override {
    for (std::size_t i = 0; i < tasks.size(); ++i) std::exchange(tasks[i], nullptr)();
    tasks.clear();
  }
  void stop() override {}
  std::vector<std::function<void()>> tasks;
};

constexpr std::string_view kGreeting("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);

// A server that has run for long counts a connection's silence from when it came: one that was new at a sweep was
// closed over the answer that had just been written.
TEST(Http2Connection, IsNotIdleBeforeItsTime) {
  Posts loop;
  HttpLimits limits;
  limits.idle_timeout = seconds(20);
  const HttpHandler handler = [](const std::shared_ptr<HttpExchange>&) {};
  bool closed = false;
  std::int64_t tick = 1'000'000;
  const auto connection = std::make_shared<Http2Connection>(
      Http2Connection::World{.loop = loop,
                             .handler = handler,
                             .limits = limits,
                             .lanes = std::make_shared<HttpLanes>(16, 1 << 20),
                             .caller = HttpCaller{HttpCaller::Lane::kStranger, "10.0.0.1"},
                             .peer = Peer{},
                             .prove = [](const std::string&) { return HttpCaller{}; },
                             .write = [](std::string) {},
                             .unsent = [] { return std::size_t{1}; },  // its answer is on the way
                             .close = [&] { closed = true; },
                             .now_tick = tick});
  connection->feed(kGreeting);
  loop.run();
  for (int i = 0; i < 20; ++i) {
    connection->sweep(++tick, seconds(1));
    EXPECT_FALSE(closed) << i;
  }
  connection->sweep(++tick, seconds(1));
  EXPECT_TRUE(closed);
  connection->gone();
}

}  // namespace
}  // namespace lockstep
