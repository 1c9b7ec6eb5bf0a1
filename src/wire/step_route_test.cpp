// What travels with a step's streams: there and back, and what is not accepted.
#include "wire/step_route.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(StepRouteTest, ThereAndBack) {
  const StepTicket ticket{JobId(12), 3, 4, "n7", 1000, kStepOutput | kStepSignal, 123456789, "abcdef"};
  const StepMember lower{"n8", "10.1.2.3", 4711, "5e71a1", {4, 5, 6, 9}, ticket};
  const auto open = decode_step_open(encode(StepOpen{ticket, {0, 1, 2}, {lower}}));
  ASSERT_TRUE(open.ok()) << open.error().message;
  EXPECT_EQ(open->ticket, ticket);
  EXPECT_EQ(open->ranks, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(open->below, std::vector<StepMember>{lower});
  const auto route = decode_step_route(encode(StepRoute{{lower, {"n9", "", 0, {7}, {}}}}));
  ASSERT_TRUE(route.ok());
  ASSERT_EQ(route->members.size(), 2u);
  EXPECT_EQ(route->members[0], lower);
  EXPECT_EQ(route->members[1].port, 0);
}

TEST(StepRouteTest, NonsenseIsRefused) {
  EXPECT_FALSE(decode_step_open("").ok());
  EXPECT_FALSE(decode_step_open("[]").ok());
  EXPECT_FALSE(decode_step_open(R"({"ticket":{"job":"x"}})").ok());
  EXPECT_FALSE(decode_step_open(R"({"ticket":{"job":1,"verbs":300}})").ok());
  EXPECT_FALSE(decode_step_route(R"({"members":[{"node":"n1","port":70000}]})").ok());
  EXPECT_FALSE(decode_step_route(R"({"members":[7]})").ok());
}

TEST(StepRouteTest, VerbsByTheirNames) {
  EXPECT_EQ(*parse_step_verbs("output"), kStepOutput);
  EXPECT_EQ(*parse_step_verbs("signal,input,output"), kStepEverything);
  EXPECT_FALSE(parse_step_verbs("output,everything").ok());
  EXPECT_FALSE(parse_step_verbs("").ok());
}

TEST(StepRouteTest, NoTwoTicketsAreSignedAlike) {
  StepTicket a{JobId(1), 23, 4, "n1", 5, 6, 7, ""}, b{JobId(12), 3, 4, "n1", 5, 6, 7, ""};
  EXPECT_NE(signed_text(a), signed_text(b));
}

}  // namespace
}  // namespace lockstep
