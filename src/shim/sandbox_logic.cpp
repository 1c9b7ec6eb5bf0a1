#include "shim/sandbox_logic.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace lockstep {
namespace {

constexpr Duration kBackOffFirst = seconds(1);
constexpr Duration kBackOffLongest = minutes(5);
// Of work that asks in Kubernetes' words, from the second time on: the first life that comes after one starts at once.
constexpr Duration kBackOffOfFrontEnds = seconds(10);
constexpr Duration kSteadyAfter = minutes(10);  // who ran so long waits as if it had not failed before
constexpr Duration kPeriodLeast = millis(100);
constexpr Duration kFetchAgainFirst = seconds(2), kFetchAgainLongest = minutes(5);
// A probe that goes on failing is told of the first times, each time that has doubled, and this often.
constexpr std::uint32_t kFailuresTold = 4;
constexpr Duration kFailureAgain = minutes(5);
constexpr Duration kSidecarLeast = seconds(2);  // that a sidecar has to end when the others took all the time

Duration back_off(std::uint32_t times, Duration first = kBackOffFirst, Duration longest = kBackOffLongest) {
  return times >= 10 ? longest : std::min(first * (std::int64_t{1} << (times - 1)), longest);
}

// As "1m20s".
std::string span_words(Duration span) {
  const std::int64_t s = span.seconds();
  return s < 60 ? format("{}s", s) : format("{}m{}s", s / 60, s % 60);
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
    statuses_[i].reason = sandbox_.front_end_files ? "PodInitializing" : "SandboxInitializing";
  }
  if (sandbox_.front_end_files)
    holds_.push_back({"", "ContainerCreating", ""});  // until it has been asked
  let_next_start(now);
}

bool SandboxLogic::may_start_again(std::size_t i, const ExitStatus& exit) const {
  const SandboxContainer& one = spec(i);
  if (ending_)
    return false;
  if (one.kind == ContainerKind::kSidecar || lives_[i].renews)
    return true;
  if (one.kind == ContainerKind::kAdded)
    return false;
  if (one.kind == ContainerKind::kInit && exit.ok())
    return false;
  if (one.restart == RestartRule::kNever || (one.restart == RestartRule::kOnFailure && exit.ok()))
    return false;
  return one.restarts_max == 0 || statuses_[i].restarts < one.restarts_max;
}

bool SandboxLogic::has_started_up(std::size_t i) const {
  if (statuses_[i].state != ContainerState::kRunning || lives_[i].hook == Life::Hook::kBegun)
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
    if (is_main(i) || is_added(i))
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

void SandboxLogic::add(SandboxContainer one, Instant now) {
  CHECK(one.kind == ContainerKind::kAdded, one.name);
  sandbox_.containers.push_back(std::move(one));
  const std::size_t i = lives_.size();
  lives_.emplace_back();
  statuses_.emplace_back();
  statuses_[i].name = spec(i).name;
  statuses_[i].reason = "ContainerCreating";
  lives_[i].over = ending_;
  if (!ending_)
    start(i, now);
}

void SandboxLogic::renew(std::size_t i, Instant now) {
  Life& life = lives_[i];
  if (ending_ || life.over || !life.is_wanted)
    return;
  life.fetches = life.quick_ends = 0;
  if (life.lives) {
    life.renews = true;
    end_container(i, now);
  } else {
    life.start_at = now;
  }
}

void SandboxLogic::evict(std::string why, Instant now) {
  if (!why_evicted_.empty())
    return;
  why_evicted_ = std::move(why);
  grace_ = {};
  end_by_ = std::min(end_by_, now);
  if (!ending_)
    begin_end(now);
}

const SandboxLogic::Hold* SandboxLogic::hold_on(std::size_t i) const {
  for (const Hold& hold : holds_)
    if (hold.container.empty() || hold.container == spec(i).name)
      return &hold;
  return nullptr;
}

void SandboxLogic::hold(std::vector<Hold> holds, Instant now) {
  holds_ = std::move(holds);
  start_held(now);
  let_next_start(now);
}

// Those whose turn came while they were held, and that are not any more.
void SandboxLogic::start_held(Instant now) {
  for (std::size_t i = 0; i < lives_.size(); ++i) {
    Life& life = lives_[i];
    if (!life.is_wanted || life.lives || life.over || ending_ || life.start_at > now)
      continue;
    start(i, now);
  }
}

void SandboxLogic::start(std::size_t i, Instant now) {
  CHECK(!lives_[i].lives && !lives_[i].over && !ending_, spec(i).name);
  lives_[i].is_wanted = true;
  if (const Hold* held = hold_on(i)) {
    lives_[i].start_at = Instant{};  // as soon as it may
    statuses_[i].reason = held->reason;
    statuses_[i].message = held->message;
    return;
  }
  lives_[i].lives = true;
  lives_[i].start_at = kNever;
  lives_[i].hook = Life::Hook::kNone;
  lives_[i].term_sent = lives_[i].hook_done = false;
  lives_[i].notes = {};
  lives_[i].began = now;
  if (lives_[i].fetches == 0) {  // else it says why it waits until that is otherwise
    statuses_[i].message.clear();
    statuses_[i].reason = "ContainerCreating";
  }
  orders_.push_back({Order::What::kStart, i});
}

void SandboxLogic::fetches_image(std::size_t i) {
  if (lives_[i].fetches == 0)  // else it has said before that it tries to
    statuses_[i].reason = kFetchingImage;
}

void SandboxLogic::uses_image(std::size_t i, std::string digest, Duration fetch_time, std::string replaced) {
  statuses_[i].image_digest = std::move(digest);
  statuses_[i].message.clear();
  statuses_[i].reason = "ContainerCreating";
  lives_[i].notes.fetch_time = fetch_time;
  lives_[i].notes.replaced = std::move(replaced);
}

void SandboxLogic::began(std::size_t i, Instant now) {
  if (!lives_[i].lives || statuses_[i].state == ContainerState::kRunning)
    return;
  lives_[i].began = now;
  lives_[i].fetches = 0;
  statuses_[i].state = ContainerState::kRunning;
  statuses_[i].reason.clear();
  statuses_[i].message.clear();
  if (spec(i).begun.how == ContainerHook::How::kNone || lives_[i].kill_at != kNever)
    return come_to_run(i, now);
  lives_[i].hook = Life::Hook::kBegun;
  orders_.push_back({Order::What::kBegunHook, i});
}

void SandboxLogic::come_to_run(std::size_t i, Instant now) {
  begin_probes(i, now);
  look_at_readiness(i);
  let_next_start(now);
}

void SandboxLogic::hooked(std::size_t i, bool good, Instant now) {
  Life& life = lives_[i];
  const Life::Hook which = std::exchange(life.hook, Life::Hook::kNone);
  if (!life.lives || which == Life::Hook::kNone)
    return;
  if (which == Life::Hook::kEnding && life.kill_at == kNever) {
    life.hook_done = true;
    return;
  }
  if (which == Life::Hook::kEnding) {
    if (!std::exchange(life.term_sent, true))
      orders_.push_back({Order::What::kTerm, i});
    return;
  }
  if (good)
    return come_to_run(i, now);
  statuses_[i].reason = "PostStartHookError";
  end_container(i, now);
}

void SandboxLogic::begin_probes(std::size_t i, Instant now) {
  lives_[i].probes.assign(spec(i).probes.size(), {});
  for (std::size_t p = 0; p < spec(i).probes.size(); ++p)
    lives_[i].probes[p].due = now + spec(i).probes[p].initial_delay;
}

// Behind the startup probes only, where there are some. What is told to stop is asked on whether it is ready: it serves
// as long as it can.
bool SandboxLogic::is_asked(std::size_t i, std::size_t p) const {
  const Life& life = lives_[i];
  const Probe::What what = spec(i).probes[p].what;
  if (statuses_[i].state != ContainerState::kRunning || life.probes[p].in_flight)
    return false;
  if (life.kill_at != kNever)
    return what == Probe::What::kReadiness && has_started_up(i);
  return life.hook == Life::Hook::kNone && (what == Probe::What::kStartup ? !life.probes[p].passed : has_started_up(i));
}

void SandboxLogic::run_due_probes(std::size_t i, Instant now) {
  for (std::size_t p = 0; p < lives_[i].probes.size(); ++p) {
    ProbeState& probe = lives_[i].probes[p];
    if (probe.due > now || !is_asked(i, p))
      continue;
    probe.in_flight = true;
    probe.due = now + std::max(spec(i).probes[p].period, kPeriodLeast);
    orders_.push_back({Order::What::kProbe, i, p});
  }
}

void SandboxLogic::note_failure(std::size_t i, Probe::What what, bool is_last, std::string output, Instant now) {
  Life::Failures& failures = lives_[i].failures[static_cast<std::size_t>(what)];
  const std::uint32_t times = ++failures.times;
  failures.ends += is_last;
  if (times > kFailuresTold && (times & (times - 1)) != 0 && now - failures.told < kFailureAgain && !is_last)
    return;
  failures.told = now;
  forget_failure(i, what);
  lives_[i].notes.failed_probes.push_back({what, times, failures.ends, std::move(output)});
}

void SandboxLogic::forget_failure(std::size_t i, Probe::What what) {
  std::erase_if(lives_[i].notes.failed_probes, [what](const FailedProbe& one) { return one.what == what; });
}

void SandboxLogic::probed(std::size_t i, std::size_t p, bool passed, Instant now, std::string output) {
  if (i >= lives_.size() || p >= lives_[i].probes.size() || !lives_[i].probes[p].in_flight)
    return;
  ProbeState& probe = lives_[i].probes[p];
  const Probe& asked = spec(i).probes[p];
  probe.in_flight = false;
  probe.failures = passed ? 0 : probe.failures + 1;
  probe.successes = passed ? probe.successes + 1 : 0;
  const bool failed = !passed && probe.failures >= std::max(1u, asked.failures);
  const bool well = passed && probe.successes >= std::max(1u, asked.successes);
  if (!passed)
    note_failure(i, asked.what, failed && asked.what != Probe::What::kReadiness, std::move(output), now);
  else
    forget_failure(i, asked.what);
  if (well || (failed && asked.what == Probe::What::kReadiness))
    probe.passed = well;
  if (failed && asked.what != Probe::What::kReadiness && lives_[i].kill_at == kNever) {
    statuses_[i].reason = asked.what == Probe::What::kStartup ? "StartupProbeFailed" : "LivenessProbeFailed";
    end_container(i, now, std::min(grace_, asked.kill_wait));
  }
  look_at_readiness(i);
  let_next_start(now);
}

void SandboxLogic::look_at_readiness(std::size_t i) {
  bool ready = has_started_up(i);  // also while it is told to stop: what it serves still, it serves
  for (std::size_t p = 0; p < spec(i).probes.size(); ++p)
    ready = ready && (spec(i).probes[p].what != Probe::What::kReadiness || lives_[i].probes[p].passed);
  statuses_[i].ready = ready;
  statuses_[i].begun = has_started_up(i);
}

bool SandboxLogic::has_last_hook(std::size_t i, Duration wait) const {
  return spec(i).ending.how != ContainerHook::How::kNone && wait > Duration{} && !lives_[i].hook_done &&
         statuses_[i].state == ContainerState::kRunning;
}

void SandboxLogic::end_container(std::size_t i, Instant now, Duration wait) {
  Life& life = lives_[i];
  if (!life.lives || life.kill_at != kNever)
    return;
  life.kill_at = now + wait;
  look_at_readiness(i);
  if (life.hook == Life::Hook::kEnding)
    return;  // which runs already: it is told to end behind that
  const bool has_hook = has_last_hook(i, wait);
  life.hook = has_hook ? Life::Hook::kEnding : Life::Hook::kNone;
  life.term_sent = !has_hook;
  orders_.push_back({has_hook ? Order::What::kEndingHook : Order::What::kTerm, i});
}

void SandboxLogic::cannot_yet(std::size_t i, std::string reason, std::string message, Instant now) {
  Life& life = lives_[i];
  CHECK(life.lives, spec(i).name);
  life.lives = false;
  life.kill_at = kNever;
  statuses_[i].state = ContainerState::kWaiting;
  statuses_[i].ready = false;
  if (ending_) {
    life.over = true;
    end_next_sidecars(now);
    return;
  }
  ++life.fetches;
  // From the second time on it says that it takes its time.
  statuses_[i].reason = reason == "ErrImagePull" && life.fetches > 1 ? "ImagePullBackOff" : std::move(reason);
  statuses_[i].message = std::move(message);
  life.start_at =
      std::exchange(life.renews, false) ? now : now + back_off(life.fetches, kFetchAgainFirst, kFetchAgainLongest);
}

// Source: kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle ("restart policy": 10s, 20s, 40s … 300s).
Duration SandboxLogic::wait_before(std::uint32_t quick_ends) const {
  if (!sandbox_.front_end_files)
    return back_off(quick_ends);
  return quick_ends < 2 ? Duration{} : back_off(quick_ends - 1, kBackOffOfFrontEnds);
}

void SandboxLogic::not_started(std::size_t i, std::string why, Instant now) {
  ended(i, {1, 0, false}, now);
  statuses_[i].reason = std::move(why);
}

void SandboxLogic::ended(std::size_t i, ExitStatus exit, Instant now, std::string message, std::string reason) {
  CHECK(lives_[i].lives, spec(i).name);
  // Its end may be heard before its beginning: then it ran for a moment, or could not be made.
  const bool never_began = statuses_[i].state != ContainerState::kRunning;
  std::string known_why = never_began ? (exit.ok() ? "" : "CreateContainerError") : statuses_[i].reason;
  // Who asked in the words of Kubernetes is told in them: a probe that failed is told of otherwise.
  if (sandbox_.front_end_files)
    known_why.clear();
  const std::string end_why = !reason.empty() ? reason : !known_why.empty() ? known_why : end_words(exit);
  Life& life = lives_[i];
  life.lives = false;
  life.kill_at = kNever;
  life.probes.clear();
  life.probes.resize(spec(i).probes.size());
  life.hook = Life::Hook::kNone;
  statuses_[i].ready = statuses_[i].begun = false;
  statuses_[i].exit = exit;
  if (may_start_again(i, exit)) {
    const bool renews = std::exchange(life.renews, false);
    life.quick_ends = renews ? 0 : now - life.began >= kSteadyAfter ? 1 : life.quick_ends + 1;
    const Duration wait = renews ? Duration{} : wait_before(life.quick_ends);
    life.start_at = now + wait;
    ++statuses_[i].restarts;
    statuses_[i].state = ContainerState::kWaiting;
    statuses_[i].reason = !known_why.empty() ? known_why : wait > Duration{} ? "CrashLoopBackOff" : "ContainerCreating";
    statuses_[i].message =
        wait > Duration{} ? format("back-off {} restarting failed container={}", span_words(wait), spec(i).name) : "";
    statuses_[i].last_reason = end_why;
    statuses_[i].last_message = std::move(message);
  } else {
    life.over = true;
    statuses_[i].state = ContainerState::kEnded;
    statuses_[i].reason = end_why;
    statuses_[i].message = std::move(message);
    if (spec(i).kind == ContainerKind::kInit && !exit.ok())
      failed_ = true;
  }
  const bool mains_over = std::all_of(lives_.begin(), lives_.end(), [this](const Life& one) {
    return one.over || !is_main(static_cast<std::size_t>(&one - lives_.data()));
  });
  if (failed_ || mains_over)
    begin_end(now);
  end_next_sidecars(now);
  let_next_start(now);
}

// What is left is ended; what waits never starts.
void SandboxLogic::begin_end(Instant now) {
  ending_ = true;
  for (std::size_t i = 0; i < lives_.size(); ++i) {
    lives_[i].start_at = kNever;
    lives_[i].over = true;
    if (lives_[i].lives && spec(i).kind != ContainerKind::kSidecar)
      end_container(i, now);
    else if (lives_[i].lives)
      begin_last_hook(i, now);
    else if (statuses_[i].state == ContainerState::kWaiting && statuses_[i].restarts > 0) {
      --statuses_[i].restarts;  // the life that was to come will not
      statuses_[i].state = ContainerState::kEnded;
      if (!statuses_[i].last_reason.empty()) {
        statuses_[i].reason = std::exchange(statuses_[i].last_reason, {});
        statuses_[i].message = std::exchange(statuses_[i].last_message, {});
      }
    }
  }
  end_next_sidecars(now);
}

// Source: kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle ("Pod Termination"): what waits for its turn is to
// be told to end.
void SandboxLogic::begin_last_hook(std::size_t i, Instant now) {
  Life& life = lives_[i];
  const Duration wait = end_by_ == kNever ? grace_ : std::min(grace_, end_by_ - now);
  if (life.kill_at != kNever || life.hook != Life::Hook::kNone || !has_last_hook(i, wait))
    return;
  life.hook = Life::Hook::kEnding;
  orders_.push_back({Order::What::kEndingHook, i});
}

// Once no other container runs: the one that started last first, each when the one behind it has ended.
void SandboxLogic::end_next_sidecars(Instant now) {
  if (!ending_)
    return;
  for (std::size_t i = 0; i < lives_.size(); ++i)
    if (lives_[i].lives && spec(i).kind != ContainerKind::kSidecar)
      return;
  for (std::size_t i = lives_.size(); i-- > 0;)
    if (lives_[i].lives) {
      end_container(i, now, end_by_ == kNever ? grace_ : std::max(std::min(kSidecarLeast, grace_), end_by_ - now));
      return;
    }
}

void SandboxLogic::told_to_end(Instant now) {
  if (end_by_ == kNever)
    end_by_ = now + grace_;
  if (!ending_)
    begin_end(now);
}

void SandboxLogic::tick(Instant now) {
  for (std::size_t i = 0; i < lives_.size(); ++i) {
    if (lives_[i].start_at <= now && !lives_[i].lives)
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
    due = std::min({due, hold_on(i) ? kNever : lives_[i].start_at, lives_[i].kill_at});
    for (std::size_t p = 0; p < lives_[i].probes.size(); ++p)
      if (is_asked(i, p))
        due = std::min(due, lives_[i].probes[p].due);
  }
  return due;
}

bool SandboxLogic::over() const {
  return ending_ && std::none_of(lives_.begin(), lives_.end(), [](const Life& one) { return one.lives; });
}

ExitStatus SandboxLogic::result() const {
  if (!why_evicted_.empty())
    return {0, 9, false};
  for (std::size_t i = 0; i < lives_.size(); ++i)
    if (spec(i).kind != ContainerKind::kSidecar && !is_added(i) && !statuses_[i].exit.ok() &&
        statuses_[i].state == ContainerState::kEnded)
      return statuses_[i].exit;
  const bool any_main_ended = std::any_of(statuses_.begin(), statuses_.end(), [this](const ContainerStatus& one) {
    return one.state == ContainerState::kEnded && is_main(static_cast<std::size_t>(&one - statuses_.data()));
  });
  return any_main_ended ? ExitStatus{} : ExitStatus{1, 0, false};
}

}  // namespace lockstep
