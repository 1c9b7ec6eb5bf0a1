// The rows of the API that are no plain records.
#include "controller/routes.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "controller/api.h"
#include "controller/record_routes.h"

namespace lockstep {

namespace {

constexpr std::array kCallerWords = {
    std::string_view("nobody"),         std::string_view("node"),
    std::string_view("root of a node"), std::string_view("other user"),
    std::string_view("user on a node"), std::string_view("root of a node, with work there"),
    std::string_view("coordinator"),    std::string_view("owner"),
    std::string_view("administrator"),
};
static_assert(kCallerWords.size() == kCallerKinds);

std::string size_text(std::size_t bytes) {
  return bytes >= 1 << 20 ? format("{} MiB", bytes >> 20) : format("{} KiB", bytes >> 10);
}

std::string table_line(const Route& row) {
  std::string out = format("| `{} {}` | {} | {} | {} |", row.method, row.path, text_of(row.right), text_of(row.reach),
                           size_text(row.body_bytes_max));
  for (std::size_t i = 0; i < kCallerKinds; ++i) out += passes(row, static_cast<CallerKind>(i)) ? " yes |" : " – |";
  return out + "\n";
}

}  // namespace

std::span<const ApiRoute> Api::own_routes() {
  using enum Right;
  using enum Cost;
  static constexpr ApiRoute kRoutes[] = {
      {{"POST", "/v1/jobs", kUser, kChange, kManyBody, "request,wait=started", Reach::kNewJob}, &Api::submit},
      {{"POST", "/v1/jobs/cancel", kUser, kEnd, 1 << 20, {}, Reach::kEach}, &Api::cancel_jobs},
      {{"GET", "/v1/jobs/*", kUser, kRead, kNoBody, {}, Reach::kShown}, &Api::get_job},
      {{"GET", "/v1/jobs/*/wait", kUser, kWait, kNoBody,
        "for=allocated|started|ended|change,since=number,timeout_s=number,presence=flag", Reach::kShown},
       &Api::wait_job},
      {{"GET", "/v1/jobs/*/script", kOwner, kRead, kNoBody, {}, Reach::kJob}, &Api::job_script},
      {{"GET", "/v1/jobs/*/environment", kOwner, kRead, kNoBody, {}, Reach::kJob}, &Api::job_environment},
      {{"GET", "/v1/jobs/*/explain", kUser, kQuestion, kNoBody, {}, Reach::kShown}, &Api::explain_job},
      {{"POST", "/v1/whatif", kUser, kQuestion, 1 << 20, "history_days=number", Reach::kShown}, &Api::ask_what_if},
      {{"GET", "/v1/jobs/*/image_source", kOwner, kRead, kNoBody, "group=number,hop=number", Reach::kJob},
       &Api::job_image_source},
      {{"POST", "/v1/jobs/*/cancel", kOwner, kEnd, kNoBody, {}, Reach::kJob}, &Api::cancel_job},
      {{"POST", "/v1/jobs/*/hold", kOwner, kChange, kNoBody, {}, Reach::kJob}, &Api::hold_job},
      {{"POST", "/v1/jobs/*/release", kOwner, kChange, kNoBody, {}, Reach::kJob}, &Api::release_job},
      {{"POST", "/v1/jobs/*/requeue", kOwner, kChange, kNoBody, {}, Reach::kJob}, &Api::requeue_job},
      {{"POST", "/v1/jobs/*/suspend", kAdministrator, kChange, kNoBody, {}, Reach::kJob}, &Api::suspend_job},
      {{"POST", "/v1/jobs/*/resume", kAdministrator, kChange, kNoBody, {}, Reach::kJob}, &Api::resume_job},
      {{"POST", "/v1/jobs/*/checkpoint", kOwner, kChange, kNoBody, {}, Reach::kJob}, &Api::checkpoint_job},
      {{"POST", "/v1/jobs/*/update", kOwner, kChange, 1 << 20, {}, Reach::kJob}, &Api::update_job},
      {{"POST", "/v1/jobs/*/end", kOwner, kEnd, kNoBody, {}, Reach::kJob}, &Api::end_job},
      {{"POST", "/v1/jobs/*/steps", kOwner, kChange, kLaunchBody, "request,wait=started,presence=flag", Reach::kJob},
       &Api::create_step},
      {{"GET", "/v1/steps/*", kUser, kRead, kNoBody, {}, Reach::kShown}, &Api::get_step},
      {{"POST", "/v1/steps/*/signal", kOwner, kEnd, kNoBody, {}, Reach::kStep}, &Api::signal_step},
      {{"GET", "/v1/steps/*/io", kOwner, kWait, kNoBody, "verbs,direct=flag,onlooker=flag", Reach::kStep},
       &Api::step_stream},
      {{"GET", "/v1/steps/*/image_source", kOwner, kRead, kNoBody, "hop=number", Reach::kStep},
       &Api::step_image_source},
      {{"GET", "/v1/steps/*/use", kOwner, kRead, kNoBody, {}, Reach::kStep}, &Api::step_use},
      {{"GET", "/v1/nodes/*/use", kUser, kRead, kNoBody}, &Api::node_use},
      {{"GET", "/v1/ping", kNobody, kRead, kNoBody}, &Api::ping},
      {{"GET", "/v1/status", kUser, kList, kNoBody}, &Api::status},
      {{"GET", "/metrics", kUser, kRead, kNoBody}, &Api::metrics},
      {{"POST", "/v1/nodes/*", kAdministrator, kChange, kRecordBody, "now=flag"}, &Api::update_node},
      {{"GET", "/v1/watch", kUser, kWait, kNoBody, "from=number,timeout_s=number,kinds,follow=flag", Reach::kShown},
       &Api::watch},
      {{"GET", "/v1/plan/notes", kUser, kList, kNoBody, {}, Reach::kShown}, &Api::plan_notes},
      {{"GET", "/v1/history", kUser, kQuestion, kNoBody,
        "id,user,account,partition,name,state,from_us=integer,to_us=integer,steps=flag,duplicates=flag,limit=number",
        Reach::kShown},
       &Api::history},
      {{"POST", "/v1/tokens", kAdministrator, kChange, kTokenBody}, &Api::make_token},
      {{"POST", "/v1/join", Right::kNobody, kChange, kTokenBody}, &Api::join},
      {{"POST", "/v1/renew", kNode, kChange, kTokenBody}, &Api::renew},
      {{"GET", "/v1/link", kNode, kWait, kNoBody}, &Api::agent_link},
  };
  return kRoutes;
}

Routes::Routes(std::vector<FrontRoute> mounted) : mounted_(record_routes()) {
  std::move(mounted.begin(), mounted.end(), std::back_inserter(mounted_));
  for (const ApiRoute& own : Api::own_routes()) rows_.push_back(&own.route);
  for (const FrontRoute& front : mounted_) {
    // What a path names is known to its front end, and nodes speak with the controller only.
    CHECK(front.route.right != Right::kOwner && front.route.right != Right::kNode,
          "a front end judges owners itself, and nodes are not its callers");
    rows_.push_back(&front.route);
  }
}

Routes::Found Routes::find(std::string_view method, std::string_view path, std::vector<std::string>& names) const {
  Found found;
  const std::size_t own = Api::own_routes().size();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (!covers(*rows_[i], path, names))
      continue;
    if (rows_[i]->method != method && rows_[i]->method != "*") {
      found.same_path = true;
      continue;
    }
    return {rows_[i], i < own ? &Api::own_routes()[i] : nullptr, i < own ? nullptr : &mounted_[i - own], false};
  }
  names.clear();
  return found;
}

std::size_t Routes::body_bound(const HttpRequest& head, bool proven) const {
  std::vector<std::string> names;
  const Route* route = find(head.method, head.path, names).route;
  const std::size_t bound = route ? route->body_bytes_max : kNoBody;
  return head.peer.how == Peer::How::kNobody && !proven ? std::min(bound, kTokenBody) : bound;
}

std::string Routes::rights_table() const {
  std::string out = "| request | for | reaches | body |", line = "| --- | --- | --- | --- |";
  for (const std::string_view word : kCallerWords) {
    out += format(" {} |", word);
    line += " --- |";
  }
  out += "\n" + line + "\n";
  for (const Route* row : rows_) out += table_line(*row);
  return out;
}

bool passes(const Route& row, CallerKind caller) {
  switch (row.right) {
    case Right::kNobody:
    case Right::kJudged: return true;
    case Right::kNode: return caller == CallerKind::kNode;
    case Right::kUser:
      return caller >= CallerKind::kOtherUser && !(caller == CallerKind::kRootAtWork && row.reach == Reach::kNewJob);
    case Right::kOwner: return caller >= CallerKind::kOwner;
    case Right::kAdministrator: return caller == CallerKind::kAdministrator;
  }
  return false;
}

std::string_view text_of(CallerKind caller) { return kCallerWords[static_cast<std::size_t>(caller)]; }

std::string_view text_of(Reach reach) {
  switch (reach) {
    case Reach::kNothing: return "no work";
    case Reach::kShown: return "work, as the caller may see it";
    case Reach::kEach: return "work, each piece judged";
    case Reach::kJob: return "the job";
    case Reach::kStep: return "the step";
    case Reach::kNewJob: return "new work";
  }
  return "?";
}

std::string_view text_of(Right right) {
  switch (right) {
    case Right::kNobody: return "anybody";
    case Right::kJudged: return "whom the front end knows";
    case Right::kNode: return "a node's certificate";
    case Right::kUser: return "users";
    case Right::kOwner: return "the owner";
    case Right::kAdministrator: return "administrators";
  }
  return "?";
}

}  // namespace lockstep
