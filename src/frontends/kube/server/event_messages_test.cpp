#include "frontends/kube/server/event_messages.h"

#include <gtest/gtest.h>

#include "frontends/kube/server/web_socket.h"

namespace lockstep::kube {
namespace {

// The client's end, as the test sees it.
struct ClientEnd {
  std::string said;
  bool closed = false;
  std::function<void(std::string_view)> told;
  std::function<void()> gone;
};

class ClientStream final : public Stream {
 public:
  explicit ClientStream(ClientEnd& end) : end_(end) {}
  void on_data(std::function<void(std::string_view)> callback) override { end_.told = std::move(callback); }
  void on_close(std::function<void()> callback) override { end_.gone = std::move(callback); }
  void write(std::string bytes) override { end_.said += bytes; }
  std::size_t unsent() const override { return end_.said.size(); }
  void on_drained(std::function<void()>) override {}
  void pause(bool) override {}
  void close() override { end_.closed = true; }

 private:
  ClientEnd& end_;
};

// As a client sends it: masked by nothing.
std::string from_client(char code, const std::string& data) {
  return std::string{code, static_cast<char>(0x80 | data.size())} + std::string(4, '\0') + data;
}

struct Events : testing::Test {
  ClientEnd client;
  int closed = 0;
  std::unique_ptr<Stream> begin(EventForm form) {
    auto out = event_messages(std::make_unique<ClientStream>(client), form);
    out->on_close([this] { ++closed; });
    return out;
  }
};

TEST_F(Events, OneIsOneMessage) {
  const auto lines = begin(EventForm::kLines);
  lines->write("{\"a\":1}\n{\"b\":2}\n");
  EXPECT_EQ(client.said, web_socket_frame(WebSocketMessage::Kind::kText, "{\"a\":1}\n") +
                             web_socket_frame(WebSocketMessage::Kind::kText, "{\"b\":2}\n"));
  client.said.clear();
  const auto frames = begin(EventForm::kFrames);
  frames->write(std::string("\0\0\0\3abc\0\0\0\1x", 12));
  EXPECT_EQ(client.said, web_socket_frame(WebSocketMessage::Kind::kBinary, "abc") +
                             web_socket_frame(WebSocketMessage::Kind::kBinary, "x"));
  client.said.clear();
  frames->close();
  EXPECT_EQ(client.said, std::string("\x88\x02\x03\xe8", 4));
  EXPECT_TRUE(client.closed);
}

TEST_F(Events, PingsAreAnsweredAndAFarewellIsHeard) {
  const auto stream = begin(EventForm::kLines);
  client.told(from_client('\x89', "hi"));
  EXPECT_EQ(client.said, web_socket_frame(WebSocketMessage::Kind::kPong, "hi"));
  client.told(from_client('\x81', "what is no event for us"));
  EXPECT_EQ(closed, 0);
  client.told(from_client('\x88', ""));
  client.told(from_client('\x88', ""));
  EXPECT_EQ(closed, 1);
  client.said.clear();
  stream->write("{}\n");
  EXPECT_EQ(client.said, "") << "nobody is there";
}

TEST_F(Events, WhoBreaksTheProtocolOrNeverReadsIsCutOff) {
  const auto stream = begin(EventForm::kLines);
  client.told("\xff\xff\xff");
  EXPECT_EQ(closed, 1);
  const auto other = begin(EventForm::kLines);
  for (int i = 0; i < 10'000'000 && closed == 1; ++i) client.told(from_client('\x89', std::string(100, 'x')));
  EXPECT_EQ(closed, 2);
  EXPECT_LT(client.said.size(), 8 * kStreamHighWater);
}

}  // namespace
}  // namespace lockstep::kube
