#include "pmi/hub.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/text.h"
#include "wire/pmi_frame.h"

namespace lockstep {
namespace {

// The shim's side of one node, and the lockstep-pmi behind it.
struct TestNode {
  std::uint32_t first_rank = 0;
  ResendLog up;
  std::uint64_t got_own = 0, got_all = 0;
  PmiMessageReader own, all;
  std::vector<PmiMessage> heard;

  void say(const PmiMessage& message) { up.append(encode_pmi_message(message)); }
  Frame frame(std::uint64_t from, std::size_t most, bool fresh) const {
    return {static_cast<std::uint8_t>(IoFrame::kPmi), first_rank,
            encode(PmiUp{from, got_own, got_all, fresh, up.read(from, most)})};
  }
  void take(const Frame& frame) {
    const auto down = decode_pmi_down(frame.payload);
    ASSERT_TRUE(down);
    up.trim(down->got);
    std::uint64_t& got = down->to_all ? got_all : got_own;
    if (down->offset > got || down->offset + down->bytes.size() <= got)
      return;
    const std::string_view bytes = down->bytes.substr(got - down->offset);
    got += bytes.size();
    EXPECT_TRUE((down->to_all ? all : own).feed(bytes, [&](PmiMessage m) { heard.push_back(std::move(m)); }).ok());
  }
};

struct PmiHubTest : ::testing::Test {
  std::vector<TestNode> nodes;
  std::unique_ptr<PmiHub> hub;
  std::size_t to_all = 0;  // frames that went to all at once

  void make(std::size_t count) {
    nodes = std::vector<TestNode>(count);
    std::vector<std::uint32_t> ranks;
    for (std::size_t i = 0; i < count; ++i) ranks.push_back(nodes[i].first_rank = static_cast<std::uint32_t>(10 * i));
    hub = std::make_unique<PmiHub>(ranks);
  }
  void attach() {
    for (TestNode& node : nodes) hub->take(node.frame(node.up.base(), 0, true));
  }
  // What the hub has to send arrives, but for `lost` of a hundred.
  void deliver(Rng* rng = nullptr, std::uint64_t lost = 0) {
    FrameReader reader;
    ASSERT_TRUE(reader
                    .feed(hub->frames(),
                          [&](const Frame& frame) {
                            to_all += frame.stream == kAllRanks;
                            for (TestNode& node : nodes)
                              if ((frame.stream == kAllRanks || frame.stream == node.first_rank) &&
                                  !(rng && rng->below(100) < lost))
                                node.take(frame);
                          })
                    .ok());
  }
  void exchange() {
    for (int i = 0; i < 4; ++i) {
      for (TestNode& node : nodes) hub->take(node.frame(node.up.base(), 1 << 20, false));
      deliver();
    }
  }
  static PmiMessage gathered(const std::string& data) { return PmiGathered{"k", data}; }
};

TEST_F(PmiHubTest, GathersInTheOrderOfNodes) {
  make(3);
  attach();
  for (std::size_t i : {2, 0, 1}) nodes[i].say(PmiGather{"k", {}, format("part {};", i)});
  exchange();
  for (const TestNode& node : nodes)
    EXPECT_EQ(node.heard, (std::vector<PmiMessage>{gathered("part 0;part 1;part 2;")}));
  EXPECT_EQ(to_all, 1u);  // once for all of them
  for (const TestNode& node : nodes) EXPECT_EQ(node.up.size(), 0u);
  EXPECT_FALSE(hub->take_abort());
}

TEST_F(PmiHubTest, SomeOfThemAndOneForAnother) {
  make(3);
  attach();
  nodes[0].say(PmiGather{"k", {0, 2}, "a"});
  nodes[2].say(PmiGather{"k", {2, 0}, "b"});
  nodes[1].say(PmiPassed{2, "for two"});
  nodes[1].say(PmiPassed{7, "for nobody"});
  exchange();
  EXPECT_EQ(nodes[0].heard, (std::vector<PmiMessage>{gathered("ab")}));
  EXPECT_TRUE(nodes[1].heard.empty());
  EXPECT_EQ(nodes[2].heard, (std::vector<PmiMessage>{PmiPassed{1, "for two"}, gathered("ab")}));
}

TEST_F(PmiHubTest, Names) {
  make(2);
  attach();
  nodes[0].say(PmiName{PmiName::Do::kPublish, 1, "s", "port", false});
  nodes[1].say(PmiName{PmiName::Do::kLookUp, 5, "s", "", false});
  nodes[1].say(PmiName{PmiName::Do::kPublish, 6, "s", "other", false});
  nodes[1].say(PmiName{PmiName::Do::kWithdraw, 7, "s", "", false});
  nodes[1].say(PmiName{PmiName::Do::kLookUp, 8, "s", "", false});
  exchange();
  using Do = PmiName::Do;
  EXPECT_EQ(nodes[0].heard, (std::vector<PmiMessage>{PmiName{Do::kAnswer, 1, "s", "", true}}));
  EXPECT_EQ(
      nodes[1].heard,
      (std::vector<PmiMessage>{PmiName{Do::kAnswer, 5, "s", "port", true}, PmiName{Do::kAnswer, 6, "s", "other", false},
                               PmiName{Do::kAnswer, 7, "s", "", true}, PmiName{Do::kAnswer, 8, "s", "", false}}));
}

TEST_F(PmiHubTest, WhoLeftIsMissedOnceSomebodyHasJoined) {
  make(2);
  attach();
  nodes[1].say(PmiLeft{5, "task 3 ended"});
  exchange();
  EXPECT_FALSE(hub->take_abort());
  nodes[0].say(PmiJoined{});
  exchange();
  EXPECT_EQ(hub->take_abort(), (PmiAbort{5, "task 3 ended"}));
  nodes[0].say(PmiAbort{3, "later"});
  exchange();
  EXPECT_FALSE(hub->take_abort());  // the first one counts
}

TEST_F(PmiHubTest, WhatCannotBeEndsTheStep) {
  const auto why = [&](const PmiMessage& first, const PmiMessage& second) {
    make(3);
    attach();
    nodes[0].say(first);
    nodes[1].say(second);
    exchange();
    const auto abort = hub->take_abort();
    return abort ? abort->why : std::string("nothing");
  };
  EXPECT_EQ(why(PmiGather{"k", {0, 1}, ""}, PmiGather{"k", {}, ""}),
            "the nodes of the step do not agree on who takes part in an exchange (k)");
  EXPECT_EQ(why(PmiGather{"k", {1}, ""}, PmiJoined{}), "node 0 of the step gathers for others than itself");
  EXPECT_EQ(why(PmiGather{"k", {0, 9}, ""}, PmiJoined{}), "node 0 of the step gathers for others than itself");
  EXPECT_EQ(why(PmiGathered{"k", "x"}, PmiJoined{}), "nothing");

  make(1);
  attach();
  nodes[0].up.append(std::string("\0\0\0\1\77", 5));
  exchange();
  EXPECT_EQ(hub->take_abort()->why,
            "what node 0 of the step says of its tasks is not understood: a message of kind 63, which is not known");
}

TEST_F(PmiHubTest, FramesThatAreNone) {
  make(2);
  hub->take({static_cast<std::uint8_t>(IoFrame::kPmi), 5, encode(PmiUp{0, 0, 0, true, "x"})});  // no such node
  hub->take({static_cast<std::uint8_t>(IoFrame::kPmi), kAllRanks, encode(PmiUp{0, 0, 0, true, "x"})});
  hub->take({static_cast<std::uint8_t>(IoFrame::kPmi), 0, "short"});
  hub->take({static_cast<std::uint8_t>(IoFrame::kOutput), 0, encode(PmiUp{0, 0, 0, true, "x"})});
  hub->take({static_cast<std::uint8_t>(IoFrame::kPmi), 0, encode(PmiUp{77, 88, 99, true, "beyond all that was said"})});
  EXPECT_FALSE(hub->take_abort());
  Rng rng(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string payload(rng.below(60), '\0');
    for (char& c : payload) c = static_cast<char>(rng.below(rng.below(2) ? 256 : 3));
    hub->take({static_cast<std::uint8_t>(IoFrame::kPmi), 10 * rng.below(2), payload});
    (void)hub->frames();
  }
}

// However often connections break, each byte counts once.
TEST_F(PmiHubTest, LosesNothing) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng(seed);
    make(4);
    attach();
    std::vector<std::vector<PmiMessage>> wanted(nodes.size());
    for (int round = 0; round < 6; ++round) {
      const std::string key = format("round {}", round);
      std::string all;
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        const std::string part(rng.below(3) == 0 ? 200'000 : rng.below(50), static_cast<char>('a' + i));
        nodes[i].say(PmiGather{key, {}, part});
        all += part;
      }
      for (auto& of_node : wanted) of_node.push_back(PmiGathered{key, all});
    }
    const auto all_heard = [&] {
      for (std::size_t i = 0; i < nodes.size(); ++i)
        if (nodes[i].heard.size() < wanted[i].size())
          return false;
      return true;
    };
    for (int turn = 0; turn < 4000 && !all_heard(); ++turn) {
      const bool breaks = rng.below(10) == 0;
      if (breaks) {  // what is under way is lost
        deliver(&rng, 100);
        hub->disconnected();
        attach();
      }
      for (TestNode& node : nodes) {
        if (rng.below(20) == 0)  // one way is made anew, by the controller
          hub->take(node.frame(node.up.base(), rng.below(1000), true));
        hub->take(node.frame(node.up.base(), 1 + rng.below(100'000), false));
      }
      deliver();
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) EXPECT_EQ(nodes[i].heard, wanted[i]) << "seed " << seed;
    EXPECT_FALSE(hub->take_abort());
  }
}

}  // namespace
}  // namespace lockstep
