#include "simulate/chaos/chaos.h"

#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "simulate/chaos/client.h"
#include "simulate/chaos/faults.h"
#include "wire/entry_stream.h"

namespace lockstep::sim {

namespace {

constexpr Duration kRestMax = hours(3);  // of simulated time after the faults
constexpr Duration kRunMax = hours(6);   // all commands must have been sent by then
constexpr long kCpuSecondsMax = 30;      // of real computing: a seed that goes round in circles has failed

std::vector<Seq> committed_seqs(const SimLog& log, Verdict& verdict) {
  std::vector<Seq> out;
  LongValues apart(nullptr, [&log](const BlobId& id) { return log.archived_blob(id); });
  EntryReader reader(nullptr, &apart);
  for (const auto& [index, entry] : log.archive()) {
    const auto closed = reader.add(entry.bytes, entry.closing);
    if (!closed.ok()) {
      verdict.fail("a log entry cannot be read: " + closed.error().message);
      return out;
    }
    if (!*closed)
      continue;
    for (const Change& change : reader.take().changes) out.push_back(change.seq);
  }
  return out;
}

World* dying = nullptr;  // whose notes are printed when a CHECK stops the process

void on_abort(int) {
  if (!dying)
    return;
  for (const std::string& note : dying->verdict.notes()) {
    (void)!write(STDERR_FILENO, note.data(), note.size());
    (void)!write(STDERR_FILENO, "\n", 1);
  }
}

}  // namespace

// One run: the cluster comes up, clients and faults do what the seed says, then everything is mended and must come to
// rest; at last the checkers look at the whole.
ChaosReport run_chaos(const ChaosSettings& settings) {
  World world(settings);
  dying = settings.noting ? &world : nullptr;
  ChaosClient client(world);
  FaultMaker faults(world);
  const auto run_until = [&world](Instant until, auto enough) {
    while (!world.verdict.failed() && world.timeline.now() < until && !enough()) world.timeline.step(until);
  };
  const Instant begin = world.timeline.now();
  world.controller.start();
  for (auto& node : world.nodes) node->boot();
  client.prepare();
  run_until(begin + minutes(5), [&] { return client.prepared(); });
  if (!client.prepared())
    world.verdict.fail("the cluster did not come up");
  client.start();
  faults.start();
  world.hostile.start();
  world.object_client.start();
  run_until(begin + kRunMax, [&] { return client.done(); });
  if (!client.done())
    world.verdict.fail("the clients did not get their commands sent");
  faults.stop_and_heal();
  world.hostile.stop();
  client.settle();
  world.object_client.settle();
  const Instant rest_end = world.timeline.now() + kRestMax;
  while (!world.verdict.failed() && world.timeline.now() < rest_end) {
    run_until(world.timeline.now() + seconds(5), [] { return false; });
    if (client.at_rest() && world.object_client.at_rest())
      break;
  }
  if (!client.at_rest())
    world.verdict.fail("it did not come to rest: " + client.unrest());
  if (!world.object_client.at_rest())
    world.verdict.fail("objects that were deleted did not go");
  run_until(world.timeline.now() + seconds(30), [] { return false; });
  // History takes what comes in its own time: look when it has caught up.
  run_until(world.timeline.now() + minutes(2), [&] { return *world.history.cursor() == world.log.durable_index(); });
  if (!world.verdict.failed()) {
    world.clients.finish();
    world.bounds.finish();
    world.objects.finish();
    world.history.finish(committed_seqs(world.log, world.verdict));
  }
  ChaosReport report;
  report.passed = !world.verdict.failed();
  report.failure = world.verdict.failure();
  report.notes.assign(world.verdict.notes().begin(), world.verdict.notes().end());
  report.commands = client.sent();
  report.batches = world.controller.batches();
  report.starts = world.controller.starts();
  report.requeues = world.records.counts().requeues;
  report.growths = world.bounds.growths();
  report.shrinks = world.bounds.shrinks();
  report.reserved = world.bounds.starts_in_reservations();
  report.topologies = world.topology.topologies();
  report.bound = world.topology.bound_starts();
  report.health_runs = world.health.runs();
  report.unhealthy = world.health.closings();
  report.closings = world.records.counts().closings;
  report.jobs = world.records.counts().jobs;
  report.simulated = world.timeline.now() - begin;
  dying = nullptr;
  return report;
}

namespace {

// The child's whole output; its first line says how it went if it got that far.
std::string run_in_child(const ChaosSettings& settings, int& status) {
  int ends[2];
  if (pipe(ends) != 0)
    return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    std::signal(SIGABRT, on_abort);
    const itimerval limit{{}, {kCpuSecondsMax, 0}};
    setitimer(ITIMER_VIRTUAL, &limit, nullptr);
    const ChaosReport report = run_chaos(settings);
    std::string text = format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n{}\n", report.passed ? "passed" : "failed",
                              report.commands, report.batches, report.starts, report.requeues, report.jobs,
                              report.simulated.us, report.growths, report.shrinks, report.reserved, report.topologies,
                              report.bound, report.closings, report.health_runs, report.unhealthy, report.failure);
    for (const std::string& note : report.notes) text += note + "\n";
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t n = write(ends[1], text.data() + at, text.size() - at);
      if (n <= 0)
        _exit(1);
      at += static_cast<std::size_t>(n);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  waitpid(child, &status, 0);
  return text;
}

}  // namespace

// The same in a process of its own, so that a CHECK that fails or a run without end is a finding like any other.
ChaosReport run_chaos_apart(const ChaosSettings& settings, bool explain) {
  int status = 0;
  const std::string text = run_in_child(settings, status);
  const std::vector<std::string> lines = split(text, '\n');
  ChaosReport report;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && lines.size() >= 2) {
    const std::vector<std::string> words = split_words(lines[0]);
    const auto number = [&](std::size_t i) { return i < words.size() ? parse_uint(words[i]).value_or(0) : 0; };
    report.passed = !words.empty() && words[0] == "passed";
    report.commands = number(1);
    report.batches = number(2);
    report.starts = number(3);
    report.requeues = number(4);
    report.jobs = number(5);
    report.simulated = micros(static_cast<std::int64_t>(number(6)));
    report.growths = number(7);
    report.shrinks = number(8);
    report.reserved = number(9);
    report.topologies = number(10);
    report.bound = number(11);
    report.closings = number(12);
    report.health_runs = number(13);
    report.unhealthy = number(14);
    report.failure = lines[1];
    report.notes.assign(lines.begin() + 2, lines.end());
  } else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGVTALRM) {
    report.out_of_time = true;
    report.failure = format("it did not end within {} s of computing", kCpuSecondsMax);
    report.notes = lines;
  } else {
    report.failure = lines.empty() ? "it died without a word" : lines[0];
    if (lines.size() > 1)
      report.notes.assign(lines.begin() + 1, lines.end());
  }
  if (!report.passed && explain && !settings.noting) {
    ChaosSettings again = settings;
    again.noting = true;
    ChaosReport told = run_chaos_apart(again, false);
    if (told.failure != report.failure)
      told.failure = format("{}; run again: {}: the seed does not replay", report.failure, told.failure);
    told.passed = false;
    return told;
  }
  return report;
}

}  // namespace lockstep::sim
