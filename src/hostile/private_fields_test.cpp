// What a stranger, a tenant and another node read of somebody's records through everything that lockstepd mounts. The
// records hold a secret in every text that their lists of fields call private, and every row is asked: both are walked,
// none is listed here.
#include <gtest/gtest.h>

#include "controller/test_server.h"
#include "frontends/mounted/mounted.h"
#include "hostile/front_ends.h"
#include "model/faults.h"
#include "model/job_fields.h"
#include "model/record_fields.h"
#include "routes/query_values.h"
#include "wire/api.h"
#include "wire/entry_stream.h"
#include "wire/service_table.h"

namespace lockstep::hostile {
namespace {

constexpr std::uint32_t kOwnerUid = 54321, kOtherUid = 54322, kOnNodeUid = 54324;
constexpr const char* kSecret = "s3cret";
constexpr const char* kInBase64 = "czNjcmV0";       // as Kubernetes writes it
constexpr const char* kEndOfRecords = "{\"seq\":";  // how the last line begins of what a stream tells at first
constexpr const char* kEndOfServices = "{\"mark\":";

// --- a secret in every private text ---

void tell(std::string& text) { text = kSecret; }
void tell(SharedText& text) { text = std::string("Word ") + kSecret; }
void tell(std::pair<std::string, std::string>& pair) { pair = {kSecret, kSecret}; }
template <class T>
void tell(T& value);
template <class T>
void tell(std::vector<T>& list) {
  tell(list.emplace_back());
}
template <class T>
void tell(SharedList<T>& list) {
  tell(list.edit());
}
template <class T>
void tell(std::optional<T>& value) {
  tell(value.emplace());
}

template <class T>
class TellAll {
 public:
  explicit TellAll(T& value) : value_(value) {}
  template <class Of, class M, class How = bounded::Plain>
  void operator()(std::string_view, M Of::*member, const How& = {}) {
    tell(value_.*member);
  }
  template <class Of, class M, class How = bounded::Plain>
  void always(std::string_view key, M Of::*member, const How& how = {}) {
    (*this)(key, member, how);
  }

 private:
  T& value_;
};
template <class T>
void tell(T& value) {
  if constexpr (Described<T>) {
    TellAll<T> fields(value);
    describe(fields, static_cast<const T*>(nullptr));
  }
}

template <class T>
void tell_private(T& value);
template <class T>
void tell_private(std::vector<T>& list) {
  for (T& item : list) tell_private(item);
}
template <class T>
void tell_private(SharedList<T>& list) {
  if (!list.empty())
    tell_private(list.edit());
}
template <class T>
void tell_private(Ref<T>& ref) {
  if (!ref)
    return;
  T value = *ref;
  tell_private(value);
  ref = std::make_shared<const T>(std::move(value));
}

template <class T>
class TellPrivate {
 public:
  explicit TellPrivate(T& value) : value_(value) {}
  template <class Of, class M, class How>
  void operator()(std::string_view, M Of::*member, const How&) {
    if constexpr (How::kToldTo > Visibility::kEveryone)
      tell(value_.*member);
    else
      tell_private(value_.*member);
  }
  template <class Of, class M, class How>
  void always(std::string_view key, M Of::*member, const How& how) {
    (*this)(key, member, how);
  }

 private:
  T& value_;
};
template <class T>
void tell_private(T& value) {
  if constexpr (Described<T> && !requires { told_whole(static_cast<const T*>(nullptr)); }) {
    TellPrivate<T> fields(value);
    describe(fields, static_cast<const T*>(nullptr));
  }
}

// --- the world ---

constexpr const char* kHeld = R"({"spec":{"name":"j","hold":true,"groups":[{"launch":"tasks","argv":["x"]}]}})";
constexpr const char* kOnN1 = R"({"spec":{"name":"r","groups":[{"launch":"nothing","only_nodes":["n1"]}]}})";
constexpr std::uint64_t kOfOwner = 1, kOfRoot = 2, kRootsOnN1 = 3, kUsersOnN1 = 4;  // jobs

// A cluster's records, and then the same with a secret in everything private, as a log tells of them.
std::vector<LogEntry> log_with_secrets() {
  TestServer plain;
  plain.join("n2");
  plain.join("n1");
  for (const std::uint32_t uid : {kOwnerUid, kOtherUid, kOnNodeUid})
    EXPECT_EQ(plain.call("GET", "/v1/jobs", {}, TestServer::local(uid)).status, 200);
  EXPECT_EQ(plain.call("POST", "/v1/jobs", kHeld, TestServer::local(kOwnerUid)).status, 200);
  EXPECT_EQ(plain.call("POST", "/v1/jobs", kHeld).status, 200);
  EXPECT_EQ(plain.call("POST", "/v1/jobs", kOnN1).status, 200);
  EXPECT_EQ(plain.call("POST", "/v1/jobs", kOnN1, TestServer::local(kOnNodeUid)).status, 200);
  EXPECT_EQ(plain.call("POST", "/v1/tokens", R"({"node":"n7"})").status, 200);
  EXPECT_EQ(plain
                .call("PUT", "/v1/health_checks/h1",
                      format(R"({{"user":"uid{}","script":"true","nodes":["n2"]}})", kOtherUid))
                .status,
            200);
  plain.loop.until([&] {
    return plain.call("GET", "/v1/jobs/3").body.find("\"allocation\"") != std::string::npos &&
           plain.call("GET", "/v1/jobs/4").body.find("\"allocation\"") != std::string::npos;
  });
  plain.controller->stop();

  std::vector<LogEntry> entries = plain.log.entries;
  Tables tables;
  EntryReader reader;
  for (const LogEntry& entry : entries)
    if (*reader.add(entry.bytes, entry.closing))
      for (const Change& change : reader.take().changes) tables.apply(change);
  Seq seq = tables.seq;
  EntryWriter writer(kStart + minutes(1));
  const auto add = [&](auto value) {
    value.meta.seq = ++seq;
    writer.add({seq, Record(std::make_shared<const decltype(value)>(std::move(value))), false});
  };
  for (const Change& change : tables.snapshot())
    std::visit(
        [&]<class T>(const Ref<T>& ref) {
          T value = *ref;
          if constexpr (std::is_same_v<T, User>)
            if (value.uid != kOwnerUid && value.uid != 0)  // those who ask know what they are
              return;
          if constexpr (std::is_same_v<T, Job>) {
            if (value.id.value > kOfRoot)
              return;
            value.meta.extra = std::make_shared<const MetaExtra>();
          }
          tell_private(value);
          add(std::move(value));
        },
        change.record);
  for (const std::uint64_t id : {kOfOwner, kOfRoot}) {
    Step step;
    step.job = JobId{id};
    step.user = tables.job(step.job)->spec->user;
    step.state = StepState::kEnded;
    step.spec = std::make_shared<const StepSpec>();
    tell_private(step);
    add(std::move(step));
    Task task;
    task.job = JobId{id};
    task.user = tables.job(task.job)->spec->user;
    task.state = TaskState::kEnded;
    tell_private(task);
    add(std::move(task));
  }
  LogEntry last;
  last.index = entries.back().index + 1;
  last.last_seq = seq;
  last.bytes = writer.finish();
  last.next_job = entries.back().next_job;
  entries.push_back(std::move(last));
  return entries;
}

ControllerSettings settings() {
  ControllerSettings out;
  mount_front_ends(out, {});
  out.api.limits.turns.rate_burst = 10'000'000;
  return out;
}

class PrivateFields : public ::testing::Test {
 protected:
  void SetUp() override {
    JobRow row;
    row.job = JobId{99};
    row.uid = kOwnerUid;
    row.user = format("uid{}", kOwnerUid);
    row.reason = format("Word {}", kSecret);
    server.history.rows = {row};
    for (const auto& [path, body] : {
             std::pair{"/api/v1/namespaces", R"({"metadata":{"name":"tenant"}})"},
             std::pair{"/api/v1/namespaces/tenant/secrets",
                       R"({"metadata":{"name":"kept"},"stringData":{"a":"s3cret"}})"},
             std::pair{"/api/v1/namespaces/tenant/configmaps", R"({"metadata":{"name":"kept"},"data":{"a":"s3cret"}})"},
         }) {
      const auto made = server.call("POST", path, body);
      ASSERT_EQ(made.status, 201) << made.body;
    }
  }

  // What may stand under the stars of the row.
  static std::vector<std::string> paths_of(const Route& row) {
    const std::string path(row.path);
    const auto star = path.find('*');
    if (star == path.npos)
      return {path};
    std::vector<std::string> names{"nothing"};
    if (path == "/api/**")
      names = {"v1",
               "v1/secrets",
               "v1/namespaces/tenant/secrets",
               "v1/namespaces/tenant/secrets/kept",
               "v1/namespaces/tenant/configmaps",
               "v1/pods",
               "v1/nodes",
               "v1/events",
               "v1/namespaces"};
    else if (path.ends_with("**"))
      names = {"v1", "apps/v1/deployments", "batch/v1/jobs", "metrics.k8s.io/v1beta1/pods"};
    else if (path.starts_with("/v1/jobs/"))
      names = {"1", "2", "secrets:tenant:kept"};
    else if (path.starts_with("/v1/steps/"))
      names = {"1.0", "2.0"};
    else if (path.starts_with("/v1/nodes/"))
      names = {"n1", "n2"};
    else if (path.starts_with("/v1/users/"))
      names = {format("uid{}", kOwnerUid), "root"};
    else if (path.starts_with("/v1/health_checks/"))
      names = {"h1"};
    std::vector<std::string> out;
    for (const std::string& name : names)
      out.push_back(path.substr(0, star) + name +
                    path.substr(std::min(path.size(), star + (path.ends_with("**") ? 2 : 1))));
    return out;
  }
  // The row asked as it is, and with each of its flags and some of its words.
  static std::vector<std::string> queries_of(const Route& row) {
    if (row.path == "/v1/watch")
      return {"", "?from=1&timeout_s=0", "?follow=1&timeout_s=0"};
    if (row.path.ends_with("/wait"))
      return {"?for=change&since=0&timeout_s=0"};
    std::vector<std::string> out{""};
    each_query_name(row.query, [&](std::string_view name, std::string_view kind) {
      if (kind == "flag")
        out.push_back(format("?{}=1", name));
      else if (name == "columns")
        out.emplace_back("?columns=jobid,command,stdout,stderr,stdin,reason,comment,workdir");
      else if (name == "job" || name == "jobs" || name == "id")
        out.push_back(format("?{}=1", name));
      else if (name == "states")
        out.emplace_back("?states=all");
    });
    return out;
  }

  std::string answer_to(const Route& row, const std::string& target, const Peer& peer) {
    const auto sent = server.send(std::string(row.method), target, row.method == "GET" ? "" : "{}", peer);
    if (row.cost == Cost::kWait && row.path != "/v1/watch" && !sent->done() && sent->gone) {
      sent->gone();
      return {};
    }
    server.loop.until([&] { return sent->done(); });
    if (!sent->wire)
      return sent->response->body;
    // A watch says everything there is, and then how far that goes; so does the table of services.
    const std::string& said = sent->wire->sent;
    const std::string end = row.path == kServiceTablePath ? kEndOfServices : kEndOfRecords;
    server.loop.until([&] { return sent->wire->gone || said.starts_with(end) || said.find("\n" + end) != said.npos; });
    const std::string all = said;
    if (sent->wire->closed)
      sent->wire->closed();
    return all;
  }

  // How many rows tell the secret to that caller. Rows that may change something are asked by who may not.
  std::size_t tellers(const Peer& peer, bool only_reads, std::string& first) {
    std::size_t out = 0;
    for (const Route* row : routes.rows()) {
      if (row->right == Right::kNode || (only_reads && row->method != "GET"))
        continue;
      bool tells = false;
      for (const std::string& path : paths_of(*row))
        for (const std::string& query : queries_of(*row)) {
          const std::string said = answer_to(*row, path + query, peer);
          if (const auto at = std::min(said.find(kSecret), said.find(kInBase64)); at != said.npos) {
            tells = true;
            if (first.empty())
              first = format("{} {}{}: …{}…", row->method, path, query, said.substr(at > 200 ? at - 200 : 0, 300));
          }
        }
      out += tells ? 1 : 0;
    }
    return out;
  }

  const Routes routes{front_end_rows()};
  TestServer server{settings(), log_with_secrets()};
};

TEST_F(PrivateFields, AreToldToNobodyElse) {
  const std::pair<const char*, Peer> others[] = {
      {"a stranger", Peer{}},
      {"another user", TestServer::local(kOtherUid)},
      {"a user on a node", TestServer::forwarded("n1", kOnNodeUid)},
      {"root of a node with work there", TestServer::forwarded("n1", 0)},
      {"root of another node", TestServer::forwarded("n2", 0)},
  };
  for (const auto& [who, peer] : others) {
    std::string first;
    EXPECT_EQ(tellers(peer, false, first), 0u) << who << ": " << first;
  }
}

// Or the test above would see nothing.
TEST_F(PrivateFields, AreToldToTheirOwnerAndToAdministrators) {
  std::string first;
  EXPECT_GE(tellers(TestServer::local(0), true, first), 12u);
  EXPECT_GE(tellers(TestServer::local(kOwnerUid), true, first), 6u);
}

TEST_F(PrivateFields, NorWhetherAnObjectIsThere) {
  for (const Peer& peer : {TestServer::local(kOtherUid), TestServer::forwarded("n1", 0)}) {
    const auto there = server.call("GET", "/v1/jobs/secrets:tenant:kept/explain", {}, peer);
    const auto nowhere = server.call("GET", "/v1/jobs/secrets:tenant:other/explain", {}, peer);
    EXPECT_EQ(there.status, nowhere.status);
    EXPECT_EQ(there.body, nowhere.body);
  }
}

}  // namespace
}  // namespace lockstep::hostile
