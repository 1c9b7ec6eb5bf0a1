#include "simulate/chaos/client.h"

#include <algorithm>

#include "model/job.h"
#include "simulate/chaos/world.h"

namespace lockstep::sim {

namespace {

constexpr Caller kRoot{UserId{}, true};
constexpr std::size_t kKnownMax = 200;
constexpr std::ptrdiff_t kQueueMost = 40;
constexpr const char* kQos[] = {"spare", "low", "middle", "high"};

BlobId blob_name(std::uint64_t n) { return format("{:064x}", n); }

}  // namespace

ChaosClient::ChaosClient(World& world)
    : world_(world),
      admin_(world),
      fabric_(world),
      health_(world),
      rare_(world.settings.seed ^ 0x7261'7265),
      rarely_(rare_.chance(0.3) ? 0.5 : 0.1) {}

bool ChaosClient::send(Command command, std::function<void(const Answer&)> on_ok) {
  return world_.controller.call(std::move(command), [this, on_ok = std::move(on_ok)](const Result<Answer>& answer) {
    if (answer.ok() && answer->seq != 0)
      world_.clients.answered("a request", answer->seq, world_.log.durable_seq(), world_.timeline.now());
    if (!answer.ok())
      world_.note("client: refused: " + answer.error().message);
    if (answer.ok() && on_ok)
      on_ok(*answer);
  });
}

// Sends one command of the cluster's set-up at a time, until each was answered: users, the partition, QOS, then what
// the administrator has.
void ChaosClient::prepare() {
  target_ = world_.settings.commands;
  if (prepared())
    return;
  Command command{kRoot, {}};
  if (prepared_ == kSteps) {
    const auto body = administered_ == 0 && (world_.settings.restless || world_.rng.chance(0.25))
                          ? std::nullopt
                          : admin_.setup(administered_);
    if (!body) {
      administered_ = -1;
      return;
    }
    send({kRoot, *body}, [this, step = administered_](const Answer&) {
      if (step == administered_)
        ++administered_;
    });
    world_.timeline.after(seconds(1), [this] { prepare(); });
    return;
  }
  if (prepared_ < 2) {
    User user;
    user.meta.name = format("user{}", prepared_);
    user.uid = user.gid = 1000 + static_cast<std::uint32_t>(prepared_);
    user.home = "/home/" + user.meta.name;
    command.body = PutUser{user};
  } else if (prepared_ > 2) {
    Rng& rng = world_.rng;
    const PreemptMode modes[] = {PreemptMode::kRequeue, PreemptMode::kCancel, PreemptMode::kCheckpoint,
                                 PreemptMode::kSuspend};
    Qos qos;
    qos.meta.name = kQos[prepared_ - 3];
    qos.preempt_mode = modes[rng.below(4)];
    qos.grace = rng.chance(0.5) ? seconds(rng.between(1, 15)) : Duration{};
    qos.preempt_exempt = rng.chance(0.2) ? seconds(rng.between(1, 10)) : Duration{};
    qos.scavenger = qos.meta.name == "spare";
    if (qos.meta.name == "middle")
      qos.preempts = {"low"};
    else if (qos.meta.name == "high")
      qos.preempts = {"middle", "low"};
    command.body = PutQos{qos};
  } else {
    Partition partition;
    partition.meta.name = "main";
    partition.nodes = {"ALL"};
    partition.is_default = true;
    partition.time_max = minutes(5);
    command.body = PutPartition{partition};
  }
  send(std::move(command), [this, step = prepared_](const Answer& answer) {
    if (step != prepared_)
      return;
    if (step < 2)
      users_.push_back(answer.user);
    ++prepared_;
  });
  world_.timeline.after(seconds(1), [this] { prepare(); });
}

void ChaosClient::start() { next(); }

void ChaosClient::next() {
  if (done())
    return;
  if (world_.controller.up() && one())
    ++sent_;
  // Bursts and lulls.
  const bool burst = world_.rng.chance(0.3);
  world_.timeline.after(burst ? millis(5) : world_.up_to(millis(1400)), [this] { next(); });
}

bool ChaosClient::administer() {
  auto body = admin_.change();
  return body && send({kRoot, std::move(*body)});
}

bool ChaosClient::one() {
  if (auto body = fabric_.change())
    return send({kRoot, std::move(*body)});
  if (auto body = health_.change())
    return send({kRoot, std::move(*body)});
  if (world_.rng.chance(0.06))
    return administer();
  const std::uint64_t dice = world_.rng.below(100);
  if (dice < 58)
    return submit();
  if (dice < 68)
    return cancel();
  if (dice < 77)
    return hold_or_release();
  if (dice < 81)
    return requeue();
  if (dice < 86)
    return drain();
  if (dice < 90)
    return update();
  if (dice < 92)
    return signal();
  if (dice < 95)
    return checkpoint();
  if (dice < 98)
    return suspend_or_resume();
  return ask_history();
}

// What few ask for, and the planner must have met all the same.
void ChaosClient::ask_rarely(Placement& group) {
  const auto some = [&](std::int64_t low, std::int64_t high) {
    return static_cast<std::uint32_t>(rare_.between(low, high));
  };
  const auto any_node = [&] { return world_.nodes[rare_.below(world_.nodes.size())]->name(); };
  if (rare_.chance(rarely_))
    for (std::uint32_t n = some(1, std::max(1u, group.nodes.min)); n > 0; --n) group.only_nodes.push_back(any_node());
  if (!rare_.chance(rarely_))
    return;
  switch (rare_.below(12)) {
    case 0: group.memory_per_core_mb = some(100, 8'000); break;
    case 1: group.memory_per_device_mb = some(100, 30'000); break;
    case 2: group.cores_per_device = some(1, 2); break;
    case 3: group.all_memory = true; break;
    case 4: group.per_task.memory_mb = some(100, 60'000); break;
    case 5: group.all_cores = true; [[fallthrough]];
    case 6: group.sharing = Sharing::kExclusive; break;
    case 7: group.sharing = Sharing::kExclusiveUser; break;
    case 8: group.contiguous_cores_min = some(1, 12); break;
    case 9: group.exclude_nodes = {any_node()}; break;
    case 10:  // as many nodes as it can have
      if (group.nodes.max > 0)
        group.nodes.max += some(1, 3);
      break;
    case 11:  // its GPUs where they are
      if (group.nodes.min > 1)
        std::swap(group.per_job, group.per_node.devices);
      break;
  }
}

namespace {

std::uint32_t drawn(Rng& rng, std::int64_t low, std::int64_t high) {
  return static_cast<std::uint32_t>(rng.between(low, high));
}

std::vector<DeviceAsk> gpus(Rng& rng, std::uint32_t count) {
  return {{.kind = "gpu", .type = rng.chance(0.5) ? "h100" : "", .count = count}};
}

void ask_for_part_of_node(Rng& rng, GroupSpec& group) {
  group.nodes = {1, 1};
  const std::uint64_t what = rng.below(20);
  if (what == 0)  // a share of a GPU
    group.per_node.devices = {{.count = 1, .milli = static_cast<std::uint16_t>(rng.between(1, 9) * 100)}};
  else if (what == 1)
    group.per_node.devices = {{.count = 1, .mig = rng.chance(0.5) ? "1g.10gb" : "3g.40gb"}};
  else
    group.per_node.devices = gpus(rng, drawn(rng, 1, 8));
  group.per_task.cores = drawn(rng, 1, 8);
}

void ask_for_gang(Rng& rng, GroupSpec& group) {
  const std::uint32_t n = drawn(rng, 2, 6);
  group.nodes = {n, n};
  group.tasks = {n, n};
  group.tasks_per_node = 1;
  group.per_node.devices = gpus(rng, rng.chance(0.6) ? 8 : 4);
  group.per_task.cores = drawn(rng, 1, 16);
  if (rng.chance(0.2))
    group.sharing = Sharing::kExclusive;
}

void ask_for_sandbox(Rng& rng, GroupSpec& group) {
  group.sandbox.network = rng.chance(0.8) ? TaskNetwork::kOwn : TaskNetwork::kHost;
  constexpr ContainerKind kKinds[] = {ContainerKind::kMain, ContainerKind::kInit, ContainerKind::kSidecar};
  for (std::uint32_t i = 0; i < drawn(rng, 1, 4); ++i) {
    SandboxContainer one;
    one.name = format("c{}", i);
    one.argv = {"sim"};
    one.kind = kKinds[i % 3];
    group.sandbox.containers.push_back(std::move(one));
  }
}

void ask_for_tasks(Rng& rng, GroupSpec& group) {
  const std::uint32_t n = drawn(rng, 1, 6);
  group.tasks = {n, rng.chance(0.6) ? n + drawn(rng, 1, 12) : n};
  group.per_task.devices = gpus(rng, drawn(rng, 1, 3));
  group.per_task.cores = 1;
  group.launch = Launch::kTasks;
  group.restart = rng.chance(0.7) ? RestartRule::kOnFailure : RestartRule::kNever;
  const bool elastic = group.tasks.min < group.tasks.max;
  if (elastic && rng.chance(0.3))
    group.tasks_per_node = drawn(rng, 1, 3);
  if (elastic && rng.chance(0.2))
    group.per_node.cores = 1;  // no second grant on a node
  group.restarts_max = 2;
  group.one_failure_restarts_all = rng.chance(0.3);
  if (rng.chance(0.5))
    ask_for_sandbox(rng, group);
}

void wait_for_steps(Rng& rng, GroupSpec& group) {
  const std::uint32_t n = drawn(rng, 1, 3);
  group.nodes = {n, n};
  group.tasks = {n * 2, n * 2};
  group.per_node.devices = gpus(rng, drawn(rng, 1, 4));
  group.per_task.cores = 2;
  group.launch = Launch::kNothing;
}

// What the processes of the job will do: for how long they run, how they end.
void choose_end(Rng& rng, JobSpec& spec, GroupSpec& group) {
  const std::int64_t run_ms = rng.chance(0.04)  ? 10'000'000
                              : rng.chance(0.3) ? rng.between(20, 1000)
                                                : rng.between(50, 9'000);
  if (run_ms > 1'000'000 && spec.time_limit.us == 0)
    spec.time_limit = seconds(rng.between(10, 60));
  group.argv = {"sim", format("run={}", run_ms)};
  if (rng.chance(0.25))
    group.argv.push_back(format("exit={}", rng.between(1, 255)));
  if (rng.chance(0.15))
    group.argv.push_back("stubborn");
}

}  // namespace

// A job as users of a mixed cluster submit them. Every seed rests on the order in which this draws.
Ref<JobSpec> ChaosClient::make_spec() {
  Rng& rng = world_.rng;
  auto spec = std::make_shared<JobSpec>();
  spec->name = format("c{}", ++serial_);
  spec->user = users_[rng.below(users_.size())];
  spec->requeue = rng.chance(0.85);
  spec->requeue_set = true;
  spec->kill_wait = seconds(rng.between(1, 6));
  spec->time_limit = rng.chance(0.8) ? seconds(rng.between(10, 60)) : Duration{};
  spec->work_dir = "/tmp";
  spec->environment = blob_name(1);
  GroupSpec group;
  choose_end(rng, *spec, group);
  group.launch = Launch::kScript;
  const std::uint64_t kind = rng.below(100);
  if (kind < 45) {
    ask_for_part_of_node(rng, group);
  } else if (kind < 75) {
    ask_for_gang(rng, group);
  } else if (kind < 85) {
    ask_for_tasks(rng, group);
  } else {
    wait_for_steps(rng, group);
    spec->interactive = true;
    spec->requeue = false;
  }
  if (rng.chance(0.1))
    group.constraint = "even";
  if (group.launch == Launch::kScript)
    spec->script = blob_name(2);
  if (rng.chance(0.05))
    spec->hold = true;
  if (rng.chance(0.12)) {
    if (const JobId on = some_job(false)) {
      using enum Dependency::Type;
      const Dependency::Type types[] = {kAfter, kAfterAny, kAfterOk, kAfterNotOk};
      spec->dependencies.push_back({.type = types[rng.below(4)], .job = on});
    }
  }
  if (rng.chance(0.6))
    spec->qos = kQos[rng.below(4)];
  if (rng.chance(0.3))
    spec->checkpoint_signal = 12;
  if (rng.chance(0.1))
    spec->signal_ahead = {.signal = 10, .ahead = seconds(5), .script_only = rng.chance(0.5)};
  ask_rarely(group);
  spec->groups.push_back(std::move(group));
  admin_.dress(*spec);
  fabric_.dress(*spec);
  // Het jobs: two roles at once.
  if (rng.chance(0.05) && spec->groups[0].launch == Launch::kScript) {
    GroupSpec second;
    second.nodes = {1, 2};
    second.tasks = {2, 2};
    second.per_task.cores = 2;
    spec->groups.push_back(std::move(second));
  }
  return spec;
}

// Submits a job, now and then as an array, and attends to it if it is interactive.
bool ChaosClient::submit() {
  Rng& rng = world_.rng;
  // With limits much has to wait; a long queue costs much planning and shows nothing more.
  const auto& jobs = world_.controller.state().tables().jobs;
  if (std::count_if(jobs.begin(), jobs.end(), [](const auto& j) { return j.second->state == JobState::kPending; }) >
      kQueueMost)
    return cancel();
  auto spec = make_spec();
  SubmitJob body{.spec = spec};
  if (spec->groups[0].launch == Launch::kScript && spec->groups.size() == 1 && rng.chance(0.08)) {
    ArrayAsk ask;
    ask.indices = IntervalSet(0, static_cast<std::uint32_t>(rng.between(1, 14)));
    ask.throttle = rng.chance(0.6) ? static_cast<std::uint32_t>(rng.between(1, 4)) : 0;
    body.array = ask;
  }
  std::int32_t code = rng.chance(0.2) ? static_cast<std::int32_t>(rng.between(1, 99)) : 0;
  const int steps = static_cast<int>(rng.between(0, 3));
  const std::string name = spec->name;
  const bool interactive = spec->interactive;
  std::vector<Blob> blobs{{spec->environment, "PATH=/bin"}};
  if (!spec->script.empty())
    blobs.push_back({spec->script, "#!/bin/sh\n"});
  const Caller caller{spec->user, false};
  return world_.controller.call(
      {caller, std::move(body)},
      [this, name, interactive, steps, code](const Result<Answer>& answer) {
        if (!answer.ok()) {
          world_.note(format("client: {} refused: {}", name, answer.error().message));
          return;
        }
        if (answer->seq != 0)
          world_.clients.answered("the submission of " + name, answer->seq, world_.log.durable_seq(),
                                  world_.timeline.now());
        world_.clients.submitted(answer->job, name, world_.timeline.now());
        known_.push_back(answer->job);
        if (known_.size() > kKnownMax)
          known_.erase(known_.begin());
        if (interactive)
          attend(answer->job, steps, code);
      },
      std::move(blobs));
}

// The client of an interactive job: launches steps one after the other, then ends it.
void ChaosClient::attend(JobId job, int steps_left, std::int32_t code) {
  attended_.insert(job);
  world_.timeline.after(millis(500) + world_.up_to(seconds(6)), [this, job, steps_left, code] {
    if (!world_.controller.up()) {
      attend(job, steps_left, code);
      return;
    }
    const Job* record = world_.controller.state().tables().job(job);
    if (!record || is_final(record->state))
      return;
    if (record->state != JobState::kRunning) {
      attend(job, steps_left, code);
      return;
    }
    if (steps_left > 0) {
      create_step(job);
      attend(job, steps_left - 1, code);
      return;
    }
    send({owner_of(job), EndJob{.job = job, .exit = {.code = code}}});
    attend(job, 0, code);  // until it is over
  });
}

void ChaosClient::create_step(JobId job) {
  Rng& rng = world_.rng;
  auto step = std::make_shared<StepSpec>();
  step->name = "work";
  step->argv = {"sim", format("run={}", rng.between(50, 9000)), format("exit={}", rng.between(0, 3)),
                format("bad={}", rng.between(0, 3))};
  step->environment = blob_name(1);
  step->overlap = rng.chance(0.3);
  send({owner_of(job), CreateStep{.job = job, .spec = step}});
}

JobId ChaosClient::some_job(bool pending_only) {
  for (int tries = 0; tries < 12 && !known_.empty(); ++tries) {
    const JobId id = known_[world_.rng.below(known_.size())];
    const Job* job = world_.controller.state().tables().job(id);
    if (job && !is_final(job->state) && (!pending_only || job->state == JobState::kPending))
      return id;
  }
  return {};
}

Caller ChaosClient::owner_of(JobId id) const {
  const Job* job = world_.controller.state().tables().job(id);
  return job ? Caller{job->spec->user, false} : kRoot;
}

bool ChaosClient::cancel() {
  const JobId id = some_job(false);
  if (!id)
    return false;
  const Job* job = world_.controller.state().tables().job(id);
  JobTarget target{.job = id};
  if (job->array && world_.rng.chance(0.5))
    target.elements = IntervalSet(0, static_cast<std::uint32_t>(world_.rng.between(0, 4)));
  const bool whole = !target.elements;
  return send({owner_of(id), CancelJob{.target = target}}, [this, id, whole](const Answer&) {
    world_.note(format("client: cancel of job {} acknowledged", id.value));
    if (!whole)
      return;
    const Job* after = world_.controller.state().tables().job(id);
    // A requeue that waited behind it, while the controller stood still, may have taken it back in the same batch.
    if (after && !after->array && (after->state < JobState::kCompleting) && !requeues_asked_.contains(id))
      world_.verdict.fail(format("the cancel of job {} was acknowledged, yet it is still in state {}", id.value,
                                 static_cast<int>(after->state)));
    world_.clients.cancelled(id);
  });
}

bool ChaosClient::hold_or_release() {
  if (world_.rng.chance(0.4)) {
    const JobId id = some_job(true);
    return id && send({owner_of(id), HoldJob{.target = {.job = id}}});
  }
  for (const auto& [id, job] : world_.controller.state().tables().jobs)
    if (job->state == JobState::kPending && (job->hold == Hold::kUser || job->hold == Hold::kRequeueLimit))
      return send({kRoot, ReleaseJob{.target = {.job = id}}});
  return false;
}

bool ChaosClient::requeue() {
  const JobId id = some_job(false);
  if (!id)
    return false;
  requeues_asked_.insert(id);
  return send({owner_of(id), RequeueJob{.target = {.job = id}, .hold = world_.rng.chance(0.2)}},
              [this, id](const Answer&) { world_.clients.requeued(id); });
}

bool ChaosClient::drain() {
  UpdateNode update{.name = format("n{}", world_.rng.between(1, static_cast<std::int64_t>(world_.nodes.size())))};
  update.drain = world_.rng.chance(0.4);
  update.reason = "chaos";
  return send({kRoot, std::move(update)});
}

bool ChaosClient::update() {
  const JobId id = some_job(true);
  if (!id)
    return false;
  UpdateJob update{.target = {.job = id}};
  if (world_.rng.chance(0.5))
    update.priority = static_cast<std::uint32_t>(world_.rng.between(1, 1000));
  else
    update.comment = "changed";
  return send({kRoot, std::move(update)});
}

bool ChaosClient::signal() {
  const JobId id = some_job(false);
  return id && send({owner_of(id), CancelJob{.target = {.job = id}, .signal = 10}});
}

bool ChaosClient::checkpoint() {
  for (const auto& [id, job] : world_.controller.state().tables().jobs)
    if (job->state == JobState::kRunning && (job->eviction || world_.rng.chance(0.1)))
      return send({owner_of(id), MarkCheckpoint{id}});
  return false;
}

bool ChaosClient::suspend_or_resume() {
  for (const auto& [id, job] : world_.controller.state().tables().jobs) {
    if (job->state == JobState::kSuspended && world_.rng.chance(0.7))
      return send({kRoot, ResumeJob{.target = {.job = id}}});
    if (job->state == JobState::kRunning && world_.rng.chance(0.1))
      return send({kRoot, SuspendJob{.target = {.job = id}}});
  }
  return false;
}

bool ChaosClient::ask_history() {
  HistoryQuery query;
  if (!known_.empty())
    query.jobs.push_back({.job = known_[world_.rng.below(known_.size())]});
  return world_.history.query(query).ok();
}

// Ends what would keep one job from coming to rest.
void ChaosClient::settle_job(JobId id, const Job& job) {
  // Its client never heard that it was accepted, and is gone.
  if (job.spec->interactive && !is_final(job.state) && !attended_.contains(id))
    send({kRoot, EndJob{.job = id, .client_lost = true}});
  if (job.state == JobState::kSuspended && !job.eviction)
    send({kRoot, ResumeJob{.target = {.job = id}}});
  if (job.state != JobState::kPending)
    return;
  if (job.hold == Hold::kUser || job.hold == Hold::kAdmin)
    send({kRoot, ReleaseJob{.target = {.job = id}}});
  // These would come back for ever.
  if (job.hold == Hold::kDependencyNever || job.hold == Hold::kRequeueLimit || job.hold == Hold::kLaunchFailed)
    send({kRoot, CancelJob{.target = {.job = id}}});
  // The nodes that it names may not be those that have what it asks for.
  if (!job.spec->groups[0].only_nodes.empty() && world_.controller.note_of(id) == "wait bad_constraints")
    send({kRoot, CancelJob{.target = {.job = id}}});
}

void ChaosClient::settle() {
  if (world_.controller.up() && world_.controller.engine().trusted()) {
    const Tables& tables = world_.controller.state().tables();
    for (const auto& [id, job] : tables.jobs) settle_job(id, *job);
    for (CommandBody& body : admin_.settle()) send({kRoot, std::move(body)});
    if (auto body = fabric_.settle())
      send({kRoot, std::move(*body)});
    if (auto body = health_.settle())
      send({kRoot, std::move(*body)});
    for (const auto& [id, node] : tables.nodes)
      if (node->drain)
        send({kRoot, UpdateNode{.name = node->meta.name, .drain = false}});
  }
  world_.timeline.after(seconds(10), [this] { settle(); });
}

bool ChaosClient::at_rest() const { return unrest().empty(); }

std::string ChaosClient::unrest() const {
  if (!world_.controller.up())
    return "the controller is down";
  if (world_.controller.engine().storing())
    return "an append is under way";
  const Tables& tables = world_.controller.state().tables();
  for (const auto& [id, job] : tables.jobs)
    if (!is_final(job->state) && !(job->array && job->array->running > 0))  // its elements tell more
      return format("job {} ({}) attempt {} is in state {}, hold {}, end reason '{}', {}{}", id.value, job->spec->name,
                    job->attempt, static_cast<int>(job->state), static_cast<int>(job->hold), job->end_reason,
                    world_.controller.note_of(id),
                    job->array ? format(", array waiting {} running {} unfinished {}", job->array->waiting.text(),
                                        job->array->running, job->array->unfinished)
                               : "");
  for (const auto& [id, node] : tables.nodes)
    if (!(world_.controller.state().load(id) == NodeLoad{}))
      return format("node {} still counts something as taken", node->meta.name);
  for (const auto& host : world_.nodes)
    if (host->live_shims() > 0)
      return format("processes live on {}", host->name());
  return {};
}

}  // namespace lockstep::sim
