#include "frontends/slurm/client/query_times.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

namespace lockstep::slurm {
namespace {

class Times : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("TZ", "UTC", 1);
    tzset();
  }
  static constexpr std::int64_t kNow = 1'700'000'000;  // Tue Nov 14 22:13:20 2023
};

TEST_F(Times, Texts) {
  EXPECT_EQ(time_text(kNow, "N/A", "", kNow), "2023-11-14T22:13:20");
  EXPECT_EQ(time_text(kNow, "N/A", "standard", kNow), "2023-11-14T22:13:20");
  EXPECT_EQ(time_text(kNow, "N/A", "%s", kNow), "1700000000");
  EXPECT_EQ(time_text(kNow, "N/A", "relative", kNow), "22:13:20");
  EXPECT_EQ(time_text(kNow + 86400, "N/A", "relative", kNow), "Tomorr 22:13");
  EXPECT_EQ(time_text(0, "N/A", "%s", kNow), "N/A");
  EXPECT_EQ(date_line(kNow), "Tue Nov 14 22:13:20 2023\n");
}

TEST_F(Times, Spans) {
  EXPECT_EQ(span_text(5), "0:05");
  EXPECT_EQ(span_text(3723), "1:02:03");
  EXPECT_EQ(span_text(2 * 86400), "2-00:00:00");
  EXPECT_EQ(padded_span_text(5), "00:00:05");
  EXPECT_EQ(padded_span_text(90061), "1-01:01:01");
}

TEST_F(Times, Dates) {
  const auto at = [](std::string_view text) { return parse_date(text, kNow).value_or(-1); };
  EXPECT_EQ(at("now"), kNow);
  EXPECT_EQ(at("now-2days"), kNow - 2 * 86400);
  EXPECT_EQ(at("now+90"), kNow + 90);
  EXPECT_EQ(at("now-1week"), kNow - 7 * 86400);
  EXPECT_EQ(at("today"), 1'699'920'000);
  EXPECT_EQ(at("2023-11-14"), 1'699'920'000);
  EXPECT_EQ(at("2023-11-14T22:13:20"), kNow);
  EXPECT_EQ(at("2023-11-14T22:13"), kNow - 20);
  EXPECT_EQ(at("1114"), 1'699'920'000);
  EXPECT_EQ(at("11/14/23-10:13pm"), kNow - 20);
  EXPECT_EQ(at("11/14"), 1'699'920'000);
  EXPECT_EQ(at("22:13:20"), kNow);
  EXPECT_EQ(at("noon"), 1'699'920'000 + 12 * 3600);
  EXPECT_EQ(at("1970-01-01-00:00:01"), 1);
  EXPECT_EQ(at("1970-01-01"), 0);
}

TEST_F(Times, HostileDates) {
  for (const char* text :
       {"", "nowhere", "now-", "now-x", "now+5parsecs", "25:00", "13:00pm", "2023-13-01", "2023-01-32", "2023-01",
        "99/99", "T", "2023-11-14T", "now-99999999999999999999", "12:", "1:2:3:4", "-"})
    EXPECT_FALSE(parse_date(text, kNow).has_value()) << text;
}

TEST(MarkedTimes, AreThoseOfTheClientsZone) {
  const std::string page =
      "JobId=1 StartTime=\x1f"
      "1700000000\x1f EndTime=Unknown\n   Reason=fan [root@\x1f"
      "1700000060\x1f]\n";
  for (const auto& [zone, start] :
       {std::pair("UTC", "2023-11-14T22:13:20"), std::pair("UTC-9", "2023-11-15T07:13:20")}) {
    setenv("TZ", zone, 1);
    tzset();
    const std::string text = with_times(page, "", 0);
    EXPECT_NE(text.find(std::string("JobId=1 StartTime=") + start + " EndTime=Unknown\n"), std::string::npos) << text;
    EXPECT_EQ(text.find('\x1f'), std::string::npos);
  }
  setenv("TZ", "UTC", 1);
  tzset();
  EXPECT_EQ(with_times(page, "%s", 0),
            "JobId=1 StartTime=1700000000 EndTime=Unknown\n   Reason=fan [root@1700000060]\n");
  EXPECT_EQ(with_times("a\x1f"
                       "b\x1f 5\x1f",
                       "", 0),
            "a\x1f"
            "b\x1f 5\x1f")
      << "not ours: it is shown as what it is";
}

}  // namespace
}  // namespace lockstep::slurm
