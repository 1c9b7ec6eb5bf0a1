#include "services/line_stream.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

constexpr std::string_view kAnswer =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\none\nt\r\n6\r\nwo\nthr\r\n4\r\nee\n\n\r\n0\r\n\r\n";

TEST(LineStream, LinesComeAsTheyAreWholeHoweverBytesCome) {
  for (std::size_t piece = 1; piece < kAnswer.size(); ++piece) {
    std::vector<std::string> lines;
    LineStream stream(100, [&](std::string_view line) { lines.emplace_back(line); });
    bool is_end = false;
    for (std::size_t at = 0; at < kAnswer.size(); at += piece) {
      const auto fed = stream.feed(kAnswer.substr(at, piece));
      ASSERT_TRUE(fed.ok());
      is_end = *fed;
    }
    EXPECT_TRUE(is_end);
    EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "three", ""}));
  }
}

TEST(LineStream, WhatIsNoAnswerOrTooLongIsAnError) {
  const auto feed = [](std::string_view bytes) { return LineStream(4, [](std::string_view) {}).feed(bytes); };
  EXPECT_FALSE(feed("SSH-2.0-OpenSSH\r\n\r\n").ok());
  EXPECT_FALSE(feed("HTTP/1.1 503 Service Unavailable\r\n\r\n").ok());
  EXPECT_FALSE(feed("HTTP/1.1 200 OK\r\n\r\n12345\n").ok());
  EXPECT_TRUE(feed("HTTP/1.1 200 OK\r\n\r\n1234\n").ok());
  EXPECT_FALSE(feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunkedx\r\n\r\n").ok());
  EXPECT_FALSE(feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n").ok());
  EXPECT_FALSE(feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").ok());
  EXPECT_FALSE(feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\n").ok());
}

}  // namespace
}  // namespace lockstep
