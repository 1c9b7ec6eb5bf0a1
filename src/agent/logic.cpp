#include "agent/logic.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "agent/journal.h"
#include "agent/recovery.h"
#include "base/check.h"
#include "base/mutant.h"
#include "base/text.h"
#include "model/device_loss.h"
#include "model/staging.h"
#include "wire/sandbox_paths.h"

namespace lockstep {
namespace {

constexpr std::size_t kGoneMax = 65'536;       // attempts that must not start any more: the latest so many
constexpr std::size_t kRenewalsInFlight = 64;  // whose acknowledgement is still believed
constexpr std::int32_t kSigCont = 18;
constexpr Duration kHookKillWait = seconds(2);
constexpr Duration kFenceKillWait = seconds(2);  // the controller adds its drift to fence_after, not a whole kill_wait

std::vector<TaskResult> killed(const std::vector<std::uint32_t>& ranks) {
  std::vector<TaskResult> results;
  for (auto rank : ranks) results.push_back({rank, {0, 9, false}});
  return results;
}

std::string text_of(const CoreSet& cores) {
  IntervalSet set;
  cores.for_each([&set](std::uint32_t core) { set.insert(core); });
  return set.text();
}

bool reaches(SignalReach reach, const WorkId& work) {
  return reach == SignalReach::kEverything || (reach == SignalReach::kScript) == is_script(work);
}

}  // namespace

struct AgentLogic::Inner {
  struct Pending {
    Report report;
    Instant sent;  // 0 = not on this connection
  };

  // What came while a prolog runs. Of what an agent has taken with it the controller is asked again: see holdings().
  struct Waiting {
    std::optional<LaunchAttempt> attempt;
    std::vector<LaunchStep> steps;
    std::vector<LaunchTask> tasks;
  };

  AgentSettings settings;
  Node facts;
  Instant now;
  HeldAttempts held;
  std::map<AttemptId, Waiting> waiting;  // of held attempts
  std::set<AttemptId> gone;
  std::deque<AttemptId> gone_order;
  std::map<std::uint64_t, Pending> reports;
  std::uint64_t last_number = 0;
  Instant renewed;  // sending of the last acknowledged renewal
  std::set<WorkId> strays;
  std::string no_starts;  // why nothing starts here at present
  JobId highest_job;      // of all that came here, in older boots too
  Instant event_at;       // when it happened what is being reported; 0 = now

  bool connected = false, welcome = false;
  bool hello_waits = false;   // for its answer
  bool facts_untold = false;  // they have changed since the hello that is not answered yet
  Instant hello_sent, next_renewal;
  std::deque<std::int64_t> renewals;  // sent on this connection

  std::vector<std::string> journal;
  std::vector<ShimOrder> orders;
  std::vector<FromAgent> messages;
  std::vector<StepRefusal> refusals;

  // Of what we say and keep. Nothing here follows from the words of a journal, which may be damaged.
  void check_invariants() const {
    CHECK(connected || (!welcome && renewals.empty()), "a renewal or a welcome without a connection");
    CHECK(renewals.size() <= kRenewalsInFlight);
    CHECK(gone.size() == gone_order.size() && gone.size() <= kGoneMax,
          format("{} attempts that are gone, {} in their order", gone.size(), gone_order.size()));
    CHECK(reports.empty() || reports.rbegin()->first <= last_number,
          format("report {} is above the last number {}", reports.rbegin()->first, last_number));
    CHECK(!event_at, "a time of what is reported outlived the report");
  }
  static void check_attempt(const AttemptId& id, const HeldAttempt& attempt) {
    CHECK(attempt.stopping || (!attempt.fenced && !attempt.stopped),
          format("attempt {}-{} is fenced or stopped, and not stopping", id.first.value, id.second));
  }

  // --- knowledge: everything that survives a restart changes here only ---

  void know(const SeenAttempt& f) {
    highest_job = std::max(highest_job, f.job);
    HeldAttempt& attempt = held[{f.job, f.attempt}];
    attempt.uid = f.uid;
    attempt.fence_after = f.fence_after;
    attempt.kill_wait = f.kill_wait;
    attempt.has_script = f.has_script;
    attempt.memory_mb = f.memory_mb;
    attempt.cores = f.cores;
    attempt.devices = f.devices;
    renewed = std::max(renewed, f.renewed);
  }
  void know(const SeenShim& f) {
    if (const auto it = held.find(attempt_of(f.key)); it != held.end())
      it->second.works[f.key].ranks = f.ranks;
  }
  void know(const Stopping& f) {
    if (const auto it = held.find({f.job, f.attempt}); it != held.end()) {
      it->second.stopping = true;
      it->second.fenced = it->second.fenced || f.fenced;
      check_attempt(it->first, it->second);
    }
  }
  void know(const GoneAttempt& f) {
    highest_job = std::max(highest_job, f.job);
    held.erase({f.job, f.attempt});
    waiting.erase({f.job, f.attempt});
    if (!gone.insert({f.job, f.attempt}).second)
      return;
    gone_order.push_back({f.job, f.attempt});
    if (gone_order.size() > kGoneMax) {
      gone.erase(gone_order.front());
      gone_order.pop_front();
    }
  }
  void know(const GoneSteps& f) {
    const auto it = held.find({f.job, f.attempt});
    const auto steps = IntervalSet::parse(f.steps);
    if (it != held.end() && steps.ok())
      for (const Interval& part : steps->intervals()) it->second.gone_steps.insert(part.low, part.high);
  }
  void know(const GoneTask& f) {
    CHECK(task_of(f.key), text_of(f.key));
    const TaskPart& task = *task_of(f.key);
    if (const auto it = held.find(attempt_of(f.key)); it != held.end()) {
      auto& incarnation = it->second.gone_incarnations[{task.group, task.index}];
      incarnation = std::max(incarnation, task.incarnation);
    }
  }
  void know(const Report& f) {
    last_number = std::max(last_number, f.number);
    reports[f.number] = {f, {}};
    const auto it = held.find({f.job, f.attempt});
    if (it == held.end())
      return;
    HeldAttempt& attempt = it->second;
    if (std::holds_alternative<AttemptStarted>(f.body))
      attempt.started = true;
    if (const auto* pause = std::get_if<MemberPaused>(&f.body)) {
      attempt.pause_done = pause->number;
      for (auto& [key, work] : attempt.works) work.settled = work.settled || pause->number == attempt.pause;
    }
    if (std::holds_alternative<MemberStopped>(f.body))
      attempt.stopped = attempt.stopping = true;
    if (std::holds_alternative<ScriptEnded>(f.body) || std::holds_alternative<LaunchFailed>(f.body))
      attempt.stopping = true;
    if (const auto key = started_shim(f); key && attempt.works.contains(*key))
      attempt.works[*key].started = true;
    if (const auto key = ended_shim(f)) {
      if (attempt.works.contains(*key))
        attempt.works[*key].ended = true;
      else
        forget_in(attempt, *key);
    }
    check_attempt(it->first, attempt);
  }
  void know(const Acknowledged& f) {
    for (auto number : f.numbers) {
      const auto it = reports.find(number);
      if (it == reports.end())
        continue;
      const Report report = std::move(it->second.report);
      reports.erase(it);
      if (std::holds_alternative<MemberStopped>(report.body))
        know(GoneAttempt{report.job, report.attempt});
      const auto attempt = held.find({report.job, report.attempt});
      if (const auto key = ended_shim(report); key && attempt != held.end())
        forget_in(attempt->second, *key);
    }
  }
  void know(const Pausing& f) {
    const auto it = held.find({f.job, f.attempt});
    if (it == held.end())
      return;
    it->second.paused = f.paused;
    it->second.pause = f.number;
    if (f.done)
      it->second.pause_done = f.number;
    for (auto& [key, work] : it->second.works) work.settled = f.done;
  }
  void know(const Renewed& f) { renewed = std::max(renewed, f.at); }
  void know(const HighestJob& f) { highest_job = std::max(highest_job, f.job); }
  void know(const HooksOf& f) {
    if (const auto it = held.find({f.job, f.attempt}); it != held.end()) {
      it->second.has_hooks = true;
      it->second.hook_env = f.env;
    }
  }
  void know(const PartsOf& f) {
    if (const auto it = held.find({f.job, f.attempt}); it != held.end())
      it->second.parts = f.parts;
  }
  void know(const HookBegun& f) {
    if (const auto it = held.find(attempt_of(f.key)); it != held.end())
      hook_in(it->second, f.key) = {HookPhase::kRunning, f.at};
  }
  void know(const HookEnded& f) {
    const auto it = held.find(attempt_of(f.key));
    if (it != held.end())
      hook_in(it->second, f.key).phase = f.passed ? HookPhase::kPassed : HookPhase::kFailed;
    if (it != held.end() && !f.why.empty())
      it->second.trouble = f.why;
  }
  void know(const StagingOf& f) {
    if (const auto it = held.find({f.job, f.attempt}); it != held.end())
      it->second.staging = f.plan;
  }
  void know(const NextReport& f) { last_number = std::max(last_number, f.number - 1); }

  void note(const JournalFact& fact) {
    journal.push_back(encode_fact(fact));
    CHECK(journal.back().find('\n') == std::string::npos, journal.back());
    std::visit([this](const auto& f) { know(f); }, fact);
  }

  // --- reports ---

  void report(JobId job, AttemptNo attempt, ReportBody body) {
    const Instant made = event_at ? std::min(event_at, now) : now;
    const Report message{last_number + 1, job, attempt, std::move(body), made.us, {}};
    CHECK(!reports.contains(message.number), format("a second report {}", message.number));
    note(message);
    CHECK(last_number == message.number && reports.contains(message.number));
    if (welcome)
      send(reports[message.number]);
    if (welcome && mutant(Mutant::kDropReport))
      reports.erase(message.number);
  }

  void send(Pending& pending) {
    CHECK(welcome, format("report {} without a controller to hear it", pending.report.number));
    pending.sent = now;
    pending.report.ago = pending.report.made_boot_us > 0 ? now - Instant{pending.report.made_boot_us} : Duration{};
    messages.push_back(pending.report);
  }

  void send_reports(bool all) {
    for (auto& [number, pending] : reports)
      if (all || pending.sent + settings.renew_every <= now)
        send(pending);
    if (mutant(Mutant::kDropReport))
      reports.clear();
  }

  void acknowledged(const ReportAck& ack) {
    Acknowledged known;
    for (auto number : ack.numbers) {
      const auto it = reports.find(number);
      if (it == reports.end())
        continue;
      known.numbers.push_back(number);
      if (const auto key = ended_shim(it->second.report))
        order({.what = ShimOrder::What::kForget, .key = *key});
    }
    if (!known.numbers.empty())
      note(known);
  }

  // --- orders ---

  // Why nothing more may start here, or not of this attempt; "" = it may.
  std::string no_room(const HeldAttempt& attempt, bool is_step) const {
    if (!no_starts.empty())
      return format("node {} starts nothing: {}", facts.meta.name, no_starts);
    const auto live = [](const HeldAttempt& h, bool steps_only) {
      return static_cast<std::size_t>(std::count_if(h.works.begin(), h.works.end(), [&](const auto& entry) {
        return !entry.second.ended && (!steps_only || step_of(entry.first));
      }));
    };
    if (is_step && live(attempt, true) >= settings.steps_max)
      return format("the job runs {} steps on node {} already, the most it may: start this one when some have ended",
                    settings.steps_max, facts.meta.name);
    std::size_t all = 0;
    for (const auto& [id, other] : held) all += live(other, false);
    if (all >= settings.works_max)
      return format("node {} runs {} scripts, steps and tasks already, the most it may: try again when some have ended",
                    facts.meta.name, all);
    return {};
  }

  void order(ShimOrder order) { orders.push_back(std::move(order)); }

  void start(const WorkId& key, TaskProcesses launch, std::string script, Duration fence_after) {
    const auto attempt = held.find(attempt_of(key));
    CHECK(attempt != held.end() && !attempt->second.stopping && !attempt->second.paused,
          text_of(key) + " starts though its attempt may not");
    CHECK(!attempt->second.works.contains(key), text_of(key) + " starts a second time");
    CHECK(!launch.ranks.empty(), text_of(key) + " starts nothing");
    note(SeenShim{key, launch.ranks});
    CHECK(attempt->second.works.contains(key), text_of(key));
    ShimOrder o;
    o.what = ShimOrder::What::kStart;
    o.key = key;
    o.start = {key, std::move(launch), std::move(script), fence_after};
    o.start.memory_mb = attempt->second.memory_mb;
    o.start.cores = attempt->second.cores;
    for (std::uint32_t i = 0; i < facts.devices.size(); ++i)
      o.start.gpus.push_back({facts.devices[i].minor, !attempt->second.devices || attempt->second.devices->test(i)});
    o.start.checkpoint_line = attempt->second.staging.checkpoint_line;
    if (is_script(key) || !attempt->second.has_script)  // one looks at the file
      o.start.checkpoint_file = attempt->second.staging.checkpoint_file;
    order(std::move(o));
  }

  // What is paused must not run for as much as a moment, not even to end: its cores are others'.
  static Duration kill_wait_of(const HeldAttempt& attempt, Duration asked) {
    return attempt.paused ? Duration{} : asked;
  }

  void stop_works(const HeldAttempt& attempt, Duration kill_wait, StopWhy why) {
    for (const auto& [key, work] : attempt.works)
      if (!work.ended)
        order({.what = ShimOrder::What::kStop, .key = key, .kill_wait = kill_wait_of(attempt, kill_wait), .why = why});
  }

  // Everything of the attempt on this node ends; its last words follow when it has.
  void stop_attempt(const AttemptId& id, Duration kill_wait, bool fenced, StopWhy why) {
    CHECK(held.contains(id), format("{}-{} is not held", id.first.value, id.second));
    HeldAttempt& attempt = held.at(id);
    if (!attempt.stopping || (fenced && !attempt.fenced))
      note(Stopping{id.first, id.second, fenced});
    stop_works(attempt, kill_wait, why);
    stop_staging(id, attempt);
    finish_if_empty(id);
    CHECK(attempt.stopping && (attempt.fenced || !fenced));
  }

  // Nothing of it runs here, and never will.
  enum class Never : unsigned char { kStopped, kRefused };
  void report_stopped(const AttemptId& id, Never why = Never::kStopped) {
    CHECK(!held.contains(id), format("{}-{} may run here", id.first.value, id.second));
    for (const auto& [number, pending] : reports)
      if (pending.report.job == id.first && pending.report.attempt == id.second &&
          std::holds_alternative<MemberStopped>(pending.report.body))
        return;  // is being repeated anyway
    report(id.first, id.second, MemberStopped{.refused = why == Never::kRefused});
  }

  void finish_if_empty(const AttemptId& id) {
    const auto it = held.find(id);
    if (it == held.end() || !it->second.stopping || it->second.stopped)
      return;
    for (const auto& [key, work] : it->second.works)
      if (!work.ended)
        return;
    HeldAttempt& attempt = it->second;
    if (prepares(attempt) || stages_out(id, attempt))
      return;
    if (attempt.has_hooks && settings.hooks.epilog && attempt.epilog.phase == HookPhase::kNone)
      begin_hook(id, kEpilogStep);
    if (runs(attempt.epilog))
      return;
    report(id.first, id.second, MemberStopped{.fenced = attempt.fenced, .trouble = attempt.trouble});
    CHECK(attempt.stopped);
  }

  // --- hooks ---

  static WorkId hook_of(const AttemptId& id, StepNo hook) { return {id.first, id.second, StepPart{hook}}; }
  Duration limit_of(const WorkId& hook) const {
    if (is_staging(hook))
      return settings.hooks.staging_limit;
    return step_of(hook)->step == kPrologStep ? settings.hooks.prolog_limit : settings.hooks.epilog_limit;
  }

  void order_hook(const WorkId& key) {
    const HeldAttempt& attempt = held.at(attempt_of(key));
    if (is_staging(key))
      return order_staging(key, attempt);
    order({.what = ShimOrder::What::kStart, .key = key, .start = hook_start(key, attempt.hook_env)});
  }

  bool is_ordered(const WorkId& key) const {
    return std::any_of(orders.begin(), orders.end(),
                       [&key](const ShimOrder& o) { return o.what == ShimOrder::What::kStart && o.key == key; });
  }

  void begin_hook(const AttemptId& id, StepNo hook) {
    const WorkId key = hook_of(id, hook);
    CHECK(hook_in(held.at(id), key).phase == HookPhase::kNone, text_of(key) + " runs a second time");
    note(HookBegun{key, now});
    order_hook(key);
  }

  // why: it is no success; "" = it is.
  void hook_ended(const WorkId& key, const std::string& why) {
    const AttemptId id = attempt_of(key);
    const bool staged_out = step_of(key)->step == kStageOutStep;
    note(HookEnded{key, why.empty(), staged_out ? why : std::string()});
    order({.what = ShimOrder::What::kForget, .key = key});
    if (!why.empty() && !is_staging(key))
      report(key.job, key.attempt, LaunchFailed{why, true});
    else if (!why.empty() && !staged_out && !held.at(id).stopping)  // else it was told to end
      report(key.job, key.attempt, LaunchFailed{format("{}{}", kStageInFailed, why)});
    go_on(id);
    finish_if_empty(id);
  }

  // --- files that are staged in and out ---

  // It is none that its user runs: of the node's GPUs it needs none.
  void order_staging(const WorkId& key, const HeldAttempt& attempt) {
    ShimStart start = stage_start(key, attempt.uid, attempt.staging);
    start.fence_after = attempt.fence_after;
    start.memory_mb = attempt.memory_mb;
    start.cores = attempt.cores;
    for (const Device& device : facts.devices) start.gpus.push_back({device.minor, false});
    order({.what = ShimOrder::What::kStart, .key = key, .start = std::move(start)});
  }

  // Whether the end of the attempt has to wait for what it leaves. Where nothing of it has run it leaves nothing, and
  // what a fence has ended may run elsewhere by now, and write there itself.
  bool stages_out(const AttemptId& id, const HeldAttempt& attempt) {
    if (!attempt.staging.out.empty() && attempt.started && !attempt.fenced &&
        attempt.stage_out.phase == HookPhase::kNone)
      begin_hook(id, kStageOutStep);
    return runs(attempt.stage_out);
  }

  // An attempt that ends needs nothing any more; what it leaves is copied unless a fence ends it.
  void stop_staging(const AttemptId& id, const HeldAttempt& attempt) {
    if (runs(attempt.stage_in))
      order({.what = ShimOrder::What::kStop, .key = hook_of(id, kStageInStep), .kill_wait = kHookKillWait});
    if (runs(attempt.stage_out) && attempt.fenced)
      order({.what = ShimOrder::What::kStop, .key = hook_of(id, kStageOutStep), .kill_wait = kHookKillWait});
  }

  // The prolog has passed, or there is none. True: it begins.
  bool begin_stage_in(const AttemptId& id, const HeldAttempt& attempt) {
    const bool due = !attempt.staging.in.empty() && attempt.stage_in.phase == HookPhase::kNone;
    if (due)
      begin_hook(id, kStageInStep);
    return due;
  }

  // The script has what it needs here, and other nodes still copy.
  void wait_for_others(const AttemptId& id) {
    waiting[id].attempt.reset();  // it is said again when they have
    if (!is_reported<StagedIn>(id))
      report(id.first, id.second, StagedIn{});
  }

  void hook_event(const ShimEvent& event) {
    const auto it = held.find(attempt_of(event.key));
    if (it == held.end() || hook_in(it->second, event.key).phase != HookPhase::kRunning)
      return stray_event(event);
    const bool over = event.what == ShimEvent::What::kEnded || event.what == ShimEvent::What::kFailed;
    if (!over)
      return;
    const bool stopped = hook_in(it->second, event.key).stopped;
    const Duration limit = limit_of(event.key);
    hook_ended(event.key, is_staging(event.key) ? stage_failure(event, stopped, limit)
                                                : hook_failure(event.key, event, stopped, limit));
  }

  Instant hook_alarm(const AttemptId& id, const HeldAttempt& attempt) const {
    Instant due = kNever;
    for (const StepNo hook : kHookSteps) {
      const HookRun& run = hook_in(attempt, hook);
      if (runs(run) && !run.stopped)
        due = std::min(due, run.began + limit_of(hook_of(id, hook)));
    }
    return due;
  }

  // Whatever a hook has begun ends with it.
  void end_late_hooks() {
    for (auto& [id, attempt] : held)
      for (const StepNo hook : kHookSteps) {
        const WorkId key = hook_of(id, hook);
        HookRun& run = hook_in(attempt, key);
        if (run.phase != HookPhase::kRunning || run.stopped || run.began + limit_of(key) > now)
          continue;
        run.stopped = true;
        order({.what = ShimOrder::What::kStop, .key = key, .kill_wait = kHookKillWait});
      }
  }

  // Whether what came for the attempt has to wait: for its prolog, its files, or behind a script that does.
  bool waits(const AttemptId& id, const HeldAttempt& attempt) const {
    return prepares(attempt) || awaits_script(id, attempt);
  }

  // The prolog has passed, the files are there, the script has come (again), or a pause is over: what waited starts.
  void go_on(const AttemptId& id) {
    const auto it = held.find(id);
    if (it == held.end() || it->second.stopping || it->second.paused || prepares(it->second))
      return;
    if (begin_stage_in(id, it->second))
      return;
    Waiting& come = waiting[id];
    const bool behind = it->second.has_hooks || !it->second.staging.in.empty();
    if (awaits_script(id, it->second) && come.attempt && come.attempt->script_waits)
      return wait_for_others(id);
    if (awaits_script(id, it->second) && come.attempt)
      start_script(*std::exchange(come.attempt, std::nullopt));
    else if (!it->second.has_script && !it->second.started && behind)
      report(id.first, id.second, AttemptStarted{});
    if (waits(id, it->second))
      return;
    const Waiting ready = std::exchange(come, {});
    waiting.erase(id);
    for (const LaunchStep& step : ready.steps) hear(step);
    for (const LaunchTask& task : ready.tasks) hear(task);
  }

  // Where an agent ended while a prolog ran, or the files of the other nodes are there, the controller says again what
  // was to start.
  void wait_again(const LaunchAttempt& m) {
    const AttemptId id{m.job, m.attempt};
    if (!awaits_script(id, held.at(id)))
      return;
    waiting[id].attempt = m;
    go_on(id);
  }

  // --- pauses ---

  void order_pause(const HeldAttempt& attempt) {
    for (const auto& [key, work] : attempt.works)
      if (!work.ended && !work.settled)
        order({.what = attempt.paused ? ShimOrder::What::kPause : ShimOrder::What::kResume,
               .key = key,
               .number = attempt.pause});
  }

  void report_pause(const AttemptId& id) {
    const auto it = held.find(id);
    if (it == held.end() || it->second.stopped || it->second.pause_done == it->second.pause)
      return;
    for (const auto& [key, work] : it->second.works)
      if (!work.ended && !work.settled)
        return;
    report(id.first, id.second, MemberPaused{it->second.paused, it->second.pause});
    CHECK(it->second.pause_done == it->second.pause);
  }

  void settled(const WorkId& key, HeldAttempt& attempt, const ShimEvent& event) {
    if (event.number != attempt.pause)
      return;  // answers an older order
    CHECK(attempt.works.contains(key), text_of(key));
    attempt.works.at(key).settled = true;
    report_pause(attempt_of(key));
  }

  // --- the controller's words ---

  void say_hello() {
    hello_sent = now;
    hello_waits = true;
    messages.push_back(Hello{kProtocolMin, kProtocolMax, facts, holdings(), settings.peer_port, highest_job});
  }
  void hear(const Welcome& m) {
    if (!connected)
      return;
    welcome = true;
    hello_waits = false;
    if (m.renew_every.us > 0)
      settings.renew_every = m.renew_every;
    renew_until(hello_sent);  // it answers our hello, which was a renewal too
    if (std::exchange(facts_untold, false))
      say_hello();
    send_renewal();
    send_reports(true);
  }
  void hear(const Refused&) { welcome = false; }
  void hear(const TaskRoutes&) {}  // of others
  void hear(const Revoked&) {}     // about connections, which others hold
  void hear(const RenewAck& m) {
    // Only what we said on this connection: fences must not move by a stranger's number.
    const auto it = std::find(renewals.begin(), renewals.end(), m.sent_boot_us);
    if (it == renewals.end())
      return;
    renewals.erase(renewals.begin(), it + 1);
    renew_until(mutant(Mutant::kFenceFromAck) ? now : Instant{m.sent_boot_us});
  }
  void hear(const ReportAck& m) { acknowledged(m); }

  template <class Body>
  bool is_reported(const AttemptId& id) const {
    return std::any_of(reports.begin(), reports.end(), [&](const auto& entry) {
      const Report& r = entry.second.report;
      return r.job == id.first && r.attempt == id.second && std::holds_alternative<Body>(r.body);
    });
  }
  // The controller's log was put back: it does not know any more what it has acknowledged.
  void report_started_again(const AttemptId& id) {
    CHECK(held.contains(id));
    const HeldAttempt& attempt = held.at(id);
    if (attempt.started && !attempt.stopped && !is_reported<AttemptStarted>(id))
      report(id.first, id.second, AttemptStarted{});
  }

  void hear(const LaunchAttempt& m) {
    const AttemptId id{m.job, m.attempt};
    if (held.contains(id)) {
      wait_again(m);
      return report_started_again(id);
    }
    if (gone.contains(id) && !mutant(Mutant::kDoubleStart))
      return report_stopped(id, Never::kRefused);  // of a controller that has forgotten it: it would wait for ever
    note(SeenAttempt{m.job, m.attempt, m.process.uid, m.fence_after, m.kill_wait, m.has_script, renewed, m.memory_mb,
                     text_of(m.cores), m.devices});
    if (!m.parts.empty())
      note(PartsOf{m.job, m.attempt, m.parts});
    const std::string why = m.has_script || !no_starts.empty() ? no_room(held.at(id), false) : "";
    if (!why.empty())
      return failed({m.job, m.attempt, ScriptPart{}}, held.at(id), HeldWork{{0}}, why);
    if (settings.hooks.prolog || settings.hooks.epilog)
      note(HooksOf{m.job, m.attempt, hook_environment(m, facts.meta.name)});
    if (const StagingPlan plan = staging_plan(m); is_needed(plan))
      note(StagingOf{m.job, m.attempt, plan});
    if (settings.hooks.prolog || !m.stage_in.empty()) {
      waiting[id].attempt = m;
      return settings.hooks.prolog ? begin_hook(id, kPrologStep) : begin_hook(id, kStageInStep);
    }
    if (m.has_script)
      start_script(m);
    else
      report(m.job, m.attempt, AttemptStarted{});
  }

  void cannot_start(const LaunchAttempt& m, const std::string& why) {
    const AttemptId id{m.job, m.attempt};
    if (held.contains(id) || gone.contains(id))
      return hear(m);
    note(SeenAttempt{m.job, m.attempt, m.process.uid, m.fence_after, m.kill_wait, m.has_script, renewed, m.memory_mb,
                     text_of(m.cores), m.devices});
    report(m.job, m.attempt, LaunchFailed{why, true});
    finish_if_empty(id);
    CHECK(held.at(id).stopped);
  }

  void start_script(const LaunchAttempt& m) {
    TaskProcesses script;
    script.ranks = {0};
    script.process = m.process;
    script.process.append = m.process.append || !m.stage_in.empty();  // what was said of the copying stays
    script.to_client = false;
    script.cores = m.cores;
    script.devices = m.devices;
    script.kill_wait = m.kill_wait;
    start({m.job, m.attempt, ScriptPart{}}, std::move(script), m.script, m.fence_after);
  }

  // What finds no room is said again by the controller when it asks what is here.
  template <class Launch, class Same>
  void wait_for(std::vector<Launch>& list, const Launch& m, const Same& same) {
    if (list.size() < settings.works_max && std::none_of(list.begin(), list.end(), same))
      list.push_back(m);
  }

  void hear(const LaunchStep& m) {
    const WorkId key{m.job, m.attempt, StepPart{m.step}};
    const auto it = held.find(attempt_of(key));
    if (it == held.end() || it->second.stopping || it->second.paused || m.ranks.empty() ||
        it->second.works.contains(key) || it->second.gone_steps.contains(static_cast<std::uint32_t>(m.step)))
      return;
    if (waits(it->first, it->second))
      return wait_for(waiting[it->first].steps, m, [&m](const LaunchStep& one) { return one.step == m.step; });
    if (const std::string why = no_room(it->second, true); !why.empty())
      return failed(key, it->second, HeldWork{m.ranks}, why);
    start(key, m, {}, it->second.fence_after);
  }

  void hear(const LaunchTask& m) {
    const WorkId key{m.job, m.attempt, m.task};
    const auto it = held.find(attempt_of(key));
    if (it == held.end() || it->second.stopping || it->second.paused || it->second.works.contains(key))
      return;
    const auto gone_task = it->second.gone_incarnations.find({m.task.group, m.task.index});
    if (gone_task != it->second.gone_incarnations.end() && m.task.incarnation <= gone_task->second)
      return;
    if (waits(it->first, it->second))
      return wait_for(waiting[it->first].tasks, m, [&m](const LaunchTask& one) { return one.task == m.task; });
    if (const std::string why = no_room(it->second, false); !why.empty())
      return failed(key, it->second, HeldWork{{m.task.index}}, why);
    TaskProcesses task;
    task.ranks = {m.task.index};
    task.process = m.process;
    task.to_client = false;
    task.cores = m.cores;
    task.devices = m.devices;
    task.kill_wait = it->second.kill_wait;
    if (!is_sandbox(m.sandbox))
      return start(key, std::move(task), {}, it->second.fence_after);
    if (m.sandbox.network == TaskNetwork::kOwn && facts.task_range.empty())
      return refuse_address(key, it->second, m.task);
    start(key, std::move(task), {}, it->second.fence_after);
    orders.back().start.sandbox = m.sandbox;
    const std::string& wanted = m.sandbox.host_name;
    orders.back().start.place = {wanted.empty() ? m.host_name : wanted, facts.task_range};
    std::vector<std::string>& env = orders.back().start.launch.process.env;
    env.push_back(format("{}={}", kNodeNameVariable, facts.meta.name));
    env.push_back(format("{}={}", kNodeAddressVariable, facts.address));
  }

  void refuse_address(const WorkId& key, HeldAttempt& attempt, const TaskPart& task) {
    const std::string why =
        format("node {} has no address to give to a task: {}", facts.meta.name,
               settings.no_addresses.empty() ? "its agent's settings name no task_range" : settings.no_addresses);
    report(key.job, key.attempt, TaskContainers{task.group, task.index, task.incarnation, {}, {}, why});
    failed(key, attempt, HeldWork{{task.index}}, why);
  }

  void hear(const StopWork& m) {
    const AttemptId id{m.job, m.attempt};
    const auto it = held.find(id);
    if (!m.part) {
      if (it != held.end())
        return stop_attempt(id, m.kill_wait, false, m.why);
      if (!gone.contains(id))
        note(GoneAttempt{m.job, m.attempt});
      return report_stopped(id);
    }
    const WorkId key{m.job, m.attempt, *m.part};
    if (is_script(key))
      return;  // it ends with its attempt only
    if (it != held.end() && it->second.works.contains(key)) {
      if (!it->second.works[key].ended)
        order({.what = ShimOrder::What::kStop,
               .key = key,
               .kill_wait = kill_wait_of(it->second, m.kill_wait),
               .why = m.why});
      return;
    }
    if (const auto at = waiting.find(id); at != waiting.end()) {
      std::erase_if(at->second.steps, [&](const LaunchStep& one) { return WorkPart(StepPart{one.step}) == key.part; });
      std::erase_if(at->second.tasks, [&](const LaunchTask& one) { return WorkPart(one.task) == key.part; });
    }
    for (const auto& [number, pending] : reports)
      if (ended_shim(pending.report) == key)
        return;
    // Stopped before it came: it must not start later.
    if (const TaskPart* task = task_of(key))
      report(m.job, m.attempt, TaskEnded{task->group, task->index, task->incarnation, {0, 9, false}});
    else
      report(m.job, m.attempt, StepEnded{step_of(key)->step, {}});
  }

  // All of the attempt can read it, before the signal comes.
  void give_notice(const HeldAttempt& attempt, const SignalWork& m) {
    for (const auto& [key, work] : attempt.works)
      if (!work.ended)
        order({.what = ShimOrder::What::kNotice, .key = key, .kill_wait = m.stops_in, .why = m.why});
  }

  void hear(const SignalWork& m) {
    const auto it = held.find({m.job, m.attempt});
    if (it == held.end())
      return;
    if (it->second.paused && m.signal == kSigCont)
      return;
    const bool shell_only = !m.part && m.reach == SignalReach::kScript;
    const Shims::Reach reach = shell_only ? Shims::Reach::kFirst : Shims::Reach::kAll;
    if (m.why != StopWhy::kNothing)
      give_notice(it->second, m);
    for (const auto& [key, work] : it->second.works) {
      const bool meant = m.part ? key.part == *m.part : reaches(m.reach, key);
      if (meant && !work.ended)
        order({.what = ShimOrder::What::kSignal, .key = key, .signal = m.signal, .reach = reach});
    }
  }

  void hear(const PauseWork& m) {
    const AttemptId id{m.job, m.attempt};
    const auto it = held.find(id);
    if (it == held.end() || m.number < it->second.pause)
      return;
    HeldAttempt& attempt = it->second;
    if (m.number > attempt.pause)
      note(Pausing{m.job, m.attempt, m.paused, m.number, false});
    if (attempt.pause_done == attempt.pause) {
      if (!is_reported<MemberPaused>(id) && !attempt.stopped)
        report(m.job, m.attempt, MemberPaused{attempt.paused, attempt.pause});
      return;
    }
    order_pause(attempt);
    report_pause(id);
    go_on(id);
  }

  // --- the shims' words ---

  void stray_event(const ShimEvent& event) {
    if (event.what == ShimEvent::What::kStarted)
      order({.what = ShimOrder::What::kStop, .key = event.key});
    else if (event.what == ShimEvent::What::kEnded || event.what == ShimEvent::What::kFailed)
      order({.what = ShimOrder::What::kForget, .key = event.key});
  }

  void started(const WorkId& key, HeldAttempt& attempt, const HeldWork& work) {
    if (is_script(key)) {
      if (!attempt.started)
        report(key.job, key.attempt, AttemptStarted{});
    } else if (!work.started) {
      if (const TaskPart* task = task_of(key))
        report(key.job, key.attempt, TaskStarted{task->group, task->index, task->incarnation});
      else
        report(key.job, key.attempt, StepStarted{step_of(key)->step});
    }
  }

  void ended(const WorkId& key, HeldAttempt& attempt, const HeldWork& work, std::vector<TaskResult> results,
             const WorkUse& use = {}) {
    started(key, attempt, work);
    if (attempt.has_hooks && settings.hooks.epilog)
      if (std::vector<std::string> env = attempt.hook_env; tell_end(env, key, results))
        note(HooksOf{key.job, key.attempt, std::move(env)});
    const ExitStatus first = results.empty() ? ExitStatus{0, 9, false} : results.front().exit;
    if (const TaskPart* task = task_of(key)) {
      report(key.job, key.attempt, TaskEnded{task->group, task->index, task->incarnation, first, use});
    } else if (const StepPart* step = step_of(key)) {
      report(key.job, key.attempt, StepEnded{step->step, std::move(results), use});
    } else {
      report(key.job, key.attempt, ScriptEnded{first, !attempt.stopping, use});
      stop_works(attempt, attempt.kill_wait, StopWhy::kCancelled);  // the job ends with its script
    }
    report_pause(attempt_of(key));
    finish_if_empty(attempt_of(key));
  }

  void failed(const WorkId& key, HeldAttempt& attempt, const HeldWork& work, const std::string& why) {
    if (is_script(key)) {
      report(key.job, key.attempt, LaunchFailed{why});
      stop_works(attempt, attempt.kill_wait, StopWhy::kFailed);
      return finish_if_empty(attempt_of(key));
    }
    refusals.push_back({key, work.ranks, why});
    std::vector<TaskResult> results;
    for (auto rank : work.ranks) results.push_back({rank, {1, 0, false}});
    ended(key, attempt, work, std::move(results));
  }

  void report_containers(const ShimEvent& event) {
    if (const TaskPart* task = task_of(event.key))
      report(event.key.job, event.key.attempt,
             TaskContainers{task->group, task->index, task->incarnation, event.address, event.containers, event.why});
  }
  // One on its way is enough: the next one follows within seconds, if there are any.
  void report_checkpoint(const AttemptId& id, const HeldAttempt& attempt) {
    if (!attempt.stopped && !is_reported<CheckpointSeen>(id))
      report(id.first, id.second, CheckpointSeen{});
  }
  void report_failed_sandbox(const ShimEvent& event) {
    if (const TaskPart* task = task_of(event.key))
      report(event.key.job, event.key.attempt,
             TaskContainers{task->group, task->index, task->incarnation, {}, {}, event.why});
  }

  void take(const ShimEvent& event, HeldAttempt& attempt, const HeldWork& work) {
    switch (event.what) {
      case ShimEvent::What::kStarted: return started(event.key, attempt, work);
      case ShimEvent::What::kEnded: return ended(event.key, attempt, work, event.results, event.use);
      case ShimEvent::What::kFailed: report_failed_sandbox(event); return failed(event.key, attempt, work, event.why);
      case ShimEvent::What::kContainers: return report_containers(event);
      case ShimEvent::What::kCheckpoint: return report_checkpoint(attempt_of(event.key), attempt);
      case ShimEvent::What::kPaused:
      case ShimEvent::What::kResumed: return settled(event.key, attempt, event);
    }
  }

  // --- time ---

  Instant fence_of(const HeldAttempt& attempt) const {
    return attempt.fence_after >= kForever || attempt.fenced || attempt.stopped ? kNever
                                                                                : renewed + attempt.fence_after;
  }

  void renew_until(Instant sent) {
    CHECK(sent <= now, "a fence would count from a time that is still to come");
    if (sent <= renewed)
      return;
    const bool matters =
        std::any_of(held.begin(), held.end(), [](const auto& entry) { return entry.second.fence_after < kForever; });
    if (matters)
      note(Renewed{sent});
    else
      renewed = sent;
  }

  std::vector<Holding> holdings() const {
    std::vector<Holding> out;
    for (const auto& [id, attempt] : held) {
      // Not named, it is told to start once more, with its script.
      if (const auto at = waiting.find(id); awaits_script(id, attempt) && (at == waiting.end() || !at->second.attempt))
        continue;
      Holding holding{id.first, id.second, attempt.stopping, {}, {}, attempt.paused, next_step(attempt)};
      for (const auto& [key, work] : attempt.works) {
        if (const StepPart* step = step_of(key))
          holding.steps.push_back(step->step);
        else if (const TaskPart* task = task_of(key))
          holding.tasks.push_back(*task);
      }
      out.push_back(std::move(holding));
    }
    return out;
  }

  void send_renewal() {
    CHECK(welcome, "a renewal on a connection that was not welcomed");
    messages.push_back(Renew{now.us, holdings()});
    renewals.push_back(now.us);
    if (renewals.size() > kRenewalsInFlight)
      renewals.pop_front();
    next_renewal = now + settings.renew_every;
    CHECK(next_renewal > now);
  }

  void tick() {
    if (welcome && now >= next_renewal) {
      send_renewal();
      send_reports(false);
    }
    std::vector<AttemptId> due;
    for (const auto& [id, attempt] : held)
      if (fence_of(attempt) <= now)
        due.push_back(id);
    end_late_hooks();
    for (const auto& id : due)
      stop_attempt(id, std::min(held.at(id).kill_wait, kFenceKillWait), true, StopWhy::kNodeFail);
  }

  // --- the first look ---

  // What the journal does not tell of: it was lost, or is older than the work. Its start is reported (again), because
  // that may have been lost, too.
  void adopt(const FoundWork& work, bool has_script) {
    CHECK(!knows(held, gone, work.key), text_of(work.key));
    const AttemptId id = attempt_of(work.key);
    const bool fresh = !held.contains(id);
    if (fresh) {
      note(SeenAttempt{id.first, id.second, work.uid, work.fence_after, work.kill_wait, has_script, renewed});
      if (settings.hooks.epilog)
        note(HooksOf{id.first, id.second, hook_environment(id.first, work.uid, facts.meta.name)});
    }
    if (is_hook(work.key))
      return adopt_hook(work.key);
    note(SeenShim{work.key, work.ranks});
    if (has_script ? is_script(work.key) && work.launched : fresh)
      report(id.first, id.second, AttemptStarted{});
    CHECK(knows(held, gone, work.key), text_of(work.key));
  }

  // Behind it nothing of the attempt starts here any more: what was to, nothing tells.
  void adopt_hook(const WorkId& key) {
    note(HookBegun{key, now});
    if (!held.at(attempt_of(key)).stopping)
      note(Stopping{key.job, key.attempt, false});
  }

  void look_at(const FoundWork& work, const std::set<AttemptId>& scripts, std::set<AttemptId>& lost) {
    const AttemptId id = attempt_of(work.key);
    if (!knows(held, gone, work.key))
      adopt(work, scripts.contains(id));
    if (!work.lost || !held.contains(id))
      return;
    if (!is_hook(work.key))
      lost.insert(id);
    else if (hook_in(held.at(id), work.key).phase == HookPhase::kRunning)
      hook_event({.what = ShimEvent::What::kFailed, .key = work.key, .why = "its files are gone"});
  }

  void look_at(const std::vector<FoundWork>& found) {
    std::set<AttemptId> scripts, lost;
    for (const FoundWork& work : found)
      if (is_script(work.key))
        scripts.insert(attempt_of(work.key));
    for (const FoundWork& work : found)
      if (!is_hook(work.key))
        look_at(work, scripts, lost);
    for (const FoundWork& work : found)  // of whose attempts more is known by now
      if (is_hook(work.key))
        look_at(work, scripts, lost);
    for (const AttemptId& id : lost) stop_attempt(id, held.at(id).kill_wait, true, StopWhy::kNodeFail);
  }

  // What the journal says runs, but no shim is there for: its start was ordered and never carried out.
  void miss(const std::set<WorkId>& survivors) {
    const Missing missing = missing_in(held, survivors);
    constexpr const char* kWhy = "the agent ended before it could start this";
    for (const auto& key : missing.works) {
      HeldAttempt& attempt = held.at(attempt_of(key));
      const HeldWork work = attempt.works.at(key);
      if (is_script(key) && !attempt.started)
        failed(key, attempt, work, kWhy);
      else
        ended(key, attempt, work, killed(work.ranks));
    }
    for (const auto& id : missing.scripts) {
      report(id.first, id.second, LaunchFailed{kWhy});
      stop_attempt(id, held.at(id).kill_wait, false, StopWhy::kFailed);
    }
    for (const WorkId& hook : missing.hooks)
      if (const auto it = held.find(attempt_of(hook));
          it != held.end() && hook_in(it->second, hook).phase == HookPhase::kRunning && !is_ordered(hook))
        order_hook(hook);
    for (const auto& id : missing.stopping) {
      stop_works(held.at(id), held.at(id).kill_wait, StopWhy::kNothing);  // told before we ended
      finish_if_empty(id);
    }
    // An order to pause or to go on may have been carried out by some.
    std::vector<AttemptId> unsettled;
    for (const auto& [id, attempt] : held) {
      order_pause(attempt);
      if (attempt.pause_done != attempt.pause)
        unsettled.push_back(id);
    }
    for (const auto& id : unsettled) report_pause(id);
    for (const auto& [id, attempt] : held)
      for (const auto& [key, work] : attempt.works)
        CHECK(work.ended || survivors.contains(key), text_of(key) + " runs without a shim");
  }
};

AgentLogic::AgentLogic(AgentSettings settings, Node facts, const std::vector<std::string>& journal,
                       const std::vector<WorkId>& survivors, Instant boot_now, const std::vector<FoundWork>& found)
    : inner_(std::make_unique<Inner>()) {
  CHECK(settings.renew_every > Duration{} && settings.steps_max > 0 && settings.works_max > 0);
  inner_->settings = settings;
  inner_->facts = std::move(facts);
  inner_->now = boot_now;
  for (const auto& line : journal)
    if (const auto fact = decode_fact(line))
      std::visit([this](const auto& f) { inner_->know(f); }, *fact);
  // Without any acknowledgement there is nothing older to count from than our own start.
  if (!inner_->renewed)
    inner_->renewed = boot_now;
  inner_->look_at(found);
  inner_->miss({survivors.begin(), survivors.end()});
  inner_->check_invariants();
}

AgentLogic::~AgentLogic() = default;

void AgentLogic::connected(Instant boot_now) {
  Inner& in = *inner_;
  in.now = boot_now;
  in.connected = true;
  in.welcome = false;
  in.renewals.clear();
  in.messages.clear();
  in.facts_untold = false;
  in.say_hello();
  in.check_invariants();
}

void AgentLogic::disconnected(Instant boot_now) {
  Inner& in = *inner_;
  in.now = boot_now;
  in.connected = in.welcome = false;
  in.renewals.clear();
  in.messages.clear();
  in.check_invariants();
}

void AgentLogic::receive(const ToAgent& message, Instant boot_now) {
  inner_->now = boot_now;
  std::visit([this](const auto& m) { inner_->hear(m); }, message);
  inner_->check_invariants();
}

void AgentLogic::cannot_start(const LaunchAttempt& launch, const std::string& why, Instant boot_now) {
  inner_->now = boot_now;
  inner_->cannot_start(launch, why);
  inner_->check_invariants();
}

void AgentLogic::shim_event(const ShimEvent& event, Instant boot_now) {
  Inner& in = *inner_;
  in.now = boot_now;
  if (is_hook(event.key)) {
    in.hook_event(event);
    return in.check_invariants();
  }
  const auto it = in.held.find(attempt_of(event.key));
  const auto work = it == in.held.end() ? decltype(it->second.works.end()){} : it->second.works.find(event.key);
  if (it == in.held.end() || work == it->second.works.end()) {
    const bool told = std::any_of(in.reports.begin(), in.reports.end(),
                                  [&](const auto& entry) { return ended_shim(entry.second.report) == event.key; });
    if (!told)  // its end is acknowledged and only the folder is left, or nobody asked for it
      in.stray_event(event);
    return;
  }
  if (work->second.ended)
    return;
  const HeldWork copy = work->second;  // reporting changes the original
  in.event_at = event.at;
  in.take(event, it->second, copy);
  in.event_at = {};
  in.check_invariants();
}

void AgentLogic::tick(Instant boot_now) {
  inner_->now = boot_now;
  inner_->tick();
  inner_->check_invariants();
}

Instant AgentLogic::next_timer() const {
  Instant due = inner_->welcome ? inner_->next_renewal : kNever;
  for (const auto& [id, attempt] : inner_->held)
    due = std::min({due, inner_->fence_of(attempt), inner_->hook_alarm(id, attempt)});
  return due;
}

void AgentLogic::set_facts(Node facts, Instant boot_now) {
  Inner& in = *inner_;
  in.now = boot_now;
  in.facts = std::move(facts);
  if (!in.connected)
    return;
  if (in.hello_waits)
    in.facts_untold = true;
  else
    in.say_hello();
}
void AgentLogic::device_failed(std::uint32_t index, const std::string& why, Instant boot_now) {
  CHECK(why.starts_with(kDeviceLoss), why);
  Inner& in = *inner_;
  in.now = boot_now;
  std::vector<AttemptId> having;
  for (const auto& [id, attempt] : in.held)
    if (!attempt.stopping && attempt.devices && index < DeviceSet::kCapacity && attempt.devices->test(index))
      having.push_back(id);
  for (const AttemptId& id : having) {
    in.report(id.first, id.second, LaunchFailed{why, true});
    in.stop_attempt(id, in.held.at(id).kill_wait, false, StopWhy::kNodeFail);
  }
  in.check_invariants();
}

void AgentLogic::refuse_starts(std::string why) { inner_->no_starts = std::move(why); }

std::vector<std::string> AgentLogic::take_journal() { return std::exchange(inner_->journal, {}); }
std::vector<AgentLogic::ShimOrder> AgentLogic::take_orders() { return std::exchange(inner_->orders, {}); }
std::vector<FromAgent> AgentLogic::take_messages() { return std::exchange(inner_->messages, {}); }
std::vector<StepRefusal> AgentLogic::take_refusals() { return std::exchange(inner_->refusals, {}); }
Instant AgentLogic::renewed() const { return inner_->renewed; }

std::vector<std::string> AgentLogic::journal_snapshot() const {
  const Inner& in = *inner_;
  std::vector<std::string> lines;
  const auto add = [&lines](const JournalFact& fact) { lines.push_back(encode_fact(fact)); };
  add(NextReport{in.last_number + 1});
  add(Renewed{in.renewed});
  add(HighestJob{in.highest_job});
  for (const auto& id : in.gone_order) add(GoneAttempt{id.first, id.second});
  for (const auto& [id, attempt] : in.held) {
    add(SeenAttempt{id.first, id.second, attempt.uid, attempt.fence_after, attempt.kill_wait, attempt.has_script,
                    in.renewed, attempt.memory_mb, attempt.cores, attempt.devices});
    if (!attempt.parts.empty())
      add(PartsOf{id.first, id.second, attempt.parts});
    if (attempt.has_hooks)
      add(HooksOf{id.first, id.second, attempt.hook_env});
    if (is_needed(attempt.staging))
      add(StagingOf{id.first, id.second, attempt.staging});
    for (const StepNo hook : kHookSteps) {
      const WorkId key{id.first, id.second, StepPart{hook}};
      const HookRun& run = hook_in(attempt, hook);
      if (run.phase != HookPhase::kNone)
        add(HookBegun{key, run.began});
      if (run.phase == HookPhase::kPassed || run.phase == HookPhase::kFailed)
        add(HookEnded{key, run.phase == HookPhase::kPassed, hook == kStageOutStep ? attempt.trouble : ""});
    }
    for (const auto& [key, work] : attempt.works) add(SeenShim{key, work.ranks});
    if (!attempt.gone_steps.empty())
      add(GoneSteps{id.first, id.second, attempt.gone_steps.text()});
    for (const auto& [task, incarnation] : attempt.gone_incarnations)
      add(GoneTask{{id.first, id.second, TaskPart{task.first, task.second, incarnation}}});
    if (attempt.pause > 0)
      add(Pausing{id.first, id.second, attempt.paused, attempt.pause, attempt.pause_done == attempt.pause});
    if (attempt.stopping)
      add(Stopping{id.first, id.second, attempt.fenced});
  }
  for (const auto& [number, pending] : in.reports) add(pending.report);
  return lines;
}

AgentLogic::StepFacts AgentLogic::step(JobId job, AttemptNo attempt, StepNo step) const {
  const Inner& in = *inner_;
  const auto it = in.held.find({job, attempt});
  if (it == in.held.end())
    return {in.gone.contains({job, attempt}) ? StepHere::kNever : StepHere::kMayCome, {}};
  const HeldAttempt& held = it->second;
  if (held.works.contains({job, attempt, StepPart{step}}))
    return {StepHere::kHere, held.uid};
  const bool gone = held.stopping || (step >= 0 && held.gone_steps.contains(static_cast<std::uint32_t>(step)));
  return {gone ? StepHere::kNever : StepHere::kMayCome, held.uid};
}

std::set<std::uint64_t> AgentLogic::jobs() const {
  std::set<std::uint64_t> out;
  for (const auto& [id, attempt] : inner_->held) out.insert(id.first.value);
  return out;
}

std::set<std::pair<JobId, AttemptNo>> AgentLogic::attempts() const {
  std::set<AttemptId> out;
  for (const auto& [id, attempt] : inner_->held)
    if (!attempt.stopped)
      out.insert(id);
  return out;
}

std::vector<PartsHeld> AgentLogic::parts() const {
  std::vector<PartsHeld> out;
  for (const auto& [id, attempt] : inner_->held)
    if (!attempt.stopped && (!attempt.parts.empty() || !attempt.devices))
      out.push_back({id.first, id.second, attempt.devices.has_value(), attempt.parts});
  return out;
}

std::vector<JobId> AgentLogic::jobs_of(std::uint32_t uid) const {
  std::vector<JobId> jobs;
  for (const auto& [id, attempt] : inner_->held)
    if (attempt.uid == uid && (jobs.empty() || jobs.back() != id.first))
      jobs.push_back(id.first);
  return jobs;
}

std::vector<WorkId> AgentLogic::staging() const {
  std::vector<WorkId> out;
  for (const auto& [id, attempt] : inner_->held)
    for (const StepNo hook : {kStageInStep, kStageOutStep})
      if (runs(hook_in(attempt, hook)))
        out.push_back({id.first, id.second, StepPart{hook}});
  return out;
}

bool AgentLogic::runs_for(std::uint32_t uid) const {
  return std::any_of(inner_->held.begin(), inner_->held.end(),
                     [uid](const auto& entry) { return entry.second.uid == uid && !entry.second.stopped; });
}

}  // namespace lockstep
