#include "io/fd_stream.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "io/event_loop.h"

namespace lockstep {
namespace {

// A peer that has said its last word and gone, with a stream that still has much to send to it, and reads on when it
// has sent that.
std::string heard_of_a_peer_that_reads_nothing(bool hear_out) {
  const auto loop = make_event_loop();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 || ::write(ends[1], "out", 3) != 3)
    return "no socket";
  ::close(ends[1]);
  FdStream stream(*loop, ends[0], nullptr);
  if (hear_out)
    stream.hear_out();
  std::string heard;
  stream.on_data([&](std::string_view bytes) { heard.append(bytes); });
  stream.on_drained([&] { stream.pause(false); });
  stream.on_close([&] {
    heard += ", end";
    loop->stop();
  });
  stream.pause(true);
  stream.write(std::string(4 << 20, 'x'));
  loop->run();
  return heard;
}

TEST(FdStream, WhatAPeerSaidBeforeItStoppedReadingIsHeardWhereThatIsWanted) {
  EXPECT_EQ(heard_of_a_peer_that_reads_nothing(true), "out, end");
  EXPECT_EQ(heard_of_a_peer_that_reads_nothing(false), ", end");
}

}  // namespace
}  // namespace lockstep
