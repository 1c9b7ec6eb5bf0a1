// Long environments on one link: sent once, in turn, and nothing overtakes the launches that wait for them. What one
// user's wide steps cost another is asserted in bytes, never in time.
#include "controller/launch_lane.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "controller/links.h"
#include "controller/test_world.h"
#include "controller/turns.h"
#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/long_environment.h"

namespace lockstep {
namespace {

constexpr std::size_t kLong = 900 << 10;  // less than a stream's first credit

ToAgent launch(std::uint64_t job, StepNo step, const BlobId& environment, std::uint32_t uid = 1001) {
  LaunchStep out;
  out.job = JobId(job);
  out.attempt = 1;
  out.step = step;
  out.process.uid = uid;
  out.process.env_base = environment;
  return out;
}

SharedLines lines(std::size_t bytes) { return std::make_shared<const std::string>(bytes, 'x'); }

// One link, its agent's end, and the turns that are taken by hand.
class LaunchLaneTest : public testing::Test {
 protected:
  LaunchLaneTest() {
    LinkHub::Handlers on;
    on.connected = [this](std::uint64_t link, const std::string&, const std::string&, const std::string&) {
      link_ = link;
    };
    on.disconnected = [this](std::uint64_t) { link_ = 0; };
    on.message = [](std::uint64_t, const FromAgent&) {};
    on.welcomed = [](const std::string&) {};
    on.call = [](const std::shared_ptr<HttpExchange>&) {};
    on.in_turn = [this](std::uint32_t uid, std::size_t bytes, std::function<void()> work) {
      charged_[uid] += bytes;
      turns_.push_back(std::move(work));
    };
    hub_ = std::make_unique<LinkHub>(std::move(on));
    wire_ = std::make_shared<TestWire>();
    hub_->add(std::make_unique<TestStream>(wire_), {"n1", "serial", "", "10.0.0.1"});
    send(Welcome{});
    heard();
  }
  void send(ToAgent message, SharedLines environment = nullptr) {
    std::vector<NodeDesk::Outgoing> out;
    out.push_back({link_, std::move(message), std::move(environment)});
    hub_->send(std::move(out));
  }
  bool one_turn() {
    if (turns_.empty())
      return false;
    const auto work = std::move(turns_.front());
    turns_.pop_front();
    work();
    return true;
  }
  void all_turns() {
    while (one_turn()) {}
  }
  // What the agent hears: "E" an environment begins, "x9" bytes of it, "." its end, "7.0" a launch, "stop 7".
  std::string heard() {
    std::string out;
    std::size_t bytes = 0;
    const auto say = [&](const std::string& word) {
      if (bytes > 0)
        out += format("x{} ", std::exchange(bytes, 0));
      out += word + " ";
    };
    EXPECT_TRUE(reader_
                    .feed(std::exchange(wire_->sent, {}),
                          [&](const Frame& f) {
                            switch (static_cast<LinkFrame>(f.type)) {
                              case LinkFrame::kEnvironment: stream_ = f.stream; return say("E:" + f.payload);
                              case LinkFrame::kStreamData: bytes += f.payload.size(); return;
                              case LinkFrame::kStreamClose: return say(".");
                              case LinkFrame::kMessage: return say(word_of(*decode_to_agent(f.payload)));
                              default: return say("?");
                            }
                          })
                    .ok());
    if (bytes > 0)
      say("");
    while (out.ends_with(' ')) out.pop_back();
    return out;
  }
  static std::string word_of(const ToAgent& message) {
    if (const auto* step = std::get_if<LaunchStep>(&message))
      return format("{}.{}", step->job.value, step->step);
    if (const auto* stop = std::get_if<StopWork>(&message))
      return format("stop {}", stop->job.value);
    return "other";
  }
  void hear(LinkFrame type, std::uint64_t id, std::string_view payload) {
    if (wire_->data)
      wire_->data(encode_frame(static_cast<std::uint8_t>(type), id, payload));
  }

  std::uint64_t link_ = 0, stream_ = 0;
  std::map<std::uint32_t, std::size_t> charged_;
  std::deque<std::function<void()>> turns_;
  FrameReader reader_;
  std::shared_ptr<TestWire> wire_;
  std::unique_ptr<LinkHub> hub_;
};

TEST_F(LaunchLaneTest, AnEnvironmentGoesOnceAndWhatIsSaidOfItsJobWaits) {
  const SharedLines shared = lines(kLong);
  send(launch(7, 0, "aa"), shared);
  send(launch(7, 1, "aa"), shared);
  send(StopWork{JobId(7), 1, StepPart{0}});
  send(launch(8, 0, ""));
  send(StopWork{JobId(9), 1});
  EXPECT_EQ(heard(), format("E:aa {} 8.0 stop 9", kLong)) << "others pass by";
  all_turns();
  EXPECT_EQ(heard(), format("x{} . 7.0 7.1 stop 7", kLong));
  EXPECT_EQ(charged_[1001], kLong);
  send(launch(10, 0, "aa", 1002), shared);
  EXPECT_EQ(heard(), "10.0") << "it is there already";
  EXPECT_EQ(charged_[1002], 0u);
}

TEST_F(LaunchLaneTest, ALaunchThatIsSentAgainWaitsOnce) {
  const SharedLines shared = lines(kLong);
  for (int i = 0; i < 3; ++i) send(launch(7, 0, "aa"), shared);
  all_turns();
  EXPECT_EQ(heard(), format("E:aa {} x{} . 7.0", kLong, kLong));
}

TEST_F(LaunchLaneTest, OneUserDoesNotWaitBehindAnother) {
  for (StepNo i = 0; i < 12; ++i) send(launch(7, i, format("a{}", i)), lines(kLong));
  send(launch(8, 0, "bb", 1002), lines(100 << 10));
  std::size_t turns = 0;
  while (heard().find("8.0") == std::string::npos && turns < 1'000) turns += one_turn();
  EXPECT_LE(turns, 6u);
  all_turns();
  EXPECT_EQ(charged_[1001], 12 * kLong);
  EXPECT_EQ(charged_[1002], 100u << 10);
}

TEST_F(LaunchLaneTest, MoreLeavesOnlyWhenTheAgentTakesIt) {
  send(launch(7, 0, "aa"), lines(3 << 20));
  all_turns();
  EXPECT_EQ(heard(), format("E:aa {} x{}", 3 << 20, 1 << 20)) << "its credit";
  for (int i = 0; i < 2; ++i) {
    hear(LinkFrame::kStreamWindow, stream_, std::string("\0\0\0\0\0\x10\0\0", 8));
    all_turns();
  }
  EXPECT_EQ(heard(), format("x{} . 7.0", 2 << 20));
}

TEST_F(LaunchLaneTest, OldOnesAreForgottenWhenRoomIsNeeded) {
  for (StepNo i = 0; i < 40; ++i) {
    send(launch(7, i, format("e{}", i)), lines(kLong));
    all_turns();
    send(launch(8, i, "e0"), lines(kLong));  // used all the time
    all_turns();
  }
  const std::string all = heard();
  EXPECT_NE(all.find(" e1 "), std::string::npos) << "the one that was used least lately";
  EXPECT_EQ(all.find(" e0 "), std::string::npos);
}

TEST_F(LaunchLaneTest, AnAgentThatRefusesOneIsNotTrippedOver) {
  send(launch(7, 0, "aa"), lines(3 << 20));
  one_turn();
  heard();
  hear(LinkFrame::kStreamClose, stream_, {});
  send(launch(7, 0, "aa"), lines(kLong));
  all_turns();
  EXPECT_EQ(heard(), format("E:aa {} x{} . 7.0", kLong, kLong));
  send(launch(7, 1, "bb"), lines(kLong));
  wire_->closed();
  all_turns();
  EXPECT_EQ(link_, 0u);
}

// Both were announced, the agent took the second for a fault of the link, and the next link began the same way.
TEST_F(LaunchLaneTest, AnEnvironmentOfTwoUsersGoesOnce) {
  send(launch(7, 0, "aa"), lines(kLong));
  send(launch(8, 0, "aa", 1002), lines(kLong));
  send(launch(9, 0, "bb", 1003), lines(kLong));
  send(StopWork{JobId(8), 1});
  all_turns();
  const std::string all = heard();
  EXPECT_EQ(all.find("E:aa"), all.rfind("E:aa")) << all;
  EXPECT_LT(all.find("E:aa"), all.find("7.0")) << all;
  EXPECT_NE(all.find("8.0 stop 8"), std::string::npos) << all;
  EXPECT_NE(all.find("9.0"), std::string::npos) << all;
}

TEST_F(LaunchLaneTest, WhoWaitsForAnotherUsersEnvironmentSendsItWhenThatIsRefused) {
  send(launch(7, 0, "aa"), lines(kLong));
  send(launch(8, 0, "aa", 1002), lines(kLong));
  heard();
  hear(LinkFrame::kStreamClose, stream_, {});
  all_turns();
  EXPECT_EQ(heard(), format("E:aa {} x{} . 8.0", kLong, kLong));
}

TEST_F(LaunchLaneTest, WhatIsForgottenWhileALaunchIsPaidForComesAgain) {
  const SharedLines shared = lines(kLong);
  send(launch(7, 0, "aa"), shared);
  all_turns();
  auto step = std::get<LaunchStep>(launch(7, 1, "aa"));
  step.process.argv = {"echo", std::string(1 << 20, 'x')};
  send(step, shared);
  ASSERT_EQ(turns_.size(), 1u) << "it is long by itself";
  const auto paid = std::move(turns_.front());
  turns_.clear();
  for (StepNo i = 0; i < 40; ++i) send(launch(8, i, format("b{}", i), 1002), lines(kLong));
  all_turns();
  const std::string others = heard();
  ASSERT_NE(others.find("600 aa x"), std::string::npos) << "forgotten: " << others;
  paid();
  all_turns();
  EXPECT_TRUE(heard().starts_with(format("E:aa {}", kLong)));
}

TEST_F(LaunchLaneTest, ARefusalDropsTheLaunchesThatNameItAndNothingElse) {
  const SharedLines refused = lines(kLong);
  send(launch(7, 0, "aa"), refused);
  send(launch(7, 1, "aa"), refused);
  send(StopWork{JobId(7), 1});
  send(launch(8, 0, "bb"), lines(kLong));
  send(StopWork{JobId(8), 1});
  heard();
  hear(LinkFrame::kStreamClose, stream_, {});
  all_turns();
  EXPECT_EQ(heard(), format("stop 7 E:bb {} x{} . 8.0 stop 8", kLong, kLong));
}

// What waits is memory, and ending the link for it would only have the same said again on the next.
TEST_F(LaunchLaneTest, LaunchesBeyondAUsersShareOfMemoryWaitElsewhere) {
  constexpr std::size_t kEach = 16u << 20;
  for (std::uint64_t job = 1; job <= 9; ++job) send(launch(job, 0, format("a{}", job)), lines(kEach));
  send(launch(20, 0, "bb", 1002), lines(kEach));
  send(StopWork{JobId(1), 1});
  ASSERT_NE(link_, 0u);
  std::string all;
  for (int i = 0; i < 400; ++i) {
    all_turns();
    all += heard() + " ";
    for (std::uint64_t id = 2; id <= stream_; id += 2)
      hear(LinkFrame::kStreamWindow, id, std::string("\0\0\0\0\0\x10\0\0", 8));
  }
  EXPECT_NE(all.find("stop 1"), std::string::npos);
  EXPECT_NE(all.find(" 7.0 "), std::string::npos);
  EXPECT_EQ(all.find(" 8.0 "), std::string::npos) << "half of the room is one user's";
  EXPECT_NE(all.find(" 20.0 "), std::string::npos) << "the other half is not";
  send(launch(8, 0, "a1"), lines(kLong));
  send(launch(9, 0, "a7"), lines(kLong));
  all_turns();
  EXPECT_NE(heard().find("9.0"), std::string::npos) << "what has left leaves room";
}

TEST_F(LaunchLaneTest, ALinkThatEndsWhileItSendsSendsNoMore) {
  auto step = std::get<LaunchStep>(launch(7, 0, ""));
  step.process.argv = {"echo", std::string(kFrameMax, 'x')};
  send(step);
  step.step = 1;
  step.process.argv = {"echo", std::string(1 << 20, 'x')};
  send(step);
  send(launch(7, 2, "aa"), lines(kLong));
  all_turns();
  EXPECT_EQ(link_, 0u) << "no frame carries the first";
  EXPECT_EQ(heard(), "");
  EXPECT_EQ(charged_[1001], kFrameMax + 4) << "nobody is there to get the others";
}

TEST_F(LaunchLaneTest, LongArgumentsArePaidForToo) {
  auto step = std::get<LaunchStep>(launch(7, 0, ""));
  step.process.argv = {"echo", std::string(1 << 20, 'x')};
  send(step);
  send(StopWork{JobId(7), 1});
  EXPECT_EQ(heard(), "");
  all_turns();
  EXPECT_EQ(heard(), "7.0 stop 7");
  EXPECT_EQ(charged_[1001], (1u << 20) + 4);
}

// Twelve steps of 3.9 MB on thirty nodes were sent, 1.4 GB, before anybody else was heard.
TEST(LaunchCosts, WhatOneUsersWideStepsCostAnothersListIsAPiece) {
  TestLoop loop;
  std::int64_t now_us = 0;
  FairTurns turns(loop, {}, [&] { return now_us; });  // a clock that stands still: prices decide
  std::size_t sent = 0;
  const auto in_turn = [&](std::uint32_t uid, std::size_t bytes, std::function<void()> work) {
    turns.add_later({format("user {}", uid), false}, [&, bytes, work = std::move(work)] {
      turns.costs(static_cast<std::int64_t>(bytes) / 1024);
      sent += bytes;
      now_us += static_cast<std::int64_t>(bytes) / 1024;
      work();
    });
  };
  LinkHub::Handlers on;
  std::vector<std::uint64_t> links;
  on.connected = [&](std::uint64_t link, const std::string&, const std::string&, const std::string&) {
    links.push_back(link);
  };
  on.disconnected = [](std::uint64_t) {};
  on.message = [](std::uint64_t, const FromAgent&) {};
  on.welcomed = [](const std::string&) {};
  on.call = [](const std::shared_ptr<HttpExchange>&) {};
  on.in_turn = in_turn;
  LinkHub hub(std::move(on));
  std::vector<std::shared_ptr<TestWire>> wires;
  std::vector<NodeDesk::Outgoing> out;
  for (int n = 0; n < 30; ++n) {
    wires.push_back(std::make_shared<TestWire>());
    hub.add(std::make_unique<TestStream>(wires.back()), {format("n{}", n), "serial", "", ""});
    out.push_back({links.back(), Welcome{}});
  }
  for (StepNo step = 0; step < 12; ++step) {
    const SharedLines shared = lines(kLong);
    for (const auto link : links) out.push_back({link, launch(7, step, format("e{}", step)), shared});
  }
  hub.send(std::move(out));
  std::size_t worst = 0;
  for (int lists = 0; lists < 50; ++lists) {
    const std::size_t before = sent;
    bool done = false;
    turns.add({"user 1002", false}, [&] { done = true; });
    loop.until([&] { return done; });
    worst = std::max(worst, sent - before);
    loop.until([&, from = sent] { return sent > from || turns.waiting() == 0; });
  }
  EXPECT_LE(worst, 5u << 20) << "what is sent in one slice of 4 ms, and a piece";
  loop.until([&] { return turns.waiting() == 0; });
  EXPECT_EQ(sent, 30 * 12 * kLong) << "and all of it was charged";
}

}  // namespace
}  // namespace lockstep
