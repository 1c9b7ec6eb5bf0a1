// Step I/O over links that break: what a client sees, and what a shim is told, when streams end in between.
#include "controller/step_io.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "controller/test_world.h"
#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/io_attach.h"
#include "wire/step_route.h"

namespace lockstep {
namespace {

std::string number(std::uint64_t value, int bytes) {
  std::string out;
  while (bytes-- > 0) out += static_cast<char>(value >> (8 * bytes));
  return out;
}
std::uint64_t number_at(std::string_view payload, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = at; i < at + bytes; ++i) value = value << 8 | static_cast<unsigned char>(payload[i]);
  return value;
}
std::string io_frame(IoFrame type, std::uint64_t rank, const std::string& payload) {
  return encode_frame(static_cast<std::uint8_t>(type), rank, payload);
}

// One rank as its shim keeps it: forgets output only when told that it is safe.
struct FakeShim {
  std::string output;           // everything the rank ever wrote
  std::uint64_t forgotten = 0;  // of it
  std::uint64_t sent = 0;       // on the stream at hand
  std::string input;
  std::vector<std::string> world;  // payloads of kPmi
  bool exited = false, attached = false;
  std::uint64_t acked = 0;
  int attaches = 0;
  FrameReader reader;

  // What it answers to these bytes.
  std::string hear(std::string_view bytes) {
    EXPECT_TRUE(reader.feed(bytes, [this](const Frame& frame) { take(frame); }).ok());
    return talk();
  }
  void take(const Frame& frame) {
    switch (static_cast<IoFrame>(frame.type)) {
      case IoFrame::kAttach: {
        const auto attach = decode_io_attach(frame.payload);
        ASSERT_TRUE(attach.ok());
        const auto have = attach->have.contains(0) ? attach->have.at(0)[0] : 0;
        EXPECT_GE(have, forgotten) << "bytes it asks for are gone";
        forgotten = sent = std::max(forgotten, have);
        attached = true;
        ++attaches;
        break;
      }
      case IoFrame::kOutputAck:
        acked = number_at(frame.payload, 1, 8);
        forgotten = std::max(forgotten, acked);
        break;
      case IoFrame::kStdin: {
        const auto offset = number_at(frame.payload, 0, 8);
        ASSERT_LE(offset, input.size()) << "input is missing";
        if (offset + frame.payload.size() - 8 > input.size())
          input += frame.payload.substr(8 + (input.size() - offset));
        break;
      }
      case IoFrame::kPmi: world.push_back(frame.payload); break;
      default: break;
    }
  }
  std::string talk() {
    std::string out;
    if (!attached)
      return out;
    if (sent < output.size())
      out += io_frame(IoFrame::kOutput, 0, number(1, 1) + number(sent, 8) + output.substr(sent));
    sent = output.size();
    if (exited)
      out += io_frame(IoFrame::kExited, 0, std::string(3, '\0'));
    return out;
  }
  void cut_off() {
    attached = false;
    reader = {};
  }
};

class StepIoTest : public ::testing::Test {
 protected:
  StepIoTest() : links(handlers()), step_io(loop, view, links, office, [] { return Instant{1000}; }) {
    auto node = std::make_shared<Node>();
    node->meta.name = "n1";
    node->address = "10.0.0.1";
    node->id = NodeId{1};
    auto step = std::make_shared<Step>();
    step->job = JobId{7};
    step->number = 0;
    step->attempt = 3;
    step->state = StepState::kRunning;
    StepPlace place;
    place.node = NodeId{1};
    place.ranks = {0};
    step->places = {place};
    step->members = {MemberState::kRunning};
    step->spec = std::make_shared<const StepSpec>();
    view.apply({{1, node, false}, {2, step, false}});
  }
  LinkHub::Handlers handlers() {
    LinkHub::Handlers out;
    out.connected = [this](std::uint64_t link, const std::string&, const std::string&, const std::string&) {
      last_link = link;
    };
    out.disconnected = [](std::uint64_t) {};
    out.message = [](std::uint64_t, const FromAgent&) {};
    out.welcomed = [this](const std::string& name) { step_io.welcomed(name); };
    return out;
  }

  void link_up() {
    wire = std::make_shared<TestWire>();
    link_reader = {};
    seen = 0;
    links.add(std::make_unique<TestStream>(wire), {"n1", "", ""});
    links.send({{last_link, Welcome{}}});
    serve();
  }
  void link_down() {
    wire->closed();
    shim.cut_off();
    stream = 0;
    settle();
  }
  // The agent: passes what came for its stream to the shim, and the shim's words back.
  void serve() {
    while (wire) {
      const std::string fresh = wire->sent.substr(seen);
      if (fresh.empty())
        return;
      seen = wire->sent.size();
      std::vector<Frame> frames;
      ASSERT_TRUE(link_reader.feed(fresh, [&](Frame f) { frames.push_back(std::move(f)); }).ok());
      for (const auto& frame : frames) {
        if (frame.type == static_cast<std::uint8_t>(LinkFrame::kOpenStream)) {
          const auto open = decode_step_open(frame.payload);
          ASSERT_TRUE(open.ok());
          EXPECT_EQ(open->ticket.attempt, 3u);
          EXPECT_EQ(open->ticket.node, "n1");
          EXPECT_EQ(open->ticket.mac, plain_mac(office.node_key("n1"), signed_text(open->ticket)));
          stream = frame.stream;
        } else if (frame.type == static_cast<std::uint8_t>(LinkFrame::kStreamData) && frame.stream == stream) {
          say(shim.hear(frame.payload));
        } else if (frame.type == static_cast<std::uint8_t>(LinkFrame::kStreamClose) && frame.stream == stream) {
          stream = 0;
        }
      }
    }
  }
  void say(const std::string& bytes) {
    if (stream != 0 && !bytes.empty())
      wire->data(encode_frame(static_cast<std::uint8_t>(LinkFrame::kStreamData), stream, bytes));
  }
  void writes(const std::string& text) {
    shim.output += text;
    say(shim.talk());
    serve();
  }

  std::shared_ptr<TestWire> client(StepIo::Ask ask = {}) {
    auto made = std::make_shared<TestWire>();
    step_io.attach(std::make_unique<TestStream>(made), {JobId{7}, 0}, ask, nullptr);
    return made;
  }
  void tell(const std::shared_ptr<TestWire>& from, IoFrame type, const std::string& payload, std::uint64_t rank = 0) {
    from->data(io_frame(type, rank, payload));
    serve();
  }
  void acknowledge(const std::shared_ptr<TestWire>& from, std::uint64_t upto) {
    tell(from, IoFrame::kOutputAck, number(1, 1) + number(upto, 8));
  }
  // A client's output, put together without any knowledge of what came twice.
  static std::string text_of(const std::shared_ptr<TestWire>& wire) {
    FrameReader reader;
    std::string out;
    EXPECT_TRUE(reader
                    .feed(wire->sent,
                          [&](const Frame& frame) {
                            if (frame.type != static_cast<std::uint8_t>(IoFrame::kOutput))
                              return;
                            EXPECT_EQ(number_at(frame.payload, 1, 8), out.size()) << "a gap or a repetition";
                            out += frame.payload.substr(9);
                          })
                    .ok());
    return out;
  }
  void settle() {
    bool reached = false;
    loop.post([&] { reached = true; });
    loop.until([&] { return reached; });
  }

  static std::string plain_mac(std::string_view key, std::string_view text) {
    return std::string("<").append(key).append("|").append(text).append(">");
  }

  TestLoop loop;
  LiveView view{{}};
  TicketOffice office{"secret", plain_mac};
  std::uint64_t last_link = 0, stream = 0;
  LinkHub links;
  StepIo step_io;
  std::shared_ptr<TestWire> wire;
  FrameReader link_reader;
  std::size_t seen = 0;
  FakeShim shim;
};

TEST_F(StepIoTest, ALinkLossLosesAndDoublesNothing) {
  link_up();
  const auto srun = client();
  tell(srun, IoFrame::kAttach, "");
  writes("hello ");
  acknowledge(srun, 3);
  tell(srun, IoFrame::kStdin, number(0, 8) + "in", kAllRanks);
  link_down();
  shim.output += "wor";  // while nobody listens
  tell(srun, IoFrame::kStdin, number(2, 8) + "put", kAllRanks);
  link_up();
  writes("ld");
  EXPECT_EQ(shim.attaches, 2);
  EXPECT_EQ(text_of(srun), "hello world");
  EXPECT_EQ(shim.input, "input");
  EXPECT_EQ(shim.forgotten, 3u);  // no more than the client confirmed
  acknowledge(srun, 11);
  EXPECT_EQ(shim.forgotten, 11u);
}

TEST_F(StepIoTest, WhatALostClientDidNotConfirmIsThereForTheNext) {
  link_up();
  const auto first = client();
  tell(first, IoFrame::kAttach, "");
  writes("hello");
  link_down();
  link_up();  // attached anew: the client has got these bytes sent, and may never see them
  EXPECT_EQ(text_of(first), "hello");
  first->closed();
  settle();
  shim.cut_off();
  const auto second = client();
  tell(second, IoFrame::kAttach, "");
  EXPECT_EQ(text_of(second), "hello");
}

TEST_F(StepIoTest, TheLastAcknowledgementComesAfterTheExit) {
  link_up();
  const auto srun = client();
  tell(srun, IoFrame::kAttach, "");
  shim.exited = true;
  writes("bye");
  EXPECT_EQ(shim.acked, 0u);
  acknowledge(srun, 3);
  EXPECT_EQ(shim.acked, 3u);
  srun->closed();
  settle();
  serve();
  EXPECT_EQ(stream, 0u);
  EXPECT_EQ(step_io.sessions(), 0u);
}

// What tasks have for each other is passed on both ways, also behind the last exit; what finds no link is lost, since
// both ends know what they lack.
TEST_F(StepIoTest, WorldsSpeakThroughIt) {
  link_up();
  const auto srun = client();
  tell(srun, IoFrame::kAttach, "{}", kAllRanks);
  say(io_frame(IoFrame::kPmi, 0, "up"));
  EXPECT_TRUE(srun->sent.ends_with(io_frame(IoFrame::kPmi, 0, "up")));
  const std::size_t before = srun->sent.size();
  say(io_frame(IoFrame::kPmi, 1, "of another node"));
  EXPECT_EQ(srun->sent.size(), before);
  tell(srun, IoFrame::kPmi, "down", 0);
  tell(srun, IoFrame::kPmi, "to all", kAllRanks);
  EXPECT_EQ(shim.world, (std::vector<std::string>{"down", "to all"}));
  link_down();
  tell(srun, IoFrame::kPmi, "lost", 0);
  link_up();
  shim.exited = true;
  writes("");
  tell(srun, IoFrame::kPmi, "last", 0);
  EXPECT_EQ(shim.world, (std::vector<std::string>{"down", "to all", "last"}));
}

TEST_F(StepIoTest, ANodeWithoutALinkIsAttachedWhenItComes) {
  const auto srun = client();
  tell(srun, IoFrame::kAttach, "");
  tell(srun, IoFrame::kStdin, number(0, 8) + "early", kAllRanks);
  link_up();
  writes("late");
  EXPECT_EQ(text_of(srun), "late");
  EXPECT_EQ(shim.input, "early");
}

TEST_F(StepIoTest, ANodeLostForGoodIsTold) {
  link_up();
  const auto srun = client();
  tell(srun, IoFrame::kAttach, "");
  link_down();
  Step step = *view.tables().steps.at({JobId{7}, 0});
  step.members[0] = MemberState::kStopped;
  const Change change{3, std::make_shared<const Step>(step), false};
  step_io.changed(view.apply({change}));
  FrameReader reader;
  std::string gone;
  ASSERT_TRUE(reader
                  .feed(srun->sent,
                        [&](const Frame& frame) {
                          if (frame.type == static_cast<std::uint8_t>(IoFrame::kNodeGone))
                            gone = frame.payload;
                        })
                  .ok());
  EXPECT_EQ(gone, "n1");
}

TEST_F(StepIoTest, AnAgentIsGivenTheWayAndRelayedWhatItCannotDial) {
  link_up();
  Hello hello;
  hello.facts.address = "10.9.9.9";  // as it says: its record counts
  hello.peer_port = 4711;
  wire->data(encode_frame(static_cast<std::uint8_t>(LinkFrame::kMessage), 0, encode(FromAgent{hello})));
  const auto agent = client({kStepOutput, true});
  tell(agent, IoFrame::kAttach, "");
  EXPECT_EQ(stream, 0u);
  FrameReader reader;
  std::optional<StepRoute> route;
  ASSERT_TRUE(reader
                  .feed(agent->sent,
                        [&](const Frame& frame) {
                          if (frame.type == static_cast<std::uint8_t>(IoFrame::kRoute))
                            route = *decode_step_route(frame.payload);
                        })
                  .ok());
  ASSERT_TRUE(route && route->members.size() == 1);
  const StepMember& member = route->members[0];
  EXPECT_EQ(member.node, "n1");
  EXPECT_EQ(member.address, "10.0.0.1");
  EXPECT_EQ(member.port, 4711);
  EXPECT_EQ(member.ranks, std::vector<std::uint32_t>{0});
  EXPECT_EQ(member.ticket.verbs, kStepOutput);
  EXPECT_EQ(member.ticket.expires_us, 1000 + kTicketLife.us);
  EXPECT_EQ(member.ticket.mac, plain_mac(office.node_key("n1"), signed_text(member.ticket)));
  tell(agent, IoFrame::kStdin, number(0, 8) + "direct", kAllRanks);
  EXPECT_EQ(shim.input, "");
  tell(agent, IoFrame::kRelay, "n1");
  tell(agent, IoFrame::kStdin, number(0, 8) + "relayed", kAllRanks);
  writes("out");
  EXPECT_EQ(shim.input, "relayed");
  EXPECT_EQ(text_of(agent), "out");
}

TEST_F(StepIoTest, NonsenseEndsTheClientAlone) {
  link_up();
  const auto good = client(), bad = client();
  tell(good, IoFrame::kAttach, "");
  bad->data(std::string("\xff\xff\xff\xff\x01", 5) + std::string(20, 'x'));
  settle();
  EXPECT_TRUE(bad->gone);
  writes("x");
  EXPECT_EQ(text_of(good), "x");
}

// A node's word counts for the ranks that are placed there, and for no others.
TEST_F(StepIoTest, ANodeSpeaksForItsOwnRanks) {
  link_up();
  const auto srun = client();
  tell(srun, IoFrame::kAttach, "{}", kAllRanks);
  const std::size_t before = srun->sent.size();
  for (const std::uint64_t rank : {std::uint64_t{1}, std::uint64_t{1} << 32, kAllRanks}) {
    say(io_frame(IoFrame::kOutput, rank, number(1, 1) + number(0, 8) + "forged"));
    say(io_frame(IoFrame::kExited, rank, std::string(3, '\0')));
  }
  EXPECT_EQ(srun->sent.size(), before);
  writes("mine");
  EXPECT_EQ(text_of(srun), "mine");
}

TEST_F(StepIoTest, AClientThatNeverAttachesIsLetGo) {
  link_up();
  const auto silent = client(), srun = client();
  tell(srun, IoFrame::kAttach, "{}", kAllRanks);
  loop.fire(seconds(30));
  settle();
  EXPECT_TRUE(silent->gone);
  EXPECT_FALSE(srun->gone);
  EXPECT_EQ(step_io.sessions(), 1u);
}

// Whatever a client with a step of its own and a node with a certificate say, nothing ends us.
TEST_F(StepIoTest, ArbitraryFramesFromClientsAndFromANode) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    wire = std::make_shared<TestWire>();
    links.add(std::make_unique<TestStream>(wire), {"n1", "", ""});
    links.send({{last_link, Welcome{}}});
    const auto srun = client({kStepEverything, rng.chance(0.5)});
    for (int i = 0; i < 60; ++i) {
      std::string payload(rng.below(rng.chance(0.1) ? 70'000 : 30), static_cast<char>(rng.below(256)));
      if (rng.chance(0.2))
        payload = rng.chance(0.5) ? R"({"have":{"0":[1,2],"9":[18446744073709551615,0]}})" : "n1";
      const std::uint64_t rank = rng.chance(0.2) ? kAllRanks : rng.chance(0.1) ? rng.next() : rng.below(3);
      std::string bytes = encode_frame(static_cast<std::uint8_t>(rng.below(18)), rank, payload);
      if (rng.chance(0.02))
        bytes[rng.below(bytes.size())] ^= static_cast<char>(1 << rng.below(8));
      if (rng.chance(0.5)) {
        if (srun->data)
          srun->data(bytes);
      } else if (wire->data) {
        const auto type = rng.chance(0.1) ? LinkFrame::kStreamClose : LinkFrame::kStreamData;
        wire->data(encode_frame(static_cast<std::uint8_t>(type), 2 + rng.below(6) * 2, bytes));
      }
      wire->sent.clear();
      srun->sent.clear();
      if (rng.chance(0.1)) {
        settle();
        loop.fire(millis(100));
      }
    }
    if (srun->closed)
      srun->closed();
    if (wire->closed)
      wire->closed();
    settle();
    EXPECT_EQ(step_io.sessions(), 0u);
  }
}

}  // namespace
}  // namespace lockstep
