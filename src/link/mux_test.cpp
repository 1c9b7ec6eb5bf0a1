// Streams over one connection: credit, turns between owners, ends; and peers that keep to no rule.
#include "link/mux.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "link/test_streams.h"

namespace lockstep {
namespace {

// A connection that takes bytes only as the test lets them go, as a socket does.
class SlowStream final : public Stream {
 public:
  void on_data(std::function<void(std::string_view)> callback) override { data = std::move(callback); }
  void on_close(std::function<void()> callback) override { closed = std::move(callback); }
  void write(std::string bytes) override { queued += bytes; }
  std::size_t unsent() const override { return queued.size(); }
  void on_drained(std::function<void()> callback) override { drained = std::move(callback); }
  void pause(bool) override {}
  void close() override { is_closed = true; }

  std::string go() {
    std::string bytes = std::exchange(queued, {});
    if (drained)
      drained();
    return bytes;
  }

  std::string queued;
  bool is_closed = false;
  std::function<void(std::string_view)> data;
  std::function<void()> closed, drained;
};

class MuxTest : public testing::Test {
 protected:
  MuxTest() {
    auto connection = std::make_unique<SlowStream>();
    wire_ = connection.get();
    Mux::Handlers on;
    on.frame = [this](Frame f) { others_.push_back(std::move(f)); };
    on.closed = [this](std::string why) { why_ = std::move(why); };
    mux_ = Mux::start(std::move(connection), std::move(on));
  }
  std::vector<Frame> sent() {
    std::vector<Frame> frames;
    EXPECT_TRUE(reader_.feed(wire_->go(), [&](Frame f) { frames.push_back(std::move(f)); }).ok());
    return frames;
  }
  void hear(LinkFrame type, std::uint64_t id, std::string_view payload) {
    wire_->data(encode_frame(static_cast<std::uint8_t>(type), id, payload));
  }
  void credit(std::uint64_t id, std::uint32_t bytes) {
    std::string text(8, '\0');
    for (std::size_t i = 0; i < 4; ++i) text[4 + i] = static_cast<char>(bytes >> (24 - 8 * i));
    hear(LinkFrame::kStreamWindow, id, text);
  }

  SlowStream* wire_ = nullptr;
  std::shared_ptr<Mux> mux_;
  FrameReader reader_;
  std::vector<Frame> others_;
  std::string why_;
};

TEST_F(MuxTest, OneUsersFloodDelaysAnothersBytesByItsShareOnly) {
  std::vector<std::unique_ptr<Stream>> flood;
  for (std::uint64_t id = 0; id < 40; ++id) {
    flood.push_back(mux_->stream(2 * id, 1001));
    flood.back()->write(std::string(900'000, 'f'));
  }
  const auto few = mux_->stream(1000, 1002);
  few->write("squeue");
  std::size_t before = 0;
  for (bool found = false; !found;)
    for (const Frame& f : sent()) {
      found = found || f.stream == 1000;
      if (!found)
        before += f.payload.size();
    }
  EXPECT_LE(before, std::size_t{400} << 10);  // what the connection had, and one piece
  const auto many = mux_->stream(1002, 1002);
  many->write(std::string(900'000, 'm'));
  std::size_t floods = 0, ours = 0;
  while (ours < 900'000)
    for (const Frame& f : sent()) (f.stream == 1002 ? ours : floods) += f.payload.size();
  EXPECT_LE(floods, std::size_t{1'500'000});  // half and half, however many streams the other has
}

TEST_F(MuxTest, NoMoreIsSentThanThePeerHasCreditFor) {
  const auto stream = mux_->stream(2);
  stream->write(std::string(3 << 20, 'x'));
  bool drained = false;
  stream->on_drained([&] { drained = true; });
  const auto all = [this] {
    std::size_t bytes = 0;
    for (auto frames = sent(); !frames.empty(); frames = sent())
      for (const Frame& f : frames) bytes += f.payload.size();
    return bytes;
  };
  EXPECT_EQ(all(), std::size_t{1} << 20);
  credit(2, 1 << 20);
  EXPECT_EQ(all(), std::size_t{1} << 20);
  EXPECT_FALSE(drained);
  credit(2, 4 << 20);
  EXPECT_EQ(all(), std::size_t{1} << 20);
  EXPECT_TRUE(drained);
}

TEST_F(MuxTest, WhatWasWrittenBeforeTheEndStillLeaves) {
  auto stream = mux_->stream(2);
  stream->write(std::string(2 << 20, 'x'));
  stream->close();
  stream.reset();
  std::size_t bytes = 0;
  bool ended = false;
  for (int i = 0; i < 20; ++i) {
    for (const Frame& f : sent()) {
      bytes += f.payload.size();
      ended = ended || f.type == static_cast<std::uint8_t>(LinkFrame::kStreamClose);
    }
    credit(2, 256 << 10);
  }
  EXPECT_EQ(bytes, std::size_t{2} << 20);
  EXPECT_TRUE(ended);
  EXPECT_EQ(mux_->streams(), 0u);
}

TEST_F(MuxTest, WhatIsKeptForAStreamGoesWithIt) {
  const auto kept = std::make_shared<int>(0);
  auto stream = mux_->stream(2);
  mux_->keep(2, kept);
  stream->write(std::string(2 << 20, 'x'));
  stream->close();
  stream.reset();
  EXPECT_EQ(kept.use_count(), 2);
  hear(LinkFrame::kStreamClose, 2, {});
  EXPECT_EQ(kept.use_count(), 1);
}

TEST_F(MuxTest, APeerThatIgnoresItsCreditIsCutOff) {
  const auto stream = mux_->stream(2);
  bool ended = false;
  stream->pause(true);
  stream->on_data([](std::string_view) {});
  stream->on_close([&] { ended = true; });
  for (int i = 0; i < 16; ++i) hear(LinkFrame::kStreamData, 2, std::string(64 << 10, 'x'));
  EXPECT_TRUE(why_.empty());
  hear(LinkFrame::kStreamData, 2, "x");
  EXPECT_NE(why_.find("more than it had credit for"), std::string::npos);
  EXPECT_TRUE(wire_->is_closed);
  stream->pause(false);
  EXPECT_TRUE(ended);
}

TEST_F(MuxTest, FramesAreBoundedByTheirType) {
  std::string head = encode_frame(static_cast<std::uint8_t>(LinkFrame::kStreamWindow), 2, {});
  head[2] = 1;  // 256 bytes and more
  wire_->data(head);
  EXPECT_FALSE(why_.empty());
}

TEST_F(MuxTest, ANumberThatIsTakenGivesAStreamThatHasEnded) {
  const auto first = mux_->stream(2);
  const auto second = mux_->stream(2);
  bool ended = false;
  second->on_close([&] { ended = true; });
  EXPECT_TRUE(ended);
  std::string heard;
  first->on_data([&](std::string_view bytes) { heard += bytes; });
  hear(LinkFrame::kStreamData, 2, "still here");
  EXPECT_EQ(heard, "still here");
}

// A peer with a valid certificate and no manners: nothing it sends ends us, or makes us keep more than is stated.
TEST(MuxCampaign, ArbitraryFramesFromAnAuthenticatedPeer) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Rng rng(seed);
    auto [ours, theirs] = MemoryStream::pair();
    std::vector<std::unique_ptr<Stream>> streams;
    std::shared_ptr<Mux> mux;
    theirs->on_data([](std::string_view) {});
    Mux::Handlers on;
    on.frame = [&](const Frame& f) {
      if (streams.size() < 50 && !mux->has(f.stream)) {
        streams.push_back(mux->stream(f.stream, rng.below(3)));
        Stream* stream = streams.back().get();
        if (rng.chance(0.5))
          stream->on_data([stream](std::string_view bytes) { stream->write(std::string(bytes)); });
        if (rng.chance(0.3))
          stream->pause(true);
      }
    };
    mux = Mux::start(std::move(ours), std::move(on));
    for (int i = 0; i < 300 && theirs->open(); ++i) {
      const std::uint64_t id = rng.below(8);
      std::string payload(rng.below(rng.chance(0.1) ? 300'000 : 40), static_cast<char>(rng.below(256)));
      if (rng.chance(0.3))
        payload.assign(8, static_cast<char>(rng.below(256)));
      std::string bytes = encode_frame(static_cast<std::uint8_t>(rng.below(9)), id, payload);
      if (rng.chance(0.01))
        bytes[rng.below(bytes.size())] ^= static_cast<char>(1 << rng.below(8));
      theirs->write(std::move(bytes));
      if (!streams.empty() && rng.chance(0.2)) {
        auto& stream = streams[rng.below(streams.size())];
        switch (rng.below(4)) {
          case 0: stream->write(std::string(rng.below(200'000), 'w')); break;
          case 1: stream->close(); break;
          case 2: stream->pause(rng.chance(0.5)); break;
          default: std::swap(stream, streams.back()); streams.pop_back();
        }
      }
    }
    mux->close("the end");
    EXPECT_EQ(mux->streams(), 0u);
  }
}

}  // namespace
}  // namespace lockstep
