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
      own_uid_(geteuid()) {
  sweep_accounts();
}

void Api::add_pages(std::vector<PageEntry> pages) {
  for (auto& page : pages) {
    std::string path = page.path;
    pages_.emplace(std::move(path), std::move(page));
  }
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
  bool same_path = false;
  const Route* route = find_route(http.method, http.path, visit.names, &same_path);
  if (!route && !same_path && http.method == "GET" && !pages_.empty())
    route = &page_route();
  if (const auto admitted = world_.turns.admit(visit.payer, route ? units_of(route->cost) : 1); !admitted.ok())
    return visit.refuse(admitted.error());
  if (!route)
    return same_path ? visit.refuse(invalid(format("{} is not answered to {}", http.path, http.method)), 405)
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
  world_.turns.add(payer, [this, visit = std::move(visit), route]() mutable { dispatch(std::move(visit), *route); });
}

void Api::dispatch(Visit visit, const Route& route) {
  if (route.right == Right::kNobody || route.right == Right::kNode)
    return (this->*route.handler)(std::move(visit));
  Who who = identify(visit.http().peer, world_.view, own_uid_, world_.clock.now());
  switch (who.kind) {
    case Who::Kind::kUser:
    case Who::Kind::kNewUser: break;
    case Who::Kind::kAgent: return visit.refuse(denied("a node's certificate opens links, nothing else"));
    case Who::Kind::kNobody:
      return visit.refuse(
          {Errc::kDenied, "no proof of who is asking: use the cluster's socket, or a client certificate", {}}, 401);
    case Who::Kind::kRefused: return visit.refuse(denied(who.why));
  }
  if (needs_freshening(visit, who))
    return freshen(std::move(visit), route, std::move(who));
  if (const auto reach = check_reach(visit, route, who.only_on); !reach.ok())
    return visit.refuse(reach.error());
  visit.caller = who.caller;
  if (!is_allowed(visit, route))
    return;
  if (const auto room = route.cost == Cost::kChange ? check_disk(visit) : Result<void>(); !room.ok())
    return visit.refuse(room.error());
  if (route.handler)
    return (this->*route.handler)(std::move(visit));
  run_page(std::move(visit));
}

// 0: the path names nothing that is there, and the handler says so.
UserId Api::owner_there(const Visit& visit, const Route& route) const {
  std::optional<JobTarget> target;
  if (route.path.starts_with("/v1/steps/")) {
    if (auto name = parse_step_name(visit.names.at(0)); name.ok())
      target = std::move(name->target);
  } else if (auto name = parse_job_target(visit.names.at(0)); name.ok()) {
    target = std::move(*name);
  }
  const Job* job = target ? world_.view.find(*target) : nullptr;
  return job ? job->spec->user : UserId{};
}

bool Api::is_allowed(const Visit& visit, const Route& route) const {
  if (visit.caller.admin || route.right == Right::kUser)
    return true;
  if (route.right == Right::kOwner) {
    const UserId owner = owner_there(visit, route);
    if (!owner || visit.viewer().owns(owner))
      return true;
    visit.refuse(denied(format("{} belongs to somebody else", visit.names.at(0))));
    return false;
  }
  visit.refuse(denied(format("user {} may not {} {}: that takes an administrator",
                             user_words(world_.view.tables(), visit.caller.user), route.method, visit.http().path)));
  return false;
}

struct Api::Writing {
  Visit visit;
  PageReply reply;
  std::shared_ptr<const void> keep;  // what the reply's pieces look at
  bool gone = false;                 // nobody reads the answer any more
};

void Api::write(Visit visit, PageReply reply, std::shared_ptr<const void> keep) {
  auto writing = std::make_shared<Writing>(Writing{std::move(visit), std::move(reply), std::move(keep)});
  write_on(writing);
  if (writing->reply.more)  // not within one slice
    writing->visit.exchange->on_gone([weak = std::weak_ptr(writing)] {
      if (const auto left = weak.lock())
        left->gone = true;
    });
}

void Api::write_on(const std::shared_ptr<Writing>& writing) {
  PageReply& reply = writing->reply;
  while (reply.more && !writing->gone) {
    make_room(reply.body, kPieceBytes, settings_.limits.reply_bytes_max);
    if (!reply.more(reply.body))
      reply.more = nullptr;
    if (reply.body.size() > settings_.limits.reply_bytes_max) {
      reply.more = nullptr;
      return writing->visit.refuse(reply_too_long(settings_.limits.reply_bytes_max), 413);
    }
    if (reply.more && world_.turns.slice_over())
      return world_.turns.go_on([this, writing] { write_on(writing); });
  }
  if (writing->gone)
    return;
  if (reply.status >= 400)
    refusals_.count("page");
  writing->visit.exchange->respond({reply.status, std::move(reply.content_type), std::move(reply.body), {}});
}

void Api::list(Visit visit, Kind kind, std::vector<Record> records, Wanted wanted) {
  PageReply reply{200, "application/json", format("{{\"{}s\":[", text_of(kind)), {}};
  reply.more = [viewer = visit.viewer(), records = std::move(records), wanted = std::move(wanted), at = std::size_t{0},
                first = true](std::string& body) mutable {
    constexpr std::size_t kAtOnce = 32;
    const std::size_t end = body.size() + kPieceBytes;
    for (std::size_t n = 0; n < kAtOnce && at < records.size() && body.size() < end; ++n, ++at) {
      if (wanted && !wanted(records[at]))
        continue;
      const auto shown = shown_to(viewer, records[at]);
      if (!shown)
        continue;
      body += first ? "" : ",";
      body += encode_record(*shown);
      first = false;
    }
    if (at < records.size())
      return true;
    body += "]}";
    return false;
  };
  write(std::move(visit), std::move(reply));
}

void Api::run_page(Visit visit) {
  // Exact, or the longest "/…/*" that covers the path.
  std::string path = visit.http().path;
  auto page = pages_.find(path);
  while (page == pages_.end() && !path.empty()) {
    const auto cut = path.find_last_of('/');
    path.resize(cut == std::string::npos ? 0 : cut);
    page = pages_.find(path + "/*");
  }
  if (page == pages_.end())
    return visit.refuse(not_found(format("there is no {}", visit.http().path)));
  if (const auto known = check_query(page->second, visit.http()); !known.ok())
    return visit.refuse(known.error());
  if (page->second.kind == PageKind::kLive)
    run_page_live(std::move(visit), page->second);
  else
    run_page_aside(std::move(visit), page->second);
}

void Api::run_page_live(Visit visit, const PageEntry& page) {
  // The pieces of a long page look at these again, after the tables have moved on.
  struct Live {
    Ref<User> caller;
    ReadContext context;
  };
  const Tables& tables = world_.view.tables();
  const auto user = tables.users.find(visit.caller.user);
  const Ref<User> caller = user == tables.users.end() ? nullptr : user->second;
  const auto live = std::make_shared<const Live>(Live{caller,
                                                      {tables,
                                                       world_.view.notes(),
                                                       world_.clock.now(),
                                                       world_.clock.wall_offset(),
                                                       caller.get(),
                                                       visit.caller.admin,
                                                       settings_.cluster_name,
                                                       [this](NodeId node) { return world_.view.use(node); },
                                                       {},
                                                       &world_.view.index(),
                                                       {}}});
  PageReply reply = page.page(live->context, {visit.http().path, visit.http().query});
  write(std::move(visit), std::move(reply), live);
}

std::shared_ptr<const std::atomic<bool>> Api::gone_mark(const Visit& visit) {
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  visit.exchange->on_gone([gone] { *gone = true; });
  return gone;
}

// Beside the history store, on its thread and with its tables; the answer comes back here.
void Api::run_page_aside(Visit visit, const PageEntry& page) {
  // The exchange belongs to this thread: it comes back with the answer and is never let go there.
  const auto held = std::make_shared<Visit>(std::move(visit));
  const HttpRequest& http = held->http();
  auto question = [this, held, gone = gone_mark(*held), request = PageRequest{http.path, http.query}, make = page.page,
                   now = world_.clock.now(),
                   offset = world_.clock.wall_offset()](HistoryStore& store, const Tables& tables) {
    if (*gone)  // nobody reads the answer any more
      return world_.loop.post([visit = std::move(*held)] {});
    const PlanNotes no_notes;
    const ApiLimits& limits = settings_.limits;
    const ReadContext context{
        tables,
        no_notes,
        now,
        offset,
        tables.user(held->caller.user),
        held->caller.admin,
        settings_.cluster_name,
        [](NodeId) { return NodeUse{}; },
        {},
        nullptr,
        [&](const HistoryQuery& query) {
          return ask_store(store, query, {limits.history_rows_max, limits.reply_bytes_max}, held->viewer(), tables);
        }};
    auto reply = std::make_shared<PageReply>(make(context, request));
    while (reply->more && !*gone && reply->body.size() <= limits.reply_bytes_max && reply->more(reply->body)) {}
    reply->more = nullptr;  // what it looked at stays on this thread
    world_.loop.post([this, visit = std::move(*held), reply, too_long = reply->body.size() > limits.reply_bytes_max] {
      if (too_long)
        return visit.refuse(reply_too_long(settings_.limits.reply_bytes_max), 413);
      visit.exchange->respond({reply->status, std::move(reply->content_type), std::move(reply->body), {}});
    });
  };
  const auto about = page.kind == PageKind::kHistory ? HistoryLoop::About::kHistory : HistoryLoop::About::kTables;
  if (const auto asked = world_.history.ask(held->payer, about, std::move(question)); !asked.ok())
    held->refuse(asked.error());
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
