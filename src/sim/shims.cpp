#include "sim/shims.h"

#include <algorithm>

#include "base/ip_range.h"
#include "base/text.h"
#include "model/hook_part.h"

namespace lockstep::sim {

namespace {

std::int64_t argument(const std::vector<std::string>& argv, std::string_view name, std::int64_t otherwise) {
  for (const std::string& word : argv)
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
      return parse_int(std::string_view(word).substr(name.size() + 1)).value_or(otherwise);
  return otherwise;
}

constexpr std::int32_t kTerm = 15, kKill = 9, kCont = 18;
constexpr Duration kPauseLook = seconds(1);
constexpr Duration kFenceSlack = seconds(1);     // the agent, if there is one, goes first
constexpr Duration kFenceKillWait = seconds(2);  // as the real shim

}  // namespace

SimShims::Shim* SimShims::find(const WorkId& key, std::uint64_t number) {
  const auto it = shims_.find(key);
  return it == shims_.end() || it->second.number != number ? nullptr : &it->second;
}

void SimShims::tell(const WorkId& key) {
  const auto it = shims_.find(key);
  if (!callback_ || it == shims_.end())
    return;
  const Shim& shim = it->second;
  ShimEvent event{.key = key};
  if (!shim.failed.empty()) {
    event.what = ShimEvent::What::kFailed;
    event.why = shim.failed;
  } else if (shim.state == Shim::State::kEnded) {
    event.what = ShimEvent::What::kEnded;
    for (const Rank& rank : shim.ranks) event.results.push_back({rank.rank, rank.exit});
  } else if (shim.state == Shim::State::kForking) {
    return;
  }
  callback_(std::move(event));
  if (const auto again = shims_.find(key); again != shims_.end() && again->second.state == Shim::State::kRunning)
    tell_containers(key, again->second);
}

void SimShims::tell_containers(const WorkId& key, const Shim& shim) {
  if (!callback_ || shim.containers.empty())
    return;
  ShimEvent event{.what = ShimEvent::What::kContainers, .key = key};
  event.address = shim.address;
  event.containers = shim.containers;
  callback_(std::move(event));
}

// The lowest address that is free, as the node's plug-in does: one that is let go is soon another's.
void SimShims::begin_sandbox(const WorkId& key, Shim& shim) {
  if (shim.containers.empty())
    return;
  if (const auto range = parse_ip_range(shim.address)) {
    std::uint32_t at = range->first + 2;
    while (!addresses_.insert(ip_text(at)).second) ++at;
    shim.address = ip_text(at);
  }
  timeline_.after(micros(rng_.between(1000, 500'000)),
                  [this, key, number = shim.number] { change_container(key, number); });
}

// Init containers run, fail and are done, the others start, are ready or not, and start again.
void SimShims::change_container(const WorkId& key, std::uint64_t number) {
  Shim* shim = find(key, number);
  if (!shim || shim->state != Shim::State::kRunning)
    return;
  ContainerStatus& one = shim->containers[rng_.below(shim->containers.size())];
  if (!shim->paused) {
    if (shim->steady) {
      change_steady(one);
    } else if (one.state == ContainerState::kRunning && rng_.chance(0.5)) {
      one.ready = !one.ready;
    } else {
      one.restarts += one.state == ContainerState::kEnded || one.state == ContainerState::kRunning;
      one.state = static_cast<ContainerState>(rng_.below(3));
      one.ready = false;
      one.exit.code = one.state == ContainerState::kEnded ? static_cast<std::int32_t>(rng_.below(3)) : 0;
    }
    tell_containers(key, *shim);
  }
  timeline_.after(millis(rng_.between(300, 30'000)), [this, key, number] { change_container(key, number); });
}

void SimShims::change_steady(ContainerStatus& one) {
  if (one.state != ContainerState::kRunning) {
    one.state = ContainerState::kRunning;
    one.ready = false;
  } else if (!one.ready) {
    one.ready = true;
  } else if (containers_fail && rng_.chance(0.1)) {
    one.ready = false;
    one.restarts += rng_.chance(0.3);
  }
}

void SimShims::end_containers(const WorkId& key, Shim& shim) {
  for (ContainerStatus& one : shim.containers) {
    one.state = ContainerState::kEnded;
    one.ready = false;
    one.exit = shim.ranks.front().exit;
  }
  tell_containers(key, shim);
}

void SimShims::start(ShimStart start) {
  if (shims_.contains(start.key))
    return;
  Shim& shim = shims_[start.key];
  shim.number = next_++;
  shim.devices = start.launch.devices;
  shim.cores = start.launch.cores;
  shim.fence_after = start.fence_after;
  shim.kill_wait = start.launch.kill_wait;
  const std::vector<std::string>& argv = start.launch.process.argv;
  const std::int64_t bad = argument(argv, "bad", -1), code = argument(argv, "exit", 0);
  for (const SandboxContainer& one : start.sandbox.containers) shim.containers.emplace_back().name = one.name;
  if (start.sandbox.network == TaskNetwork::kOwn)
    shim.address = start.place.range;  // until it begins
  shim.stubborn = std::find(argv.begin(), argv.end(), "stubborn") != argv.end();
  shim.steady = std::find(argv.begin(), argv.end(), "steady") != argv.end();
  std::vector<std::uint32_t> ranks = start.launch.ranks;
  if (ranks.empty())
    ranks.push_back(0);
  for (const std::uint32_t rank : ranks)
    shim.ranks.push_back({rank, false, bad < 0 || bad == rank ? static_cast<std::int32_t>(code) : 0, {}});
  Duration run = millis(argument(argv, "run", 1000));
  if (is_hook(start.key)) {
    run = rng_.chance(0.03) ? hours(1) : millis(rng_.between(5, 3000));
    plan_hook(start.key, shim);
  }
  timeline_.at(unstuck(micros(rng_.between(200, 20'000))),
               [this, key = start.key, number = shim.number, run] { begin(key, number, run); });
}

// It fails now and then.
void SimShims::plan_hook(const WorkId& key, Shim& shim) {
  if (!hooks_begun_.insert(key).second)
    checker_.complain(format("node {}: {} runs a second time", node_, text_of(key)));
  if (rng_.chance(0.03))
    shim.ranks.front().code = 1;
  shim.stubborn = rng_.chance(0.2);
}

void SimShims::check_hooks(const WorkId& key) {
  const bool epilog = is_hook(key) && step_of(key)->step == kEpilogStep;
  const bool with_hooks = hooks_begun_.contains({key.job, key.attempt, StepPart{kPrologStep}});
  if (!is_hook(key) && with_hooks && !hooks_passed_.contains({key.job, key.attempt}))
    checker_.complain(format("node {}: {} starts, and its prolog has not passed", node_, text_of(key)));
  if (!is_hook(key) && hooks_begun_.contains({key.job, key.attempt, StepPart{kEpilogStep}}))
    checker_.complain(format("node {}: {} starts behind its epilog", node_, text_of(key)));
  for (const auto& [other, shim] : shims_)
    if (epilog && other != key && other.job == key.job && other.attempt == key.attempt &&
        shim.state == Shim::State::kRunning)
      checker_.complain(format("node {}: {} starts while {} runs", node_, text_of(key), text_of(other)));
}

void SimShims::begin(const WorkId& key, std::uint64_t number, Duration run) {
  Shim* shim = find(key, number);
  if (!shim || shim->state != Shim::State::kForking)
    return;
  if (shim->stop_asked != 0 || rng_.chance(launch_fails)) {
    shim->state = Shim::State::kEnded;
    if (shim->stop_asked == 0)
      shim->failed = "fork: resource temporarily unavailable";
    for (Rank& rank : shim->ranks) rank.exit.signal = shim->stop_asked;
    tell(key);
    return;
  }
  shim->state = Shim::State::kRunning;
  check_hooks(key);
  begin_sandbox(key, *shim);
  for (std::size_t i = 0; i < shim->ranks.size(); ++i) {
    shim->ranks[i].live = true;
    if (!is_hook(key))
      checker_.started(node_, key, shim->ranks[i].rank, {shim->devices, shim->cores}, timeline_.now());
    timeline_.after(run + micros(rng_.between(0, 1000)), [this, key, number, i] { run_out(key, number, i); });
  }
  if (shim->fence_after < kForever)
    check_fence(key, number);
  for (const auto& [paused, order] : std::exchange(shim->orders, {})) pause(key, paused, order);
  tell(key);
}

// What is paused has its end later.
void SimShims::run_out(const WorkId& key, std::uint64_t number, std::size_t rank) {
  const Shim* shim = find(key, number);
  if (!shim || !shim->ranks[rank].live)
    return;
  if (shim->paused)
    timeline_.after(kPauseLook, [this, key, number, rank] { run_out(key, number, rank); });
  else
    end_rank(key, number, rank, ExitStatus{shim->ranks[rank].code}, true);
}

void SimShims::check_fence(const WorkId& key, std::uint64_t number) {
  const Shim* shim = find(key, number);
  if (!shim || shim->state != Shim::State::kRunning)
    return;
  const Instant fence = lease_ + shim->fence_after + kFenceSlack;
  if (clock_.boot() >= fence) {
    stuck_until_ = {};
    stop(key, shim->asked_paused ? Duration{} : std::min(shim->kill_wait, kFenceKillWait), StopWhy::kNodeFail);
    return;
  }
  timeline_.at(clock_.true_time(fence) + micros(1), [this, key, number] { check_fence(key, number); });
}

void SimShims::end_rank(const WorkId& key, std::uint64_t number, std::size_t rank, ExitStatus exit, bool itself) {
  Shim* shim = find(key, number);
  if (!shim || !shim->ranks[rank].live)
    return;
  shim->ranks[rank].live = false;
  shim->ranks[rank].exit = exit;
  if (!is_hook(key))
    checker_.ended(node_, key, shim->ranks[rank].rank, exit,
                   itself ? ProcessChecker::How::kItself : ProcessChecker::How::kSignal, timeline_.now());
  else if (step_of(key)->step == kPrologStep && exit.ok())
    hooks_passed_.insert({key.job, key.attempt});
  if (std::none_of(shim->ranks.begin(), shim->ranks.end(), [](const Rank& r) { return r.live; })) {
    shim->state = Shim::State::kEnded;
    if (shim->steady)
      end_containers(key, *shim);
    timeline_.after(micros(rng_.between(50, 5000)), [this, key, number] {
      if (find(key, number))
        tell(key);
    });
  }
}

void SimShims::kill_all(const WorkId& key, std::uint64_t number, std::int32_t signal) {
  Shim* shim = find(key, number);
  if (!shim)
    return;
  if (shim->state == Shim::State::kForking) {
    shim->stop_asked = signal;
    return;
  }
  if (signal == kCont) {
    set_paused(key, *shim, false);
    return;
  }
  if (signal != kKill && (signal != kTerm || shim->stubborn))
    return;
  for (std::size_t i = 0; i < shim->ranks.size(); ++i)
    if (shim->ranks[i].live)
      timeline_.at(unstuck(micros(rng_.between(10, 2000))), [this, key, number, i, signal] {
        end_rank(key, number, i, ExitStatus{0, signal}, false);
      });
}

void SimShims::signal(const WorkId& key, std::int32_t signal, Reach /*reach*/) {
  const auto it = shims_.find(key);
  if (it == shims_.end() || it->second.state == Shim::State::kForking || (signal == kCont && it->second.asked_paused))
    return;
  kill_all(key, it->second.number, signal);
}

void SimShims::set_paused(const WorkId& key, Shim& shim, bool paused) {
  shim.paused = paused;
  for (const Rank& rank : shim.ranks)
    if (rank.live && !is_hook(key))
      checker_.paused(node_, key, rank.rank, paused);
}

// It takes a while until all have stopped, and another until the agent hears of it.
void SimShims::pause(const WorkId& key, bool paused, std::uint32_t number) {
  const auto it = shims_.find(key);
  if (it == shims_.end())
    return;
  it->second.asked_paused = paused;
  if (it->second.state == Shim::State::kForking) {  // heard only once the tasks are there
    it->second.orders.emplace_back(paused, number);
    return;
  }
  const Duration slow = rng_.chance(0.1) ? seconds(1) : millis(20);
  const Instant when = std::max(unstuck(micros(rng_.between(50, slow.us))), it->second.pause_free);
  it->second.pause_free = when;
  timeline_.at(when, [this, key, paused, number, shim_number = it->second.number] {
    Shim* shim = find(key, shim_number);
    if (!shim || shim->state == Shim::State::kEnded)
      return;
    set_paused(key, *shim, paused);
    timeline_.after(micros(rng_.between(50, 5000)), [this, key, paused, number, shim_number] {
      if (callback_ && find(key, shim_number))
        callback_({.what = paused ? ShimEvent::What::kPaused : ShimEvent::What::kResumed,
                   .key = key,
                   .why = {},
                   .results = {},
                   .number = number});
    });
  });
}

void SimShims::stop(const WorkId& key, Duration kill_wait, StopWhy /*why*/) {
  const auto it = shims_.find(key);
  if (it == shims_.end())
    return;
  const std::uint64_t number = it->second.number;
  if (kill_wait.us > 0) {
    it->second.asked_paused = false;
    kill_all(key, number, kCont);
  }
  kill_all(key, number, kTerm);
  timeline_.after(kill_wait, [this, key, number] { kill_all(key, number, kKill); });
}

void SimShims::forget(const WorkId& key) {
  const auto it = shims_.find(key);
  if (it == shims_.end())
    return;
  if (it->second.state == Shim::State::kRunning && !is_hook(key))
    checker_.forgotten_alive(node_, key);
  addresses_.erase(it->second.address);  // not before the controller knows of the end
  shims_.erase(it);
}

Result<std::vector<WorkId>> SimShims::recover() {
  std::vector<WorkId> keys;
  for (const auto& [key, shim] : shims_) {
    keys.push_back(key);
    timeline_.after(micros(rng_.between(10, 3000)), [this, key = key, number = shim.number] {
      if (find(key, number))
        tell(key);
    });
  }
  return keys;
}

void SimShims::machine_died() {
  callback_ = nullptr;
  for (const auto& [key, shim] : shims_)
    for (const Rank& rank : shim.ranks)
      if (rank.live && !is_hook(key))
        checker_.ended(node_, key, rank.rank, {}, ProcessChecker::How::kMachine, timeline_.now());
  shims_.clear();
  addresses_.clear();
  hooks_begun_.clear();
  hooks_passed_.clear();
  lease_ = stuck_until_ = {};
}

std::size_t SimShims::live() const {
  return static_cast<std::size_t>(std::count_if(shims_.begin(), shims_.end(), [](const auto& s) {
    return s.second.state == Shim::State::kRunning || s.second.state == Shim::State::kForking;
  }));
}

}  // namespace lockstep::sim
