#include "frontends/kube/server/web_socket.h"

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

using Kind = WebSocketMessage::Kind;

// As a client sends it.
std::string masked(unsigned first, const std::string& data) {
  std::string out;
  out += static_cast<char>(first);
  if (data.size() < 126) {
    out += static_cast<char>(0x80 | data.size());
  } else {
    out += static_cast<char>(0x80 | 126);
    out += static_cast<char>(data.size() >> 8);
    out += static_cast<char>(data.size());
  }
  const std::string mask = "\x01\x02\x03\x04";
  out += mask;
  for (std::size_t i = 0; i < data.size(); ++i) out += static_cast<char>(data[i] ^ mask[i % 4]);
  return out;
}

struct Reading {
  WebSocketReader reader;
  std::vector<WebSocketMessage> messages;
  Result<void> feed(std::string_view bytes) {
    return reader.feed(bytes, [&](WebSocketMessage one) { messages.push_back(std::move(one)); });
  }
};

TEST(WebSocket, MessagesComeWholeHoweverTheyAreCut) {
  const std::string long_one(300, 'x');
  const std::string all =
      masked(0x82, "hello") + masked(0x01, "a") + masked(0x89, "ping") + masked(0x80, "b") + masked(0x82, long_one);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, all.size()}) {
    Reading in;
    for (std::size_t at = 0; at < all.size(); at += piece) ASSERT_TRUE(in.feed(all.substr(at, piece)).ok());
    ASSERT_EQ(in.messages.size(), 4u);
    EXPECT_EQ(in.messages[0].data, "hello");
    EXPECT_EQ(in.messages[1].kind, Kind::kPing);
    EXPECT_EQ(in.messages[2].kind, Kind::kText);
    EXPECT_EQ(in.messages[2].data, "ab");
    EXPECT_EQ(in.messages[3].data, long_one);
  }
}

TEST(WebSocket, WhatIsNoFrameIsRefused) {
  for (const std::string& bad : {std::string("\x82\x01x", 3) + "1234", masked(0xC2, "x"), masked(0x80, "x"),
                                 masked(0x09, "x"), masked(0x8B, "x"), masked(0x83, "x")}) {
    Reading in;
    EXPECT_FALSE(in.feed(bad).ok());
  }
  Reading huge;
  EXPECT_FALSE(huge.feed(std::string("\x82\xFF\x00\x00\x00\x00\x40\x00\x00\x00", 10) + "mask").ok());
}

TEST(WebSocket, AServersFrames) {
  EXPECT_EQ(web_socket_frame(Kind::kBinary, "ab"),
            "\x82\x02"
            "ab");
  EXPECT_EQ(web_socket_frame(Kind::kText, std::string(126, 'x')).substr(0, 4), std::string("\x81\x7e\x00\x7e", 4));
  EXPECT_EQ(web_socket_frame(Kind::kBinary, std::string(70'000, 'x')).size(), 70'010u);
}

TEST(WebSocket, TheHandshakeOfTheStandard) {
  const auto sha1 = [](std::string_view text) {
    EXPECT_EQ(text, "dGhlIHNhbXBsZSBub25jZQ==258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    return std::string("\xb3\x7a\x4f\x2c\xc0\x62\x4f\x16\x90\xf6\x46\x06\xcf\x38\x59\x45\xb2\xbe\xc4\xea", 20);
  };
  EXPECT_EQ(web_socket_accept("dGhlIHNhbXBsZSBub25jZQ==", sha1), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

}  // namespace
}  // namespace lockstep::kube
