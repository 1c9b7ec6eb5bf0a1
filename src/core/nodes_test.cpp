// Nodes: what is said of those that are not lost.
#include "core/nodes.h"

#include <gtest/gtest.h>

#include "core/testing.h"

namespace lockstep {
namespace {

std::string why_not_removed(World& w) {
  const auto outcome = w.run(RemoveNode{World::name_of(1)});
  return outcome.ok() ? "removed" : outcome.error().message;
}

TEST(Nodes, OneThatIsOnlySilentIsNotCalledUp) {
  World w(1);
  EXPECT_EQ(why_not_removed(w), "node n1 is up: stop its agent first, or cut it off with `lockstep node revoke n1`");
  const std::string silent =
      "node n1 has not been heard for 7 s, and is not given up yet: wait until it is lost, or cut it off with "
      "`lockstep node revoke n1`";
  w.must(NodeAway{w.id(1), w.node(1).seen_at});
  w.wait(seconds(7));
  EXPECT_EQ(why_not_removed(w), silent);
  w.hello(1);
  w.must(StartEpoch{"test"});
  w.wait(seconds(7));
  EXPECT_EQ(why_not_removed(w), silent);
  w.must(NodeLost{w.id(1)});
  EXPECT_EQ(why_not_removed(w), "removed");
}

}  // namespace
}  // namespace lockstep
