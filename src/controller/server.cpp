#include "controller/server.h"

#include <cstdio>
#include <map>
#include <thread>

#include "base/log_line.h"
#include "base/text.h"
#include "base/thread.h"
#include "controller/actor_loop.h"
#include "controller/collector.h"
#include "controller/health_runner.h"
#include "controller/past_runs.h"
#include "controller/planner_actor.h"
#include "controller/routes.h"
#include "controller/step_client.h"
#include "core/older_log.h"
#include "model/table_of.h"

namespace lockstep {

struct ControllerLoop::Inner {
  struct Ask {
    NodeId node;
    std::string name;
    Duration silence;
    bool stop = false;
  };

  Parts parts;
  ControllerSettings settings;
  FenceHook fence_hook;
  std::unique_ptr<ClusterClock> clock;
  std::unique_ptr<HistoryLoop> history;
  std::unique_ptr<ReadLoop> reads;
  std::unique_ptr<QuestionLoop> questions;
  std::unique_ptr<BodyLoop> bodies;
  std::unique_ptr<CoreLoop> core;
  std::unique_ptr<ActorLoop> planner, collector, front;  // front: null where no front end has an actor
  std::unique_ptr<LiveView> view;
  std::unique_ptr<TicketOffice> tickets;
  std::function<std::string(std::size_t)> random_hex;
  std::unique_ptr<LinkHub> links;
  std::unique_ptr<StepIo> step_io;
  std::unique_ptr<FairTurns> turns;
  std::unique_ptr<Waiters> waiters;
  std::unique_ptr<Followers> followers;
  std::unique_ptr<Presence> presence, step_presence;
  std::unique_ptr<Api> api;
  Mailbox<Ask> asks;
  std::thread asker;
  bool started = false;
  TurnWatch watch;
  PlanRefusals plan_refusals;
  std::string handled;  // the request this turn of the I/O thread began with
  std::optional<TurnMeter> meter;

  Inner(Parts p, ControllerSettings s, FenceHook hook)
      : parts(p), settings(std::move(s)), fence_hook(std::move(hook)) {}

  Result<void> build(ApiPowers powers, ComposerHooks hooks) {
    Instant now;
    if (TRY(parts.log.last_index()) == 0)
      now = Instant{parts.clock.wall().us};  // cluster time begins as the wall clock
    const JobId highest = TRY(of_history(parts.history.highest_job()));
    settings.engine.core.first_job = std::max(settings.engine.core.first_job, highest.value + 1);
    if (settings.starting)
      settings.engine.loading = [told = settings.starting](std::uint64_t entry, std::uint64_t last) {
        told("the log is read", entry, last);
      };
    auto engine = TRY(Engine::open(parts.log, parts.blobs, settings.engine, now));
    settings.api.core = settings.engine.core;
    settings.desk.give_up_after = settings.engine.core.fence_after;
    TRY(settle_older_log(*engine));
    const auto& cluster = engine->state().tables().cluster;
    clock = std::make_unique<ClusterClock>(parts.clock, engine->clock(), cluster ? cluster->wall_offset : Duration{});
    meter.emplace(*clock);
    if (engine->state().tables().cluster && !settings.engine.cluster_name.empty())
      settings.api.cluster_name = engine->state().tables().cluster->name;

    const std::vector<Change> snapshot = engine->snapshot();
    history = std::make_unique<HistoryLoop>(
        parts.history, settings.api.limits.history, [this](std::uint64_t index) { note_cursor(index); }, settings.tell);
    TRY(of_history(history->catch_up(parts.log, parts.blobs, snapshot, [this](std::uint64_t entry, std::uint64_t last) {
      if (settings.starting)
        settings.starting("accounting is brought up to date", entry, last);
    })));
    TRY(close_lost(engine->state().tables()));
    engine->teach(TRY(of_history(past_runs(parts.history, engine->state().tables()))));
    reads = std::make_unique<ReadLoop>(snapshot, settings.api.limits.history);
    questions = std::make_unique<QuestionLoop>(*reads, *history, settings.api.limits.questions);
    bodies = std::make_unique<BodyLoop>(settings.api.limits.bodies);
    view = std::make_unique<LiveView>(snapshot, clock->now());
    for (const auto& reader : settings.api.readers) view->add_reader(reader);
    planner = act("the planner", snapshot,
                  std::make_unique<PlannerActor>(
                      PlannerSettings{settings.engine.core.defragment, settings.engine.core.move_after}));
    collector = act("the collector", snapshot, std::make_unique<Collector>(), std::make_unique<HealthRunner>());
    if (settings.api.front_actor)
      front = act("the front ends' actor", snapshot, settings.api.front_actor());

    // Readers in the order of registration: planner and history first, so that they work while the I/O thread answers.
    engine->add_reader([this](const std::shared_ptr<const Engine::Batch>& batch) {
      planner->observe(batch);
      collector->observe(batch);
      if (front)
        front->observe(batch);
      reads->take(batch);
      history->take(batch);
    });
    CoreLoop::Outputs outputs;
    outputs.to_io = [this](std::vector<CoreLoop::Task> tasks) {
      parts.loop.post([tasks = std::move(tasks)] {
        for (const auto& task : tasks) task();
      });
    };
    outputs.on_batch = [this](const std::shared_ptr<const Engine::Batch>& batch) { batch_committed(*batch); };
    outputs.on_messages = [this](std::vector<NodeDesk::Outgoing> messages) { links->send(std::move(messages)); };
    outputs.on_mode = [this](std::string trouble) {
      if (trouble.empty())
        log_line(LogLevel::kInfo, "lockstepd: the log can be written again");
      else
        log_line(LogLevel::kError, "lockstepd: read-only: " + trouble);
      api->set_trouble(std::move(trouble));
    };
    outputs.on_deposed = [this](const std::string& why) {
      if (settings.deposed)
        settings.deposed(why);
    };
    outputs.ask_fence_hook = [this](NodeId node, const std::string& name, Duration silence) {
      asks.post({node, name, silence});
    };
    BlobStore& blobs = parts.blobs;
    core = std::make_unique<CoreLoop>(
        std::move(engine), settings.desk,
        make_composer([&blobs](const BlobId& id) { return blobs.blob(id); }, std::move(hooks)), *clock,
        std::move(outputs), watch);
    core->engine().set_trim_floor(cursor_at_start);

    turns = std::make_unique<FairTurns>(parts.loop, settings.api.limits.turns, steady_micros);
    waiters = std::make_unique<Waiters>(parts.loop, *turns, settings.api.limits.waits_max);
    followers = std::make_unique<Followers>(parts.loop, *turns, Followers::Most{.each = settings.api.limits.waits_max});
    presence = std::make_unique<Presence>(
        parts.loop, Presence::Patience{settings.client_grace, settings.client_node_grace},
        [this](const std::string& node) { return links->has(node); },
        [this](StepKey work) {
          core->submit(own(EndJob{work.first, {}, true}), {}, [](const Result<Answer>&) {});
        });
    step_presence = std::make_unique<Presence>(
        parts.loop, Presence::Patience{settings.step_client_grace, settings.client_node_grace},
        [this](const std::string& node) { return links->has(node); },
        [this](StepKey work) {
          core->submit(own(SignalStep{work.first, work.second, 0}), {}, [](const Result<Answer>&) {});
        });
    LinkHub::Handlers handlers;
    handlers.told = [this](const std::string& node, std::string what) { told(node, std::move(what)); };
    handlers.connected = [this](std::uint64_t link, std::string name, std::string certificate, std::string address) {
      core->connected(link, std::move(name), std::move(certificate), std::move(address));
    };
    handlers.disconnected = [this](std::uint64_t link) { core->disconnected(link); };
    handlers.message = [this](std::uint64_t link, FromAgent message) { core->receive(link, std::move(message)); };
    handlers.aside = [this](const std::string& name, std::function<void()> work, std::function<void()> then) {
      auto both =
          std::make_shared<std::pair<std::function<void()>, std::function<void()>>>(std::move(work), std::move(then));
      return bodies->ask({"node " + name, true}, [this, both]() mutable {
        both->first();
        parts.loop.post([both = std::move(both)] { both->second(); });
      });
    };
    handlers.measured = [this](const std::string& name, Telemetry told) {
      if (const Node* node = view->tables().node(name))
        view->take(*node, std::move(told), clock->now());
    };
    handlers.call = [this](std::shared_ptr<HttpExchange> exchange) { handle(std::move(exchange)); };
    random_hex = powers.random_hex;
    tickets = std::make_unique<TicketOffice>(random_hex(32), powers.hmac_sha256_hex);
    handlers.body_bound = [this](const HttpRequest& head) { return api->routes().body_bound(head); };
    handlers.complete = [this](const std::string& name, Welcome& welcome) {
      welcome.ticket_key = tickets->node_key(name);
      welcome.now_us = clock->now().us;
    };
    handlers.welcomed = [this](const std::string& name) { step_io->welcomed(name); };
    handlers.in_turn = [this](std::uint32_t uid, std::size_t bytes, std::function<void()> work) {
      constexpr std::int64_t kBytesPerMicrosecond = 1 << 10;  // sealed and sent
      const User* user = view->tables().user("local", uid);
      turns->add_later({format("user {}", uid), uid == 0 || (user && user->admin)},
                       [this, cost = static_cast<std::int64_t>(bytes) / kBytesPerMicrosecond, work = std::move(work)] {
                         turns->costs(cost);
                         work();
                       });
    };
    links = std::make_unique<LinkHub>(std::move(handlers));
    step_io = std::make_unique<StepIo>(parts.loop, *view, *links, *tickets, [this] { return clock->now(); });
    api = std::make_unique<Api>(
        Api::World{parts.loop, *core, *history, *reads, *questions, *bodies, *view, *links, *step_io, *tickets, *turns,
                   *waiters, *followers, *presence, *step_presence, *clock,
                   [this](const BlobId& id, std::function<void(Result<std::string>)> done) {
                     core->post([this, id, done = std::move(done)] {
                       auto bytes = std::make_shared<Result<std::string>>(parts.blobs.blob(id));
                       parts.loop.post([bytes, done] { done(std::move(*bytes)); });
                     });
                   },
                   watch, plan_refusals},
        settings.api, std::move(powers));
    api->set_notices([this] { return notices(); });
    for (const auto& reader : settings.api.readers) reader->meet(api->hands());
    for (const auto& [id, job] : view->tables().jobs) note_presence(*job, false);
    for (const auto& [key, step] : view->tables().steps) note_presence(*step, false);
    return {};
  }

  // Says whose error it is: accounting can be made anew from the log, the log cannot.
  template <class T>
  static Result<T> of_history(Result<T> result) {
    if (!result.ok())
      return Error{result.error().code, result.error().message, kHistoryField};
    return result;
  }

  // Before anybody reads the log: what accounting has seen beyond one that was put back goes into it. If it cannot now,
  // the next start says it again; until then the nodes still refuse what they have had.
  Result<void> settle_older_log(Engine& engine) {
    auto seen = TRY(of_history(parts.history.settle_older_log(engine.state().tables())));
    if (seen.empty())
      return {};
    engine.submit(own(LearnAttempts{std::move(seen)}), [](const Result<Answer>& answer) {
      if (!answer.ok())
        log_line(LogLevel::kWarning,
                 "lockstepd: attempts that accounting has seen are not in the log: " + answer.error().message);
    });
    engine.run_batch(engine.clock());
    engine.settle();
    return {};
  }

  Result<void> close_lost(const Tables& tables) {
    const std::size_t lost = TRY(of_history(parts.history.close_lost(tables, parts.clock.wall())));
    if (lost == 0)
      return {};
    settings.api.notices.push_back(
        format("{} jobs of accounting are not in the log any more and had not ended; they are "
               "marked LostFromLog there",
               lost));
    log_line(LogLevel::kWarning, "lockstepd: " + settings.api.notices.back());
    return {};
  }

  std::uint64_t cursor_at_start = 0;
  void note_cursor(std::uint64_t index) {
    if (!started) {
      cursor_at_start = index;
      return;
    }
    core->post([this, index] { core->engine().set_trim_floor(index); });
  }

  // A thread for these actors.
  template <class... Some>
  std::unique_ptr<ActorLoop> act(std::string name, std::span<const Change> snapshot, std::unique_ptr<Some>... some) {
    std::vector<std::unique_ptr<Actor>> actors;
    (actors.push_back(std::move(some)), ...);
    return std::make_unique<ActorLoop>(
        std::move(name), std::move(actors), snapshot, *clock,
        ActorLoop::Outputs{[this](Command command, Engine::Reply reply) {
                             core->submit_direct(std::move(command),
                                                 [this, reply = std::move(reply)](const Result<Answer>& answer) {
                                                   if (answer.ok() && !answer->refused.empty())
                                                     plan_refusals.took(answer->refused, clock->now());
                                                   reply(answer);
                                                 });
                           },
                           [this](std::vector<PlanNote> notes, Seq as_of) {
                             parts.loop.post([this, notes = std::move(notes), as_of]() mutable {
                               view->note(std::move(notes), as_of);
                             });
                           }});
  }

  void note_presence(const Job& job, bool removed) {
    if (!job.spec->interactive)
      return;
    if (removed || is_final(job.state))
      presence->forget(Presence::whole(job.id));
    else
      presence->expect(Presence::whole(job.id));
  }

  void note_presence(const Step& step, bool removed) {
    if (!ends_with_client(*step.spec))
      return;
    if (removed || step.state == StepState::kEnded)
      step_presence->forget(key_of(step));
    else
      step_presence->expect(key_of(step));
  }

  // Other agents hear of a certificate that counts no more, and tickets that its holder has seen become void: unless
  // the holder is the same, who has renewed it.
  void revoked(const Node& node, const std::string& certificate, bool is_renewed) {
    if (!is_renewed)
      tickets->renew(random_hex(32));
    links->tell_others(node.meta.name, [&](const std::string& other) -> ToAgent {
      return Revoked{node.meta.name, certificate, tickets->node_key(other), clock->now().us};
    });
  }

  void look_for_revoked(const Engine::Batch& batch) {
    for (const auto& change : batch.changes)
      if (const auto* node = std::get_if<Ref<Node>>(&change.record)) {
        const Node* before = view->tables().node((*node)->id);
        const bool none = change.removed || (*node)->certificate == kNoCertificate;
        const std::string certificate = none ? "" : (*node)->certificate;
        if (before && !before->certificate.empty() && before->certificate != certificate)
          revoked(**node, certificate, !none && before->next_certificate == certificate);
      }
  }

  void batch_committed(const Engine::Batch& batch) {
    look_for_revoked(batch);
    const auto touched = view->apply(batch.changes, batch.at);
    for (const auto& change : batch.changes)
      if (const auto* job = std::get_if<Ref<Job>>(&change.record))
        note_presence(**job, change.removed);
      else if (const auto* step = std::get_if<Ref<Step>>(&change.record))
        note_presence(**step, change.removed);
    for (const Event& event : batch.events)
      if (event.what == kLogIsOlder)  // the event log has said it, too
        settings.api.notices.push_back(event.message);
    waiters->changed(touched);
    followers->changed();
    step_io->changed(touched);
  }

  // Of a node: who took over from whom, or why it is refused. Shown for an hour, or until the node is let in again.
  struct Told {
    Instant at, printed;
    std::string what;
  };
  std::map<std::string, Told> told_of_nodes;
  void told(const std::string& node, std::string what) {
    constexpr std::size_t kNodesMax = 100;
    constexpr Duration kPrintAgain = minutes(1);  // it tries again every few seconds
    if (what.empty()) {
      told_of_nodes.erase("refused " + node);
      return;
    }
    const bool refused = what.find(LinkHub::kRefusedWord) != std::string::npos;
    const std::string key = (refused ? "refused " : "taken ") + node;
    if (told_of_nodes.size() >= kNodesMax && !told_of_nodes.contains(key))
      return;
    Told& slot = told_of_nodes[key];
    slot.at = clock->now();
    if (slot.what.empty() || slot.at - slot.printed > kPrintAgain) {
      log_line(LogLevel::kWarning, "lockstepd: " + what);
      slot.printed = slot.at;
    }
    slot.what = std::move(what);
  }

  std::vector<std::string> notices() {
    constexpr Duration kShown = hours(1);
    std::erase_if(told_of_nodes, [&](const auto& one) { return clock->now() - one.second.at > kShown; });
    std::vector<std::string> out = settings.api.notices;
    for (const auto& [node, one] : told_of_nodes) out.push_back(one.what);
    return out;
  }

  // The I/O thread's beat: what comes late here came late for every renewal.
  void beat() {
    core->beat();
    parts.loop.after(kBeatEvery, [this] { beat(); });
  }

  // "GET /v1/jobs": enough to tell routes apart, and nothing a user could make up.
  static std::string kind_of(const std::string& request) {
    std::string kind;
    int slashes = 0;
    for (const char c : request) {
      slashes += c == '/';
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
                         c == ' ' || c == '-' || c == '.';
      if (slashes > 2 || kind.size() > 40 || !plain)
        break;
      kind += c;
    }
    return kind;
  }

  void turn_ended() {
    const auto cost = meter->turn();
    if (!cost)
      return;
    const std::string kind = *cost > kSlowTurn ? kind_of(handled) : std::string();
    watch.took(TurnWatch::Loop::kIo, kind.empty() ? "turn" : kind, kind, *cost, clock->now());
    handled.clear();
  }

  void handle(std::shared_ptr<HttpExchange> exchange) {
    handled.assign(exchange->request().method).append(" ").append(exchange->request().path);
    api->handle(std::move(exchange));
  }

  void ask_hooks() {
    for (;;)
      for (const auto& ask : asks.take(kForever)) {
        if (ask.stop)
          return;
        if (!fence_hook)
          continue;
        if (auto proof = fence_hook(ask.name, ask.silence))
          core->fenced(ask.node, std::move(*proof));
      }
  }
};

ControllerLoop::ControllerLoop(std::unique_ptr<Inner> inner) : inner_(std::move(inner)) {}
ControllerLoop::~ControllerLoop() { stop(); }

Result<std::unique_ptr<ControllerLoop>> ControllerLoop::open(Parts parts, ControllerSettings settings, ApiPowers powers,
                                                             ComposerHooks hooks, FenceHook fence_hook) {
  auto inner = std::make_unique<Inner>(parts, std::move(settings), std::move(fence_hook));
  TRY(inner->build(std::move(powers), std::move(hooks)));
  return std::unique_ptr<ControllerLoop>(new ControllerLoop(std::move(inner)));
}

void ControllerLoop::start() {
  inner_->started = true;
  inner_->history->start();
  inner_->reads->start();
  inner_->questions->start();
  inner_->bodies->start();
  inner_->planner->start();
  inner_->collector->start();
  if (inner_->front)
    inner_->front->start();
  inner_->core->start();
  inner_->api->learn_lengths();
  inner_->meter->begin();  // loading was nobody's turn
  inner_->parts.loop.on_turn([inner = inner_.get()] { inner->turn_ended(); });
  inner_->beat();
  inner_->asker = start_thread_or_exit("fence hooks", [inner = inner_.get()] { inner->ask_hooks(); });
}

void ControllerLoop::handle(std::shared_ptr<HttpExchange> exchange) { inner_->handle(std::move(exchange)); }

void ControllerLoop::stop() {
  if (!inner_->started)
    return;
  inner_->asks.post({NodeId{}, "", {}, true});
  inner_->asker.join();
  inner_->bodies->stop();
  inner_->questions->stop();
  inner_->planner->stop();
  inner_->collector->stop();
  if (inner_->front)
    inner_->front->stop();
  inner_->core->stop();
  inner_->reads->stop();
  inner_->history->stop();
  inner_->started = false;
}

}  // namespace lockstep
