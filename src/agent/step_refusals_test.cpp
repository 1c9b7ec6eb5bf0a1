// What somebody hears who attaches to a step that could not be started.
#include "agent/step_refusals.h"

#include <gtest/gtest.h>

#include "link/test_streams.h"
#include "model/work_id.h"
#include "wire/frame.h"

namespace lockstep {
namespace {

const WorkId kKey{JobId(3), 1, StepPart{7}};

TEST(StepRefusals, TheReasonAndTheExitOfEveryRank) {
  HandLoop loop;
  StepRefusals refusals(loop);
  refusals.add({kKey, {4, 5}, "no room"});
  EXPECT_EQ(refusals.stream({JobId(3), 1, StepPart{8}}), nullptr);
  const auto stream = refusals.stream(kKey);
  ASSERT_NE(stream, nullptr);
  FrameReader reader;
  std::vector<Frame> heard;
  stream->on_data([&](std::string_view bytes) {
    EXPECT_TRUE(reader.feed(bytes, [&](Frame frame) { heard.push_back(std::move(frame)); }).ok());
  });
  loop.run();
  EXPECT_TRUE(heard.empty());  // not before it is attached to
  stream->write(encode_frame(static_cast<std::uint8_t>(IoFrame::kAttach), kAllRanks, "{}"));
  EXPECT_TRUE(heard.empty());  // nor in the middle of that
  stream->write(encode_frame(static_cast<std::uint8_t>(IoFrame::kStdinEof), 4, std::string(8, '\0')));
  loop.run();
  ASSERT_EQ(heard.size(), 7u);
  EXPECT_EQ(heard[0].type, static_cast<std::uint8_t>(IoFrame::kFailed));
  EXPECT_EQ(heard[0].payload, "no room");
  EXPECT_EQ(heard[6].type, static_cast<std::uint8_t>(IoFrame::kExited));
  EXPECT_EQ(heard[6].stream, 5u);
  EXPECT_EQ(heard[6].payload[0], 1);
}

TEST(StepRefusals, OnlyTheLatestAreKept) {
  HandLoop loop;
  StepRefusals refusals(loop);
  for (std::uint64_t job = 1; job <= 3000; ++job) refusals.add({{JobId(job), 1, StepPart{0}}, {0}, "x"});
  EXPECT_EQ(refusals.stream({JobId(1), 1, StepPart{0}}), nullptr);
  EXPECT_NE(refusals.stream({JobId(3000), 1, StepPart{0}}), nullptr);
}

TEST(StepRefusals, AStreamThatIsGoneSaysNothing) {
  HandLoop loop;
  StepRefusals refusals(loop);
  refusals.add({kKey, {4}, "no room"});
  auto stream = refusals.stream(kKey);
  bool heard = false;
  stream->on_data([&](std::string_view) { heard = true; });
  stream->write(encode_frame(static_cast<std::uint8_t>(IoFrame::kAttach), kAllRanks, "{}"));
  stream.reset();
  loop.run();
  EXPECT_FALSE(heard);
}

}  // namespace
}  // namespace lockstep
