// Walks the table of rights, of all that lockstepd mounts: every row, asked by every kind of caller, is allowed or
// refused exactly as the table says.
#include <gtest/gtest.h>

#include "controller/test_server.h"
#include "frontends/mounted/mounted.h"
#include "hostile/front_ends.h"
#include "wire/api.h"

namespace lockstep::hostile {
namespace {

constexpr std::uint32_t kAnnUid = 54321, kBobUid = 54322, kCoordinatorUid = 54323, kUidOnNode = 54324;
constexpr const char* kScienceJob =
    R"({"spec":{"name":"a","account":"science","groups":[{"launch":"nothing","only_nodes":["n1"]}]}})";
constexpr const char* kRootsJob = R"({"spec":{"name":"r","groups":[{"launch":"nothing","only_nodes":["n1"]}]}})";

ControllerSettings mounted_settings() {
  ControllerSettings out;
  mount_front_ends(out, {});
  return out;
}

class Rights : public ::testing::Test {
 protected:
  void SetUp() override {
    server.join("n2");
    server.join("n1");
    for (const std::uint32_t uid : {kAnnUid, kBobUid, kCoordinatorUid, kUidOnNode})
      ASSERT_EQ(server.call("GET", "/v1/jobs", {}, TestServer::local(uid)).status, 200);
    const std::string coordinator = format("uid{}", kCoordinatorUid);
    ASSERT_EQ(server.call("PUT", "/v1/accounts/science", format(R"({{"coordinators":["{}"]}})", coordinator)).status,
              200);
    ASSERT_EQ(server.call("POST", "/v1/jobs", kScienceJob, TestServer::local(kUidOnNode)).status, 200);
    ASSERT_EQ(server.call("POST", "/v1/jobs", kScienceJob, TestServer::local(kAnnUid)).status, 200);  // job 2
    ASSERT_EQ(server.call("POST", "/v1/jobs", kRootsJob).status, 200);                                // job 3
    server.loop.until([&] {
      for (const char* job : {"/v1/jobs/1", "/v1/jobs/2", "/v1/jobs/3"})
        if (server.call("GET", job).body.find("\"allocation\"") == std::string::npos)
          return false;
      return true;
    });
    StepRequest step;
    step.job = JobId{2};
    step.spec.argv = {"true"};
    step.spec.tasks = 1;
    ASSERT_EQ(server.call("POST", "/v1/jobs/2/steps", encode(step), TestServer::local(kAnnUid)).status, 200);
  }

  static Peer peer_of(CallerKind kind) {
    switch (kind) {
      case CallerKind::kNobody: return {};
      case CallerKind::kNode: return TestServer::node("n1");
      case CallerKind::kForwardedRoot: return TestServer::forwarded("n2", 0);
      case CallerKind::kRootAtWork: return TestServer::forwarded("n1", 0);
      case CallerKind::kOtherUser: return TestServer::local(kBobUid);
      case CallerKind::kForwardedUser: return TestServer::forwarded("n1", kUidOnNode);
      case CallerKind::kCoordinator: return TestServer::local(kCoordinatorUid);
      case CallerKind::kOwner: return TestServer::local(kAnnUid);
      case CallerKind::kAdministrator: return TestServer::local(0);
    }
    return {};
  }

  // The row's path about the owner's job and step, and names of things that are not there.
  static std::string path_of(const Route& row) {
    std::string path(row.path);
    const bool step = path.starts_with("/v1/steps/"), job = path.starts_with("/v1/jobs/");
    if (path.ends_with("**"))
      path.replace(path.size() - 2, 2, "nothing");
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

  TestServer server{mounted_settings()};
  const Routes routes{front_end_rows()};
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
      const bool allowed = is_allowed(row, kind);
      // What a front end judges itself is its tests' business, and credentials are made for nobody on a node's word.
      const bool through_a_node = kind == CallerKind::kForwardedUser || kind == CallerKind::kRootAtWork;
      if (row.right == Right::kJudged || (row.path == "/v1/kubeconfig" && through_a_node))
        continue;
      EXPECT_EQ(allowed, passes(row, kind))
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
  EXPECT_NE(
      table.find("| `POST /v1/tokens` | administrators | no work | 16 KiB | – | – | – | – | – | – | – | – | yes |"),
      std::string::npos)
      << table;
  EXPECT_NE(table.find("| `GET /api/**` |"), std::string::npos);
  EXPECT_NE(table.find("| `GET /slurm/v1/squeue` |"), std::string::npos);
}

// A row that says that it reaches no work neither shows any nor changes any.
TEST_F(Rights, WhatReachesNoWorkShowsNone) {
  ASSERT_EQ(
      server.call("POST", "/v1/jobs", R"({"spec":{"name":"w0rk","comment":"w0rk","groups":[{"launch":"nothing"}]}})")
          .status,
      200);
  std::size_t shown = 0;
  for (const Route* row : routes.rows()) {
    if (row->right == Right::kNode || row->method != "GET" || row->cost == Cost::kWait)
      continue;
    std::string path = path_of(*row);
    if (path.starts_with("/v1/jobs/"))
      path.replace(9, 1, "4");
    const bool has_it = server.call("GET", path).body.find("w0rk") != std::string::npos;
    EXPECT_TRUE(!has_it || row->reach != Reach::kNothing) << row->path;
    shown += has_it ? 1 : 0;
  }
  EXPECT_GE(shown, 5u);
  for (const Route* row : routes.rows())
    if (row->path.find("/jobs/*") != row->path.npos || row->path.find("/steps/*") != row->path.npos) {
      EXPECT_NE(row->reach, Reach::kNothing) << row->path;
    }
}

// Root of a node is every user whose work is there: what roles of Kubernetes users have is not his.
TEST_F(Rights, AUsersWordThroughANodeCarriesNoRole) {
  const std::string name = format("uid{}", kUidOnNode), roles = "/apis/rbac.authorization.k8s.io/v1/";
  ASSERT_EQ(
      server
          .call("POST", roles + "clusterroles",
                R"({"metadata":{"name":"r"},"rules":[{"apiGroups":[""],"resources":["namespaces"],"verbs":["list"]}]})")
          .status,
      201);
  ASSERT_EQ(server
                .call("POST", roles + "clusterrolebindings",
                      format(R"({{"metadata":{{"name":"b"}},"roleRef":{{"apiGroup":"rbac.authorization.k8s.io",
                          "kind":"ClusterRole","name":"r"}},"subjects":[{{"apiGroup":"rbac.authorization.k8s.io",
                          "kind":"User","name":"{}"}}]}})",
                             name))
                .status,
            201);
  EXPECT_EQ(server.call("GET", "/api/v1/namespaces", {}, TestServer::local(kUidOnNode)).status, 200);
  const auto through = server.call("GET", "/api/v1/namespaces", {}, TestServer::forwarded("n1", kUidOnNode));
  EXPECT_EQ(through.status, 403) << through.body;
  EXPECT_NE(through.body.find("system:anonymous"), std::string::npos) << through.body;
  EXPECT_EQ(server.call("GET", "/api/v1/namespaces", {}, TestServer::forwarded("n1", 0)).status, 403);
  // What is his over the cluster's own API stays so: chained submissions, cancels.
  EXPECT_EQ(server.call("POST", "/v1/jobs", kScienceJob, TestServer::forwarded("n1", kUidOnNode)).status, 200);
  EXPECT_EQ(server.call("POST", "/v1/jobs/1/cancel", "{}", TestServer::forwarded("n1", kUidOnNode)).status, 200);
}

// Everybody's pods are root's. A node that runs one of them reaches none of the others.
TEST_F(Rights, RootOfANodeReachesRootsJobsThereAndNoOthers) {
  ASSERT_EQ(server
                .call("POST", "/v1/jobs",
                      R"({"spec":{"name":"r","comment":"x","groups":[{"launch":"nothing","only_nodes":["n2"]}]}})")
                .status,
            200);  // job 4
  server.loop.until([&] { return server.call("GET", "/v1/jobs/4").body.find("\"allocation\"") != std::string::npos; });
  StepRequest step;
  step.job = JobId{4};
  step.spec.argv = {"s3cret"};
  step.spec.tasks = 1;
  ASSERT_EQ(server.call("POST", "/v1/jobs/4/steps", encode(step)).status, 200);
  std::size_t asked = 0;
  for (const Route* row : routes.rows()) {
    if (row->reach != Reach::kJob && row->reach != Reach::kStep)
      continue;
    std::string path(row->path);
    path.replace(path.find('*'), 1, row->reach == Reach::kStep ? "4.0" : "4");
    const auto answer =
        server.call(std::string(row->method), path, row->method == "GET" ? "" : "{}", TestServer::forwarded("n1", 0));
    EXPECT_EQ(answer.status, 403) << row->method << " " << path << ": " << answer.body;
    ++asked;
  }
  EXPECT_GE(asked, 15u);
  for (const char* body : {R"({"users":["root"]})", R"({"targets":["4"]})", R"({"names":["r"]})", R"({"nodes":"n2"})"})
    (void)server.call("POST", "/v1/jobs/cancel", body, TestServer::forwarded("n1", 0));
  const std::string fourth = server.call("GET", "/v1/jobs/4").body, third = server.call("GET", "/v1/jobs/3").body;
  EXPECT_EQ(fourth.find("cancelled_by"), std::string::npos) << fourth;
  EXPECT_NE(third.find("cancelled_by"), std::string::npos) << third;  // that one is there
  EXPECT_NE(fourth.find("s3cret"), std::string::npos);
  for (const char* path : {"/v1/jobs/4", "/v1/steps/4.0", "/v1/steps"})
    EXPECT_EQ(server.call("GET", path, {}, TestServer::forwarded("n1", 0)).body.find("s3cret"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::hostile
