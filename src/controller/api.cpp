#include "controller/api.h"

#include <unistd.h>

#include "base/text.h"
#include "views/job_names.h"
#include "wire/codec.h"

namespace lockstep {

namespace {

// Matches "/v1/jobs/*/cancel"; the parts under the stars go to names.
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

}  // namespace

const std::vector<Api::Route>& Api::routes() {
  static const std::vector<Route> kRoutes = {
      {"POST", "/v1/jobs", &Api::submit},
      {"GET", "/v1/jobs", &Api::list_jobs},
      {"GET", "/v1/jobs/*", &Api::get_job},
      {"GET", "/v1/jobs/*/wait", &Api::wait_job},
      {"GET", "/v1/jobs/*/script", &Api::job_script},
      {"GET", "/v1/jobs/*/environment", &Api::job_environment},
      {"GET", "/v1/jobs/*/explain", &Api::explain_job},
      {"POST", "/v1/whatif", &Api::ask_what_if},
      {"POST", "/v1/jobs/*/cancel", &Api::cancel_job},
      {"POST", "/v1/jobs/cancel", &Api::cancel_jobs},
      {"POST", "/v1/jobs/*/hold", &Api::hold_job},
      {"POST", "/v1/jobs/*/release", &Api::release_job},
      {"POST", "/v1/jobs/*/requeue", &Api::requeue_job},
      {"POST", "/v1/jobs/*/suspend", &Api::suspend_job},
      {"POST", "/v1/jobs/*/resume", &Api::resume_job},
      {"POST", "/v1/jobs/*/checkpoint", &Api::checkpoint_job},
      {"POST", "/v1/jobs/*/update", &Api::update_job},
      {"POST", "/v1/jobs/*/end", &Api::end_job},
      {"POST", "/v1/jobs/*/steps", &Api::create_step},
      {"GET", "/v1/steps", &Api::list_steps},
      {"GET", "/v1/steps/*", &Api::get_step},
      {"POST", "/v1/steps/*/signal", &Api::signal_step},
      {"GET", "/v1/steps/*/io", &Api::step_stream},
      {"GET", "/v1/ping", &Api::ping, Needs::kNobody},
      {"GET", "/v1/status", &Api::status},
      {"GET", "/metrics", &Api::metrics},
      {"GET", "/v1/nodes", &Api::list_nodes},
      {"GET", "/v1/nodes/*", &Api::get_node},
      {"POST", "/v1/nodes/*", &Api::update_node},
      {"DELETE", "/v1/nodes/*", &Api::remove_node},
      {"GET", "/v1/partitions", &Api::list_partitions},
      {"PUT", "/v1/partitions/*", &Api::put_partition},
      {"DELETE", "/v1/partitions/*", &Api::remove_partition},
      {"GET", "/v1/users", &Api::list_users},
      {"PUT", "/v1/users/*", &Api::put_user},
      {"GET", "/v1/accounts", &Api::list_accounts},
      {"PUT", "/v1/accounts/*", &Api::put_account},
      {"DELETE", "/v1/accounts/*", &Api::remove_account},
      {"GET", "/v1/associations", &Api::list_associations},
      {"PUT", "/v1/associations", &Api::put_association},
      {"DELETE", "/v1/associations/*/*", &Api::remove_association},
      {"DELETE", "/v1/associations/*/*/*", &Api::remove_association},
      {"GET", "/v1/qos", &Api::list_qos},
      {"PUT", "/v1/qos/*", &Api::put_qos},
      {"DELETE", "/v1/qos/*", &Api::remove_qos},
      {"GET", "/v1/licences", &Api::list_licences},
      {"PUT", "/v1/licences/*", &Api::put_licence},
      {"DELETE", "/v1/licences/*", &Api::remove_licence},
      {"GET", "/v1/reservations", &Api::list_reservations},
      {"PUT", "/v1/reservations/*", &Api::put_reservation},
      {"DELETE", "/v1/reservations/*", &Api::remove_reservation},
      {"GET", "/v1/policy", &Api::get_policy},
      {"PUT", "/v1/policy", &Api::put_policy},
      {"POST", "/v1/usage/reset", &Api::reset_usage},
      {"GET", "/v1/topology", &Api::get_topology},
      {"PUT", "/v1/topology", &Api::put_topology},
      {"DELETE", "/v1/topology", &Api::remove_topology},
      {"GET", "/v1/watch", &Api::watch},
      {"GET", "/v1/plan/notes", &Api::plan_notes},
      {"GET", "/v1/history", &Api::history},
      {"POST", "/v1/tokens", &Api::make_token},
      {"POST", "/v1/join", &Api::join, Needs::kNobody},
      {"GET", "/v1/link", &Api::agent_link, Needs::kAgent},
  };
  return kRoutes;
}

std::string_view Api::Visit::query(std::string_view name) const {
  const auto it = http().query.find(name);
  return it == http().query.end() ? std::string_view{} : std::string_view(it->second);
}

void Api::Visit::answer(std::string json) const { exchange->respond({200, "application/json", std::move(json), {}}); }

void Api::Visit::text(std::string body) const {
  exchange->respond({200, "text/plain; charset=utf-8", std::move(body), {}});
}

void Api::Visit::refuse(const Error& error, int status) const {
  exchange->respond({status ? status : http_status_of(error.code), "application/json", encode_error(error), {}});
}

Api::Api(World world, ApiSettings settings, ApiPowers powers)
    : world_(std::move(world)), settings_(std::move(settings)), powers_(std::move(powers)), own_uid_(geteuid()) {}

void Api::add_pages(std::vector<PageEntry> pages) {
  for (auto& page : pages) {
    std::string path = page.path;
    pages_.emplace(std::move(path), std::move(page));
  }
}

void Api::handle(std::shared_ptr<HttpExchange> exchange) {
  ++requests_;
  Visit visit;
  visit.exchange = std::move(exchange);
  const HttpRequest& http = visit.http();
  const Route* same_path = nullptr;
  for (const Route& route : routes())
    if (path_matches(route.path, http.path, visit.names)) {
      same_path = &route;
      if (route.method == http.method)
        return dispatch(std::move(visit), route);
    }
  if (same_path) {
    visit.refuse(invalid(format("{} is not answered to {}", http.path, http.method)), 405);
    return;
  }
  static constexpr Route kPage{"GET", "", nullptr};
  if (http.method == "GET" && !pages_.empty())
    return dispatch(std::move(visit), kPage);
  visit.refuse(not_found(format("there is no {}", http.path)));
}

void Api::dispatch(Visit visit, const Route& route) {
  if (route.needs == Needs::kNobody || route.needs == Needs::kAgent)
    return (this->*route.handler)(std::move(visit));
  Who who = identify(visit.http().peer, world_.view, own_uid_);
  if (who.kind == Who::Kind::kUser && who.known && who.known->realm == "local" &&
      checked_accounts_.insert(who.known->uid).second) {
    // Groups and home may have changed since the record was made.
    User now = local_user(who.known->uid, who.known->gid);
    if (!same_account(now, *who.known)) {
      now.meta = who.known->meta;
      now.meta.name = who.known->meta.name;
      now.id = who.known->id;
      now.account = who.known->account;
      now.admin = who.known->admin;
      who.kind = Who::Kind::kNewUser;
      who.user = std::move(now);
    }
  }
  switch (who.kind) {
    case Who::Kind::kUser: break;
    case Who::Kind::kNewUser:
      checked_accounts_.insert(who.user.uid);
      world_.core.submit({{UserId{}, true}, PutUser{std::move(who.user)}}, {},
                         [this, visit = std::move(visit), &route](Result<Answer> answer) mutable {
                           if (!answer.ok())
                             visit.refuse(answer.error());
                           else
                             dispatch(std::move(visit), route);
                         });
      return;
    case Who::Kind::kAgent: return visit.refuse(denied("a node's certificate opens links, nothing else"));
    case Who::Kind::kNobody:
      return visit.refuse(
          {Errc::kDenied, "no proof of who is asking: use the cluster's socket, or a client certificate", {}}, 401);
    case Who::Kind::kRefused: return visit.refuse(denied(who.why));
  }
  visit.caller = who.caller;
  if (route.handler)
    return (this->*route.handler)(std::move(visit));
  // A front end's page: exact, or the longest "/…/*" that covers the path.
  std::string path = visit.http().path;
  auto page = pages_.find(path);
  while (page == pages_.end() && !path.empty()) {
    const auto cut = path.find_last_of('/');
    path.resize(cut == std::string::npos ? 0 : cut);
    page = pages_.find(path + "/*");
  }
  if (page == pages_.end())
    return visit.refuse(not_found(format("there is no {}", visit.http().path)));
  run_page(std::move(visit), page->second);
}

void Api::run_page(Visit visit, const PageEntry& page) {
  const Instant now = world_.clock.now();
  const Duration offset = world_.clock.wall_offset();
  const auto respond = [](const Visit& v, PageReply reply) {
    v.exchange->respond({reply.status, std::move(reply.content_type), std::move(reply.body), {}});
  };
  if (page.kind == PageKind::kLive) {
    const ReadContext context{world_.view.tables(),
                              world_.view.notes(),
                              now,
                              offset,
                              world_.view.tables().user(visit.caller.user),
                              visit.caller.admin,
                              settings_.cluster_name,
                              [this](NodeId node) { return world_.view.use(node); },
                              {},
                              {}};
    respond(visit, page.page(context, {visit.http().path, visit.http().query}));
    return;
  }
  // Beside the history store, on its thread and with its tables; the answer comes back here.
  const HttpRequest& http = visit.http();
  world_.history.ask([this, visit, request = PageRequest{http.path, http.query}, make = page.page, now, offset,
                      respond](HistoryStore& store, const Tables& tables) {
    const PlanNotes no_notes;
    const ReadContext context{tables,
                              no_notes,
                              now,
                              offset,
                              tables.user(visit.caller.user),
                              visit.caller.admin,
                              settings_.cluster_name,
                              [](NodeId) { return NodeUse{}; },
                              {},
                              [&store](const HistoryQuery& query) { return store.query(query); }};
    auto reply = std::make_shared<PageReply>(make(context, request));
    world_.loop.post([visit, reply, respond] { respond(visit, std::move(*reply)); });
  });
}

void Api::command(Visit visit, CommandBody body) {
  const Caller caller = visit.caller;
  world_.core.submit({caller, std::move(body)}, {}, [visit = std::move(visit)](Result<Answer> answer) {
    if (answer.ok())
      visit.answer("{}");
    else
      visit.refuse(answer.error());
  });
}

const Job* Api::job_of(const Visit& visit) const {
  const auto target = parse_job_target(visit.names.at(0));
  if (!target.ok()) {
    visit.refuse(target.error());
    return nullptr;
  }
  const Job* job = world_.view.find(*target);
  if (!job)
    visit.refuse(
        not_found(format("there is no job {}: it never was, or it ended a while ago (see sacct)", visit.names.at(0))));
  return job;
}

const Step* Api::step_of(const Visit& visit) const {
  const auto name = parse_step_name(visit.names.at(0));
  if (!name.ok()) {
    visit.refuse(name.error());
    return nullptr;
  }
  const Job* job = world_.view.find(name->target);
  const Step* step = job ? world_.view.tables().step(job->id, name->step) : nullptr;
  if (!step)
    visit.refuse(not_found(format("there is no step {}", visit.names.at(0))));
  return step;
}

bool Api::may_see(const Visit& visit, UserId owner) const {
  return visit.caller.admin || (visit.caller.user && visit.caller.user == owner);
}

Duration Api::poll_time(const Visit& visit) const {
  const auto asked = parse_uint(visit.query("timeout_s"));
  return asked ? std::min(settings_.poll_max, seconds(static_cast<std::int64_t>(std::min<std::uint64_t>(*asked, 3600))))
               : settings_.poll_max;
}

}  // namespace lockstep
