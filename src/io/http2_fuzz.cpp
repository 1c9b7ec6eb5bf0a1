// What a client says on a connection of HTTP/2, in pieces: whatever it is, the connection bounds what it holds, every
// request that reaches a handler is whole, and each is answered once.
#include <deque>

#include "base/check.h"
#include "io/http2_connection.h"

namespace {

using namespace lockstep;

// Does what is posted when the piece has been taken.
class Posts final : public EventLoop {
 public:
  void post(std::function<void()> task) override { tasks_.push_back(std::move(task)); }
  TimerId after(Duration, std::function<void()>) override { return 1; }
  void cancel(TimerId) override {}
  void watch(int, std::function<void()>) override {}
  void unwatch(int) override {}
  void run() override {
    for (int i = 0; i < 10'000 && !tasks_.empty(); ++i) {
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
  }
  void stop() override {}

 private:
  std::deque<std::function<void()>> tasks_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size < 2)
    return 0;
  constexpr std::size_t kBody = 4096;
  Posts loop;
  std::vector<std::unique_ptr<Stream>> streams;
  HttpLimits limits;
  limits.header_bytes = 4096;
  limits.body_bytes = kBody;
  limits.stranger_body_bytes = kBody;
  const HttpHandler handler = [&](const std::shared_ptr<HttpExchange>& exchange) {
    CHECK(exchange->request().body.size() <= kBody && !exchange->request().path.empty());
    if (exchange->request().path == "/s") {
      if (auto stream = exchange->stream({200, "a/b", {}, {}})) {
        stream->write("some");
        streams.push_back(std::move(stream));
      }
    } else if (exchange->request().path != "/d") {
      exchange->respond({200, "a/b", "hello", {{"X-A", "b"}}});
    }
  };
  std::size_t out = 0;
  bool closed = false;
  const auto connection = std::make_shared<Http2Connection>(
      Http2Connection::World{loop, handler, limits, std::make_shared<HttpLanes>(16, 1 << 20),
                             HttpCaller{HttpCaller::Lane::kStranger, "10.0.0.1"}, Peer{},
                             [](const std::string&) {
                               return HttpCaller{HttpCaller::Lane::kUser, "ann"};
                             },
                             [&](std::string bytes) { out += bytes.size(); }, [] { return std::size_t{0}; },
                             [&] {
                               CHECK(!closed);
                               closed = true;
                             }});
  const bool greets = (data[0] & 1) != 0;
  const std::size_t piece = 1 + data[1] % 128;
  if (greets)  // most inputs would end at the greeting
    connection->feed({"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33});
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  std::int64_t tick = 0;
  for (std::size_t at = 0; at < text.size() && !closed; at += piece) {
    connection->feed(text.substr(at, piece));
    loop.run();
    connection->sweep(++tick, seconds(1));
  }
  streams.clear();
  connection->gone();
  loop.run();
  return 0;
}
