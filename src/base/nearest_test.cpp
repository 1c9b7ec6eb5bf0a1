#include "base/nearest.h"

#include <gtest/gtest.h>

#include <array>

namespace lockstep {
namespace {

TEST(Nearest, IsWhatSomebodyMeant) {
  constexpr std::array known = {std::string_view("time_limit"), std::string_view("partition"), std::string_view("name"),
                                std::string_view("nodes")};
  for (const auto& [word, meant] : {std::pair{"timelimit", "time_limit"},
                                    {"time", "time_limit"},
                                    {"partitions", "partition"},
                                    {"partiton", "partition"},
                                    {"nmae", "name"},
                                    {"node", "nodes"},
                                    {"qos", ""},
                                    {"", ""}})
    EXPECT_EQ(nearest(word, known), meant) << word;
  EXPECT_EQ(nearest(std::string(1'000'000, 'x'), known), "");
  EXPECT_EQ(hint("nmae", known), ": did you mean \"name\"?");
  EXPECT_EQ(hint("qos", known), "; known are: time_limit, partition, name, nodes");
  EXPECT_EQ(hint("qos", {}), "; there are none");
}

}  // namespace
}  // namespace lockstep
