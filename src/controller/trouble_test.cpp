// What is wrong is said where people look: a node that was cut off, and a controller that takes no changes.
#include <gtest/gtest.h>

#include <atomic>

#include "controller/test_server.h"

namespace lockstep {
namespace {

// A job that runs on n1, which takes what it is told and says nothing of it.
class RevokedNode : public testing::Test {
 protected:
  RevokedNode() {
    server.join("n1");
    EXPECT_EQ(server.call("POST", "/v1/jobs", R"({"spec":{"groups":[{"launch":"nothing"}]}})").status, 200);
    server.loop.until([&] { return has("/v1/jobs/1", "\"allocation\""); });
  }
  bool has(const std::string& target, const std::string& word) {
    return server.call("GET", target).body.find(word) != std::string::npos;
  }
  TestServer server;
};

TEST_F(RevokedNode, IsNamedWhereverSomebodyWonders) {
  EXPECT_EQ(server.call("POST", "/v1/nodes/n1?now=1", "{}").status, 400) << "only with revoke";
  ASSERT_EQ(server.call("POST", "/v1/nodes/n1", R"({"revoke":true})").status, 200);
  EXPECT_TRUE(has("/v1/nodes/n1", "\"reason\":\"Certificate revoked\""));
  EXPECT_TRUE(has("/v1/status", "Certificate revoked"));
  EXPECT_TRUE(has("/v1/jobs/1", "\"allocation\"")) << "nobody knows yet that it has stopped";
  const std::string explained = server.call("GET", "/v1/jobs/1/explain").body;
  EXPECT_NE(explained.find("Node n1 is lost (Certificate revoked)"), std::string::npos) << explained;
}

TEST_F(RevokedNode, KeepsWhatWasSaidOfItBefore) {
  ASSERT_EQ(server.call("POST", "/v1/nodes/n1", R"({"drain":true,"reason":"bad fan"})").status, 200);
  ASSERT_EQ(server.call("POST", "/v1/nodes/n1", R"({"revoke":true})").status, 200);
  EXPECT_TRUE(has("/v1/nodes/n1", "Certificate revoked (bad fan)"));
}

TEST_F(RevokedNode, IsCalledOffAtOnceByAnAdministratorsWord) {
  const auto other = TestServer::local(54321);
  EXPECT_EQ(server.call("POST", "/v1/nodes/n1?now=1", R"({"revoke":true})", other).status, 403);
  EXPECT_TRUE(has("/v1/jobs/1", "\"allocation\""));
  ASSERT_EQ(server.call("POST", "/v1/nodes/n1?now=1", R"({"revoke":true})").status, 200);
  EXPECT_FALSE(has("/v1/jobs/1", "\"allocation\"")) << server.call("GET", "/v1/jobs/1").body;
  EXPECT_EQ(server.call("DELETE", "/v1/nodes/n1").status, 200) << "it holds nothing";
}

TEST(FullDisk, IsSaidWhereItWasPlainUp) {
  auto full = std::make_shared<std::atomic<bool>>(false);
  ControllerSettings settings;
  settings.engine.low_space = [full] { return full->load(); };
  TestServer server(settings);
  const auto status = [&] { return server.call("GET", "/v1/status").body; };
  EXPECT_NE(status().find("\"state\":\"up\""), std::string::npos);
  full->store(true);
  server.restart();
  EXPECT_EQ(server.call("POST", "/v1/jobs", R"({"spec":{"groups":[{"launch":"nothing"}]}})").status, 503);
  server.loop.until([&] { return status().find("\"state\":\"read-only\"") != std::string::npos; });
  EXPECT_NE(status().find("read-only: the disk under the controller's state is full"), std::string::npos) << status();
  EXPECT_NE(server.call("GET", "/v1/ping").body.find("\"read_only\":true"), std::string::npos);
  full->store(false);
  EXPECT_EQ(server.call("POST", "/v1/jobs", R"({"spec":{"groups":[{"launch":"nothing"}]}})").status, 200);
  server.loop.until([&] { return status().find("\"state\":\"up\"") != std::string::npos; });
  EXPECT_EQ(status().find("read-only"), std::string::npos) << status();
}

// One that is refused names the cause; how many others stay as they are is counted, whichever batch they stood in.
TEST(ReadOnly, ACancelOfManySaysHowManyWereNotTried) {
  TestServer server;
  const std::string held = R"({"spec":{"hold":true,"groups":[{"launch":"nothing"}]}})";
  std::string many = "[" + held;
  for (int i = 1; i < 1'500; ++i) many += "," + held;
  ASSERT_EQ(server.call("POST", "/v1/jobs", many + "]").status, 200);
  const std::string array =
      R"({"spec":{"hold":true,"groups":[{"launch":"script"}]},"script":"#!/bin/sh\n","array":{"indices":"0-9"}})";
  ASSERT_EQ(server.call("POST", "/v1/jobs", array).status, 200);
  server.log.next = TestLog::Append::kFails;
  const auto failed = [&](const std::string& ask) {
    return decode_cancelled_many(server.call("POST", "/v1/jobs/cancel", ask).body)->failed;
  };

  const auto all = failed(R"({"states":["pending"]})");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].target, "1");
  EXPECT_TRUE(all[0].error.message.ends_with("; 1500 more were not tried")) << all[0].error.message;
  const auto named = failed(R"({"targets":["7","1501_1","1501_2","9999","1501_3"]})");
  ASSERT_EQ(named.size(), 1u);
  EXPECT_TRUE(named[0].error.message.ends_with("; 4 more were not tried")) << named[0].error.message;
  const auto one = failed(R"({"targets":["7"]})");
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].error.message.find("not tried"), std::string::npos) << one[0].error.message;
}

}  // namespace
}  // namespace lockstep
