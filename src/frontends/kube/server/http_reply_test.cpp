#include "frontends/kube/server/http_reply.h"

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

struct Reply {
  HttpReplyReader::Head head;
  std::string body;
  bool ended = false, good = true;
};

// A byte at a time, so that every border between pieces is met.
Reply read(std::string_view text, bool without_body = false) {
  Reply out;
  HttpReplyReader reader({.head = [&](const HttpReplyReader::Head& head) { out.head = head; },
                          .body = [&](std::string_view bytes) { out.body += bytes; },
                          .end = [&] { out.ended = true; }},
                         without_body);
  for (const char c : text) out.good = out.good && reader.feed({&c, 1}).ok();
  out.good = out.good && reader.closed().ok();
  return out;
}

TEST(HttpReplies, have_bodies_of_a_length_in_chunks_or_until_the_end) {
  const Reply sized = read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A:  b \r\n\r\nhello");
  EXPECT_TRUE(sized.good && sized.ended);
  EXPECT_EQ(sized.head.status, 200);
  EXPECT_EQ(sized.head.value("x-a"), "b");
  EXPECT_EQ(sized.body, "hello");
  const Reply chunked = read(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nwiki\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n");
  EXPECT_TRUE(chunked.good && chunked.ended);
  EXPECT_EQ(chunked.body, "wiki0123456789");
  const Reply open = read("HTTP/1.0 404 Not Found\n\nuntil the end");
  EXPECT_TRUE(open.good && open.ended);
  EXPECT_EQ(open.body, "until the end");
}

TEST(HttpReplies, may_have_none) {
  EXPECT_TRUE(read("HTTP/1.1 204 No Content\r\n\r\n").ended);
  EXPECT_TRUE(read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true).ended);
  EXPECT_TRUE(read("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n").ended);
}

TEST(HttpReplies, of_an_interim_kind_are_left_out_but_for_a_switch) {
  const Reply reply = read("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_EQ(reply.head.status, 200);
  EXPECT_EQ(reply.body, "ok");
  const Reply switched = read("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nraw");
  EXPECT_EQ(switched.head.status, 101);
  EXPECT_EQ(switched.body, "raw");
}

TEST(HttpReplies, that_are_none_are_refused) {
  for (const char* text :
       {"SSH-2.0-x\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n"})
    EXPECT_FALSE(read(text).good) << text;
  EXPECT_FALSE(read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel").good) << "it ended too soon";
  EXPECT_FALSE(read("HTTP/1.1 200 OK\r\n" + std::string(70 << 10, 'a')).good) << "a head without end";
}

}  // namespace
}  // namespace lockstep::kube
