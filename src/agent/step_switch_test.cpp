// Step I/O between agents: the ways it takes over a small network in memory, and what happens when one of them fails.
#include "agent/step_switch.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "link/test_streams.h"
#include "wire/io_attach.h"

namespace lockstep {
namespace {

std::string io(IoFrame type, std::uint64_t rank, const std::string& payload = {}) {
  return encode_frame(static_cast<std::uint8_t>(type), rank, payload);
}

// The test's end of a stream: what came, by frame.
struct End {
  std::unique_ptr<MemoryStream> stream;
  FrameReader reader;
  std::vector<Frame> frames;
  bool closed = false;

  explicit End(std::unique_ptr<MemoryStream> s) : stream(std::move(s)) {
    stream->on_close([this] { closed = true; });
    stream->on_data([this](std::string_view bytes) {
      EXPECT_TRUE(reader.feed(bytes, [this](Frame f) { frames.push_back(std::move(f)); }).ok());
    });
  }
  std::vector<std::string> of(IoFrame type) const {
    std::vector<std::string> out;
    for (const auto& frame : frames)
      if (frame.type == static_cast<std::uint8_t>(type))
        out.push_back(frame.payload);
    return out;
  }
  std::set<std::uint64_t> ranks_of(IoFrame type) const {
    std::set<std::uint64_t> out;
    for (const auto& frame : frames)
      if (frame.type == static_cast<std::uint8_t>(type))
        out.insert(frame.stream);
    return out;
  }
};
using EndPtr = std::unique_ptr<End>;
std::pair<EndPtr, std::unique_ptr<Stream>> end_pair() {
  auto [ours, theirs] = MemoryStream::pair();
  return {std::make_unique<End>(std::move(ours)), std::move(theirs)};
}

class StepSwitchTest : public testing::Test {
 protected:
  struct Node {
    std::unique_ptr<Peers> peers;
    std::unique_ptr<StepSwitch> steps;
    std::vector<EndPtr> shims;  // streams that reached the shim here
    int dials = 0;
  };

  Node& node(const std::string& name) {
    auto& node = nodes_[name];
    if (node.peers)
      return node;
    node.peers = std::make_unique<Peers>(
        loop_,
        [this, &node](const StepMember& whom, const Peers::Dialed& done) {
          ++node.dials;
          loop_.post([this, whom, done] {
            if (unreachable_.contains(whom.node))
              return done(Error{Errc::kUnavailable, "no route", {}});
            auto [ours, theirs] = MemoryStream::pair();
            this->node(whom.node).peers->accept(std::move(theirs), "", "");
            done(std::move(ours));
          });
        },
        [this, &node](StepOpen what, std::unique_ptr<Stream> stream) {
          if (!what.below.empty())
            return node.steps->spread(std::move(what), std::move(stream));
          auto [end, inner] = end_pair();
          splice(std::move(inner), std::move(stream));
          node.shims.push_back(std::move(end));
        });
    node.steps =
        std::make_unique<StepSwitch>(loop_, *node.peers, name, [&node](const StepTicket&, const Peers::Opened& done) {
          auto [end, inner] = end_pair();
          node.shims.push_back(std::move(end));
          done(std::move(inner));
        });
    return node;
  }
  void splice(std::shared_ptr<Stream> a, std::shared_ptr<Stream> b) {
    Stream &first = *a, &second = *b;
    spliced_.emplace_back(std::move(a), std::move(b));
    first.on_close([&second] { second.close(); });
    second.on_close([&first] { first.close(); });
    first.on_data([&second](std::string_view bytes) { second.write(std::string(bytes)); });
    second.on_data([&first](std::string_view bytes) { first.write(std::string(bytes)); });
  }

  // A client on n1, attached; the controller's end beside it.
  void attach(const std::string& have = {}) {
    auto [client, inner] = end_pair();
    auto [controller, to_controller] = end_pair();
    client_ = std::move(client);
    controller_ = std::move(controller);
    node("n1").steps->serve(std::move(inner), std::move(to_controller));
    client_->stream->write(io(IoFrame::kAttach, kAllRanks, have));
  }
  static StepMember member(std::uint32_t rank, std::uint16_t port = 1) {
    return {"n" + std::to_string(rank + 1), "addr", port, "", {rank}, {}};
  }
  void route(std::vector<StepMember> members) {
    controller_->stream->write(io(IoFrame::kRoute, 0, encode(StepRoute{std::move(members)})));
    loop_.run();
  }
  End& shim(const std::string& name) { return *node(name).shims.back(); }

  HandLoop loop_;
  std::map<std::string, Node> nodes_;
  std::set<std::string> unreachable_;
  std::vector<std::pair<std::shared_ptr<Stream>, std::shared_ptr<Stream>>> spliced_;
  EndPtr client_, controller_;
};

TEST_F(StepSwitchTest, EachRankGoesItsOwnWay) {
  attach(R"({"have":{"1":[5,0]}})");
  client_->stream->write(io(IoFrame::kStdin, kAllRanks, "early"));
  route({member(0), member(1), member(2, 0)});
  ASSERT_EQ(node("n1").shims.size(), 1u);
  ASSERT_EQ(node("n2").shims.size(), 1u);
  EXPECT_EQ(shim("n2").of(IoFrame::kAttach), std::vector<std::string>{R"({"have":{"1":[5,0]}})"});
  EXPECT_EQ(shim("n1").of(IoFrame::kAttach), std::vector<std::string>{R"({"have":{}})"});
  for (const End* end : {&shim("n1"), &shim("n2"), controller_.get()})
    EXPECT_EQ(end->of(IoFrame::kStdin), std::vector<std::string>{"early"});
  shim("n1").stream->write(io(IoFrame::kOutput, 0, "zero"));
  shim("n2").stream->write(io(IoFrame::kOutput, 1, "one"));
  controller_->stream->write(io(IoFrame::kOutput, 2, "two"));
  EXPECT_EQ(client_->of(IoFrame::kOutput), (std::vector<std::string>{"zero", "one", "two"}));
  client_->stream->write(io(IoFrame::kOutputAck, 1, "ack"));
  EXPECT_EQ(shim("n2").of(IoFrame::kOutputAck).size(), 1u);
  EXPECT_EQ(shim("n1").of(IoFrame::kOutputAck).size(), 0u);
  EXPECT_EQ(controller_->of(IoFrame::kOutputAck).size(), 0u);
}

TEST_F(StepSwitchTest, ConnectionsAreKeptAndShared) {
  for (int i = 0; i < 3; ++i) {
    attach();
    route({member(0), member(1)});
    client_->stream->close();
    loop_.run();
  }
  EXPECT_EQ(node("n1").dials, 1);
  EXPECT_EQ(node("n2").shims.size(), 3u);
  EXPECT_TRUE(shim("n2").closed);
  EXPECT_EQ(node("n1").steps->sessions(), 0u);
  loop_.pass(minutes(5));
  loop_.pass(minutes(5));
  EXPECT_EQ(node("n1").peers->connections(), 0u);
  EXPECT_EQ(node("n2").peers->connections(), 0u);
}

TEST_F(StepSwitchTest, WhatCannotBeDialledGoesThroughTheController) {
  unreachable_ = {"n2"};
  attach();
  client_->stream->write(io(IoFrame::kStdin, kAllRanks, "in"));
  route({member(0), member(1)});
  EXPECT_EQ(controller_->of(IoFrame::kRelay), std::vector<std::string>{"n2"});
  EXPECT_TRUE(controller_->ranks_of(IoFrame::kStdin).contains(1));  // what waited for the way that failed
  EXPECT_FALSE(client_->closed);
  controller_->stream->write(io(IoFrame::kOutput, 1, "relayed"));
  EXPECT_EQ(client_->of(IoFrame::kOutput), std::vector<std::string>{"relayed"});
  attach();  // and is not tried again for a while
  route({member(0), member(1)});
  EXPECT_EQ(node("n1").dials, 1);
  EXPECT_EQ(controller_->of(IoFrame::kRelay), std::vector<std::string>{"n2"});
  unreachable_.clear();
  loop_.pass(seconds(30));
  attach();
  route({member(0), member(1)});
  EXPECT_TRUE(controller_->of(IoFrame::kRelay).empty());
  EXPECT_EQ(node("n2").shims.size(), 1u);
}

TEST_F(StepSwitchTest, ALostWayEndsTheClientsStreamAndIsAvoided) {
  attach();
  route({member(0), member(1)});
  shim("n2").stream->write(io(IoFrame::kOutput, 1, "some"));
  shim("n2").stream->close();
  loop_.run();
  EXPECT_TRUE(client_->closed);
  attach();
  route({member(0), member(1)});
  EXPECT_EQ(controller_->of(IoFrame::kRelay), std::vector<std::string>{"n2"});
}

TEST_F(StepSwitchTest, AWayThatHasServedMayEnd) {
  attach();
  route({member(0), member(1)});
  shim("n2").stream->write(io(IoFrame::kExited, 1, std::string(3, '\0')));
  shim("n2").stream->close();
  loop_.run();
  EXPECT_FALSE(client_->closed);
  EXPECT_EQ(client_->of(IoFrame::kExited).size(), 1u);
}

TEST_F(StepSwitchTest, ANodeSpeaksForItsOwnRanksOnly) {
  attach();
  route({member(0), member(1)});
  shim("n2").stream->write(io(IoFrame::kOutput, 0, "forged"));
  EXPECT_TRUE(client_->of(IoFrame::kOutput).empty());
}

TEST_F(StepSwitchTest, AControllerWithoutRoutesCarriesEverything) {
  attach();
  client_->stream->write(io(IoFrame::kStdin, kAllRanks, "in"));
  EXPECT_TRUE(controller_->of(IoFrame::kStdin).empty());
  controller_->stream->write(io(IoFrame::kStarted, 0, "1234"));
  EXPECT_EQ(controller_->of(IoFrame::kStdin), std::vector<std::string>{"in"});
}

TEST_F(StepSwitchTest, TheControllersEndIsTheClients) {
  attach();
  route({member(0)});
  controller_->stream->close();
  loop_.run();
  EXPECT_TRUE(client_->closed);
  EXPECT_EQ(node("n1").steps->sessions(), 0u);
}

TEST_F(StepSwitchTest, NonsenseEndsTheSession) {
  attach();
  controller_->stream->write(io(IoFrame::kRoute, 0, "{\"members\":7}"));
  EXPECT_TRUE(client_->closed);
  attach();
  client_->stream->write(std::string("\xff\xff\xff\xff\x01", 5) + std::string(20, 'x'));
  EXPECT_TRUE(controller_->closed);
}

TEST_F(StepSwitchTest, ManyNodesFormATree) {
  constexpr std::uint32_t kNodes = 100;
  std::vector<StepMember> members;
  for (std::uint32_t rank = 0; rank < kNodes; ++rank) members.push_back(member(rank));
  attach();
  client_->stream->write(io(IoFrame::kStdin, kAllRanks, "in"));
  route(members);
  EXPECT_EQ(node("n1").dials, static_cast<int>(StepSwitch::kFanOut));
  for (std::uint32_t rank = 0; rank < kNodes; ++rank) {
    const std::string name = "n" + std::to_string(rank + 1);
    ASSERT_EQ(node(name).shims.size(), 1u) << name;
    EXPECT_EQ(shim(name).of(IoFrame::kAttach).size(), 1u);
    EXPECT_EQ(shim(name).of(IoFrame::kStdin), std::vector<std::string>{"in"});
    shim(name).stream->write(io(IoFrame::kOutput, rank, name));
  }
  EXPECT_EQ(client_->of(IoFrame::kOutput).size(), kNodes);
  client_->stream->write(io(IoFrame::kOutputAck, 63, "ack"));
  EXPECT_EQ(shim("n64").of(IoFrame::kOutputAck).size(), 1u);
  client_->stream->close();
  loop_.run();
  for (auto& [name, node] : nodes_) {
    EXPECT_TRUE(node.shims.back()->closed) << name;
    EXPECT_EQ(node.steps->sessions(), 0u) << name;
  }
}

TEST_F(StepSwitchTest, ANodeThatFailsBelowAnotherIsAvoided) {
  std::vector<StepMember> members;
  for (std::uint32_t rank = 0; rank < 70; ++rank) members.push_back(member(rank));
  std::string below;  // a node that n1 would not dial itself
  for (const auto& hop : first_hops({members.begin() + 1, members.end()}))
    if (!hop.below.empty())
      below = hop.below.back().node;
  unreachable_ = {below};
  attach();
  route(members);
  EXPECT_TRUE(client_->closed);
  attach();
  route(members);
  EXPECT_FALSE(client_->closed);
  EXPECT_EQ(controller_->of(IoFrame::kRelay), std::vector<std::string>{below});
  for (const auto& m : members) EXPECT_EQ(nodes_[m.node].shims.empty(), m.node == below) << m.node;
}

// A client, a controller and nodes that say anything: the switch ends the session at worst.
TEST_F(StepSwitchTest, ArbitraryFramesFromEverySide) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    attach();
    const auto any = [&rng] {
      std::string payload(rng.below(rng.chance(0.1) ? 70'000 : 30), static_cast<char>(rng.below(256)));
      if (rng.chance(0.2))
        payload = "n" + std::to_string(rng.below(5));
      const std::uint64_t rank = rng.chance(0.2) ? kAllRanks : rng.chance(0.1) ? rng.next() : rng.below(4);
      std::string bytes = io(static_cast<IoFrame>(rng.below(18)), rank, payload);
      if (rng.chance(0.02))
        bytes[rng.below(bytes.size())] ^= static_cast<char>(1 << rng.below(8));
      return bytes;
    };
    for (int i = 0; i < 60; ++i) {
      switch (rng.below(5)) {
        case 0: route({member(static_cast<std::uint32_t>(rng.below(4))), member(1), member(2, 0)}); break;
        case 1: controller_->stream->write(any()); break;
        case 2:
          if (auto& shims = node("n" + std::to_string(1 + rng.below(4))).shims; !shims.empty())
            shims[rng.below(shims.size())]->stream->write(any());
          break;
        default: client_->stream->write(any());
      }
      if (rng.chance(0.3))
        loop_.run();
    }
    client_->stream->close();
    loop_.run();
    EXPECT_EQ(node("n1").steps->sessions(), 0u) << seed;
  }
}

TEST(FirstHopsTest, EveryMemberOnceAndNoMoreThanTheFanOut) {
  for (const std::size_t count : {0u, 1u, 32u, 33u, 64u, 1000u}) {
    std::vector<StepMember> members;
    for (std::size_t i = 0; i < count; ++i) members.push_back({std::to_string(i), "", 1, "", {}, {}});
    const auto hops = first_hops(members);
    EXPECT_EQ(hops.size(), std::min(count, StepSwitch::kFanOut));
    std::size_t next = 0, most = 0;
    for (const auto& hop : hops) {
      EXPECT_EQ(hop.member.node, std::to_string(next++));
      for (const auto& lower : hop.below) EXPECT_EQ(lower.node, std::to_string(next++));
      most = std::max(most, hop.below.size());
    }
    EXPECT_EQ(next, count);
    EXPECT_LE(most, count / StepSwitch::kFanOut);
  }
}

}  // namespace
}  // namespace lockstep
