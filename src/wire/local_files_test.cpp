#include "wire/local_files.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace lockstep {
namespace {

AgentFile some_file() {
  AgentFile file;
  file.controller_host = "c";
  file.controller_port = 1;
  file.state_dir = "/s";
  return file;
}

TEST(AgentFile, HooksAndHealthComeBackAsTheyWere) {
  AgentFile file = some_file();
  file.hooks = {.prolog = {"/p", "/d/*"}, .epilog = {"/e"}, .timeout_s = 7, .task_prolog = "/t", .task_epilog = "/u"};
  file.health.program = "/h";
  file.health.interval_s = 60;
  file.health.node_state = "IDLE,CYCLE";
  file.health.mounts = {"/home"};
  file.health.off = {"gpu"};
  file.places = {.private_tmp = false, .scratch = "/scratch"};
  const auto read = decode_agent_file(encode(file));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(encode(*read), encode(file));
  EXPECT_EQ(read->hooks.prolog, file.hooks.prolog);
  EXPECT_EQ(read->health.node_state, "IDLE,CYCLE");
  EXPECT_EQ(read->places.private_tmp, false);
  EXPECT_FALSE(decode_agent_file(encode(some_file()))->places.private_tmp.has_value());
}

TEST(AgentFile, AddressesForTasksAreARange) {
  AgentFile file = some_file();
  file.task_range = "10.88.3.0/24";
  EXPECT_EQ(decode_agent_file(encode(file))->task_range, "10.88.3.0/24");
  for (const char* range : {"10.88.3.0", "10.88.3.1/24", "fd00::/64"}) {
    file.task_range = range;
    const auto read = decode_agent_file(encode(file));
    ASSERT_FALSE(read.ok()) << range;
    EXPECT_EQ(read.error().field, "task_range");
  }
}

TEST(AgentFile, WhatMeansNothingIsRefused) {
  const auto refusal = [](const std::string& text) {
    AgentFile file = some_file();
    const auto added = add_hook_settings(file, text);
    return added.ok() ? std::string("taken") : added.error().field + ": " + added.error().message;
  };
  EXPECT_EQ(refusal(R"({"hooks":{"prolog":["/p"]}})"), "taken");
  EXPECT_EQ(refusal(R"({})"), "taken");
  EXPECT_EQ(refusal(R"({"node":"n1"})"), ": there is no such setting: node");
  EXPECT_EQ(refusal(R"({"hooks":[]})"), ": hooks is no object in { }");
  EXPECT_EQ(refusal(R"({"hooks":{"prologue":["/p"]}})"), "hooks: there is no such setting: prologue");
  EXPECT_EQ(refusal(R"({"hooks":{"prolog":"/p"}})"), "hooks: prolog is no list of texts in [ ]");
  EXPECT_EQ(refusal(R"({"hooks":{"prolog":["p"]}})"), "hooks.prolog: \"p\" is no path from / on");
  EXPECT_EQ(refusal(R"({"hooks":{"timeout_s":0}})"), "hooks.timeout_s: write a number from 1 to 86400");
  EXPECT_EQ(refusal(R"({"places":{"private_tmp":true,"scratch":"/s"}})"), "taken");
  EXPECT_EQ(refusal(R"({"places":{"private_tmp":"yes"}})"), "places: private_tmp is no true or false");
  EXPECT_EQ(refusal(R"({"places":{"scratch":"s"}})"), "places.scratch: \"s\" is no path from / on");
  EXPECT_EQ(refusal(R"({"pressure":{"memory":"1Gi","disk":"5%","lasts_s":0,"disk_mb":100}})"), "taken");
  EXPECT_EQ(refusal(R"({"pressure":{"disk":"much"}})"),
            "pressure.disk: \"much\" is neither a share (\"10%\") nor an amount (\"100Mi\")");
  EXPECT_EQ(refusal(R"({"pressure":{"disk_mb":-1}})"), "pressure: disk_mb is no whole number from 0 on");
  for (const char* many : {"86400000000", "1e20", "4294967296"})
    EXPECT_EQ(refusal(format(R"({{"pressure":{{"look_s":{}}}}})", many)), "pressure: look_s is too large");
  EXPECT_EQ(refusal("{"), ": the file is not JSON: incomplete JSON");
  EXPECT_EQ(refusal(R"({"health":{"program":"nhc"}})"), "health.program: \"nhc\" is no path from / on");
}

}  // namespace
}  // namespace lockstep
