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

}  // namespace
}  // namespace lockstep
