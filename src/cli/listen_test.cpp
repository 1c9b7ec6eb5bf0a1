#include "cli/listen.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep {
namespace {

TEST(Listen, AddressWithOrWithoutAPort) {
  EXPECT_EQ(*parse_listen("10.0.0.1"), (ListenAt{"10.0.0.1", 6820}));
  EXPECT_EQ(*parse_listen("10.0.0.1:7000"), (ListenAt{"10.0.0.1", 7000}));
  EXPECT_EQ(*parse_listen("0.0.0.0", 7001), (ListenAt{"0.0.0.0", 7001}));
  EXPECT_EQ(*parse_listen("fd00::1"), (ListenAt{"fd00::1", 6820}));
  EXPECT_EQ(*parse_listen("[fd00::1]"), (ListenAt{"fd00::1", 6820}));
  EXPECT_EQ(*parse_listen("[fd00::1]:7000"), (ListenAt{"fd00::1", 7000}));
  for (const char* same : {"[::]:7000", "10.0.0.1:7000"}) EXPECT_EQ(as_argument(*parse_listen(same)), same);
}

TEST(Listen, WhatIsNoAddressIsRefused) {
  for (const char* bad : {"", "host", "host:1", "1.2.3", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:x",
                          ":1", "[fd00::1", "[fd00::1]x", "[fd00::1]:", "[10.0.0.1", "]:", "["}) {
    const auto parsed = parse_listen(bad);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_EQ(parsed.error().code, Errc::kInvalid) << bad;
    EXPECT_NE(parsed.error().message.find("--listen "), std::string::npos) << bad;
  }
}

TEST(Listen, AnAddressOfAnotherMachineIsRefused) {
  const auto other = check_can_listen({"192.0.2.77", 6820}, std::nullopt);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("192.0.2.77 is no address of this machine, which has 127.0.0.1"),
            std::string::npos)
      << other.error().message;
}

TEST(Listen, APortThatIsTakenIsRefusedUnlessItIsOurs) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::uint16_t port = ntohs(address.sin_port);
  for (const char* at : {"127.0.0.1", "0.0.0.0", "::"}) {
    const auto taken = check_can_listen({at, port}, std::nullopt);
    ASSERT_FALSE(taken.ok()) << at;
    EXPECT_EQ(taken.error().code, Errc::kConflict);
    EXPECT_TRUE(check_can_listen({at, port}, ListenAt{"127.0.0.1", port}).ok()) << at;
  }
  EXPECT_TRUE(check_can_listen({"127.0.0.2", port}, std::nullopt).ok()) << "another address";
  close(fd);
  EXPECT_TRUE(check_can_listen({"127.0.0.1", port}, std::nullopt).ok());
}

TEST(Listen, OthersAreToldAnAddressThatIsNeitherAllNorLoopback) {
  EXPECT_EQ(address_for_others("10.1.2.3"), "10.1.2.3");
  EXPECT_EQ(address_for_others("127.0.0.1"), "");
  EXPECT_EQ(address_from_here("10.1.2.3"), "10.1.2.3");
  const std::string own = address_for_others("0.0.0.0");
  EXPECT_TRUE(own.empty() || (!is_loopback(own) && !is_wildcard(own))) << own;
  EXPECT_FALSE(is_wildcard(address_from_here("0.0.0.0")));
}

}  // namespace
}  // namespace lockstep
