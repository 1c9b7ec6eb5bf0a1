// The rows that front ends mount: pages, and what a handler has of the controller. How answers are written is here too.
#include <algorithm>

#include "base/text.h"
#include "controller/api.h"
#include "controller/ask_store.h"
#include "controller/container_reach.h"
#include "controller/record_list.h"
#include "controller/reply_buffer.h"
#include "wire/codec.h"

namespace lockstep {

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
    make_room(reply.body, kListPieceBytes, settings_.limits.reply_bytes_max);
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

std::shared_ptr<const ReadContext> Api::read_as(const Visit& visit) const {
  // Pieces of a long page look at these again, after the tables have moved on.
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
                                                       {},
                                                       &world_.view.live(),
                                                       visit.caller.only_on}});
  return {live, &live->context};
}

void Api::run_page_live(Visit visit, const FrontPage& page) {
  const auto read = read_as(visit);
  PageReply reply = page.page(*read, {visit.http().path, visit.http().query});
  write(std::move(visit), std::move(reply), read);
}

std::shared_ptr<const std::atomic<bool>> Api::gone_mark(const Visit& visit) {
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  visit.exchange->on_gone([gone] { *gone = true; });
  return gone;
}

// On the thread of accounting or of readers; the answer comes back here.
void Api::run_page_aside(Visit visit, const FrontPage& page) {
  // The exchange belongs to this thread: it comes back with the answer and is never let go there.
  const auto held = std::make_shared<Visit>(std::move(visit));
  const HttpRequest& http = held->http();
  auto make_reply = [this, held, gone = gone_mark(*held), request = PageRequest{http.path, http.query},
                     make = page.page, now = world_.clock.now(),
                     offset = world_.clock.wall_offset()](HistoryStore* store, const Tables& tables) {
    if (*gone)  // nobody reads the answer any more
      return world_.loop.post([visit = std::move(*held)] {});
    const PlanNotes no_notes;
    const ApiLimits& limits = settings_.limits;
    ReadContext context{tables,
                        no_notes,
                        now,
                        offset,
                        tables.user(held->caller.user),
                        held->caller.admin,
                        settings_.cluster_name,
                        [](NodeId) { return NodeUse{}; },
                        {},
                        nullptr,
                        {},
                        nullptr,
                        held->caller.only_on};
    if (store)
      context.history = [&](const HistoryQuery& query) {
        return ask_store(*store, query, {limits.history_rows_max, limits.reply_bytes_max}, held->viewer(), tables);
      };
    auto reply = std::make_shared<PageReply>(make(context, request));
    while (reply->more && !*gone && reply->body.size() <= limits.reply_bytes_max && reply->more(reply->body)) {}
    reply->more = nullptr;  // what it looked at stays on this thread
    world_.loop.post([this, visit = std::move(*held), reply] {
      if (reply->body.size() > settings_.limits.reply_bytes_max)
        return visit.refuse(reply_too_long(settings_.limits.reply_bytes_max), 413);
      if (reply->status >= 400)
        refusals_.count("page");
      visit.exchange->respond({reply->status, std::move(reply->content_type), std::move(reply->body), {}});
    });
  };
  const auto asked =
      page.kind == PageKind::kHistory
          ? world_.history.ask(held->payer,
                               [make_reply](HistoryStore& store, const Tables& tables) { make_reply(&store, tables); })
          : world_.reads.ask(held->payer, [make_reply](const Tables& tables) { make_reply(nullptr, tables); });
  if (!asked.ok())
    held->refuse(asked.error());
}

Result<void> Api::do_aside(const Payer& payer, std::function<void()> work, std::function<void()> then) {
  struct Task {
    std::function<void()> work, then;
    std::int64_t took_us = 0;
  };
  auto task = std::make_shared<Task>(Task{std::move(work), std::move(then)});
  return world_.bodies.ask(payer, [this, payer, task]() mutable {
    const std::int64_t began_us = steady_micros();
    task->work();
    task->took_us = steady_micros() - began_us;
    // What both hold, such as exchanges, belongs to the I/O thread: it is given back whole and never let go here.
    world_.loop.post([this, payer, task = std::move(task)] {
      world_.turns.add(payer, [this, task] {
        world_.turns.costs(task->took_us);
        task->then();
      });
    });
  });
}

// --- handlers ---

class Api::Front final : public FrontVisit {
 public:
  Front(Api& api, Visit visit, bool judges) : api_(api), visit_(std::move(visit)), judges_(judges) {}

  const HttpRequest& request() const override { return visit_.http(); }
  const std::vector<std::string>& names() const override { return visit_.names; }
  const Caller& caller() const override { return visit_.caller; }
  std::shared_ptr<const ReadContext> read() const override { return api_.read_as(visit_); }

  BlobId store(std::string bytes) override {
    BlobId id = api_.powers_.sha256_hex(bytes);
    blobs_.push_back({id, std::move(bytes)});
    return id;
  }

  using FrontVisit::commit;
  void commit(std::vector<CommandBody> bodies, Reading read, std::function<void(Result<Answer>)> then) override {
    commit_as(visit_.caller, std::move(bodies), std::move(read), std::move(then));
  }
  void commit_judged(std::vector<CommandBody> bodies, Reading read, std::function<void(Result<Answer>)> then) override {
    CHECK(judges_, "the row's front end judges who may");
    commit_as({.user = {}, .admin = true}, std::move(bodies), std::move(read), std::move(then));
  }
  void commit_as(const Caller& caller, std::vector<CommandBody> bodies, Reading read,
                 std::function<void(Result<Answer>)> then) {
    // What comes of it is the caller's work, too.
    then = [&turns = api_.world_.turns, payer = visit_.payer, then = std::move(then)](Result<Answer> answer) {
      turns.add(payer, [then, answer = std::move(answer)]() mutable { then(std::move(answer)); });
    };
    if (bodies.empty())
      return then(invalid("nothing is to be changed"));
    Command command{caller, std::move(bodies.front()), {}, std::move(read), {}};
    command.also.assign(std::make_move_iterator(bodies.begin() + 1), std::make_move_iterator(bodies.end()));
    api_.commit(visit_, {std::move(command), std::exchange(blobs_, {})}, std::move(then));
  }

  Result<void> aside(std::function<void()> work, std::function<void()> then) override {
    return api_.do_aside(visit_.payer, std::move(work), std::move(then));
  }

  void answer(HttpResponse response) override {
    if (response.status >= 400)
      api_.refusals_.count("page");
    visit_.exchange->respond(std::move(response));
  }
  void refuse(const Error& why, int status) override { visit_.refuse(why, status); }
  void write(PageReply reply) override {
    api_.world_.turns.add(visit_.payer,
                          [&api = api_, visit = visit_, read = read(), reply = std::move(reply)]() mutable {
                            api.write(std::move(visit), std::move(reply), read);
                          });
  }
  void stream(HttpResponse head, Pull pull, Duration longest) override {
    api_.follow(visit_, std::move(head), std::move(pull), longest);
  }
  std::unique_ptr<Stream> open(HttpResponse head) override { return visit_.exchange->stream(std::move(head)); }
  void reach(const ContainerAsk& ask, std::function<void(Result<std::unique_ptr<Stream>>)> then) override {
    then(reach_container(api_.world_.view.tables(), api_.world_.links, api_.world_.tickets, ask,
                         api_.world_.clock.now()));
  }
  std::unique_ptr<Stream> upgrade(const std::string& protocol,
                                  const std::map<std::string, std::string>& headers) override {
    return visit_.exchange->upgrade_with(protocol, headers);
  }

 private:
  Api& api_;
  Visit visit_;
  const bool judges_;        // the row's front end does, not we
  std::vector<Blob> blobs_;  // for the next commit
};

// Where the API is gone, nothing is done, and nobody is told.
class Api::Hands final : public FrontHands {
 public:
  explicit Hands(Api& api) : api_(api), alive_(api.alive_) {}

  const Tables& tables() const override { return api_.world_.view.tables(); }
  Instant now() const override { return api_.world_.clock.now(); }
  Duration wall_offset() const override { return api_.world_.clock.wall_offset(); }
  void after(Duration delay, std::function<void()> task) override {
    if (alive_.expired())
      return;
    api_.world_.loop.after(delay, [alive = alive_, task = std::move(task)] {
      if (!alive.expired())
        task();
    });
  }
  void reach(const ContainerAsk& ask, std::function<void(Result<std::unique_ptr<Stream>>)> then) override {
    if (!alive_.expired())
      then(reach_container(tables(), api_.world_.links, api_.world_.tickets, ask, now()));
  }
  void commit(std::vector<CommandBody> bodies, Reading read, std::function<void(Result<Answer>)> then) override {
    if (alive_.expired() || bodies.empty())
      return;
    Command command{{.user = {}, .admin = true}, std::move(bodies.front()), {}, std::move(read), {}};
    command.also.assign(std::make_move_iterator(bodies.begin() + 1), std::make_move_iterator(bodies.end()));
    api_.world_.core.submit(std::move(command), {},
                            [alive = alive_, then = std::move(then)](const Result<Answer>& answer) {
                              if (!alive.expired())
                                then(answer);
                            });
  }

 private:
  Api& api_;
  std::weak_ptr<int> alive_;
};

std::shared_ptr<FrontHands> Api::hands() { return std::make_shared<Hands>(*this); }

namespace {

// An id would open somebody else's script: what work names was sent along.
Result<void> came_along(const std::vector<Blob>& blobs, const BlobId& id, std::string_view field) {
  const bool here =
      id.empty() || std::any_of(blobs.begin(), blobs.end(), [&](const Blob& blob) { return blob.id == id; });
  return here ? Result<void>{} : invalid("names stored bytes that did not come with it", std::string(field));
}

}  // namespace

// What the API's own submissions keep to, asked of those that front ends make.
Result<void> Api::check_work(const Caller& caller, const CommandBody& body, const std::vector<Blob>& blobs) const {
  if (const auto* job = std::get_if<SubmitJob>(&body)) {
    const JobSpec& spec = *job->spec;
    if (!caller.admin && spec.user != caller.user)
      return denied("a job runs as the user who submits it");
    TRY(can_become(spec.user));
    TRY(came_along(blobs, spec.script, "script"));
    TRY(came_along(blobs, spec.environment, "environment"));
    if (job->first_step)
      TRY(came_along(blobs, job->first_step->environment, "first_step.environment"));
  } else if (const auto* step = std::get_if<CreateStep>(&body)) {
    TRY(came_along(blobs, step->spec->environment, "environment"));
  }
  return {};
}

void Api::commit(const Visit& visit, CoreLoop::Submission all, std::function<void(Result<Answer>)> then) {
  Result<void> fits = check_work(all.command.caller, all.command.body, all.blobs);
  for (const CommandBody& body : all.command.also)
    if (fits.ok())
      fits = check_work(all.command.caller, body, all.blobs);
  if (const bool ends_only = goes_first(all.command); fits.ok() && !ends_only)
    fits = check_disk(visit);
  if (!fits.ok())
    return then(fits.error());
  auto load = take_load(visit, {&all, 1});
  if (!load.ok())
    return then(load.error());
  world_.core.submit(std::move(all.command), std::move(all.blobs),
                     [this, load = std::move(*load), then = std::move(then)](Result<Answer> answer) {
                       drop_load(*load);
                       then(std::move(answer));
                     });
}

void Api::follow(const Visit& visit, HttpResponse head, Pull pull, Duration longest) {
  if (const auto room = world_.followers.room(visit.payer); !room.ok())
    return visit.refuse(room.error());
  if (auto stream = visit.exchange->stream(std::move(head)))
    world_.followers.add(visit.payer, std::move(stream), std::move(pull), longest);
}

void Api::run_front(Visit visit, const FrontRoute& row) {
  if (const auto* handler = std::get_if<FrontHandler>(&row.work))
    return (*handler)(std::make_shared<Front>(*this, std::move(visit), row.route.right == Right::kJudged));
  const auto& page = std::get<FrontPage>(row.work);
  if (page.kind == PageKind::kLive)
    run_page_live(std::move(visit), page);
  else
    run_page_aside(std::move(visit), page);
}

}  // namespace lockstep
