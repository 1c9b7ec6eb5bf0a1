#include "wire/frame.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace lockstep {
namespace {

struct Collector {
  std::vector<Frame> frames;
  std::function<void(Frame)> sink = [this](Frame frame) { frames.push_back(std::move(frame)); };
};

TEST(Frame, LayoutIsAsWritten) {
  EXPECT_EQ(encode_frame(5, 0x0102030405060708, "hi"),
            std::string("\0\0\0\x0b\x05\x01\x02\x03\x04\x05\x06\x07\x08hi", 15));
  EXPECT_EQ(encode_frame(1, kAllRanks, "").size(), 13u);
}

TEST(Frame, ComesBackWhereverTheStreamIsCut) {
  const std::string bytes =
      encode_frame(1, 7, "first") + encode_frame(2, kAllRanks, "") + encode_frame(255, 0, std::string("\0\xff\n", 3));
  for (std::size_t a = 0; a <= bytes.size(); ++a) {
    for (std::size_t b = a; b <= bytes.size(); ++b) {
      FrameReader reader;
      Collector got;
      for (const auto& part : {bytes.substr(0, a), bytes.substr(a, b - a), bytes.substr(b)})
        ASSERT_TRUE(reader.feed(part, got.sink).ok());
      ASSERT_EQ(got.frames.size(), 3u);
      EXPECT_EQ(got.frames[0].type, 1);
      EXPECT_EQ(got.frames[0].stream, 7u);
      EXPECT_EQ(got.frames[0].payload, "first");
      EXPECT_EQ(got.frames[1].stream, kAllRanks);
      EXPECT_EQ(got.frames[1].payload, "");
      EXPECT_EQ(got.frames[2].type, 255);
      EXPECT_EQ(got.frames[2].payload, std::string("\0\xff\n", 3));
    }
  }
}

TEST(Frame, LongStreamsInOddPieces) {
  Rng rng(1);
  std::string bytes;
  std::vector<std::string> payloads;
  for (int i = 0; i < 200; ++i) {
    payloads.emplace_back(rng.below(5000), static_cast<char>('a' + i % 26));
    bytes += encode_frame(5, static_cast<std::uint64_t>(i), payloads.back());
  }
  FrameReader reader;
  Collector got;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t n = 1 + rng.below(3000);
    ASSERT_TRUE(reader.feed(std::string_view(bytes).substr(at, n), got.sink).ok());
    at += n;
  }
  ASSERT_EQ(got.frames.size(), payloads.size());
  for (std::size_t i = 0; i < payloads.size(); ++i) EXPECT_EQ(got.frames[i].payload, payloads[i]);
}

TEST(Frame, ImpossibleLengthsEndTheConnection) {
  for (const std::string& head : {std::string("\xff\xff\xff\xff", 4), std::string("\0\0\0\0", 4),
                                  std::string("\0\0\0\x08", 4), std::string("\x05\x00\x00\x01", 4)}) {
    FrameReader reader;
    Collector got;
    const auto result = reader.feed(encode_frame(1, 1, "good") + head, got.sink);
    EXPECT_FALSE(result.ok());
    ASSERT_EQ(got.frames.size(), 1u);  // what came before it counts
    EXPECT_EQ(got.frames[0].payload, "good");
  }
}

TEST(Frame, TheLargestIsAllowed) {
  FrameReader reader;
  Collector got;
  const std::string payload(kFrameMax - 9, 'x');
  ASSERT_TRUE(reader.feed(encode_frame(1, 1, payload), got.sink).ok());
  ASSERT_EQ(got.frames.size(), 1u);
  EXPECT_EQ(got.frames[0].payload.size(), payload.size());
  EXPECT_DEATH(encode_frame(1, 1, payload + "x"), "CHECK failed");
}

TEST(Frame, ACallbackMayDropTheReader) {
  auto reader = std::make_unique<FrameReader>();
  int count = 0;
  const std::function<void(Frame)> drop = [&](Frame) {
    reader.reset();
    ++count;
  };
  ASSERT_TRUE(reader->feed(encode_frame(1, 1, "a") + encode_frame(1, 2, "b") + "\0", drop).ok());
  EXPECT_EQ(count, 2);
}

TEST(Frame, BoundsAreKnownFromTheHeadAlone) {
  for (int type = 0; type < 256; ++type)
    for (const FrameBound bound : {any_frame_bound, link_frame_bound, step_frame_bound}) {
      const std::size_t most = bound(static_cast<std::uint8_t>(type));
      ASSERT_LE(most, kPayloadMax);
      std::string head;
      for (int shift = 24; shift >= 0; shift -= 8) head += static_cast<char>((9 + most + 1) >> shift);
      head += static_cast<char>(type);
      FrameReader reader(bound);
      Collector got;
      EXPECT_FALSE(reader.feed(head, got.sink).ok());
      EXPECT_EQ(reader.pending_bytes(), 0u);
    }
}

}  // namespace
}  // namespace lockstep
