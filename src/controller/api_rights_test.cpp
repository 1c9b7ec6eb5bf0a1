// Walks the table of rights: every row, asked by every kind of caller, is allowed or refused exactly as the table says.
#include <gtest/gtest.h>

#include "controller/test_server.h"
#include "wire/api.h"

namespace lockstep {
namespace {

constexpr std::uint32_t kOwnerUid = 54321, kOtherUid = 54322, kCoordinatorUid = 54323, kOnNodeUid = 54324;
constexpr const char* kScienceJob = R"({"spec":{"name":"a","account":"science","groups":[{"launch":"nothing"}]}})";

class Rights : public ::testing::Test {
 protected:
  void SetUp() override {
    server.join("n1");
    for (const std::uint32_t uid : {kOwnerUid, kOtherUid, kCoordinatorUid, kOnNodeUid})
      ASSERT_EQ(server.call("GET", "/v1/jobs", {}, TestServer::local(uid)).status, 200);
    const std::string coordinator = format("uid{}", kCoordinatorUid);
    ASSERT_EQ(server.call("PUT", "/v1/accounts/science", format(R"({{"coordinators":["{}"]}})", coordinator)).status,
              200);
    ASSERT_EQ(server.call("POST", "/v1/jobs", kScienceJob, TestServer::local(kOnNodeUid)).status, 200);
    ASSERT_EQ(server.call("POST", "/v1/jobs", kScienceJob, TestServer::local(kOwnerUid)).status, 200);  // job 2
    server.loop.until([&] {
      return server.call("GET", "/v1/jobs/1").body.find("\"allocation\"") != std::string::npos &&
             server.call("GET", "/v1/jobs/2").body.find("\"allocation\"") != std::string::npos;
    });
    StepRequest step;
    step.job = JobId{2};
    step.spec.argv = {"true"};
    step.spec.tasks = 1;
    ASSERT_EQ(server.call("POST", "/v1/jobs/2/steps", encode(step), TestServer::local(kOwnerUid)).status, 200);
  }

  static Peer peer_of(CallerKind kind) {
    switch (kind) {
      case CallerKind::kNobody: return {};
      case CallerKind::kNode: return TestServer::node("n1");
      case CallerKind::kForwardedRoot: return TestServer::forwarded("n1", 0);
      case CallerKind::kOtherUser: return TestServer::local(kOtherUid);
      case CallerKind::kForwardedUser: return TestServer::forwarded("n1", kOnNodeUid);
      case CallerKind::kCoordinator: return TestServer::local(kCoordinatorUid);
      case CallerKind::kOwner: return TestServer::local(kOwnerUid);
      case CallerKind::kAdministrator: return TestServer::local(0);
    }
    return {};
  }

  // The row's path about the owner's job and step, and names of things that are not there.
  static std::string path_of(const Route& row) {
    std::string path(row.path);
    const bool step = path.starts_with("/v1/steps/"), job = path.starts_with("/v1/jobs/");
    for (auto star = path.find('*'); star != std::string::npos; star = path.find('*'))
      path.replace(star, 1, step ? "2.0" : job ? "2" : "nothing");
    return path;
  }

  bool is_allowed(const Route& row, CallerKind kind) {
    const auto sent = server.send(std::string(row.method), path_of(row), row.method == "GET" ? "" : "{}", peer_of(kind),
                                  row.right == Right::kNode ? "lockstep-link/1" : "");
    if (row.cost == Cost::kWait && !sent->done() && sent->gone) {
      sent->gone();
      return true;
    }
    server.loop.until([&] { return sent->done(); });
    if (sent->wire)
      return true;
    const int status = sent->response->status;
    if (status == 401 || status == 403)
      refusal = sent->response->body;
    // A stranger with a bad token is told so, not that strangers may not ask.
    return (status != 401 && status != 403) || (row.path == "/v1/join" && status == 403);
  }

  TestServer server;
  const Routes routes;
  std::string refusal;
};

TEST_F(Rights, EveryRowForEveryCaller) {
  std::size_t asked = 0;
  for (const Route* at : routes.rows()) {
    const Route& row = *at;
    // The administrator last: what it is allowed may end the job.
    for (std::size_t i = 0; i < kCallerKinds; ++i) {
      const auto kind = static_cast<CallerKind>(i);
      refusal.clear();
      EXPECT_EQ(is_allowed(row, kind), passes(row.right, kind))
          << row.method << " " << row.path << " by " << text_of(kind) << ": " << refusal;
      ++asked;
    }
  }
  EXPECT_GT(asked, 400u);
}

TEST_F(Rights, BodiesAreBoundedByTheirRow) {
  for (const Route* at : routes.rows()) {
    const Route& row = *at;
    HttpRequest head;
    head.method = row.method;
    head.path = path_of(row);
    head.peer = TestServer::local(1);
    EXPECT_EQ(routes.body_bound(head), row.body_bytes_max) << row.path;
    head.peer = {};
    EXPECT_LE(routes.body_bound(head), 16u << 10) << row.path;
    EXPECT_EQ(routes.body_bound(head, true), row.body_bytes_max) << row.path;
    if (row.body_bytes_max < 1 << 20 && row.right != Right::kNode) {
      EXPECT_EQ(server.call(std::string(row.method), path_of(row), std::string(row.body_bytes_max + 1, ' ')).status,
                413)
          << row.path;
    }
  }
  HttpRequest unknown;
  unknown.path = "/v1/nothing";
  EXPECT_LE(routes.body_bound(unknown), 4u << 10);
}

TEST_F(Rights, TheTableHasALineForEachRow) {
  const std::string table = routes.rights_table();
  EXPECT_EQ(static_cast<std::size_t>(std::count(table.begin(), table.end(), '\n')), routes.rows().size() + 2);
  EXPECT_NE(table.find("| `POST /v1/tokens` | administrators | 16 KiB | – | – | – | – | – | – | – | yes |"),
            std::string::npos)
      << table;
}

}  // namespace
}  // namespace lockstep
