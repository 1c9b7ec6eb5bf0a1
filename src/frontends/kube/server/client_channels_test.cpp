#include "frontends/kube/server/client_channels.h"

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

// A client that sends and never reads.
struct Deaf : Stream {
  std::function<void(std::string_view)> told;
  std::size_t waiting = 0;

  void on_data(std::function<void(std::string_view)> callback) override { told = std::move(callback); }
  void on_close(std::function<void()>) override {}
  void write(std::string bytes) override { waiting += bytes.size(); }
  std::size_t unsent() const override { return waiting; }
  void on_drained(std::function<void()>) override {}
  void pause(bool) override {}
  void close() override {}
};

HttpRequest asked(std::map<std::string, std::string, std::less<>> headers) {
  HttpRequest request;
  request.headers = std::move(headers);
  return request;
}

// Sends the piece until it is cut off; how many bytes wait for it then, 0 = it is never cut off.
std::size_t waits_when_cut_off(ClientChannels& channels, const std::string& piece) {
  auto owned = std::make_unique<Deaf>();
  Deaf& client = *owned;
  bool gone = false;
  channels.begin(std::move(owned), {.data = [](unsigned, std::string_view) {},
                                    .ended = [](unsigned) {},
                                    .ready = [] {},
                                    .gone = [&] { gone = true; },
                                    .drained = [] {}});
  for (int i = 0; i < 1'000'000 && !gone; ++i) client.told(piece);
  return gone ? client.waiting : 0;
}

// The first of what a client offers that is spoken; who offers nothing speaks in bytes, as clients did before there
// were names.
TEST(ClientChannels, ProtocolsOfWebSockets) {
  const auto chosen = [](const char* offered, const Protocols& spoken = kExecProtocols) {
    const auto out = web_socket_channels(
        asked({{"upgrade", "websocket"}, {"sec-websocket-protocol", offered}}), [](std::string_view) { return ""; },
        spoken);
    if (!out)
      return std::string("none");
    const auto said = out->headers.find("Sec-WebSocket-Protocol");
    return (said == out->headers.end() ? "" : said->second) + (out->told_in_status ? " status" : " words");
  };
  EXPECT_EQ(chosen(""), " words");
  EXPECT_EQ(chosen("channel.k8s.io"), "channel.k8s.io words");
  EXPECT_EQ(chosen("base64.channel.k8s.io"), "base64.channel.k8s.io words");
  EXPECT_EQ(chosen("v4.base64.channel.k8s.io, v4.channel.k8s.io"), "v4.base64.channel.k8s.io status");
  EXPECT_EQ(chosen("v9.channel.k8s.io,v5.channel.k8s.io"), "v5.channel.k8s.io status");
  EXPECT_EQ(chosen("base64url.bearer.authorization.k8s.io.YQ, v5.channel.k8s.io"), "v5.channel.k8s.io status");
  EXPECT_EQ(chosen("v9.channel.k8s.io"), "none");
  EXPECT_EQ(chosen("channel.k8s.io", {"v4.channel.k8s.io"}), "none");
}

TEST(ClientChannels, WhoNeverReadsAnswersToPingsIsCutOff) {
  const std::string ping = "\x89\x85" + std::string(4, '\0') + "hello";  // masked by nothing
  const auto socket = web_socket_channels(asked({{"sec-websocket-protocol", "v5.channel.k8s.io"}}),
                                          [](std::string_view) { return ""; });
  ASSERT_TRUE(socket);
  const std::size_t socket_waits = waits_when_cut_off(*socket, ping);
  EXPECT_GT(socket_waits, kStreamHighWater);
  EXPECT_LT(socket_waits, 8 * kStreamHighWater);
  const std::string spdy_ping("\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x07", 12);
  const auto spdy = spdy_channels(asked({{"x-stream-protocol-version", "v4.channel.k8s.io"}}), 2);
  ASSERT_TRUE(spdy);
  const std::size_t spdy_waits = waits_when_cut_off(*spdy, spdy_ping);
  EXPECT_GT(spdy_waits, kStreamHighWater);
  EXPECT_LT(spdy_waits, 8 * kStreamHighWater);
}

}  // namespace
}  // namespace lockstep::kube
