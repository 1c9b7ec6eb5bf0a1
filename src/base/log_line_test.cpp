#include "base/log_line.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(LogLine, SaysWhenHowGraveAndWhat) {
  const std::string line = log_text(1'767'225'600'123'456, LogLevel::kWarning, "a name\nof two lines\x1b[2J");
  EXPECT_EQ(line.back(), '\n');
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << "who sets a name writes no line of ours";
  EXPECT_EQ(line.find('\x1b'), line.npos);
  EXPECT_EQ(stamp_of(line).size(), 23u);
  EXPECT_TRUE(stamp_of(line).ends_with(".123"));
  EXPECT_EQ(without_stamp(line), "a name?of two lines?[2J\n");
}

TEST(LogLine, ALineOfAnotherShapeBearsNoTime) {
  for (const char* line : {"", "short", "lockstepd: pid 1, log at entry 2", "2026-03-01 12:00:00.123 info x"}) {
    EXPECT_EQ(stamp_of(line), "") << line;
    EXPECT_EQ(without_stamp(line), line);
  }
}

TEST(LogLine, TellsItsLevel) {
  EXPECT_EQ(level_of("2026-03-01T12:00:00.123 warning words"), "warning");
  EXPECT_EQ(level_of("2026-03-01T12:00:00.123 error words"), "error");
  EXPECT_EQ(level_of("2026-03-01T12:00:00.123 erroneous words"), "");
  EXPECT_EQ(level_of("error words"), "") << "no line of ours";
  EXPECT_EQ(level_of(""), "");
}

}  // namespace
}  // namespace lockstep
