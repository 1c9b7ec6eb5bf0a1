#include "shim/sandbox_logic.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace lockstep {
namespace {

constexpr Duration kBackOffFirst = seconds(1);
constexpr Duration kBackOffLongest = minutes(5);
constexpr Duration kSteadyAfter = minutes(10);  // who ran so long waits as if it had not failed before
constexpr Duration kPeriodLeast = millis(100);

Duration back_off(std::uint32_t quick_ends) {
  return quick_ends >= 10 ? kBackOffLongest
                          : std::min(kBackOffFirst * (std::int64_t{1} << (quick_ends - 1)), kBackOffLongest);
}

std::string end_words(const ExitStatus& exit) {
  if (exit.oom)
    return "OOMKilled";
  return exit.ok() ? "Completed" : "Error";
}

}  // namespace

SandboxLogic::SandboxLogic(Sandbox sandbox, Duration grace, Instant now)
    : sandbox_(std::move(sandbox)), grace_(grace), lives_(sandbox_.containers.size()), statuses_(lives_.size()) {
  CHECK(!sandbox_.containers.empty());
  for (std::size_t i = 0; i < statuses_.size(); ++i) {
    statuses_[i].name = spec(i).name;
    statuses_[i].reason = "SandboxInitializing";
  }
  let_next_start(now);
}

bool SandboxLogic::may_start_again(std::size_t i, const ExitStatus& exit) const {
  const SandboxContainer& one = spec(i);
  if (ending_)
    return false;
  if (one.kind == ContainerKind::kSidecar)
    return true;
  if (one.kind == ContainerKind::kInit && exit.ok())
    return false;
  if (one.restart == RestartRule::kNever || (one.restart == RestartRule::kOnFailure && exit.ok()))
    return false;
  return one.restarts_max == 0 || statuses_[i].restarts < one.restarts_max;
}

bool SandboxLogic::has_started_up(std::size_t i) const {
  if (statuses_[i].state != ContainerState::kRunning)
    return false;
  for (std::size_t p = 0; p < spec(i).probes.size(); ++p)
    if (spec(i).probes[p].what == Probe::What::kStartup && !lives_[i].probes[p].passed)
      return false;
  return true;
}

// Those before the main ones one after the other; what has started once keeps its turn.
void SandboxLogic::let_next_start(Instant now) {
  if (ending_)
    return;
  for (std::size_t i = 0; i < lives_.size(); ++i) {
    if (is_main(i))
      continue;
    if (!lives_[i].is_wanted)
      start(i, now);
    const bool done = spec(i).kind == ContainerKind::kInit ? lives_[i].over && statuses_[i].exit.ok()
                                                           : has_started_up(i) || statuses_[i].restarts > 0;
    if (!done)
      return;
  }
  for (std::size_t i = 0; i < lives_.size(); ++i)
    if (is_main(i) && !lives_[i].is_wanted)
      start(i, now);
}

void SandboxLogic::start(std::size_t i, Instant now) {
  CHECK(!lives_[i].lives && !lives_[i].over && !ending_, spec(i).name);
  lives_[i].is_wanted = lives_[i].lives = true;
  lives_[i].start_at = kNever;
  lives_[i].began = now;
  statuses_[i].reason = "ContainerCreating";
  orders_.push_back({Order::What::kStart, i});
}

void SandboxLogic::began(std::size_t i, Instant now) {
  if (!lives_[i].lives || statuses_[i].state == ContainerState::kRunning)
    return;
  lives_[i].began = now;
  statuses_[i].state = ContainerState::kRunning;
  statuses_[i].reason.clear();
  begin_probes(i, now);
  look_at_readiness(i);
  let_next_start(now);
}

void SandboxLogic::begin_probes(std::size_t i, Instant now) {
  lives_[i].probes.assign(spec(i).probes.size(), {});
  for (std::size_t p = 0; p < spec(i).probes.size(); ++p)
    lives_[i].probes[p].due = now + spec(i).probes[p].initial_delay;
}

// Behind the startup probes only, where there are some.
void SandboxLogic::run_due_probes(std::size_t i, Instant now) {
  if (statuses_[i].state != ContainerState::kRunning || lives_[i].kill_at != kNever)
    return;
  const bool up = has_started_up(i);
  for (std::size_t p = 0; p < lives_[i].probes.size(); ++p) {
    ProbeState& probe = lives_[i].probes[p];
    const bool is_startup = spec(i).probes[p].what == Probe::What::kStartup;
    if (probe.in_flight || probe.due > now || (is_startup ? probe.passed : !up))
      continue;
    probe.in_flight = true;
    probe.due = now + std::max(spec(i).probes[p].period, kPeriodLeast);
    orders_.push_back({Order::What::kProbe, i, p});
  }
}

void SandboxLogic::probed(std::size_t i, std::size_t p, bool passed, Instant now) {
  if (i >= lives_.size() || p >= lives_[i].probes.size() || !lives_[i].probes[p].in_flight)
    return;
  ProbeState& probe = lives_[i].probes[p];
  const Probe& asked = spec(i).probes[p];
  probe.in_flight = false;
  probe.failures = passed ? 0 : probe.failures + 1;
  const bool failed = !passed && probe.failures >= std::max(1u, asked.failures);
  if (passed || (failed && asked.what == Probe::What::kReadiness))
    probe.passed = passed;
  if (failed && asked.what != Probe::What::kReadiness) {
    statuses_[i].reason = asked.what == Probe::What::kStartup ? "StartupProbeFailed" : "LivenessProbeFailed";
    end_container(i, now);
  }
  look_at_readiness(i);
  let_next_start(now);
}

void SandboxLogic::look_at_readiness(std::size_t i) {
  bool ready = has_started_up(i) && lives_[i].kill_at == kNever;
  for (std::size_t p = 0; p < spec(i).probes.size(); ++p)
    ready = ready && (spec(i).probes[p].what != Probe::What::kReadiness || lives_[i].probes[p].passed);
  statuses_[i].ready = ready;
}

void SandboxLogic::end_container(std::size_t i, Instant now) {
  if (!lives_[i].lives || lives_[i].kill_at != kNever)
    return;
  lives_[i].kill_at = now + grace_;
  orders_.push_back({Order::What::kTerm, i});
  look_at_readiness(i);
}

void SandboxLogic::not_started(std::size_t i, std::string why, Instant now) {
  ended(i, {1, 0, false}, now);
  statuses_[i].reason = std::move(why);
}

void SandboxLogic::ended(std::size_t i, ExitStatus exit, Instant now) {
  CHECK(lives_[i].lives, spec(i).name);
  // Its end may be heard before its beginning: then it ran for a moment, or could not be made.
  const bool never_began = statuses_[i].state != ContainerState::kRunning;
  const std::string known_why = never_began ? (exit.ok() ? "" : "CreateContainerError") : statuses_[i].reason;
  Life& life = lives_[i];
  life.lives = false;
  life.kill_at = kNever;
  life.probes.clear();
  life.probes.resize(spec(i).probes.size());
  statuses_[i].ready = false;
  statuses_[i].exit = exit;
  if (may_start_again(i, exit)) {
    life.quick_ends = now - life.began >= kSteadyAfter ? 1 : life.quick_ends + 1;
    life.start_at = now + back_off(life.quick_ends);
    ++statuses_[i].restarts;
    statuses_[i].state = ContainerState::kWaiting;
    statuses_[i].reason = known_why.empty() ? "CrashLoopBackOff" : known_why;
  } else {
    life.over = true;
    statuses_[i].state = ContainerState::kEnded;
    statuses_[i].reason = known_why.empty() ? end_words(exit) : known_why;
    if (spec(i).kind == ContainerKind::kInit && !exit.ok())
      failed_ = true;
  }
  const bool mains_over = std::all_of(lives_.begin(), lives_.end(), [this](const Life& one) {
    return one.over || !is_main(static_cast<std::size_t>(&one - lives_.data()));
  });
  if (failed_ || mains_over)
    begin_end(now);
  let_next_start(now);
}

// What is left is ended; what waits never starts.
void SandboxLogic::begin_end(Instant now) {
  ending_ = true;
  for (std::size_t i = 0; i < lives_.size(); ++i) {
    lives_[i].start_at = kNever;
    lives_[i].over = true;
    if (lives_[i].lives)
      end_container(i, now);
    else if (statuses_[i].state == ContainerState::kWaiting && statuses_[i].restarts > 0) {
      --statuses_[i].restarts;  // the life that was to come will not
      statuses_[i].state = ContainerState::kEnded;
    }
  }
}

void SandboxLogic::told_to_end(Instant now) {
  if (!ending_)
    begin_end(now);
}

void SandboxLogic::tick(Instant now) {
  for (std::size_t i = 0; i < lives_.size(); ++i) {
    if (lives_[i].start_at <= now)
      start(i, now);
    if (lives_[i].kill_at <= now) {
      orders_.push_back({Order::What::kKill, i});
      lives_[i].kill_at = now + seconds(1);  // whatever forks meanwhile
    }
    run_due_probes(i, now);
  }
}

std::vector<SandboxLogic::Order> SandboxLogic::take_orders() { return std::exchange(orders_, {}); }

Instant SandboxLogic::next_timer() const {
  Instant due = kNever;
  for (std::size_t i = 0; i < lives_.size(); ++i) {
    due = std::min({due, lives_[i].start_at, lives_[i].kill_at});
    if (statuses_[i].state != ContainerState::kRunning || lives_[i].kill_at != kNever)
      continue;
    const bool up = has_started_up(i);
    for (std::size_t p = 0; p < lives_[i].probes.size(); ++p) {
      const bool is_startup = spec(i).probes[p].what == Probe::What::kStartup;
      if (!lives_[i].probes[p].in_flight && (is_startup ? !lives_[i].probes[p].passed : up))
        due = std::min(due, lives_[i].probes[p].due);
    }
  }
  return due;
}

bool SandboxLogic::over() const {
  return ending_ && std::none_of(lives_.begin(), lives_.end(), [](const Life& one) { return one.lives; });
}

ExitStatus SandboxLogic::result() const {
  for (std::size_t i = 0; i < lives_.size(); ++i)
    if (spec(i).kind != ContainerKind::kSidecar && !statuses_[i].exit.ok() &&
        statuses_[i].state == ContainerState::kEnded)
      return statuses_[i].exit;
  const bool any_main_ended = std::any_of(statuses_.begin(), statuses_.end(), [this](const ContainerStatus& one) {
    return one.state == ContainerState::kEnded && is_main(static_cast<std::size_t>(&one - statuses_.data()));
  });
  return any_main_ended ? ExitStatus{} : ExitStatus{1, 0, false};
}

}  // namespace lockstep
