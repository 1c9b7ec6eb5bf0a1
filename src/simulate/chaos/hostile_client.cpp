#include "simulate/chaos/hostile_client.h"

#include <algorithm>

#include "model/bounds.h"
#include "model/command.h"
#include "model/job.h"
#include "simulate/chaos/world.h"

namespace lockstep::sim {

namespace {

constexpr int kDeathsMost = 2;  // at its second try a killer is known
constexpr CrashStage kStages[] = {CrashStage::kApplying, CrashStage::kStoring, CrashStage::kPublishing};
constexpr const char* kNames[] = {"dies-applied", "dies-stored", "dies-published"};
constexpr std::size_t kLightMost = 1 << 20, kHeavyMost = kRecordBytesMax - (256 << 10);
constexpr std::size_t kSpecMost = kSpecBytesMax - (64 << 10);
constexpr Caller kRoot{UserId{}, true};

Command put(const std::string& name, std::string body) {
  Object object;
  object.type = "sim/Hostile";
  object.meta.name = name;
  object.body = std::move(body);
  return {kRoot, PutObject{std::move(object), 0}};
}

// Fills lists in turn, each as far as its bound allows, until there are so many bytes. What is left over is left out.
class Bulk {
 public:
  explicit Bulk(std::size_t bytes) : left_(bytes) {}

  void into(std::vector<std::string>& words) {
    pour([&](std::size_t) { words.push_back(std::string(1000, 'g')); });
  }
  template <class Pairs>
  void into(Pairs& pairs) {
    pour([&](std::size_t i) { pairs.push_back({format("g{:05}", i), std::string(1000, 'g')}); });
  }

 private:
  static constexpr std::size_t kEach = 3 << 18;  // less than every such bound
  template <class F>
  void pour(const F& add) {
    const std::size_t here = std::min(left_, kEach);
    for (std::size_t i = 0; i * 1003 < here; ++i) add(i);
    left_ -= here;
  }
  std::size_t left_;
};

}  // namespace

HostileClient::HostileClient(World& world) : world_(world), rng_(world.settings.seed * 7919 + 3) {
  world_.crash_note.on_applying = [this](std::string_view name) {
    if (Killer* killer = named_in(name, CrashStage::kApplying))
      die(*killer);
  };
  world_.log.before_append = [this](std::span<const LogEntry> entries) {
    for (const LogEntry& entry : entries)
      if (Killer* killer = named_in(entry.bytes, CrashStage::kStoring))
        die(*killer);
  };
}

void HostileClient::start() {
  if (!rng_.chance(0.4))
    return;
  on_ = true;
  for (const char* name : kNames) killers_.push_back({name, 0});
  for (std::size_t i = 0; i < killers_.size(); ++i)
    world_.timeline.after(seconds(rng_.between(1, 120)), [this, i] { send_killer(i); });
  giants_left_ = static_cast<int>(rng_.between(2, 5));
  world_.timeline.after(seconds(rng_.between(1, 60)), [this] { send_giant(); });
}

HostileClient::Killer* HostileClient::named_in(std::string_view text, CrashStage stage) {
  for (std::size_t i = 0; i < killers_.size(); ++i)
    if (kStages[i] == stage && text.find(killers_[i].name) != std::string_view::npos)
      return &killers_[i];
  return nullptr;
}

void HostileClient::die(Killer& killer) {
  ++deaths_;
  world_.note(format("{} stops the controller", killer.name));
  if (++killer.deaths > kDeathsMost)
    world_.verdict.fail(format("{} stopped the controller {} times", killer.name, killer.deaths));
  world_.crash_note.trip();
  throw Crash{};
}

void HostileClient::publishing(const Engine::Batch& batch) {
  for (const Change& change : batch.changes)
    if (const auto* object = std::get_if<Ref<Object>>(&change.record))
      if (Killer* killer = named_in((*object)->meta.name, CrashStage::kPublishing))
        die(*killer);
}

void HostileClient::started(const Engine& engine) {
  for (const std::string& name : engine.quarantined())
    if (std::none_of(std::begin(kNames), std::end(kNames),
                     [&](const char* known) { return name.find(known) != std::string::npos; }))
      world_.verdict.fail("who never stopped the controller is in quarantine: " + name);
}

void HostileClient::send_killer(std::size_t which) {
  if (!on_)
    return;
  world_.controller.call(put(killers_[which].name, "x"), nullptr);
  world_.timeline.after(seconds(rng_.between(5, 60)), [this, which] { send_killer(which); });
}

void HostileClient::send_giant() {
  if (!on_ || giants_left_ == 0)
    return;
  const auto bytes = static_cast<std::size_t>(rng_.between(kLightMost / 2, kHeavyMost));
  if (!world_.controller.up()) {
    // Another time.
  } else if (rng_.chance(0.3)) {
    giants_left_ -= create_giant_step(std::min(bytes, kSpecMost)) ? 1 : 0;
  } else if (rng_.chance(0.5)) {
    --giants_left_;
    ++giants_;
    world_.controller.call(put(format("giant{}", giants_left_ % 2), std::string(bytes, 'g')), nullptr);
  } else {
    --giants_left_;
    submit_giant(rng_.chance(0.6) ? std::min(bytes, kSpecMost) : kSpecBytesMax + bytes);
  }
  world_.timeline.after(seconds(rng_.between(5, 60)), [this] { send_giant(); });
}

bool HostileClient::create_giant_step(std::size_t bytes) {
  for (const auto& [id, job] : world_.controller.state().tables().jobs) {
    if (job->state != JobState::kRunning || job->spec->groups[0].launch != Launch::kNothing)
      continue;
    auto step = std::make_shared<StepSpec>();
    step->name = "giant";
    step->argv = {"sim", "run=300"};
    step->overlap = true;
    Bulk bulk(bytes);
    bulk.into(step->argv);
    bulk.into(step->options);
    ++giants_;
    return world_.controller.call({Caller{job->spec->user, false}, CreateStep{.job = id, .spec = step}}, nullptr);
  }
  return false;
}

void HostileClient::submit_giant(std::size_t bytes) {
  const Tables& tables = world_.controller.state().tables();
  if (tables.users.empty())
    return;
  auto spec = std::make_shared<JobSpec>();
  spec->name = "giant";
  spec->user = tables.users.begin()->first;
  spec->time_limit = seconds(30);
  spec->script = format("{:064x}", 2);
  GroupSpec group;
  group.launch = Launch::kScript;
  group.argv = {"sim", "run=500"};
  Bulk bulk(bytes);
  bulk.into(group.argv);
  bulk.into(group.env);
  std::vector<std::pair<std::string, std::string>> options;
  bulk.into(options);
  spec->options = std::move(options);
  spec->groups.push_back(std::move(group));
  const bool too_large = bytes > kSpecBytesMax;
  world_.controller.call({Caller{spec->user, false}, SubmitJob{.spec = spec}},
                         [this, too_large, bytes](const Result<Answer>& answer) {
                           giants_ += answer.ok();
                           if (too_large && answer.ok())
                             world_.verdict.fail(format("a job of {} bytes was accepted", bytes));
                         },
                         {{spec->script, "#!/bin/sh\n"}});
}

}  // namespace lockstep::sim
