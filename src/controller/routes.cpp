// The rows. A star stands for one part of a path; the first row that fits is taken, so fixed words stand before stars.
#include "controller/routes.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "controller/api.h"
#include "controller/query_values.h"

namespace lockstep {

namespace {

constexpr std::size_t kNoBody = 4 << 10;   // a body that says nothing
constexpr std::size_t kToken = 16 << 10;   // of strangers
constexpr std::size_t kRecord = 4 << 20;   // one record
constexpr std::size_t kLaunch = 24 << 20;  // a record, its script and environments, quoted
constexpr std::size_t kMany = 64 << 20;    // submissions in one request

// Whether "/v1/jobs/*/cancel" covers the path; the parts under the stars go to names.
bool path_matches(std::string_view pattern, std::string_view path, std::vector<std::string>& names) {
  names.clear();
  while (!pattern.empty()) {
    if (pattern.front() == '*') {
      const auto end = path.find('/');
      const auto part = path.substr(0, end);
      if (part.empty())
        return false;
      names.emplace_back(part);
      pattern.remove_prefix(1);
      path.remove_prefix(part.size());
      continue;
    }
    if (path.empty() || path.front() != pattern.front())
      return false;
    pattern.remove_prefix(1);
    path.remove_prefix(1);
  }
  return path.empty();
}

constexpr std::array kCallerWords = {
    std::string_view("nobody"),     std::string_view("node"),           std::string_view("root of a node"),
    std::string_view("other user"), std::string_view("user on a node"), std::string_view("coordinator"),
    std::string_view("owner"),      std::string_view("administrator"),
};
static_assert(kCallerWords.size() == kCallerKinds);

std::string size_text(std::size_t bytes) {
  return bytes >= 1 << 20 ? format("{} MiB", bytes >> 20) : format("{} KiB", bytes >> 10);
}

std::string table_line(std::string_view method, std::string_view path, const Route& row) {
  std::string out = format("| `{} {}` | {} | {} |", method, path, text_of(row.right), size_text(row.body_bytes_max));
  for (std::size_t i = 0; i < kCallerKinds; ++i)
    out += passes(row.right, static_cast<CallerKind>(i)) ? " yes |" : " – |";
  return out + "\n";
}

}  // namespace

std::span<const Route> Api::routes() {
  using enum Right;
  using enum Cost;
  static constexpr Route kRoutes[] = {
      {"POST", "/v1/jobs", &Api::submit, kUser, kChange, kMany, "request,wait=started"},
      {"GET", "/v1/jobs", &Api::list_jobs, kUser, kList, kNoBody, "id,user,state,partition,name"},
      {"POST", "/v1/jobs/cancel", &Api::cancel_jobs, kUser, kEnd, 1 << 20},
      {"GET", "/v1/jobs/*", &Api::get_job, kUser, kRead, kNoBody},
      {"GET", "/v1/jobs/*/wait", &Api::wait_job, kUser, kWait, kNoBody,
       "for=allocated|started|ended|change,since=number,timeout_s=number,presence=flag"},
      {"GET", "/v1/jobs/*/script", &Api::job_script, kOwner, kRead, kNoBody},
      {"GET", "/v1/jobs/*/environment", &Api::job_environment, kOwner, kRead, kNoBody},
      {"GET", "/v1/jobs/*/explain", &Api::explain_job, kUser, kQuestion, kNoBody},
      {"POST", "/v1/whatif", &Api::ask_what_if, kUser, kQuestion, 1 << 20, "history_days=number"},
      {"POST", "/v1/jobs/*/cancel", &Api::cancel_job, kOwner, kEnd, kNoBody},
      {"POST", "/v1/jobs/*/hold", &Api::hold_job, kOwner, kChange, kNoBody},
      {"POST", "/v1/jobs/*/release", &Api::release_job, kOwner, kChange, kNoBody},
      {"POST", "/v1/jobs/*/requeue", &Api::requeue_job, kOwner, kChange, kNoBody},
      {"POST", "/v1/jobs/*/suspend", &Api::suspend_job, kAdministrator, kChange, kNoBody},
      {"POST", "/v1/jobs/*/resume", &Api::resume_job, kAdministrator, kChange, kNoBody},
      {"POST", "/v1/jobs/*/checkpoint", &Api::checkpoint_job, kOwner, kChange, kNoBody},
      {"POST", "/v1/jobs/*/update", &Api::update_job, kOwner, kChange, 1 << 20},
      {"POST", "/v1/jobs/*/end", &Api::end_job, kOwner, kEnd, kNoBody},
      {"POST", "/v1/jobs/*/steps", &Api::create_step, kOwner, kChange, kLaunch, "request,wait=started,presence=flag"},
      {"GET", "/v1/steps", &Api::list_steps, kUser, kList, kNoBody},
      {"GET", "/v1/steps/*", &Api::get_step, kUser, kRead, kNoBody},
      {"POST", "/v1/steps/*/signal", &Api::signal_step, kOwner, kEnd, kNoBody},
      {"GET", "/v1/steps/*/io", &Api::step_stream, kOwner, kWait, kNoBody, "verbs,direct=flag"},
      {"GET", "/v1/ping", &Api::ping, kNobody, kRead, kNoBody},
      {"GET", "/v1/status", &Api::status, kUser, kList, kNoBody},
      {"GET", "/metrics", &Api::metrics, kUser, kRead, kNoBody},
      {"GET", "/v1/nodes", &Api::list_nodes, kUser, kList, kNoBody},
      {"GET", "/v1/nodes/*", &Api::get_node, kUser, kRead, kNoBody},
      {"POST", "/v1/nodes/*", &Api::update_node, kAdministrator, kChange, kRecord, "now=flag"},
      {"DELETE", "/v1/nodes/*", &Api::remove_node, kAdministrator, kChange, kNoBody},
      {"GET", "/v1/partitions", &Api::list_partitions, kUser, kList, kNoBody},
      {"PUT", "/v1/partitions/*", &Api::put_partition, kAdministrator, kChange, kRecord, "if_seq=number"},
      {"DELETE", "/v1/partitions/*", &Api::remove_partition, kAdministrator, kChange, kNoBody},
      {"GET", "/v1/users", &Api::list_users, kUser, kList, kNoBody},
      {"PUT", "/v1/users/*", &Api::put_user, kAdministrator, kChange, kRecord, "if_seq=number"},
      {"GET", "/v1/accounts", &Api::list_accounts, kUser, kList, kNoBody},
      {"PUT", "/v1/accounts/*", &Api::put_account, kAdministrator, kChange, kRecord, "if_seq=number"},
      {"DELETE", "/v1/accounts/*", &Api::remove_account, kAdministrator, kChange, kNoBody},
      {"GET", "/v1/associations", &Api::list_associations, kUser, kList, kNoBody},
      {"PUT", "/v1/associations", &Api::put_association, kAdministrator, kChange, kRecord, "if_seq=number"},
      {"DELETE", "/v1/associations/*/*", &Api::remove_association, kAdministrator, kChange, kNoBody},
      {"DELETE", "/v1/associations/*/*/*", &Api::remove_association, kAdministrator, kChange, kNoBody},
      {"GET", "/v1/qos", &Api::list_qos, kUser, kList, kNoBody},
      {"PUT", "/v1/qos/*", &Api::put_qos, kAdministrator, kChange, kRecord, "if_seq=number"},
      {"DELETE", "/v1/qos/*", &Api::remove_qos, kAdministrator, kChange, kNoBody},
      {"GET", "/v1/licences", &Api::list_licences, kUser, kList, kNoBody},
      {"PUT", "/v1/licences/*", &Api::put_licence, kAdministrator, kChange, kRecord, "if_seq=number"},
      {"DELETE", "/v1/licences/*", &Api::remove_licence, kAdministrator, kChange, kNoBody},
      {"GET", "/v1/reservations", &Api::list_reservations, kUser, kList, kNoBody},
      {"PUT", "/v1/reservations/*", &Api::put_reservation, kAdministrator, kChange, kRecord, "if_seq=number"},
      {"DELETE", "/v1/reservations/*", &Api::remove_reservation, kAdministrator, kChange, kNoBody},
      {"GET", "/v1/policy", &Api::get_policy, kUser, kRead, kNoBody},
      {"PUT", "/v1/policy", &Api::put_policy, kAdministrator, kChange, kRecord, "if_seq=number"},
      {"POST", "/v1/usage/reset", &Api::reset_usage, kAdministrator, kChange, kNoBody, "account,user"},
      {"GET", "/v1/topology", &Api::get_topology, kUser, kRead, kNoBody},
      {"PUT", "/v1/topology", &Api::put_topology, kAdministrator, kChange, 16 << 20, "if_seq=number"},
      {"DELETE", "/v1/topology", &Api::remove_topology, kAdministrator, kChange, kNoBody},
      {"GET", "/v1/watch", &Api::watch, kUser, kWait, kNoBody, "from=number,timeout_s=number,kinds"},
      {"GET", "/v1/plan/notes", &Api::plan_notes, kUser, kList, kNoBody},
      {"GET", "/v1/history", &Api::history, kUser, kQuestion, kNoBody,
       "id,user,account,partition,name,state,from_us=integer,to_us=integer,steps=flag,duplicates=flag,limit=number"},
      {"POST", "/v1/tokens", &Api::make_token, kAdministrator, kChange, kToken},
      {"POST", "/v1/join", &Api::join, Right::kNobody, kChange, kToken},
      {"GET", "/v1/link", &Api::agent_link, kNode, kWait, kNoBody},
  };
  return kRoutes;
}

std::span<const Route> route_rows() { return Api::routes(); }

const Route& page_route() {
  static constexpr Route kPage{"GET", "", nullptr, Right::kUser, Cost::kList, kNoBody};
  return kPage;
}

const Route* find_route(std::string_view method, std::string_view path, std::vector<std::string>& names,
                        bool* same_path) {
  for (const Route& route : route_rows())
    if (path_matches(route.path, path, names)) {
      if (route.method == method)
        return &route;
      if (same_path)
        *same_path = true;
    }
  names.clear();
  return nullptr;
}

// Which page answers is known when its row has let the caller in.
Result<void> check_query(const Route& route, const HttpRequest& request) {
  return route.handler ? check_query_values(route.method, route.path, route.query, request) : Result<void>{};
}

Result<void> check_query(const PageEntry& page, const HttpRequest& request) {
  return check_query_values(page_route().method, page.path, page.query, request);
}

std::size_t body_bound(const HttpRequest& head) {
  std::vector<std::string> names;
  const Route* route = find_route(head.method, head.path, names);
  const std::size_t bound = route ? route->body_bytes_max : kNoBody;
  return head.peer.how == Peer::How::kNobody ? std::min(bound, kToken) : bound;
}

bool passes(Right right, CallerKind caller) {
  switch (right) {
    case Right::kNobody: return true;
    case Right::kNode: return caller == CallerKind::kNode;
    case Right::kUser: return caller >= CallerKind::kOtherUser;
    case Right::kOwner: return caller >= CallerKind::kOwner;
    case Right::kAdministrator: return caller == CallerKind::kAdministrator;
  }
  return false;
}

std::string_view text_of(CallerKind caller) { return kCallerWords[static_cast<std::size_t>(caller)]; }

std::string_view text_of(Right right) {
  switch (right) {
    case Right::kNobody: return "anybody";
    case Right::kNode: return "a node's certificate";
    case Right::kUser: return "users";
    case Right::kOwner: return "the owner";
    case Right::kAdministrator: return "administrators";
  }
  return "?";
}

std::string rights_table(std::span<const PageEntry> pages) {
  std::string out = "| request | for | body |", line = "| --- | --- | --- |";
  for (const std::string_view word : kCallerWords) {
    out += format(" {} |", word);
    line += " --- |";
  }
  out += "\n" + line + "\n";
  for (const Route& row : route_rows()) out += table_line(row.method, row.path, row);
  for (const PageEntry& page : pages) out += table_line(page_route().method, page.path, page_route());
  return out;
}

}  // namespace lockstep
