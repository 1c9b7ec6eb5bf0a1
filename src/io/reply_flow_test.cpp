#include "io/reply_flow.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

struct Seen {
  std::string all;
  ReplyFlow flow;
  explicit Seen(bool has_body = true)
      : flow(
            has_body,
            [this](ReplyHead head) {
              all += std::to_string(head.status);
              for (const auto& [name, value] : head.headers) all += " " + name + "=" + value;
              all += "|";
            },
            [this](std::string_view bytes) { all += bytes; }) {}
};

// However it is cut into pieces it says the same.
void expect_seen(const std::string& text, const std::string& wanted, bool complete, bool has_body = true) {
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    Seen seen(has_body);
    bool done = false;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      const auto fed = seen.flow.feed(std::string_view(text).substr(at, piece));
      ASSERT_TRUE(fed.ok()) << fed.error().message;
      done = *fed;
    }
    EXPECT_EQ(seen.all, wanted) << piece;
    EXPECT_EQ(done, complete) << piece;
  }
}

TEST(ReplyFlow, BodiesOfEveryKindComePieceByPiece) {
  expect_seen("HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello",
              "200 content-type=a/b content-length=5|hello", true);
  expect_seen(
      "HTTP/1.1 201 Made\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0a\r\n0123456789\r\n0\r\nT: 1\r\n\r\n",
      "201 transfer-encoding=chunked|abc0123456789", true);
  expect_seen("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404 No\r\n\r\nuntil the end", "404|until the end", false);
  expect_seen("HTTP/1.1 204 None\r\nContent-Length: 5\r\n\r\n", "204 content-length=5|", true);
  expect_seen("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "200 content-length=5|", true, false);
}

TEST(ReplyFlow, WhatIsNoAnswerIsRefused) {
  for (const char* text :
       {"hello, who is there?\r\n\r\n", "HTTP/1.1 999 Odd\r\n\r\n", "HTTP/1.1 200 OK\r\nno name\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n"}) {
    Seen seen;
    EXPECT_FALSE(seen.flow.feed(text).ok()) << text;
  }
  Seen endless;
  EXPECT_FALSE(endless.flow.feed("HTTP/1.1 200 OK\r\nX: " + std::string(ReplyFlow::kHeadMax, 'x')).ok());
  Seen cut;
  EXPECT_TRUE(cut.flow.feed("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel").ok());
  EXPECT_EQ(cut.flow.end().error().message, "unexpected EOF");
}

}  // namespace
}  // namespace lockstep
