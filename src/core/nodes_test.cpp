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

TEST(Nodes, WhatTheyRunShortOfIsToldFromWordToWord) {
  using enum Shortage::What;
  World w(1);
  const auto say = [&](std::vector<Shortage> shortages) {
    Node facts = w.node(1);
    facts.shortages = std::move(shortages);
    w.must(NodeHello{facts});
  };
  say({{.what = kDisk}, {.what = kMemory, .available = 5, .threshold = 9}, {.what = kDisk, .available = 7}});
  const Instant first = w.now;
  ASSERT_EQ(w.node(1).shortages.size(), 2u) << "each once";
  EXPECT_EQ(w.node(1).shortages[0],
            (Shortage{.what = kMemory, .available = 5, .threshold = 9, .since = first, .measured = first}));
  w.wait(seconds(10));
  say({{.what = kMemory, .acute = false, .available = 50, .threshold = 9}});
  ASSERT_EQ(w.node(1).shortages.size(), 1u);
  EXPECT_EQ(w.node(1).shortages[0].since, first);
  EXPECT_EQ(w.node(1).shortages[0].measured, first + seconds(10));
  EXPECT_FALSE(w.node(1).shortages[0].acute);
  say({{.what = kMemory, .available = 90 << 20, .threshold = 200LL << 30},
       {.what = kProcesses, .acute = false, .available = 70, .threshold = 64}});
  EXPECT_EQ(
      reason_of(w.node(1)).words,
      "Short of memory: 90 MiB left, 200.0 GiB wanted; Lately short of processes: 70 processes left, 64 processes "
      "wanted");
  EXPECT_EQ(reason_of(w.node(1)).at, first);
  EXPECT_TRUE(node_usable(w.node(1)));
  say({});
  EXPECT_TRUE(w.node(1).shortages.empty());
  EXPECT_EQ(reason_of(w.node(1)).words, "");
}

}  // namespace
}  // namespace lockstep
