#include "simulate/chaos/controller_host.h"

#include "controller/collector.h"
#include "controller/health_runner.h"
#include "controller/planner_actor.h"
#include "io/sha256.h"
#include "model/job.h"
#include "model/plan.h"
#include "simulate/chaos/health.h"
#include "simulate/chaos/replicas.h"
#include "simulate/chaos/world.h"
#include "wire/entry_stream.h"
#include "wire/long_environment.h"

namespace lockstep::sim {

namespace {

constexpr double kLateRuns = 0.4;  // of runs, in which the log takes its time

// Fills launches as the controller's composer does, without blobs and a front end's words.
NodeDesk::Composer composer() {
  NodeDesk::Composer c;
  c.attempt = [](const Tables&, const Job& job, std::size_t g) -> Result<LaunchAttempt> {
    const Grant& grant = job.allocation->grants[g];
    const GroupSpec& group = job.spec->groups[grant.group];
    LaunchAttempt launch{.job = job.id,
                         .attempt = job.allocation->attempt,
                         .job_name = job.spec->name,
                         .fence_after = job.allocation->fence_after,
                         .kill_wait = job.spec->kill_wait,
                         .cores = grant.cores,
                         .devices = grant.devices,
                         .memory_mb = grant.memory_mb,
                         .has_script = g == 0 && job.spec->groups[0].launch == Launch::kScript};
    launch.script = "#!/bin/sh\n";
    launch.process.argv = group.argv;
    return launch;
  };
  c.step = [](const Tables&, const Job& job, const Step& step, std::size_t p) -> Result<LaunchStep> {
    const StepPlace& place = step.places[p];
    LaunchStep launch;
    launch.job = job.id;
    launch.attempt = step.attempt;
    launch.step = step.number;
    launch.node_index = static_cast<std::uint32_t>(p);
    launch.ranks = place.ranks;
    launch.process.argv = step.spec->argv;
    launch.cores = place.cores;
    launch.devices = place.devices;
    launch.kill_wait = job.spec->kill_wait;
    return launch;
  };
  c.task = [](const Tables&, const Job& job, const Task& task) -> Result<LaunchTask> {
    const Grant& grant = job.allocation->grants[task.grant];
    LaunchTask launch{.job = job.id, .attempt = task.attempt, .task = {task.group, task.index, task.incarnation}};
    const GroupSpec& group = job.spec->groups[task.group];
    const bool by_container = group.argv.empty() && !group.sandbox.containers.empty();
    launch.process.argv = by_container ? group.sandbox.containers.front().argv : group.argv;
    launch.cores = grant.cores;
    launch.devices = grant.devices;
    launch.sandbox = group.sandbox;
    return launch;
  };
  return c;
}

}  // namespace

ControllerHost::ControllerHost(World& world) : world_(world), dice_(world.settings.seed ^ 0x6c61'7465) {
  if (dice_.chance(kLateRuns))
    world_.log.draw_late = [this] { return may_be_late_ && dice_.chance(0.7); };
  host([] { return std::make_unique<PlannerActor>(); },
       [this](const Actor::Turn& turn, bool up_to_date) { planned(turn, up_to_date); });
  host([] { return std::make_unique<Collector>(); });
  host([this] { return std::make_unique<Replicas>(world_.settings.seed * 977 + ++replicas_made_); });
  if (ChaosHealth::there(world_.settings.seed))
    host([] { return std::make_unique<HealthRunner>(); });
}

void ControllerHost::host(ActorHost::Make make, std::function<void(const Actor::Turn&, bool)> on_turn) {
  const std::uint64_t seed = world_.settings.seed * 31 + actors_.size() + 1;
  actors_.push_back(std::make_unique<ActorHost>(
      world_, seed, std::move(make),
      ActorHost::Handlers{[this](Command command, Engine::Reply reply) {
                            engine_->submit(std::move(command), [this, reply](const Result<Answer>& answer) {
                              if (answer.ok())
                                starts_ += answer->starts_applied;
                              reply(answer);
                            });
                            wake();
                          },
                          std::move(on_turn)}));
}

void ControllerHost::take_in(Resident& resident) {
  resident_ = &resident;
  for (Resident::Part& part : resident.actors()) host(std::move(part.make), std::move(part.on_turn));
}

// Opens the engine over what the log holds, as a controller's process does, and makes its actors.
void ControllerHost::start() {
  if (engine_)
    return;
  may_be_late_ = false;  // Engine::open() waits for the log
  const Instant now = world_.timeline.now();
  EngineSettings settings;
  settings.core.fence_after = world_.settings.fence_after;
  settings.core.keep_ended = seconds(10);
  settings.core.requeue_delay = kRequeueDelay;
  settings.snapshot_every = static_cast<std::uint64_t>(world_.rng.between(50, 400));
  settings.batch_max = static_cast<std::size_t>(world_.rng.between(2, 64));
  settings.cluster_name = "sim";
  settings.crash_note = &world_.crash_note;
  settings.sha256_hex = sha256_hex;
  ++life_;
  for (Standstill& still : stills_) still.end_life();
  settings.long_value = life_ % 2 == 1 ? 64 : kLongValue;  // nearly everything, or what a state directory holds
  try {
    auto opened = Engine::open(world_.log, world_.log, settings, now);
    if (!opened.ok()) {
      world_.note(format("the controller cannot start: {}", opened.error().message));
      world_.timeline.after(seconds(1), [this, life = life_] {
        if (life == life_)
          start();
      });
      return;
    }
    engine_ = std::move(*opened);
    engine_->ready();
  } catch (const Crash&) {
    world_.note("the controller dies while starting");
    world_.timeline.after(seconds(1), [this, life = life_] {
      if (life == life_)
        start();
    });
    return;
  }
  world_.note(
      format("the controller is up at entry {} change {}", engine_->last_index(), engine_->state().tables().seq));
  world_.hostile.started(*engine_);
  answered_.clear();
  began_ = now;
  awake_ = false;
  alarm_ = kNever;
  io_until_ = core_until_ = {};
  NodeDeskSettings desk;
  desk.lease_term = world_.settings.lease_term;
  desk.node_timeout = world_.settings.node_timeout;
  desk.drift = world_.settings.drift;
  desk.give_up_after = world_.settings.fence_after;
  desk_ = std::make_unique<NodeDesk>(desk, composer(), now);
  const std::vector<Change> snapshot = engine_->snapshot();
  for (auto& actor : actors_) actor->start(snapshot);
  may_be_late_ = true;
  load_history_tail();
  show_unseen();
  if (resident_)
    resident_->begun(snapshot);
  engine_->add_reader([this](const std::shared_ptr<const Engine::Batch>& batch) { published(*batch); });
  world_.network.controller_started();
  feed_history();  // which may be the end of it
  beat();
  wake();
}

void ControllerHost::stall(Stall what, Duration time) {
  if (!engine_)
    return;
  const Instant until = world_.timeline.now() + time;
  static const char* const kWords[] = {"controller", "controller's I/O thread", "controller's core thread"};
  world_.note(format("the {} stands still for {} ms", kWords[static_cast<int>(what)], time.millis()));
  // Threads go on in any order: here timers strike before anything that waits in a socket has been read.
  if (what != Stall::kCore)
    io_until_ = std::max(io_until_, until + (what == Stall::kAll ? millis(5) : Duration{}));
  if (what != Stall::kIo)
    core_until_ = std::max(core_until_, until);
}

bool ControllerHost::put_off(Stall by, std::function<void()> task) {
  Standstill& waits = stills_[static_cast<std::size_t>(by)];
  const Instant until = by == Stall::kAll ? heard_again() : by == Stall::kIo ? io_until_ : core_until_;
  if (!waits.waits(world_.timeline.now(), until))
    return false;
  waits.put_off(world_.timeline, until, std::move(task));
  return true;
}

// As the I/O thread's timer and the core's mailbox do it.
void ControllerHost::beat() {
  if (!engine_ || put_off(Stall::kAll, [this] { beat(); }))
    return;
  if (engine_->trusted())
    desk_->beat(world_.timeline.now());
  world_.timeline.after(kBeatEvery, [this, life = life_] {
    if (life == life_)
      beat();
  });
}

void ControllerHost::kill() {
  if (!engine_)
    return;
  world_.note("the controller dies");
  ++life_;
  if (resident_)
    resident_->ended();
  world_.log.abandon(dice_.chance(0.5));
  for (Standstill& still : stills_) still.end_life();
  for (auto& actor : actors_) actor->end();
  desk_.reset();
  engine_.reset();
  history_queue_.clear();
  world_.network.controller_died();
}

bool ControllerHost::call(Command command, Engine::Reply reply, std::vector<Blob> blobs) {
  if (!engine_)
    return false;
  if (world_.timeline.now() <= heard_again())
    return put_off(Stall::kAll,
                   [this, command = std::move(command), reply = std::move(reply), blobs = std::move(blobs)]() mutable {
                     (void)call(std::move(command), std::move(reply), std::move(blobs));
                   });
  if (reply)
    reply = [this, reply = std::move(reply), answered = false](const Result<Answer>& answer) mutable {
      if (std::exchange(answered, true))
        world_.verdict.fail("a request was answered twice");
      reply(answer);
    };
  engine_->submit(std::move(command), std::move(reply), std::move(blobs));
  wake();
  return true;
}

void ControllerHost::link_connected(LinkId link, std::size_t node) {
  if (!desk_ || put_off(Stall::kAll, [this, link, node] { link_connected(link, node); }))
    return;
  desk_->connected(link, world_.nodes[node]->name(), world_.timeline.now());
  wake();
}

void ControllerHost::link_closed(LinkId link) {
  if (!desk_ || put_off(Stall::kAll, [this, link] { link_closed(link); }))
    return;
  desk_->disconnected(link, world_.timeline.now());
  wake();
}

void ControllerHost::received(LinkId link, const FromAgent& message) {
  if (!desk_ || put_off(Stall::kAll, [this, link, message] { received(link, message); }))
    return;
  if (!engine_->trusted())
    return;
  if (world_.verdict.noting)
    if (const auto* report = std::get_if<Report>(&message))
      world_.note(format("report {} on link {}: job {} attempt {} kind {}", report->number, link, report->job.value,
                         report->attempt, report->body.index()));
  if (const auto* hello = std::get_if<Hello>(&message))
    answered_.insert(hello->facts.meta.name);
  desk_->receive(link, message, engine_->state(), world_.timeline.now());
  wake();
}

void ControllerHost::published(const Engine::Batch& batch) {
  World& w = world_;
  w.hostile.publishing(batch);
  if (!batch.changes.empty()) {
    if (batch.index > w.log.durable_index() || batch.changes.back().seq > w.log.durable_seq())
      w.verdict.fail(format("readers were shown change {}, but only {} is durable", batch.changes.back().seq,
                            w.log.durable_seq()));
    if (batch.changes.front().seq <= last_seq_)
      w.verdict.fail(format("readers were shown change {} after change {}", batch.changes.front().seq, last_seq_));
    last_seq_ = batch.changes.back().seq;
    ++batches_;
    show(batch.index, batch.changes);
    for (const Change& change : batch.changes)
      if (const auto* job = std::get_if<Ref<Job>>(&change.record); job && !change.removed)
        check_answered(**job);
    for (auto& actor : actors_) actor->observe(batch.changes);
    history_queue_.emplace_back(batch.index, batch.changes);
  }
  if (resident_)
    resident_->committed(batch);
  if (w.verdict.noting)
    for (const Event& event : batch.events)
      w.note(format("event: job {} {} {}", event.job.value, event.what, event.message));
  desk_->committed(engine_->state(), batch.changes, batch.actions, w.timeline.now());
}

void ControllerHost::show(std::uint64_t index, std::span<const Change> changes) {
  last_shown_ = index;
  world_.records.saw(changes, world_.timeline.now());
  world_.bounds.saw(changes);
  world_.topology.saw(changes);
  world_.health.saw(changes);
  world_.objects.saw(changes);
  if (resident_)
    resident_->durable(changes);
  for (const Change& change : changes) {
    if (const auto* job = std::get_if<Ref<Job>>(&change.record); job && !change.removed)
      world_.clients.saw(**job);
    if (const auto* node = std::get_if<Ref<Node>>(&change.record); node && !change.removed)
      check_loss(**node);
  }
}

// Where nothing but pauses happens, an agent that ran for a whole lease while we could hear it has been heard.
void ControllerHost::check_loss(const Node& node) {
  if (node.link != NodeLink::kLost || node.seen_at != world_.timeline.now() || !world_.settings.only_pauses)
    return;
  const std::size_t index = parse_uint(std::string_view(node.meta.name).substr(1)).value_or(1) - 1;
  const NodeHost& host = *world_.nodes[index];
  if (host.agent_up() && host.stalled_until() + world_.settings.lease_term < world_.timeline.now())
    world_.verdict.fail(format("{} was declared lost; its agent runs, only the controller stood still", host.name()));
}

// Where its agent has not said hello since this controller began, nobody knows what the machine holds.
void ControllerHost::check_answered(const Job& job) {
  if (job.state != JobState::kStarting || job.allocation->granted <= began_)
    return;
  for (const Grant& grant : job.allocation->grants)
    if (const Node* node = engine_->state().tables().node(grant.node); node && !answered_.contains(node->meta.name))
      world_.verdict.fail(
          format("job {} starts on {}, which has not answered this controller", job.id.value, node->meta.name));
}

// What became durable in the moment of a crash was told to nobody; the checkers must know it all the same.
void ControllerHost::show_unseen() {
  LongValues apart(nullptr, [this](const BlobId& id) { return world_.log.archived_blob(id); });
  EntryReader reader(nullptr, &apart);
  const auto& archive = world_.log.archive();
  for (auto it = archive.upper_bound(last_shown_); it != archive.end(); ++it) {
    const auto closed = reader.add(it->second.bytes, it->second.closing);
    if (!closed.ok())
      return world_.verdict.fail("a log entry cannot be read: " + closed.error().message);
    if (*closed)
      show(it->first, reader.take().changes);
  }
  last_seq_ = engine_->state().tables().seq;
}

void ControllerHost::load_history_tail() {
  history_queue_.clear();
  const std::uint64_t cursor = *world_.history.cursor();
  std::uint64_t expected = cursor;
  LongValues apart(nullptr, [this](const BlobId& id) { return world_.log.blob(id); });
  EntryReader reader(nullptr, &apart);
  for (;;) {
    const auto entries = world_.log.read(expected + 1, 256);
    if (!entries.ok() || entries->empty())
      break;
    for (const LogEntry& entry : *entries) {
      if (entry.index != ++expected) {
        world_.verdict.fail(
            format("history needs entry {}, the log begins at {}: it was trimmed too early", expected, entry.index));
        return;
      }
      const auto closed = reader.add(entry.bytes, entry.closing);
      if (!closed.ok())
        return world_.verdict.fail("a log entry cannot be read: " + closed.error().message);
      if (*closed)
        history_queue_.emplace_back(entry.index, reader.take().changes);
    }
  }
  if (expected < engine_->last_index())
    world_.verdict.fail(format("history is at entry {} and the log holds nothing up to {}: it was trimmed too early",
                               expected, engine_->last_index()));
}

void ControllerHost::feed_history() {
  if (!engine_ || put_off(Stall::kCore, [this] { feed_history(); }))
    return;
  try {
    static const Tables kNobody;
    while (!history_pauses && !history_queue_.empty()) {
      const auto& [index, changes] = history_queue_.front();
      if (!world_.history.take(index, changes, kNobody).ok())
        break;
      history_queue_.pop_front();
    }
    engine_->set_trim_floor(*world_.history.cursor());
  } catch (const Crash&) {
    kill();
    world_.timeline.after(world_.up_to(seconds(3)), [this] { start(); });
    return;
  }
  world_.timeline.after(millis(100) + world_.up_to(seconds(2)), [this, life = life_] {
    if (life == life_)
      feed_history();
  });
}

void ControllerHost::wake() {
  if (awake_)
    return;
  awake_ = true;
  world_.timeline.after(micros(world_.rng.between(20, 400)), [this, life = life_] {
    if (life == life_)
      pump();
  });
}

// One alarm at a time: an earlier one replaces a later one, which then finds that it is not meant any more.
void ControllerHost::schedule(Instant when) {
  when = std::max(when, world_.timeline.now() + millis(1));
  if (when >= std::min(alarm_, kNever))
    return;
  alarm_ = when;
  world_.timeline.at(when, [this, life = life_, when] {
    if (life != life_ || alarm_ != when)
      return;
    alarm_ = kNever;
    pump();
  });
}

void ControllerHost::pump() {
  if (!engine_ || put_off(Stall::kCore, [this] { pump(); }))
    return;
  awake_ = false;
  try {
    const Instant now = world_.timeline.now();
    if (engine_->trusted()) {
      desk_->tick(engine_->state(), now);
      if (engine_->state().next_timer() <= now)
        engine_->submit({{UserId{}, true}, Tick{}}, nullptr);
    }
    exchange();
    if (engine_->has_work()) {
      engine_->run_batch(now);
      if (engine_->storing())
        return await_log();
      if (!batch_ended())
        return;
    }
    if (engine_->has_work()) {
      wake();
      return;
    }
    if (!engine_->trusted()) {
      // Nothing may be decided until the log can be read again: any command makes the engine try.
      engine_->submit({{UserId{}, true}, Tick{}}, nullptr);
      schedule(now + millis(600));
      return;
    }
    schedule(std::min(desk_->next_timer(), engine_->state().next_timer()));
  } catch (const Crash&) {
    kill();
    world_.timeline.after(world_.up_to(seconds(3)), [this] { start(); });
  }
}

// The core thread stands still until the append has ended; what comes for it waits.
void ControllerHost::await_log() {
  const Instant until =
      world_.timeline.now() + micros(dice_.chance(0.97) ? dice_.between(50, 30'000) : dice_.between(50, 3'000'000));
  core_until_ = std::max(core_until_, until);
  world_.timeline.at(until, [this, life = life_] {
    if (life == life_)
      log_ended();
  });
}

void ControllerHost::log_ended() {
  const Instant now = world_.timeline.now();
  if (core_until_ > now) {  // it stands still for another reason, too
    world_.timeline.at(core_until_, [this, life = life_] {
      if (life == life_)
        log_ended();
    });
    return;
  }
  try {
    engine_->poll();
    if (batch_ended())
      wake();
  } catch (const Crash&) {
    kill();
    world_.timeline.after(world_.up_to(seconds(3)), [this] { start(); });
  }
}

// False: another controller leads, and this one has ended.
bool ControllerHost::batch_ended() {
  if (!world_.log.broken.empty())
    world_.verdict.fail(world_.log.broken);
  if (!engine_->deposed().empty()) {
    world_.note("the controller is deposed: " + engine_->deposed());
    kill();
    world_.timeline.after(world_.up_to(seconds(3)), [this] { start(); });
    return false;
  }
  // The core's own tests look after every command. Here every eighth batch keeps a seed short; a broken promise
  // stays broken, so it is found a little later.
  const Seq seq = engine_->state().tables().seq;
  if (engine_->trusted() && seq != checked_seq_ && checks_++ % 8 == 0)
    check_invariants(engine_->state());
  checked_seq_ = seq;
  exchange();
  return true;
}

void ControllerHost::send(LinkId link, ToAgent message) {
  if (!put_off(Stall::kIo, [this, link, message] { send(link, message); }))
    world_.network.send_down(link, std::move(message));
}

// What the desk has to say, to the engine and to the agents.
void ControllerHost::exchange() {
  for (auto& item : desk_->take_commands())
    engine_->submit(std::move(item.command), [this, token = item.token](const Result<Answer>& answer) {
      desk_->answered(token, answer, engine_->state(), world_.timeline.now());
    });
  for (auto& out : desk_->take_messages()) {
    if (out.environment)
      complete_environment(*process_of(out.message), *out.environment);
    send(out.link, std::move(out.message));
  }
  for (const auto& [node, silence] : desk_->take_fence_requests()) {
    if (silence < world_.settings.fence_silence)
      continue;
    const Node* record = engine_->state().tables().node(node);
    if (!record)
      continue;
    const std::size_t index = parse_uint(std::string_view(record->meta.name).substr(1)).value_or(1) - 1;
    // The hook cuts the power, and says so when it is certain.
    world_.timeline.after(world_.up_to(seconds(2)), [this, life = life_, node, index] {
      NodeHost& host = *world_.nodes[index];
      const bool was_up = host.machine_up();
      host.power_off();
      if (was_up)
        world_.timeline.after(world_.up_to(world_.rng.chance(0.3) ? seconds(1) : seconds(20)),
                              [&host] { host.boot(); });
      if (life != life_)
        return;
      desk_->fenced(node, "power off");
      wake();
    });
  }
}

void ControllerHost::planned(const Actor::Turn& turn, bool up_to_date) {
  for (const PlanNote& note : turn.notes) waits_[note.job] = note.wait;
  if (up_to_date && engine_->trusted() && !engine_->storing())
    for (const Actor::Ask& ask : turn.asks)
      if (const auto& plan = std::get<ApplyPlan>(ask.body); !plan.packings.empty())
        check_packing_law(*plan.packings.front().packing);
  if (!engine_->storing() && engine_->trusted() && stray_plans > 0 && world_.rng.chance(stray_plans))
    stray_plan();
}

void ControllerHost::disturb_actor(Duration most) {
  if (engine_ && engine_->trusted() && !engine_->storing())
    actors_[dice_.below(actors_.size())]->disturb(most, engine_->snapshot());
}

void ControllerHost::calm_actors() {
  for (auto& actor : actors_) actor->calm();
}

// A planner made from what is committed would have proposed the same record.
void ControllerHost::check_packing_law(const Packing& proposed) {
  Planner twin;
  twin.observe(engine_->snapshot());
  const PlanChunk chunk = twin.plan(world_.timeline.now(), {});
  if (chunk.packings.empty() || chunk.packings.front().packing->through != proposed.through ||
      chunk.packings.front().packing->steps != proposed.steps ||
      chunk.packings.front().packing->classes != proposed.classes)
    world_.verdict.fail("a rebuilt planner would have learnt something else of packing");
}

// A plan from someone who saw an empty cluster: the core must take only what is right.
void ControllerHost::stray_plan() {
  const Tables& tables = engine_->state().tables();
  PlannedStart start;
  for (const auto& [id, job] : tables.jobs) {
    if (job->state != JobState::kPending || job->hold != Hold::kNone || job->array || job->spec->groups.size() != 1 ||
        !world_.rng.chance(0.3))
      continue;
    const GroupSpec& group = job->spec->groups[0];
    std::vector<Candidate> candidates;
    static const NodeLoad kEmpty;
    const std::size_t skip = static_cast<std::size_t>(world_.rng.below(tables.nodes.size()));
    std::size_t at = 0;
    const Partition* partition = tables.default_partition();
    if (!partition)
      return;
    for (int round = 0; round < 2; ++round)
      for (const auto& [node_id, node] : tables.nodes)
        if ((round == 0) == (at++ % tables.nodes.size() >= skip) && node_usable(*node) &&
            eligible(*node, *partition, group))
          candidates.push_back({node.get(), &kEmpty});
    auto grants = place_group(candidates, group, 0);
    if (!grants)
      continue;
    start = {.job = id, .read = job->meta.seq, .partition = partition->meta.name, .grants = std::move(*grants)};
    break;
  }
  if (start.job)
    engine_->submit({{UserId{}, true}, ApplyPlan{{start}}}, nullptr);
}

std::string ControllerHost::note_of(JobId job) const {
  const auto it = waits_.find(job);
  return it == waits_.end() ? "no note" : format("wait {}", text_of(it->second));
}

}  // namespace lockstep::sim
