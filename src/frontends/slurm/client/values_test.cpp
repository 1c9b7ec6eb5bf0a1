#include "frontends/slurm/client/values.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include "model/spec.h"

namespace lockstep::slurm {
namespace {

TEST(Values, LimitsAreWholeMinutesRoundedUp) {
  EXPECT_EQ(whole_minutes(*parse_time_limit("0:30")), minutes(1));
  EXPECT_EQ(whole_minutes(*parse_time_limit("90:01")), minutes(91));
  EXPECT_EQ(whole_minutes(*parse_time_limit("1:00:00")), hours(1));
  EXPECT_EQ(whole_minutes(*parse_time_limit("infinite")), kForever);
  EXPECT_EQ(whole_minutes(Duration{}), Duration{});
  setenv("LOCKSTEP_LIMIT_SECONDS", "1", 1);
  EXPECT_EQ(whole_minutes(*parse_time_limit("0:30")), seconds(30));
  unsetenv("LOCKSTEP_LIMIT_SECONDS");
}

std::int64_t limit(std::string_view text) {
  const auto value = parse_time_limit(text);
  return !value ? -1 : *value == kForever ? 0 : value->seconds();
}

TEST(Values, TimeLimits) {
  EXPECT_EQ(limit("30"), 1800);
  EXPECT_EQ(limit("4320"), 259200);
  EXPECT_EQ(limit("1:30"), 90);
  EXPECT_EQ(limit("72:00:00"), 259200);
  EXPECT_EQ(limit("1:0:0"), 3600);
  EXPECT_EQ(limit("2-00:00"), 172800);
  EXPECT_EQ(limit("0-36:00"), 129600);
  EXPECT_EQ(limit("1-12"), 129600);
  EXPECT_EQ(limit("1-1:2:3"), 90123);
  EXPECT_EQ(limit("0"), 0);
  EXPECT_EQ(limit("UNLIMITED"), 0);
  EXPECT_EQ(limit("infinite"), 0);
  for (const char* bad :
       {"", "-", "1:", ":1", "1:2:3:4", "1-", "-5", "1h", "1.5", "1-2-3", "99999999999999999999", "4000000-0"})
    EXPECT_EQ(limit(bad), -1) << bad;
}

TEST(Values, Memory) {
  EXPECT_EQ(parse_memory_mb("300"), 300);
  EXPECT_EQ(parse_memory_mb("4G"), 4096);
  EXPECT_EQ(parse_memory_mb("4gb"), 4096);
  EXPECT_EQ(parse_memory_mb("120GB"), 122880);
  EXPECT_EQ(parse_memory_mb("1T"), 1048576);
  EXPECT_EQ(parse_memory_mb("1500k"), 2);
  EXPECT_EQ(parse_memory_mb("0"), 0);
  for (const char* bad :
       {"", "G", "1.5G", "-1", "4X", "4GBB", "4 G", "99999999999999999999", "9999999999999T", "9999T"})
    EXPECT_FALSE(parse_memory_mb(bad)) << bad;
}

TEST(Values, NodeRanges) {
  EXPECT_EQ(parse_node_range("4"), (CountRange{4, 4}));
  EXPECT_EQ(parse_node_range("2-8"), (CountRange{2, 8}));
  EXPECT_EQ(parse_node_range("1k"), (CountRange{1024, 1024}));
  for (const char* bad : {"", "0", "a", "4-2", "2-", "-2", "1,3", "3000000k"})
    EXPECT_FALSE(parse_node_range(bad)) << bad;
}

std::string devices(Result<std::vector<DeviceAsk>> asks) {
  if (!asks)
    return "error";
  std::string out;
  for (const auto& ask : *asks) out += ask.kind + "/" + ask.type + "/" + std::to_string(ask.count) + " ";
  return out;
}

TEST(Values, Gres) {
  EXPECT_EQ(devices(parse_gres("gpu")), "gpu//1 ");
  EXPECT_EQ(devices(parse_gres("gpu:4")), "gpu//4 ");
  EXPECT_EQ(devices(parse_gres("gpu:H100")), "gpu/h100/1 ");
  EXPECT_EQ(devices(parse_gres("gpu:h100:8")), "gpu/h100/8 ");
  EXPECT_EQ(devices(parse_gres("gres/gpu:2")), "gpu//2 ");
  const auto slices = parse_gres("gpu:3g.71gb:1,gpu:nvidia_a100-sxm4-80gb_1g.10gb:2");
  ASSERT_TRUE(slices.ok());
  EXPECT_EQ((*slices)[0], (DeviceAsk{.count = 1, .mig = "3g.71gb"}));
  EXPECT_EQ((*slices)[1], (DeviceAsk{.type = "nvidia_a100-sxm4-80gb", .count = 2, .mig = "1g.10gb"}));
  const auto share = parse_gres("mps:25");
  ASSERT_TRUE(share.ok());
  EXPECT_EQ((*share)[0], (DeviceAsk{.count = 1, .milli = 250}));
  EXPECT_FALSE(parse_gres("mps:101").ok());
  EXPECT_FALSE(parse_gres("mps:10,mps:20").ok());
  EXPECT_EQ(parse_gpus("mps:50").error().message,
            "mps is a share of a GPU, and no type of one: --gres=mps:50 asks for it");
  EXPECT_FALSE(parse_gres("mps:50,gpu:1").ok());
  EXPECT_FALSE(parse_gres("shard:8,gpu:1").ok());
  EXPECT_FALSE(parse_gres("gres/gpu:1,gres/mps:100").ok());
  EXPECT_TRUE(parse_gres("shard:8,fpga:1").ok());
  EXPECT_EQ(devices(parse_gres("gpu:v100:4,nvme:225")), "gpu/v100/4 nvme//225 ");
  const auto shards = parse_gres("shard:2");
  ASSERT_TRUE(shards.ok());
  EXPECT_EQ((*shards)[0].kind, "gpu");
  EXPECT_EQ((*shards)[0].milli, 250);
  EXPECT_FALSE(parse_gres("shard:9").ok());
  EXPECT_EQ(devices(parse_gres("gpu:1,nvme:1k")), "gpu//1 nvme//1024 ");
  EXPECT_EQ(devices(parse_gres("none")), "");
  EXPECT_EQ(devices(parse_gres("gpu:1,gpu:2")), "gpu//2 ") << "as in Slurm the last of several counts";
  EXPECT_EQ(devices(parse_gres("gpu:1,,nvme:2,")), "gpu//1 nvme//2 ");
  for (const char* bad : {"", ",", "gpu:", "gpu:-1", "gpu:a:b", "gpu:a:1:2", "4", "gpu:99999999999", "g pu"})
    EXPECT_EQ(devices(parse_gres(bad)), "error") << bad;
}

TEST(Values, Gpus) {
  EXPECT_EQ(devices(parse_gpus("4")), "gpu//4 ");
  EXPECT_EQ(devices(parse_gpus("h100:4")), "gpu/h100/4 ");
  EXPECT_EQ(devices(parse_gpus("h100:4,a100:1,h100:0")), "gpu/a100/1 ");
  EXPECT_EQ(devices(parse_gpus("A100:2,h100:1")), "gpu/a100/2 gpu/h100/1 ");
  for (const char* bad : {"", "h100:", ":4", "a:b", ",", "-1"}) EXPECT_EQ(devices(parse_gpus(bad)), "error") << bad;
  EXPECT_EQ(devices(parse_gpus("h100:1,,a100:2,")), "gpu/h100/1 gpu/a100/2 ");
}

TEST(Values, Signals) {
  EXPECT_EQ(parse_signal("9"), 9);
  EXPECT_EQ(parse_signal("USR1"), 10);
  EXPECT_EQ(parse_signal("SIGTERM"), 15);
  EXPECT_EQ(parse_signal("sigkill"), 9);
  for (const char* bad : {"", "0", "65", "SIG", "FOO", "-9"}) EXPECT_FALSE(parse_signal(bad)) << bad;

  const auto ahead = parse_signal_ahead("B:USR1@300");
  ASSERT_TRUE(ahead);
  EXPECT_EQ(*ahead, (SignalAhead{10, seconds(300), true}));
  EXPECT_EQ(parse_signal_ahead("15@180"), (SignalAhead{15, seconds(180), false}));
  EXPECT_EQ(parse_signal_ahead("SIGUSR1"), (SignalAhead{10, seconds(60), false}));
  EXPECT_EQ(parse_signal_ahead("RB:TERM@5"), (SignalAhead{15, seconds(5), true}));
  for (const char* bad : {"", "B:", "USR1@", "USR1@-1", "USR1@70000", "X:USR1", "USR1@1@2"})
    EXPECT_FALSE(parse_signal_ahead(bad)) << bad;
}

TEST(Values, Dependencies) {
  const auto list = parse_dependencies("afterok:12:13,afterany:14,after:15+30,singleton");
  ASSERT_TRUE(list.ok());
  using enum Dependency::Type;
  EXPECT_EQ(list->all, (std::vector<Dependency>{{kAfterOk, JobId(12), {}},
                                                {kAfterOk, JobId(13), {}},
                                                {kAfterAny, JobId(14), {}},
                                                {kAfter, JobId(15), minutes(30)},
                                                {kSingleton, JobId{}, {}}}));
  EXPECT_FALSE(list->any);
  EXPECT_TRUE(parse_dependencies("afterany:1?afterok:2")->any);
  EXPECT_EQ(parse_dependencies("77")->all.at(0), (Dependency{kAfterAny, JobId(77), {}}));
  for (const char* bad : {"", "afterok", "afterok:", "afterok:x", "afterok:0", "never:1",
                          "afterok:1,afterany:2?after:3", "afterok:1+5", "after:1+x", ","})
    EXPECT_FALSE(parse_dependencies(bad).ok()) << bad;
  EXPECT_EQ(parse_dependencies("afterok:1,,afterany:2,")->all.size(), 2u);
  EXPECT_EQ(parse_dependencies("afterok:12_3")->all, (std::vector<Dependency>{{kAfterOk, JobId(12), {}, 3}}));
  EXPECT_EQ(parse_dependencies("after:12_0+5")->all, (std::vector<Dependency>{{kAfter, JobId(12), minutes(5), 0}}));
  EXPECT_EQ(parse_dependencies("afterany:12_*")->all, (std::vector<Dependency>{{kAfterAny, JobId(12), {}}}));
  for (const char* bad : {"afterok:12_", "afterok:12_x", "afterok:_3", "afterok:12_[0-1]", "afterok:12_3_4"})
    EXPECT_FALSE(parse_dependencies(bad).ok()) << bad;
  EXPECT_EQ(parse_dependencies("expand:12").error().code, Errc::kUnsupported);
}

TEST(Values, Arrays) {
  const auto text = [](std::string_view in) {
    const auto ask = parse_array(in);
    return ask ? ask->indices.text() + " %" + std::to_string(ask->throttle) + " :" + std::to_string(ask->step)
               : "error";
  };
  EXPECT_EQ(text("0-15"), "0-15 %0 :1");
  EXPECT_EQ(text("0-15%4"), "0-15 %4 :1");
  EXPECT_EQ(text("1-5:2%2"), "1,3,5 %2 :2");
  EXPECT_EQ(text("8,18,28"), "8,18,28 %0 :1");
  EXPECT_EQ(text("107"), "107 %0 :1");
  EXPECT_EQ(text("1%6"), "1 %6 :1");
  EXPECT_EQ(text("1,,2,"), "1-2 %0 :1");
  EXPECT_EQ(text("1-5:2,%2"), "1,3,5 %2 :2");
  for (const char* bad : {"", "a", "3-1", "1-5:0", "1:2", "1-", ",", "%4", "0-4%", "0-4%x", "5000000", "-1"})
    EXPECT_EQ(text(bad), "error") << bad;
}

TEST(Values, WallTimes) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  const WallTime now{1'700'000'000'000'000};  // 2023-11-14 22:13:20
  const auto at = [&](std::string_view text) {
    const auto value = parse_wall_time(text, now);
    return value ? value->seconds() : -1;
  };
  EXPECT_EQ(at("now"), 1'700'000'000);
  EXPECT_EQ(at("now+30"), 1'700'000'030);
  EXPECT_EQ(at("now+1hour"), 1'700'003'600);
  EXPECT_EQ(at("now+2minutes"), 1'700'000'120);
  EXPECT_EQ(at("now+1day"), 1'700'086'400);
  EXPECT_EQ(at("23:00"), 1'700'002'800);
  EXPECT_EQ(at("16:00"), 1'700'064'000);  // has passed today
  EXPECT_EQ(at("4:00PM"), 1'700'064'000);
  EXPECT_EQ(at("midnight"), 1'700'006'400);
  EXPECT_EQ(at("2030-01-20T12:34:00"), 1'895'142'840);
  EXPECT_EQ(at("2030-01-20"), 1'895'097'600);
  EXPECT_EQ(at("01/20/30"), 1'895'097'600);
  EXPECT_EQ(at("012030"), 1'895'097'600);
  EXPECT_EQ(at("1/20/30 12:34"), 1'895'142'840);
  EXPECT_EQ(at("uts1700000000"), 1'700'000'000);
  // As Debian's Slurm 22.05 reads them.
  EXPECT_EQ(at("tomorrow"), 1'700'006'400);  // its first second
  EXPECT_EQ(at("today"), 1'699'920'000);     // has passed: at once
  EXPECT_EQ(at("16:00 tomorrow"), 1'700'064'000);
  EXPECT_EQ(at("tomorrow 23:00"), 1'700'089'200);
  EXPECT_EQ(at("noon tomorrow"), 1'700'049'600);
  EXPECT_EQ(at("4:30 PM"), 1'700'065'800);
  EXPECT_EQ(at("now + 1hour"), 1'700'003'600);
  EXPECT_EQ(at("now+1week"), 1'700'604'800);
  EXPECT_EQ(at("fika"), 1'700'060'400);
  EXPECT_EQ(at("teatime"), 1'700'064'000);
  EXPECT_EQ(at("01.20.30"), 1'895'097'600);
  EXPECT_EQ(at("12/31"), 1'703'980'800);
  EXPECT_EQ(at("0120"), 1'705'708'800);  // next year's
  for (const char* bad : {"", "soon", "25:00", "12:60", "now+", "now+1fortnight", "13:00PM", "2030-13-01", "32/1/30",
                          "2030-01-20T", "now+99999999999999999999", "4pm", "16:00 17:00", "tomorrow today",
                          "tomorrow+1day", "20 Jan", "monday", "1", "pm"})
    EXPECT_EQ(at(bad), -1) << bad;
}

}  // namespace
}  // namespace lockstep::slurm
