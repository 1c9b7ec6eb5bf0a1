#include "controller/server.h"

#include <cstdio>
#include <thread>

#include "base/text.h"
#include "controller/past_runs.h"
#include "controller/planner_loop.h"

namespace lockstep {

struct ControllerLoop::Inner {
  struct Ask {
    NodeId node;
    std::string name;
    bool stop = false;
  };

  Parts parts;
  ControllerSettings settings;
  FenceHook fence_hook;
  std::unique_ptr<ClusterClock> clock;
  std::unique_ptr<HistoryLoop> history;
  std::unique_ptr<QuestionLoop> questions;
  std::unique_ptr<CoreLoop> core;
  std::unique_ptr<PlannerLoop> planner;
  std::unique_ptr<LiveView> view;
  std::unique_ptr<TicketOffice> tickets;
  std::unique_ptr<LinkHub> links;
  std::unique_ptr<StepIo> step_io;
  std::unique_ptr<Waiters> waiters;
  std::unique_ptr<Presence> presence;
  std::unique_ptr<Api> api;
  Mailbox<Ask> asks;
  std::thread asker;
  bool started = false;

  Inner(Parts p, ControllerSettings s, FenceHook hook)
      : parts(p), settings(std::move(s)), fence_hook(std::move(hook)) {}

  Result<void> build(ApiPowers powers, ComposerHooks hooks) {
    Instant now;
    if (TRY(parts.log.last_index()) == 0)
      now = Instant{parts.clock.wall().us};  // cluster time begins as the wall clock
    auto engine = TRY(Engine::open(parts.log, settings.engine, now));
    settings.api.core = settings.engine.core;
    const auto& cluster = engine->state().tables().cluster;
    clock = std::make_unique<ClusterClock>(parts.clock, engine->clock(), cluster ? cluster->wall_offset : Duration{});
    if (engine->state().tables().cluster && !settings.engine.cluster_name.empty())
      settings.api.cluster_name = engine->state().tables().cluster->name;

    const std::vector<Change> snapshot = engine->snapshot();
    history = std::make_unique<HistoryLoop>(parts.history, [this](std::uint64_t index) { note_cursor(index); });
    TRY(history->catch_up(parts.log, snapshot));
    engine->teach(TRY(past_runs(parts.history, engine->state().tables())));
    questions = std::make_unique<QuestionLoop>(*history);
    view = std::make_unique<LiveView>(snapshot);
    planner = std::make_unique<PlannerLoop>(
        snapshot, *clock,
        PlannerLoop::Outputs{[this](Plan plan) { propose(std::move(plan)); },
                             [this](std::vector<PlanNote> notes, Seq as_of) {
                               parts.loop.post([this, notes = std::move(notes), as_of]() mutable {
                                 view->note(std::move(notes), as_of);
                               });
                             }},
        settings.seed, PlannerSettings{settings.engine.core.defragment, settings.engine.core.move_after});

    // Readers in the order of registration: planner and history first, so that they work while the I/O thread answers.
    engine->add_reader([this](const std::shared_ptr<const Engine::Batch>& batch) {
      planner->observe(batch);
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
    outputs.on_mode = [this](bool read_only) {
      std::fprintf(stderr, "lockstepd: %s\n",
                   read_only ? "the log cannot be written: read-only until it can" : "the log can be written again");
      api->set_read_only(read_only);
    };
    outputs.ask_fence_hook = [this](NodeId node, const std::string& name) { asks.post({node, name}); };
    Log& log = parts.log;
    core = std::make_unique<CoreLoop>(
        std::move(engine), settings.desk,
        make_composer([&log](const BlobId& id) { return log.blob(id); }, std::move(hooks)), *clock, std::move(outputs));
    core->engine().set_trim_floor(cursor_at_start);

    waiters = std::make_unique<Waiters>(parts.loop);
    presence = std::make_unique<Presence>(parts.loop, settings.client_grace, [this](JobId job) {
      core->submit(own(EndJob{job, {}, true}), {}, [](const Result<Answer>&) {});
    });
    LinkHub::Handlers handlers;
    handlers.connected = [this](std::uint64_t link, std::string name) { core->connected(link, std::move(name)); };
    handlers.disconnected = [this](std::uint64_t link) { core->disconnected(link); };
    handlers.message = [this](std::uint64_t link, FromAgent message) { core->receive(link, std::move(message)); };
    handlers.call = [this](std::shared_ptr<HttpExchange> exchange) { api->handle(std::move(exchange)); };
    tickets = std::make_unique<TicketOffice>(powers.random_hex(32), powers.hmac_sha256_hex);
    handlers.complete = [this](const std::string& name, Welcome& welcome) {
      welcome.ticket_key = tickets->node_key(name);
      welcome.now_us = clock->now().us;
    };
    handlers.welcomed = [this](const std::string& name) { step_io->welcomed(name); };
    links = std::make_unique<LinkHub>(std::move(handlers));
    step_io = std::make_unique<StepIo>(parts.loop, *view, *links, *tickets, [this] { return clock->now(); });
    api = std::make_unique<Api>(
        Api::World{parts.loop, *core, *history, *questions, *view, *links, *step_io, *waiters, *presence, *clock,
                   [this](const BlobId& id, std::function<void(Result<std::string>)> done) {
                     core->post([this, id, done = std::move(done)] {
                       auto bytes = std::make_shared<Result<std::string>>(parts.log.blob(id));
                       parts.loop.post([bytes, done] { done(std::move(*bytes)); });
                     });
                   }},
        settings.api, std::move(powers));
    for (const auto& [id, job] : view->tables().jobs) note_presence(*job, false);
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

  void propose(Plan plan) {
    core->submit_direct(own(ApplyPlan{std::move(plan)}),
                        [this](const Result<Answer>& answer) { planner->answered(answer.ok()); });
  }

  void note_presence(const Job& job, bool removed) {
    if (!job.spec->interactive)
      return;
    if (removed || is_final(job.state))
      presence->forget(job.id);
    else
      presence->expect(job.id);
  }

  void batch_committed(const Engine::Batch& batch) {
    const auto touched = view->apply(batch.changes);
    for (const auto& change : batch.changes)
      if (const auto* job = std::get_if<Ref<Job>>(&change.record))
        note_presence(**job, change.removed);
    waiters->changed(touched);
    step_io->changed(touched);
  }

  void ask_hooks() {
    for (;;)
      for (const auto& ask : asks.take(kForever)) {
        if (ask.stop)
          return;
        if (!fence_hook)
          continue;
        if (auto proof = fence_hook(ask.name))
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

void ControllerLoop::add_pages(std::vector<PageEntry> pages) { inner_->api->add_pages(std::move(pages)); }

void ControllerLoop::start() {
  inner_->started = true;
  inner_->history->start();
  inner_->questions->start();
  inner_->planner->start();
  inner_->core->start();
  inner_->asker = std::thread([inner = inner_.get()] { inner->ask_hooks(); });
}

void ControllerLoop::handle(std::shared_ptr<HttpExchange> exchange) { inner_->api->handle(std::move(exchange)); }

void ControllerLoop::stop() {
  if (!inner_->started)
    return;
  inner_->asks.post({NodeId{}, "", true});
  inner_->asker.join();
  inner_->questions->stop();
  inner_->planner->stop();
  inner_->core->stop();
  inner_->history->stop();
  inner_->started = false;
}

}  // namespace lockstep
