#include "held_ports.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep {
namespace {

// A port of the kernel's choice, at which somebody listens.
struct Listener {
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  std::uint16_t port = 0;

  explicit Listener(std::uint16_t at = 0) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(at);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0 || ::listen(fd, 1) != 0)
      return;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
  }
  ~Listener() { ::close(fd); }
};

TEST(HeldPorts, WhereSomebodyListensNothingIsLedAndWhereNobodyDoesNobodyCan) {
  HeldPorts ports;
  HeldPorts::NodePort theirs;
  {
    const Listener listener;
    ASSERT_NE(listener.port, 0);
    theirs = {"tcp", listener.port};
    EXPECT_EQ(ports.hold({{theirs, 1}}), (std::set<HeldPorts::NodePort>{theirs}));
  }
  EXPECT_TRUE(ports.hold({{theirs, 1}, {{"sctp", 30'001}, 1}}).empty()) << "it is free now";
  EXPECT_EQ(Listener(theirs.second).port, 0) << "nobody comes between";
  EXPECT_TRUE(ports.hold({}).empty());
  EXPECT_EQ(Listener(theirs.second).port, theirs.second) << "it was let go";
}

}  // namespace
}  // namespace lockstep
