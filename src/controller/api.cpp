#include "controller/api.h"

#include <unistd.h>

#include "base/text.h"
#include "controller/ask_store.h"
#include "controller/reply_buffer.h"
#include "rules/user_words.h"
#include "views/job_names.h"
#include "wire/codec.h"

namespace lockstep {

namespace {

// In units of the cheapest request, by which the rate of a caller counts.
std::uint32_t units_of(Cost cost) {
  switch (cost) {
    case Cost::kRead:
    case Cost::kChange:
    case Cost::kEnd: return 1;
    case Cost::kWait: return 2;
    case Cost::kList: return 4;
    case Cost::kQuestion: return 20;
  }
  return 1;
}

// Whatever comes of it, a body has been received and is to be read.
std::uint32_t units_of_body(std::size_t bytes) {
  constexpr std::size_t kBytesPerUnit = 64 << 10;
  return static_cast<std::uint32_t>(bytes / kBytesPerUnit);
}

}  // namespace

Api::Api(World world, ApiSettings settings, ApiPowers powers)
    : world_(std::move(world)),
      settings_(std::move(settings)),
      powers_(std::move(powers)),
      accounts_({world_.loop, powers_.account, [this] { return world_.clock.now(); },
                 [this](std::uint32_t uid) { return world_.view.tables().user("local", uid); },
                 [this](User user, AccountBook::Then then) {
                   world_.core.submit({{UserId{}, true}, PutUser{std::move(user), true}}, {},
                                      [then = std::move(then)](Result<Answer> answer) {
                                        then(answer.ok() ? Result<void>{} : Result<void>(answer.error()));
                                      });
                 }}),
      routes_(settings_.routes ? settings_.routes : std::make_shared<const Routes>()),
      own_uid_(geteuid()) {
  sweep_accounts();
}

Payer Api::payer_of(const Peer& peer) const {
  Payer payer{payer_name(peer), false};
  if (peer.how == Peer::How::kUnixSocket) {
    const User* user = world_.view.tables().user("local", peer.uid);
    payer.reserved = peer.uid == 0 || peer.uid == own_uid_ || (user && user->admin);
  } else if (peer.how == Peer::How::kCertificate) {
    payer.reserved = peer.certificate_role == "admin" || peer.certificate_name.starts_with("node:");
  }
  return payer;
}

void Api::handle(std::shared_ptr<HttpExchange> exchange) {
  ++requests_;
  Visit visit;
  visit.exchange = std::move(exchange);
  visit.refusals = &refusals_;
  const HttpRequest& http = visit.http();
  visit.payer = payer_of(http.peer);
  const Routes::Found found = routes_->find(http.method, http.path, visit.names);
  const Route* const route = found.route;
  const std::uint32_t units = (route ? units_of(route->cost) : 1) + units_of_body(http.body.size());
  if (const auto admitted = world_.turns.admit(visit.payer, units); !admitted.ok())
    return visit.refuse(admitted.error());
  if (!route)
    return found.same_path ? visit.refuse(invalid(format("{} is not answered to {}", http.path, http.method)), 405)
                           : visit.refuse(not_found(format("there is no {}", http.path)));
  if (const auto known = check_query(*route, http); !known.ok())
    return visit.refuse(known.error());
  if (http.body.size() > route->body_bytes_max)
    return visit.refuse({Errc::kExhausted,
                         format("the body has {} bytes; {} {} takes at most {}", http.body.size(), http.method,
                                http.path, route->body_bytes_max),
                         "body"},
                        413);
  const Payer payer = visit.payer;
  world_.turns.add(payer, [this, visit = std::move(visit), found]() mutable { dispatch(std::move(visit), found); });
}

void Api::dispatch(Visit visit, const Routes::Found& found) {
  const Route& route = *found.route;
  if (route.right == Right::kNobody || route.right == Right::kNode)
    return run(std::move(visit), found);
  Who who = identify(visit.http().peer, world_.view, own_uid_, world_.clock.now());
  // Root of a node without work of its own there is nobody, too; what a front end tells nodes it tells it all the same.
  const bool nobody = who.kind == Who::Kind::kNobody || (who.kind == Who::Kind::kRefused && who.root_of);
  if (route.right == Right::kJudged && nobody)
    return run(std::move(visit), found);
  if (who.root_of && found.own && found.own->handler == &Api::update_node)
    return own_word(std::move(visit), who.root_of);
  switch (who.kind) {
    case Who::Kind::kUser:
    case Who::Kind::kNewUser: break;
    case Who::Kind::kAgent:
      return visit.refuse(denied("a node's certificate opens links and renews itself, nothing else"));
    case Who::Kind::kNobody:
      return visit.refuse(
          {Errc::kDenied, "no proof of who is asking: use the cluster's socket, or a client certificate", {}}, 401);
    case Who::Kind::kRefused: return visit.refuse(denied(who.why));
  }
  if (needs_freshening(visit, who))
    return freshen(std::move(visit), found, std::move(who));
  if (const auto reach = check_reach(visit, route, who.caller.only_on); !reach.ok())
    return visit.refuse(reach.error());
  visit.caller = who.caller;
  if (!is_allowed(visit, route))
    return;
  if (const auto room = route.cost == Cost::kChange ? check_disk(visit) : Result<void>(); !room.ok())
    return visit.refuse(room.error());
  run(std::move(visit), found);
}

void Api::run(Visit visit, const Routes::Found& found) {
  if (found.own)
    (this->*found.own->handler)(std::move(visit));
  else
    run_front(std::move(visit), *found.front);
}

// Null: the path names nothing that is there, and the handler says so.
const Job* Api::job_there(const Visit& visit, const Route& route) const {
  std::optional<JobTarget> target;
  if (route.path.starts_with("/v1/steps/")) {
    if (auto name = parse_step_name(visit.names.at(0)); name.ok())
      target = std::move(name->target);
  } else if (auto name = parse_job_target(visit.names.at(0)); name.ok()) {
    target = std::move(*name);
  }
  return target ? world_.view.find(*target) : nullptr;
}

bool Api::is_allowed(const Visit& visit, const Route& route) const {
  if (visit.caller.admin || route.right == Right::kUser || route.right == Right::kJudged)
    return true;
  if (route.right == Right::kOwner) {
    const Job* job = job_there(visit, route);
    if (!job || visit.viewer().owns(*job))
      return true;
    visit.refuse(denied(format("{} belongs to somebody else", visit.names.at(0))));
    return false;
  }
  visit.refuse(denied(format("user {} may not {} {}: that takes an administrator",
                             user_words(world_.view.tables(), visit.caller.user), route.method, visit.http().path)));
  return false;
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

Duration Api::poll_time(const Visit& visit) const {
  const auto asked = parse_uint(visit.query("timeout_s"));
  return asked ? std::min(settings_.poll_max, seconds(static_cast<std::int64_t>(std::min<std::uint64_t>(*asked, 3600))))
               : settings_.poll_max;
}

}  // namespace lockstep
