#include "io/local/virtual_network.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

TEST(VirtualNetwork, is_never_where_services_have_their_addresses) {
  int chosen = 0;
  for (int i = 0; i < 2'000; ++i)
    if (const auto network = choose_network("/somewhere/" + std::to_string(i)); network.ok()) {
      ++chosen;
      EXPECT_NE(network->second, 96U) << i;
    }
  EXPECT_GT(chosen, 0);
}

}  // namespace
}  // namespace lockstep
