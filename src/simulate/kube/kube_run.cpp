#include "simulate/kube/kube_run.h"

#include <unistd.h>

#include "base/text.h"
#include "simulate/apart.h"
#include "simulate/chaos/faults.h"
#include "simulate/chaos/world.h"
#include "simulate/kube/informer.h"
#include "simulate/kube/users.h"

namespace lockstep::sim {

namespace {

constexpr std::size_t kNodes = 3;  // the fourth one of a simulated cluster has no addresses for pods
constexpr Duration kRestMax = hours(3), kRunMax = hours(6);
constexpr long kCpuSecondsMax = 60;
constexpr std::size_t kNotes = 400;
constexpr int kQuietLooks = 3;  // at rest so often, one after the other

World* dying = nullptr;  // whose notes are printed when a CHECK stops the process

void on_abort(int) {
  if (!dying)
    return;
  for (const std::string& note : dying->verdict.notes()) {
    (void)!write(STDERR_FILENO, note.data(), note.size());
    (void)!write(STDERR_FILENO, "\n", 1);
  }
}

ChaosSettings world_settings(const KubeSettings& settings) {
  ChaosSettings out;
  out.seed = settings.seed;
  out.commands = settings.commands;
  out.nodes = kNodes;
  out.devices = 4;
  out.noting = settings.noting;
  return out;
}

const Watched kWatched[] = {
    {.path = "/api/v1/configmaps", .type = "configmaps"},
    {.path = "/api/v1/configmaps", .type = "configmaps", .label = "tier=x"},
    {.path = "/api/v1/configmaps", .type = "configmaps", .ns = "a", .page = 2},
    {.path = "/api/v1/pods", .type = "pods"},
    {.path = "/api/v1/pods", .type = "pods", .label = "tier=y", .page = 3},
    {.path = "/api/v1/pods", .type = "pods", .ns = "b", .streams_list = true},
    {.path = "/apis/apps/v1/replicasets", .type = "replicasets.apps", .page = 1},
    {.path = "/apis/apps/v1/deployments", .type = "deployments.apps", .streams_list = true},
    {.path = "/apis/apps/v1/statefulsets", .type = "statefulsets.apps"},
    {.path = "/apis/batch/v1/jobs", .type = "jobs.batch"},
    {.path = "/api/v1/nodes", .type = "nodes"},
    {.path = "/api/v1/namespaces", .type = "namespaces"},
    {.path = "/apis/sim.io/v1/things", .type = "things.sim.io"},
};

// Everything of one run. Clients go before the world in which their connections are.
struct KubeWorld {
  explicit KubeWorld(const KubeSettings& settings)
      : world(world_settings(settings)),
        ledger(world.verdict, world.processes),
        checker(world.verdict, ledger),
        api(world, ledger),
        users(world, api, ledger, checker),
        faults(world),
        dice(settings.seed ^ 0x6375'7473),
        weather(settings.seed ^ 0x7072'6573) {
    world.verdict.notes_max = kNotes;
    ledger.on_entry = [this](const Ledger::Entry& entry) { checker.saw(entry); };
    world.controller.take_in(api);
    std::uint64_t number = 0;
    for (const Watched& watched : kWatched)
      informers.push_back(std::make_unique<Informer>(world, api, ledger, watched, settings.seed * 131 + ++number));
  }
  ~KubeWorld() { world.controller.kill(); }

  void run_until(Instant until, const std::function<bool()>& enough) {
    while (!world.verdict.failed() && world.timeline.now() < until && !enough()) world.timeline.step(until);
  }
  // Until there are no such words for a while; fails with those that stay.
  void come_to_rest(const std::function<std::string()>& unrest) {
    const Instant end = world.timeline.now() + kRestMax;
    std::string words;
    int quiet = 0;
    while (!world.verdict.failed() && world.timeline.now() < end && quiet < kQuietLooks) {
      run_until(world.timeline.now() + seconds(10), [] { return false; });
      words = api.up() ? unrest() : "the controller is down";
      quiet = words.empty() ? quiet + 1 : 0;
    }
    if (!words.empty())
      world.verdict.fail("it did not come to rest: " + words);
  }
  std::string behind() const {
    for (const auto& informer : informers)
      if (std::string words = informer->behind(); !words.empty())
        return words;
    return {};
  }
  // The controllers are stopped, doubled and begun anew more often than in other runs.
  void disturb() {
    if (!troubled)
      return;
    world.controller.disturb_actor(seconds(20));
    world.timeline.after(millis(dice.between(100, 8'000)), [this] { disturb(); });
  }

  // Now and then a node is short of memory for a while, says so with each look, and later not any more.
  void press() {
    if (!pressed)
      return;
    NodeHost& node = *world.nodes[static_cast<std::size_t>(weather.between(0, static_cast<std::int64_t>(kNodes) - 1))];
    world.note(format("{} runs short of memory", node.name()));
    tell_short(node, static_cast<int>(weather.between(1, 12)));
    world.timeline.after(seconds(weather.between(30, 400)), [this] { press(); });
  }
  void tell_short(NodeHost& node, int looks) {
    const bool acute = pressed && looks > 0;
    const std::int64_t left = acute ? 50 : 200;
    node.run_short(pressed ? std::vector<Shortage>{{.acute = acute, .available = left, .threshold = 100}}
                           : std::vector<Shortage>{});
    if (acute)
      world.timeline.after(seconds(10), [this, &node, looks] { tell_short(node, looks - 1); });
    else if (pressed)
      world.timeline.after(seconds(60), [&node] { node.run_short({}); });
  }

  World world;
  Ledger ledger;
  WorkloadChecker checker;
  SimApi api;
  KubeUsers users;
  FaultMaker faults;
  std::vector<std::unique_ptr<Informer>> informers;
  Rng dice, weather;
  bool troubled = false, pressed = false;
};

void begin(KubeWorld& all) {
  World& world = all.world;
  const Instant now = world.timeline.now();
  world.controller.start();
  for (auto& node : world.nodes) node->boot();
  all.users.prepare();
  all.run_until(now + minutes(10), [&] { return all.users.prepared(); });
  if (!all.users.prepared())
    world.verdict.fail("the cluster did not come up");
  all.checker.be_strict();
  for (auto& informer : all.informers) informer->start();
}

void trouble(KubeWorld& all) {
  all.users.start();
  all.faults.start();
  all.troubled = all.dice.chance(0.7);
  all.disturb();
  all.pressed = all.weather.chance(0.4);
  all.press();
  all.run_until(all.world.timeline.now() + kRunMax, [&] { return all.users.done(); });
  if (!all.users.done())
    all.world.verdict.fail("the users did not get their commands sent");
}

void mend(KubeWorld& all) {
  all.troubled = all.pressed = false;
  for (auto& node : all.world.nodes) node->run_short({});
  all.faults.stop_and_heal();
  all.api.stop_trouble();
  for (auto& informer : all.informers) informer->stop_trouble();
  for (auto& node : all.world.nodes) node->steady_containers();
  all.users.settle();
  all.come_to_rest([&] {
    std::string words = all.checker.unrest();
    return words.empty() ? all.behind() : words;
  });
  if (std::string words = all.users.check_counters(); !words.empty())
    all.world.verdict.fail(words);
  all.users.tear_down();
  all.come_to_rest([&] {
    std::string words = all.users.left();
    return words.empty() ? all.behind() : words;
  });
}

}  // namespace

KubeReport run_kube(const KubeSettings& settings) {
  KubeWorld all(settings);
  World& world = all.world;
  dying = settings.noting ? &world : nullptr;
  const Instant from = world.timeline.now();
  begin(all);
  trouble(all);
  mend(all);
  KubeReport report;
  report.passed = !world.verdict.failed();
  report.failure = world.verdict.failure();
  report.notes.assign(world.verdict.notes().begin(), world.verdict.notes().end());
  report.commands = all.users.sent();
  report.answered = all.users.answered();
  report.pods = all.checker.pods_made();
  for (const auto& informer : all.informers) report.events += informer->events();
  report.batches = world.controller.batches();
  report.simulated_s = static_cast<std::uint64_t>((world.timeline.now() - from).seconds());
  dying = nullptr;
  return report;
}

KubeReport run_kube_apart(const KubeSettings& settings, bool explain) {
  const Apart apart = run_apart(
      [&] {
        const KubeReport report = run_kube(settings);
        std::string text =
            format("{} {} {} {} {} {} {}\n{}\n", report.passed ? "passed" : "failed", report.commands, report.answered,
                   report.pods, report.events, report.batches, report.simulated_s, report.failure);
        for (const std::string& note : report.notes) text += note + "\n";
        return text;
      },
      on_abort, kCpuSecondsMax);
  KubeReport report;
  const auto& lines = apart.lines;
  if (apart.end == Apart::End::kWell && lines.size() >= 2) {
    const std::vector<std::string> words = split_words(lines[0]);
    const auto number = [&](std::size_t i) { return i < words.size() ? parse_uint(words[i]).value_or(0) : 0; };
    report.passed = !words.empty() && words[0] == "passed";
    report.commands = number(1);
    report.answered = number(2);
    report.pods = number(3);
    report.events = number(4);
    report.batches = number(5);
    report.simulated_s = number(6);
    report.failure = lines[1];
    report.notes.assign(lines.begin() + 2, lines.end());
  } else if (apart.end == Apart::End::kOutOfTime) {
    report.out_of_time = true;
    report.failure = format("it did not end within {} s of computing", kCpuSecondsMax);
    report.notes = lines;
  } else {
    report.failure = lines.empty() || lines[0].empty() ? "it died without a word" : lines[0];
    report.notes = lines;
  }
  if (report.passed || !explain || settings.noting)
    return report;
  KubeSettings again = settings;
  again.noting = true;
  KubeReport told = run_kube_apart(again, false);
  if (told.failure != report.failure)
    told.failure = format("{}; run again: {}: the seed does not replay", report.failure, told.failure);
  told.passed = false;
  return told;
}

}  // namespace lockstep::sim
