// What a node's certificate may say about addresses, ranges and what it offers: nothing that was not settled.
#include "core/node_terms.h"

#include <gtest/gtest.h>

#include "core/testing.h"
#include "model/job.h"

namespace lockstep {
namespace {

class NodeTermsTest : public ::testing::Test {
 protected:
  JoinToken token(const std::string& node) {
    JoinToken out;
    out.meta.name = format("t{}", ++made_);
    out.secret_sha256 = "abc";
    out.node = node;
    out.expires = w.now + hours(1);
    return out;
  }
  Answer join(const std::string& node, const std::string& address = "", const std::string& range = "") {
    JoinToken made = token(node);
    made.address = address;
    made.task_range = range;
    w.must(PutToken{made});
    return w.must(RedeemToken{made.meta.name, "abc", node, w.now, "c-" + node});
  }
  NodeHello says(const std::string& node, const std::string& address, const std::string& range = "") {
    NodeHello out;
    out.facts.meta.name = node;
    out.facts.boot_id = "b1";
    out.facts.cores = World::kCores;
    out.facts.memory_mb = 64'000;
    out.facts.address = address;
    out.facts.task_range = range;
    out.certificate = "c-" + node;
    out.from = "10.1.0." + node.substr(1);
    return out;
  }
  const Node& node(const std::string& name) { return *w.state.tables().node(name); }
  std::string word(const std::string& name) { return reason_of(node(name)).words; }
  std::string refusal(CommandBody body) {
    const auto outcome = w.run(std::move(body));
    return outcome.ok() ? "" : outcome.error().message;
  }

  World w;
  int made_ = 0;
};

TEST_F(NodeTermsTest, ARangeIsWhatTheTokenGaveAndNoOther) {
  EXPECT_EQ(join("n1", "", "10.88.1.0/24").task_range, "10.88.1.0/24");
  w.must(says("n1", "10.1.0.1", "10.88.1.0/24"));
  EXPECT_EQ(node("n1").task_range, "10.88.1.0/24");
  EXPECT_EQ(word("n1"), "");
  // The one that holds the controller's address, the services' one, the world's, everybody's own.
  for (const char* other : {"10.1.1.0/24", "10.96.0.0/16", "8.8.8.0/24", "127.0.0.0/8", "10.88.1.0/25", "x"}) {
    w.must(says("n1", "10.1.0.1", other));
    EXPECT_EQ(node("n1").task_range, "") << other;
    EXPECT_NE(word("n1").find("was given 10.88.1.0/24"), std::string::npos) << word("n1");
    EXPECT_EQ(w.events.back().what, "NodeSaysOtherwise");
  }
  w.must(says("n1", "10.1.0.1", "10.88.1.0/24"));
  EXPECT_EQ(node("n1").task_range, "10.88.1.0/24");
  join("n2");
  w.must(says("n2", "10.1.0.2", "10.88.2.0/24"));
  EXPECT_EQ(node("n2").task_range, "");
  EXPECT_NE(word("n2").find("lockstep node update n2 --task-range 10.88.2.0/24"), std::string::npos) << word("n2");
  w.must(UpdateNode{.name = "n2", .task_range = "10.88.2.0/24"});
  w.must(says("n2", "10.1.0.2", "10.88.2.0/24"));
  EXPECT_EQ(node("n2").task_range, "10.88.2.0/24");
}

TEST_F(NodeTermsTest, AnAddressIsTheConnectionsOrGiven) {
  join("n1");
  w.must(says("n1", "10.1.0.1"));
  EXPECT_EQ(node("n1").address, "10.1.0.1");
  for (const char* other : {"10.1.0.2", "127.0.0.1", "0.0.0.0", "10.96.0.1", "224.0.0.1", "x"}) {
    w.must(says("n1", other));
    EXPECT_EQ(node("n1").address, "10.1.0.1") << other;
    EXPECT_NE(word("n1").find("10.1.0.1 counts"), std::string::npos) << word("n1");
  }
  NodeHello moved = says("n1", "10.1.0.77");  // its connection shows it
  moved.from = "10.1.0.77";
  w.must(moved);
  EXPECT_EQ(node("n1").address, "10.1.0.77");
  EXPECT_EQ(word("n1"), "");
  w.must(UpdateNode{.name = "n1", .address = "172.20.0.1"});
  w.must(moved);
  EXPECT_EQ(node("n1").address, "172.20.0.1");
  join("n2", "172.20.0.2");
  w.must(says("n2", "10.1.0.2"));
  EXPECT_EQ(node("n2").address, "172.20.0.2");
}

TEST_F(NodeTermsTest, ANodeOnTheControllersMachineIsFoundOnItsLoopback) {
  join("n1");
  NodeHello plain = says("n1", "127.0.0.1");
  plain.from = "127.0.0.1";
  w.must(plain);
  EXPECT_EQ(node("n1").address, "127.0.0.1");
  plain.from = "10.1.0.1";  // it is another machine now, and says the same
  w.must(plain);
  EXPECT_EQ(node("n1").address, "10.1.0.1");
}

TEST_F(NodeTermsTest, NoAddressLiesInARange) {
  join("n1", "", "10.1.0.0/29");
  EXPECT_NE(refusal(UpdateNode{.name = "n1", .address = "10.1.0.3"}), "") << "there is no such node yet";
  join("n7");
  w.must(says("n7", "10.1.0.7"));  // within what n1 was given, which has not come yet
  EXPECT_EQ(node("n7").address, "");
  EXPECT_NE(word("n7").find("lies within the range of tasks' addresses of node n1"), std::string::npos) << word("n7");
  join("n9");
  w.must(says("n9", "10.1.0.9"));
  EXPECT_EQ(node("n9").address, "10.1.0.9");
  EXPECT_NE(refusal(UpdateNode{.name = "n7", .task_range = "10.1.0.8/29"}).find("holds the address of node n9"),
            std::string::npos);
  for (const char* bad : {"10.96.4.0/24", "127.0.0.0/24", "8.8.8.0/24", "10.1.0.4/30", "10.0.0.1/24", "10.0.0.0/7"})
    EXPECT_NE(refusal(UpdateNode{.name = "n9", .task_range = bad}), "") << bad;
  for (const char* bad : {"10.1.0.3", "127.0.0.1", "10.96.0.1", "224.0.0.1", "x"})
    EXPECT_NE(refusal(UpdateNode{.name = "n9", .address = bad}), "") << bad;
}

TEST_F(NodeTermsTest, OfAWideRangeEachGetsAPart) {
  JoinToken many = token("");
  many.task_range = "10.88.0.0/22";
  many.uses_left = 5;
  w.must(PutToken{many});
  join("n9");
  NodeHello other = says("n9", "10.88.1.7");
  other.from = "10.88.1.7";
  w.must(other);
  const auto redeem = [&](const std::string& name) {
    return w.must(RedeemToken{many.meta.name, "abc", name, w.now, "c-" + name}).task_range;
  };
  EXPECT_EQ(redeem("n1"), "10.88.0.0/24");
  EXPECT_EQ(redeem("n2"), "10.88.2.0/24") << "10.88.1.7 is a node's address";
  w.must(says("n1", "10.1.0.1", "10.88.0.0/24"));
  EXPECT_EQ(redeem("n3"), "10.88.3.0/24");
  EXPECT_NE(refusal(RedeemToken{many.meta.name, "abc", "n4", w.now, "c-n4"}).find("no /24 of 10.88.0.0/22 is free"),
            std::string::npos);
  many = token("");
  many.task_range = "10.88.4.0/24";
  many.uses_left = 2;
  EXPECT_NE(refusal(PutToken{many}).find("is one node's"), std::string::npos);
  many.task_range = "10.88.0.0/24";
  many.uses_left = 1;
  EXPECT_NE(refusal(PutToken{many}).find("overlaps that of node n1"), std::string::npos);
}

TEST_F(NodeTermsTest, WhatDrawsWorkIsSettledWhenItJoins) {
  join("n1");
  NodeHello first = says("n1", "10.1.0.1");
  first.facts.features = {"ib"};
  first.facts.counted = {{"fpga", 2}, {"licence", 1}};
  first.facts.domains = {"block1"};
  first.facts.weight = 5;
  w.must(first);
  EXPECT_EQ(node("n1").features, std::vector<std::string>{"ib"});
  EXPECT_EQ(node("n1").counted, (std::vector<Counted>{{"fpga", 2}, {"licence", 1}}));
  NodeHello more = first;
  more.facts.features = {"ib", "h200"};
  more.facts.counted = {{"big", 9}, {"fpga", 7}};
  more.facts.domains = {"block2"};
  more.facts.weight = 1;
  w.must(more);
  EXPECT_EQ(node("n1").features, std::vector<std::string>{"ib"});
  EXPECT_EQ(node("n1").counted, (std::vector<Counted>{{"fpga", 2}})) << "less is its own to know";
  EXPECT_EQ(node("n1").domains, std::vector<std::string>{"block1"});
  EXPECT_EQ(node("n1").weight, 5u);
  EXPECT_EQ(w.events.back().message,
            "node n1 says that it has features ib,h200, resources big=9,fpga=7, domains block2, which was not settled "
            "when it joined and does not count: lockstep node update n1 --accept takes it");
  w.must(first);
  EXPECT_EQ(node("n1").counted, (std::vector<Counted>{{"fpga", 2}, {"licence", 1}})) << "whole again";
  w.must(UpdateNode{.name = "n1", .accept = true});
  w.must(more);
  EXPECT_EQ(node("n1").features, (std::vector<std::string>{"ib", "h200"}));
  EXPECT_EQ(node("n1").counted, (std::vector<Counted>{{"big", 9}, {"fpga", 7}}));
  EXPECT_EQ(node("n1").domains, std::vector<std::string>{"block2"});
  w.must(first);
  EXPECT_EQ(node("n1").features, (std::vector<std::string>{"ib", "h200"})) << "once";
}

TEST_F(NodeTermsTest, ARecordFromBeforeKeepsWhatItHas) {
  w.hello(1);
  Node older = w.node(1);
  older.certificate = "c-n1";
  older.address = "172.20.0.1";  // as its agent said
  older.task_range = "10.88.1.0/24";
  older.counted = {{"fpga", 2}};
  older.features = {"ib"};
  older.terms = {};
  std::vector<Change> changes = w.state.tables().snapshot();
  for (Change& change : changes)
    if (const auto* node = std::get_if<Ref<Node>>(&change.record); node && (*node)->id == older.id)
      change.record = std::make_shared<const Node>(older);
  ClusterState again;
  again.restore(changes);
  w.state = std::move(again);
  NodeHello hello = says("n1", "172.20.0.1", "10.88.1.0/24");
  hello.facts.counted = {{"fpga", 2}};
  w.must(hello);
  EXPECT_EQ(node("n1").address, "172.20.0.1");
  EXPECT_EQ(node("n1").task_range, "10.88.1.0/24");
  EXPECT_EQ(word("n1"), "");
  hello.facts.task_range = "10.88.2.0/24";
  hello.facts.counted = {{"fpga", 3}};
  hello.facts.address = "172.20.0.9";
  w.must(hello);
  EXPECT_EQ(node("n1").address, "172.20.0.1");
  EXPECT_EQ(node("n1").task_range, "");
  EXPECT_EQ(node("n1").counted, (std::vector<Counted>{{"fpga", 2}}));
}

}  // namespace
}  // namespace lockstep
