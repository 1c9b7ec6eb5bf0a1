// For tests of the node desk: one beside an engine over a log in memory, pumped as the core's thread does it, by the
// test's own clock.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/engine.h"
#include "controller/node_desk.h"
#include "controller/test_log.h"
#include "model/job.h"
#include "model/spec.h"

namespace lockstep {

struct DeskRig {
  static Node machine(const std::string& name, const std::string& boot = "boot-1", bool hook = false) {
    Node node;
    node.meta.name = name;
    node.boot_id = boot;
    node.cores = 4;
    node.memory_mb = 4096;
    node.has_fence_hook = hook;
    return node;
  }

  static NodeDesk::Composer plain_composer() {
    NodeDesk::Composer composer;
    composer.attempt = [](const Tables&, const Job& job, std::size_t) -> Result<LaunchAttempt> {
      if (job.spec->name == "unlaunchable")
        return Error{Errc::kNotFound, "the script is gone", {}};
      LaunchAttempt launch;
      launch.job = job.id;
      launch.attempt = job.attempt;
      if (job.spec->name == "fat")
        launch.process.env = {"X=" + std::string(400'000, 'x')};
      if (job.spec->name == "scripted")
        launch.script = std::string(400'000, 'x');
      return launch;
    };
    composer.step = [](const Tables&, const Job& job, const Step& step, std::size_t) -> Result<LaunchStep> {
      LaunchStep launch;
      launch.job = job.id;
      launch.attempt = step.attempt;
      launch.step = step.number;
      return launch;
    };
    composer.task = [](const Tables&, const Job& job, const Task&) -> Result<LaunchTask> {
      LaunchTask launch;
      launch.job = job.id;
      return launch;
    };
    return composer;
  }

  void begin() {
    engine = std::move(*Engine::open(log, log, {}, now));
    Partition all;
    all.meta.name = "main";
    all.nodes = {"ALL"};
    all.is_default = true;
    ASSERT_TRUE(commit(PutPartition{all}).ok());
    User user;
    user.meta.name = "ann";
    user.uid = 1000;
    ASSERT_TRUE(commit(PutUser{user}).ok());
    start_desk();
  }

  void start_desk() {
    desk = std::make_unique<NodeDesk>(settings, composer, now);
    beat_at = now;
    if (!reading)
      engine->add_reader([this](const std::shared_ptr<const Engine::Batch>& batch) {
        desk->committed(engine->state(), batch->changes, batch->actions, now);
      });
    reading = true;
    pass(Duration{});
  }

  Result<Answer> commit(CommandBody body) {
    Result<Answer> answer = Error{Errc::kInternal, "never answered", {}};
    engine->submit(own(std::move(body)), [&](Result<Answer> a) { answer = std::move(a); });
    while (engine->has_work()) engine->run_batch(now);
    return answer;
  }

  void pump() {
    for (;;) {
      auto commands = desk->take_commands();
      if (commands.empty() && !engine->has_work())
        break;
      for (auto& [command, token] : commands)
        engine->submit(command, [this, token = token, command = command](const Result<Answer>& answer) {
          if (committed)
            committed(command.body, answer);
          desk->answered(token, answer, engine->state(), now);
        });
      engine->run_batch(now);
    }
    for (auto& out : desk->take_messages()) sent.push_back(std::move(out));
    for (const auto& request : desk->take_fence_requests()) asked.push_back(request);
  }
  // Time in which the controller runs, and hears.
  void pass(Duration time) {
    const Instant end = now + time;
    for (;;) {
      Instant next = std::min(std::max(now, desk->next_timer()), beat_at);
      if (core_acts)
        next = std::min(next, engine->state().next_timer());
      if (next > end)
        break;
      now = std::max(now, next);
      if (beat_at <= now) {
        desk->beat(now);
        beat_at = now + kBeatEvery;
      }
      if (desk->next_timer() <= now)
        desk->tick(engine->state(), now);
      if (core_acts && engine->state().next_timer() <= now)
        (void)commit(Tick{});
      pump();
    }
    now = end;
  }
  // Time in which it does not run; what agents said meanwhile is still to be heard afterwards.
  void stand_still(Duration time) { now = now + time; }

  void hello(std::uint64_t link, const Node& facts, std::vector<Holding> holdings = {}) {
    desk->connected(link, facts.meta.name, now);
    Hello message;
    message.facts = facts;
    message.holdings = std::move(holdings);
    desk->receive(link, message, engine->state(), now);
    pump();
  }
  // A node that has joined by a token says hello under its certificate.
  void join(const std::string& name, const std::string& certificate) {
    JoinToken token;
    token.meta.name = "token of " + certificate;
    token.secret_sha256 = "secret";
    token.node = name;
    token.replace = true;
    token.expires = now + hours(1);
    ASSERT_TRUE(commit(PutToken{token}).ok());
    ASSERT_TRUE(commit(RedeemToken{token.meta.name, "secret", name, now, certificate}).ok());
    pump();
  }
  void hello_as(std::uint64_t link, const Node& facts, const std::string& certificate) {
    desk->connected(link, facts.meta.name, now, certificate);
    Hello message;
    message.facts = facts;
    desk->receive(link, message, engine->state(), now);
    pump();
  }
  void renew(std::uint64_t link, std::vector<Holding> holdings = {}) {
    desk->receive(link, Renew{now.us, std::move(holdings)}, engine->state(), now);
    pump();
  }

  template <class T>
  std::vector<T> take(std::uint64_t link) {
    std::vector<T> out;
    for (const auto& message : sent)
      if (message.link == link)
        if (const auto* m = std::get_if<T>(&message.message))
          out.push_back(*m);
    std::erase_if(sent, [&](const auto& m) { return m.link == link && std::holds_alternative<T>(m.message); });
    return out;
  }

  const Node& node(const std::string& name) { return *engine->state().tables().node(name); }

  // A job that holds the whole of one node.
  JobId start_job(const std::string& node_name, const std::string& name = "job", bool requeue = true) {
    auto spec = std::make_shared<JobSpec>();
    spec->name = name;
    spec->user = engine->state().tables().user("local", 1000)->id;
    spec->requeue = requeue;
    spec->groups.resize(1);
    spec->groups[0].launch = Launch::kScript;
    spec->script = "a-blob";
    const JobId id = commit(SubmitJob{spec, std::nullopt, nullptr, {}})->job;
    Grant grant;
    grant.node = node(node_name).id;
    grant.tasks = 1;
    grant.cores.set(static_cast<std::uint32_t>(engine->state().load(grant.node).cores.count()));
    PlannedStart start;
    start.job = id;
    start.read = engine->state().tables().job(id)->meta.seq;
    start.partition = "main";
    start.grants = {grant};
    EXPECT_EQ(commit(ApplyPlan{{start}})->starts_applied, 1u);
    pump();
    return id;
  }

  TestLog log;
  Instant now = kStart;
  NodeDeskSettings settings;
  NodeDesk::Composer composer = plain_composer();
  std::unique_ptr<Engine> engine;
  std::unique_ptr<NodeDesk> desk;
  bool reading = false;
  bool core_acts = false;                                                    // on its timers, too, while time passes
  std::function<void(const CommandBody&, const Result<Answer>&)> committed;  // of the desk's own
  std::vector<NodeDesk::Outgoing> sent;
  std::vector<NodeDesk::FenceRequest> asked;
  Instant beat_at = kStart;
};

}  // namespace lockstep
