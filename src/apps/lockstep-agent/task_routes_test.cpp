#include "task_routes.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(TaskRoutes, OnlyWhatIsOtherwiseIsSet) {
  const std::map<std::string, std::string> wanted = {{"10.77.128.0/25", "10.77.1.1"}, {"10.77.129.0/25", "10.77.1.3"}};
  EXPECT_EQ(route_commands(wanted,
                           "10.77.128.0/25 via 10.77.1.1 dev eth0\n10.77.128.128/25 via 10.77.1.2 dev eth0\n"
                           "10.77.129.0/25 via 10.77.1.9 dev eth0\n"),
            "route del 10.77.128.128/25 proto 76\nroute del 10.77.129.0/25 proto 76\nroute add 10.77.129.0/25 via "
            "10.77.1.3 proto 76\n");
  EXPECT_EQ(route_commands(wanted, ""),
            "route add 10.77.128.0/25 via 10.77.1.1 proto 76\nroute add 10.77.129.0/25 via 10.77.1.3 proto 76\n");
  EXPECT_EQ(route_commands({}, ""), "");
}

TEST(TaskRoutes, NoneLeadsWhatIsNotTasks) {
  const auto address = [](std::string_view text) { return parse_ip(text).value_or(0); };
  const RouteBounds bounds{parse_ip_range("10.77.128.0/25"),
                           {address("10.77.0.1"), address("192.168.7.1"), address("10.77.1.1")}};
  const auto may = [&](std::string_view range, std::string_view via = "10.77.1.2") {
    return may_lead(bounds, *parse_ip_range(range), address(via));
  };
  EXPECT_TRUE(may("10.77.128.128/25"));
  EXPECT_FALSE(may("10.77.0.0/25")) << "the controller";
  EXPECT_FALSE(may("192.168.7.0/24")) << "a gateway";
  EXPECT_FALSE(may("10.77.1.0/24")) << "this machine and whoever the route leads to";
  EXPECT_FALSE(may("10.77.128.64/26")) << "its own tasks";
  EXPECT_FALSE(may("10.96.4.0/24")) << "services";
  EXPECT_FALSE(may("127.0.0.0/8"));
  EXPECT_FALSE(may("8.8.8.0/24"));
  EXPECT_FALSE(may("10.0.0.0/8"));
  EXPECT_FALSE(may("10.77.128.128/25", "127.0.0.1"));
  EXPECT_FALSE(may("10.77.128.128/25", "224.0.0.1"));
}

TEST(TaskRoutes, GatewaysAreRead) {
  EXPECT_EQ(gateways_in("Iface\tDestination\tGateway \tFlags\neth0\t00000000\t0100A8C0\t0003\neth0\t0000A8C0\t"
                        "00000000\t0001\n"),
            (std::set<std::uint32_t>{*parse_ip("192.168.0.1")}));
}

}  // namespace
}  // namespace lockstep
