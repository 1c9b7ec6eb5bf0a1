// Tickets that open a step's input and output: what a node honours, and what it does not.
#include "agent/ticket_gate.h"

#include <gtest/gtest.h>

#include "link/test_streams.h"
#include "wire/frame.h"

namespace lockstep {
namespace {

std::string test_mac(std::string_view key, std::string_view text) {
  return std::string("<").append(key).append("|").append(text).append(">");
}

class TicketGateTest : public testing::Test {
 protected:
  TicketGateTest() { gate_.set_key("key of n1", Instant{5'000'000}, Instant{100}); }

  static StepTicket signed_by(const std::string& key, StepTicket ticket) {
    ticket.mac = test_mac(key, signed_text(ticket));
    return ticket;
  }
  static StepTicket good() {
    return signed_by("key of n1", {JobId(7), 2, 1, "n1", 1000, kStepEverything, 6'000'000, ""});
  }
  std::string why(const StepTicket& ticket, std::optional<std::uint32_t> owner = 1000, Instant now = Instant{200}) {
    const auto checked = gate_.check(ticket, owner, now);
    return checked.ok() ? "" : checked.error().message;
  }

  TicketGate gate_{"n1", test_mac};
};

TEST_F(TicketGateTest, WhatTheControllerSignedIsHonoured) {
  EXPECT_EQ(why(good()), "");
  EXPECT_EQ(why(good(), std::nullopt), "");
}

TEST_F(TicketGateTest, AForgedTicketIsRefused) {
  EXPECT_NE(why(signed_by("another key", good())).find("not signed"), std::string::npos);
  StepTicket none = good();
  none.mac.clear();
  EXPECT_NE(why(none).find("not signed"), std::string::npos);
  StepTicket longer = good();
  longer.mac += "0";
  EXPECT_NE(why(longer).find("not signed"), std::string::npos);
}

TEST_F(TicketGateTest, EveryFieldIsSigned) {
  const std::function<void(StepTicket&)> changes[] = {
      [](StepTicket& t) { t.job = JobId(8); },
      [](StepTicket& t) { t.attempt = 3; },
      [](StepTicket& t) { t.step = 0; },
      [](StepTicket& t) { t.uid = 0; },
      [](StepTicket& t) { t.verbs = kStepOutput; },
      [](StepTicket& t) { t.expires_us += 1'000'000; },
  };
  for (const auto& change : changes) {
    StepTicket ticket = good();
    change(ticket);
    EXPECT_NE(why(ticket, std::nullopt).find("not signed"), std::string::npos) << signed_text(ticket);
  }
}

TEST_F(TicketGateTest, ATicketOpensOneNodeOnly) {
  StepTicket other = good();
  other.node = "n2";
  EXPECT_NE(why(signed_by("key of n2", other)).find("for node n2"), std::string::npos);
  EXPECT_NE(why(signed_by("key of n1", other)).find("for node n2"), std::string::npos);
}

TEST_F(TicketGateTest, ATicketExpiresByClusterTime) {
  EXPECT_EQ(why(good(), 1000, Instant{100 + 999'999}), "");
  EXPECT_NE(why(good(), 1000, Instant{100 + 1'000'000}).find("expired"), std::string::npos);
}

TEST_F(TicketGateTest, AnotherUsersStepStaysClosed) {
  EXPECT_NE(why(good(), 1001).find("user 1000"), std::string::npos);
}

TEST_F(TicketGateTest, WithoutAKeyNothingIsHonoured) {
  const TicketGate fresh("n1", test_mac);
  EXPECT_FALSE(fresh.check(signed_by("", good()), 1000, Instant{200}).ok());
}

// The keys are made anew when a node is revoked, so that it cannot show what it has seen.
TEST_F(TicketGateTest, ATicketFromBeforeTheKeyWasRenewedIsVoid) {
  gate_.set_key("new key of n1", Instant{5'000'100}, Instant{200});
  EXPECT_NE(why(good()).find("not signed"), std::string::npos);
  EXPECT_EQ(why(signed_by("new key of n1", good())), "");
}

TEST_F(TicketGateTest, ATicketWithoutVerbsIsRefused) {
  StepTicket ticket = good();
  ticket.verbs = 0;
  EXPECT_NE(why(signed_by("key of n1", ticket)).find("nothing"), std::string::npos);
}

// What comes out of a guarded stream, frame by frame, when the client says these.
struct Guarded {
  std::string types;
  bool closed = false;
};
Guarded through(std::uint8_t verbs, const std::vector<IoFrame>& frames) {
  auto [ours, theirs] = MemoryStream::pair();
  auto stream = guarded(std::move(ours), verbs);
  Guarded out;
  FrameReader reader;
  stream->on_close([&] { out.closed = true; });
  stream->on_data([&](std::string_view bytes) {
    EXPECT_TRUE(reader.feed(bytes, [&](const Frame& f) { out.types += std::to_string(f.type) + " "; }).ok());
  });
  for (const auto type : frames) theirs->write(encode_frame(static_cast<std::uint8_t>(type), 0, "x"));
  return out;
}

TEST(GuardedStreamTest, AFrameThatAsksForMoreEndsTheStream) {
  const std::vector<IoFrame> reading = {IoFrame::kAttach, IoFrame::kOutputAck};
  EXPECT_EQ(through(kStepOutput, reading).types, "1 6 ");
  EXPECT_FALSE(through(kStepOutput, reading).closed);
  for (const auto type : {IoFrame::kStdin, IoFrame::kStdinEof, IoFrame::kWindowSize, IoFrame::kSignal}) {
    const auto tried = through(kStepOutput, {IoFrame::kAttach, type, IoFrame::kOutputAck});
    EXPECT_EQ(tried.types, "1 ");
    EXPECT_TRUE(tried.closed);
  }
  EXPECT_EQ(through(kStepOutput | kStepSignal, {IoFrame::kSignal, IoFrame::kStdin}).types, "9 ");
  EXPECT_EQ(through(kStepOutput | kStepInput, {IoFrame::kStdin, IoFrame::kSignal}).types, "2 ");
  EXPECT_EQ(through(kStepEverything, {IoFrame::kStdin, IoFrame::kSignal}).types, "2 9 ");
}

}  // namespace
}  // namespace lockstep
