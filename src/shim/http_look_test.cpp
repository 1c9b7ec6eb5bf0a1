#include "shim/http_look.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "base/text.h"

namespace lockstep {
namespace {

const HttpAsk kAsked{"10.0.0.1", "/a/redirect?loc=x", "", 8080, nullptr};

std::string next_of(const std::string& location) {
  const auto next = led_on(kAsked, {302, location});
  return next ? format("{}{}:{}{}", next->tls ? "s " : "", next->ask.host, next->ask.port, next->ask.path) : "";
}

TEST(HttpLook, it_goes_on_where_the_same_host_leads) {
  EXPECT_EQ(next_of("/healthz"), "10.0.0.1:8080/healthz");
  EXPECT_EQ(next_of("healthz"), "10.0.0.1:8080/a/healthz");
  EXPECT_EQ(next_of("?b=1"), "10.0.0.1:8080/a/redirect?b=1");
  EXPECT_EQ(next_of("http://10.0.0.1:81/x#y"), "10.0.0.1:81/x");
  EXPECT_EQ(next_of("http://10.0.0.1?q"), "10.0.0.1:80/?q");
  EXPECT_EQ(next_of("https://10.0.0.1/x"), "s 10.0.0.1:443/x");
  for (const char* elsewhere : {"", "http://0.0.0.0/x", "//10.0.0.1/x", "ftp://10.0.0.1/x", "http://10.0.0.1:0/",
                                "http://10.0.0.1:99999/", "/a b", "/a\r\nHost: x", "http://", "#x"})
    EXPECT_EQ(next_of(elsewhere), "") << elsewhere;
}

TEST(HttpLook, answers_are_read) {
  const auto read = [](const std::string& head) {
    const auto answer = read_http_answer(head);
    return answer ? format("{} {}", answer->code, answer->location) : "none";
  };
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nLocation: /x\r\n\r\n"), "200 ");
  EXPECT_EQ(read("HTTP/1.1 302 Found\r\nA: b\r\nlocation:  /x \r\n\r\nLocation: /body"), "302 /x");
  EXPECT_EQ(read("HTTP/1.1 302 Found\r\n\r\nLocation: /body\r\n"), "302 ");
  EXPECT_EQ(read("HTTP/1.0 304"), "304 ");
  for (const char* none : {"", "\n", "HTTP/1.1", "HTTP/1.1 x", "SSH-2.0 200 x"}) EXPECT_EQ(read(none), "none") << none;
}

TEST(HttpLook, it_waits_for_no_more_than_it_needs) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  std::thread server([&] {  // says where it leads in pieces, and closes nothing
    char ask[4096];
    (void)!::read(ends[1], ask, sizeof ask);
    for (const char* piece : {"HTTP/1.1 30", "2 Found\r\nLoca", "tion: /healthz\r\n\r\n"}) {
      ::usleep(2'000);
      (void)!::write(ends[1], piece, strlen(piece));
    }
  });
  const auto answer = http_answer(ends[0], kAsked);
  server.join();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->location, "/healthz");
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace lockstep
