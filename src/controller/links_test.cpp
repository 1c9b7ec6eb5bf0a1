// The hub's end of agents' links: long bodies and answers in parts, what one node may hold, and a node that lies.
#include "controller/links.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "controller/test_world.h"
#include "wire/api_call.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace lockstep {
namespace {

using Exchanges = std::vector<std::shared_ptr<HttpExchange>>;

class LinksTest : public testing::Test {
 protected:
  explicit LinksTest(LinkLimits limits = {}) : hub_(handlers(), limits) { wire_ = connect("n1"); }

  LinkHub::Handlers handlers() {
    LinkHub::Handlers on;
    on.connected = [this](std::uint64_t link, const std::string&, const std::string&, const std::string&) {
      ++connected_;
      last_ = link;
    };
    on.disconnected = [this](std::uint64_t) { ++disconnected_; };
    on.message = [](std::uint64_t, const FromAgent&) {};
    on.welcomed = [](const std::string&) {};
    on.call = [this](std::shared_ptr<HttpExchange> exchange) { calls_.push_back(std::move(exchange)); };
    on.told = [this](const std::string&, std::string what) { told_.push_back(std::move(what)); };
    on.body_bound = [](const HttpRequest& head) {
      return head.path == "/small" ? std::size_t{10} : std::size_t{1} << 30;
    };
    return on;
  }
  std::shared_ptr<TestWire> connect(const std::string& node, const std::string& address = "10.0.0.1") {
    auto wire = std::make_shared<TestWire>();
    hub_.add(std::make_unique<TestStream>(wire), {node, "serial", "realm", address});
    hub_.send({{last_, Welcome{}}});
    wire->sent.clear();
    return wire;
  }
  std::vector<Frame> sent() {
    std::vector<Frame> frames;
    EXPECT_TRUE(reader_.feed(std::exchange(wire_->sent, {}), [&](Frame f) { frames.push_back(std::move(f)); }).ok());
    return frames;
  }
  void hear(LinkFrame type, std::uint64_t id, std::string_view payload) {
    if (wire_->data)
      wire_->data(encode_frame(static_cast<std::uint8_t>(type), id, payload));
  }
  void ask(std::uint64_t id, const std::string& target = "/v1/jobs", std::uint64_t bytes = 0) {
    ApiCall call{
        .method = "POST", .target = target, .body = {}, .bytes = bytes, .upgrade = {}, .uid = 1001, .gid = 1001};
    hear(LinkFrame::kApiCall, id, encode(call));
  }
  void credit(std::uint64_t id) { hear(LinkFrame::kStreamWindow, id, std::string("\0\0\0\0\0\x10\0\0", 8)); }
  int status_of_last_reply() {
    int status = 0;
    for (const Frame& f : sent())
      if (f.type == static_cast<std::uint8_t>(LinkFrame::kApiReply))
        status = decode_api_reply(f.payload)->status;
    return status;
  }

  Exchanges calls_;
  std::vector<std::string> told_;
  int connected_ = 0, disconnected_ = 0;
  std::uint64_t last_ = 0;  // link that was connected last
  FrameReader reader_;
  std::shared_ptr<TestWire> wire_;
  LinkHub hub_;
};

TEST_F(LinksTest, AnotherMachineWithTheSameCertificateIsNamed) {
  const auto said = [&] {
    std::string all;
    for (const auto& one : std::exchange(told_, {})) all += one;
    return all;
  };
  said();
  connect("n1");
  EXPECT_EQ(said(), "") << "the same agent, before we know that its first connection is dead";
  connect("n2", "10.0.0.2");
  EXPECT_EQ(said(), "") << "another node";
  connect("n1", "10.0.0.9");
  const std::string named = said();
  for (const char* word : {"n1", "10.0.0.9", "10.0.0.1", "serial", "lockstep node revoke n1"})
    EXPECT_NE(named.find(word), std::string::npos) << word << ": " << named;
}

TEST_F(LinksTest, WhoSendsWhatIsRefusedHearsWhy) {
  Hello hello;
  hello.facts.meta.name = "n1";
  hello.facts.devices.resize(100'000);
  hear(LinkFrame::kMessage, 0, encode(FromAgent{hello}));
  ASSERT_FALSE(told_.empty());
  EXPECT_NE(told_.back().find("node n1 at 10.0.0.1 is refused: "), std::string::npos) << told_.back();
  EXPECT_NE(told_.back().find("devices"), std::string::npos) << told_.back();
  bool heard = false;
  for (const Frame& f : sent())
    if (f.type == static_cast<std::uint8_t>(LinkFrame::kMessage))
      if (const auto message = decode_to_agent(f.payload); message.ok())
        if (const auto* refused = std::get_if<Refused>(&*message))
          heard = refused->why.find("devices") != std::string::npos;
  EXPECT_TRUE(heard) << "its own log is where its administrator looks";
  EXPECT_EQ(disconnected_, 1);
}

// Reading it would keep everybody waiting.
TEST_F(LinksTest, ALongMessageIsNotRead) {
  hear(LinkFrame::kMessage, 0, std::string((8 << 20) + 1, '['));
  ASSERT_FALSE(told_.empty());
  EXPECT_NE(told_.back().find("a message of 8388609 bytes"), std::string::npos) << told_.back();
  EXPECT_EQ(disconnected_, 1);
}

// A hub whose long messages are read when the test says so.
struct ReadElsewhere : testing::Test {
  std::vector<std::uint32_t> measured;
  std::vector<std::function<void()>> work, then;
  std::shared_ptr<TestWire> wire = std::make_shared<TestWire>();
  std::unique_ptr<LinkHub> hub;

  ReadElsewhere() {
    LinkHub::Handlers on;
    std::uint64_t last = 0;
    on.connected = [&last](std::uint64_t link, const std::string&, const std::string&, const std::string&) {
      last = link;
    };
    on.disconnected = [](std::uint64_t) {};
    on.message = [](std::uint64_t, const FromAgent&) {};
    on.welcomed = [](const std::string&) {};
    on.measured = [this](const std::string&, const Telemetry& told) { measured.push_back(told.load_percent); };
    on.aside = [this](const std::string& node, std::function<void()> one, std::function<void()> other) -> Result<void> {
      EXPECT_EQ(node, "n1");
      work.push_back(std::move(one));
      then.push_back(std::move(other));
      return {};
    };
    hub = std::make_unique<LinkHub>(std::move(on));
    hub->add(std::make_unique<TestStream>(wire), {"n1", "serial", "realm", "10.0.0.1"});
    hub->send({{last, Welcome{}}});
  }
  void tell(std::uint32_t load, std::size_t containers) {
    Telemetry told;
    told.load_percent = load;
    ContainerSample one;
    one.job = JobId(1);
    one.container = "main";
    told.containers.assign(containers, one);
    wire->data(encode_frame(static_cast<std::uint8_t>(LinkFrame::kMessage), 0, encode(FromAgent{told})));
  }
};

TEST_F(ReadElsewhere, NothingOvertakesALongMessage) {
  tell(1, 1);
  EXPECT_EQ(measured, (std::vector<std::uint32_t>{1}));
  ASSERT_TRUE(work.empty());
  tell(2, 2'000);
  tell(3, 1);
  tell(4, 2'000);
  EXPECT_EQ(measured, (std::vector<std::uint32_t>{1}));
  ASSERT_EQ(work.size(), 1u) << "one at a time";
  work[0]();
  then[0]();
  EXPECT_EQ(measured, (std::vector<std::uint32_t>{1, 2, 3}));
  ASSERT_EQ(work.size(), 2u);
  work[1]();
  then[1]();
  tell(5, 1);
  EXPECT_EQ(measured, (std::vector<std::uint32_t>{1, 2, 3, 4, 5}));
}

TEST_F(ReadElsewhere, ALinkThatHasEndedIsNotHeardAnyMore) {
  tell(1, 2'000);
  ASSERT_EQ(work.size(), 1u);
  work[0]();
  const auto closed = std::move(wire->closed);
  closed();
  then[0]();
  EXPECT_TRUE(measured.empty());
}

TEST_F(LinksTest, ALongAnswerTravelsInPartsWithCredit) {
  ask(1);
  ask(3);
  ASSERT_EQ(calls_.size(), 2u);
  const std::string body((90u << 20) + 7, 'a');  // more than a frame carries
  calls_[0]->respond({.body = body});
  calls_[1]->respond({.body = "short"});
  std::string collected;
  std::size_t announced = 0, longest = 0;
  bool ended = false, short_came = false;
  for (int i = 0; i < 200 && !ended; ++i) {
    for (const Frame& f : sent()) {
      longest = std::max(longest, f.payload.size());
      if (f.type == static_cast<std::uint8_t>(LinkFrame::kApiReply) && f.stream == 1)
        announced = decode_api_reply(f.payload)->bytes;
      else if (f.type == static_cast<std::uint8_t>(LinkFrame::kApiReply))
        short_came = collected.size() <= std::size_t{1} << 20;
      else if (f.type == static_cast<std::uint8_t>(LinkFrame::kStreamData))
        collected += f.payload;
      ended = ended || f.type == static_cast<std::uint8_t>(LinkFrame::kStreamClose);
    }
    credit(1);
  }
  EXPECT_EQ(announced, body.size());
  EXPECT_TRUE(collected == body);
  EXPECT_TRUE(short_came);
  EXPECT_LE(longest, std::size_t{64} << 10);
}

TEST_F(LinksTest, AnAnswerOverTheBoundIsRefusedWithItsSize) {
  ask(1);
  calls_[0]->respond({.body = std::string(200u << 20, 'a')});
  EXPECT_EQ(status_of_last_reply(), 507);
}

TEST_F(LinksTest, ALongBodyIsCollectedAndThenOneRequest) {
  ask(1, "/v1/jobs?x=1", 200'000);
  EXPECT_TRUE(calls_.empty());
  hear(LinkFrame::kStreamData, 1, std::string(150'000, 'b'));
  hear(LinkFrame::kStreamData, 1, std::string(50'000, 'c'));
  ASSERT_EQ(calls_.size(), 1u);
  EXPECT_EQ(calls_[0]->request().body.size(), 200'000u);
  EXPECT_EQ(calls_[0]->request().query.at("x"), "1");
  EXPECT_EQ(calls_[0]->request().peer.uid, 1001u);
  calls_[0]->respond({.status = 201});
  EXPECT_EQ(status_of_last_reply(), 201);
  ask(3, "/small", 11);
  EXPECT_EQ(status_of_last_reply(), 413);
  ask(5, "/v1/jobs", 100'000);  // and the client leaves in the middle
  hear(LinkFrame::kStreamClose, 5, {});
  hear(LinkFrame::kStreamData, 5, std::string(100'000, 'd'));
  EXPECT_EQ(calls_.size(), 1u);
}

TEST_F(LinksTest, ABodyLongerThanAnnouncedEndsTheLink) {
  ask(1, "/v1/jobs", 100'000);
  hear(LinkFrame::kStreamData, 1, std::string(100'001, 'b'));
  EXPECT_TRUE(wire_->gone);
  EXPECT_EQ(disconnected_, 1);
  EXPECT_TRUE(calls_.empty());
}

TEST_F(LinksTest, OneNodesBodiesDoNotTakeTheOthersMemory) {
  for (std::uint64_t id = 1; id < 40; id += 2) ask(id, "/v1/jobs", 30u << 20);
  EXPECT_EQ(status_of_last_reply(), 503);
  wire_ = connect("n2");
  ask(1, "/v1/jobs", 30u << 20);
  EXPECT_EQ(status_of_last_reply(), 0);  // it is being collected
}

TEST_F(LinksTest, OnlyTheRequestThatAskedIsUpgraded) {
  ask(1);
  EXPECT_EQ(calls_[0]->upgrade("lockstep-stepio/1"), nullptr);
  EXPECT_EQ(status_of_last_reply(), 426);
  const ApiCall call{.method = "GET", .target = "/io", .body = {}, .upgrade = "lockstep-stepio/1"};
  hear(LinkFrame::kOpenStream, 3, encode(call));
  hear(LinkFrame::kOpenStream, 5, encode(call));
  ASSERT_EQ(calls_.size(), 3u);
  EXPECT_NE(calls_[1]->upgrade("lockstep-stepio/1"), nullptr);
  hear(LinkFrame::kStreamClose, 5, {});  // its client is gone: a stream would never end
  EXPECT_EQ(calls_[2]->upgrade("lockstep-stepio/1"), nullptr);
}

TEST_F(LinksTest, ANumberThatComesTwiceBelongsToOneCall) {
  ask(1);
  ask(1);  // refused: it is taken
  ASSERT_EQ(calls_.size(), 1u);
  hear(LinkFrame::kStreamClose, 1, {});
  ask(1);
  ASSERT_EQ(calls_.size(), 2u);
  (void)sent();
  calls_[0]->respond({.body = "old"});  // nobody waits for it
  EXPECT_TRUE(sent().empty());
  bool told = false;
  calls_[1]->on_gone([&] { told = true; });
  calls_[0].reset();
  hear(LinkFrame::kStreamClose, 1, {});
  EXPECT_TRUE(told);
}

TEST_F(LinksTest, ANodeHasFewLinks) {
  std::vector<std::shared_ptr<TestWire>> wires;
  for (int i = 0; i < 20; ++i) wires.push_back(connect("n1"));
  EXPECT_LE(hub_.size(), 4u);
  EXPECT_FALSE(wires.back()->gone);
}

// An authenticated node that sends anything at all, while its calls are answered in every way.
TEST(LinksCampaign, ArbitraryFramesFromANode) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    Exchanges kept;
    std::vector<std::unique_ptr<Stream>> streams;
    LinkHub::Handlers on;
    std::uint64_t last = 0;
    on.connected = [&last](std::uint64_t link, const std::string&, const std::string&, const std::string&) {
      last = link;
    };
    on.disconnected = [](std::uint64_t) {};
    on.message = [](std::uint64_t, const FromAgent&) {};
    on.welcomed = [](const std::string&) {};
    on.call = [&](std::shared_ptr<HttpExchange> exchange) {
      switch (rng.below(5)) {
        case 0: exchange->respond({.body = std::string(rng.below(200'000), 'r')}); break;
        case 1:
          if (auto stream = exchange->upgrade("any/1"))
            streams.push_back(std::move(stream));
          break;
        case 2: break;  // dropped
        case 3: exchange->on_gone([&kept] { kept.clear(); }); [[fallthrough]];
        default: kept.push_back(std::move(exchange));
      }
    };
    LinkHub hub(std::move(on), {.memory_bytes = 4 << 20, .unsent_bytes_max = 1 << 20});
    const auto wire = std::make_shared<TestWire>();
    hub.add(std::make_unique<TestStream>(wire), {"n1", "serial", "realm"});
    hub.send({{last, Welcome{}}});
    for (int i = 0; i < 200 && wire->data; ++i) {
      std::string payload(rng.below(rng.chance(0.2) ? 100'000 : 60), 'x');
      if (rng.chance(0.6)) {
        ApiCall call{.method = "GET", .target = "/v1/x?a=%41&b", .body = std::string(rng.below(100), 'b')};
        if (rng.chance(0.3))
          call.bytes = rng.chance(0.1) ? rng.next() >> 1 : rng.below(150'000);
        if (rng.chance(0.3))
          call.upgrade = "any/1";
        payload = encode(call);
      }
      std::string bytes = encode_frame(static_cast<std::uint8_t>(rng.below(9)), rng.below(10), payload);
      if (rng.chance(0.02))
        bytes[rng.below(bytes.size())] ^= static_cast<char>(1 << rng.below(8));
      wire->data(bytes);
      if (!kept.empty() && rng.chance(0.3)) {
        const auto exchange = std::move(kept.back());
        kept.pop_back();
        if (rng.chance(0.5))
          exchange->respond({.body = std::string(rng.below(90'000), 'k')});
      }
      if (!streams.empty() && rng.chance(0.3))
        streams[rng.below(streams.size())]->write(std::string(rng.below(5000), 's'));
      wire->sent.clear();
    }
    kept.clear();
  }
}

}  // namespace
}  // namespace lockstep
