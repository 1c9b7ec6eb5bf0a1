#include "node_health.h"

#include <algorithm>

#include "base/log_line.h"
#include "base/text.h"
#include "io/hook_programs.h"

namespace lockstep {
namespace {

constexpr const char* kGpu = "gpu";
constexpr const char* kClock = "clock";
// MIT Kerberos refuses tickets of a clock that is 5 minutes off (clockskew of krb5.conf).
constexpr Duration kClockSuspect = seconds(2), kClockBad = minutes(5);
constexpr const char* kProgram = "program";

bool has_word(const std::string& words, std::string_view word) {
  const auto all = split(words, ',');
  return std::any_of(all.begin(), all.end(), [&](const auto& one) { return trim(one) == word; });
}

std::vector<LookFinding> findings_of(const std::vector<MachineFinding>& found) {
  std::vector<LookFinding> out;
  for (const MachineFinding& one : found)
    out.push_back({one.check, one.bad ? HealthLevel::kBad : HealthLevel::kSuspect, one.evidence, one.at_once});
  return out;
}

// What the program is told: who is asked, and where the commands of the cluster are.
std::vector<std::string> program_environment(const AgentFile& settings) {
  const std::string commands = settings.shim.substr(0, settings.shim.rfind('/'));
  return {"PATH=" + commands + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
          "LOCKSTEP_SOCKET=" + settings.socket, "SLURMD_NODENAME=" + settings.node};
}

LookFinding finding_of(const std::string& program, const Result<ProgramEnd>& end, std::uint32_t timeout_s) {
  LookFinding out{.check = kProgram, .level = HealthLevel::kBad, .evidence = {}};
  if (!end.ok()) {
    out.evidence = end.error().message;
  } else if (end->late) {
    out.evidence = format("{} took longer than {} s", program, timeout_s);
    out.at_once = false;
  } else if (end->ok()) {
    out.level = HealthLevel::kHealthy;
  } else if (!end->said.empty()) {
    out.evidence = end->said;
  } else {
    out.evidence = end->signal != 0 ? format("{} was ended by signal {}", program, end->signal)
                                    : format("{}: exit code {}", program, end->code);
  }
  return out;
}

}  // namespace

NodeHealth::NodeHealth(EventLoop& loop, const Clock& clock, const AgentFile& settings, Asks asks)
    : loop_(loop), clock_(clock), settings_(settings), asks_(std::move(asks)), look_(loop), program_(loop) {
  const NodeHealthSettings& health = settings_.health;
  places_.disks = health.disks;
  for (const std::string& own : {settings_.state_dir, settings_.run_dir})
    if (!own.empty() && std::find(places_.disks.begin(), places_.disks.end(), own) == places_.disks.end())
      places_.disks.push_back(own);
  places_.mounts = health.mounts;
  places_.full_percent = health.disk_full_percent;
  places_.off = health.off;
  places_.socket = settings_.socket;
  places_.over = over_;
}

NodeHealth::~NodeHealth() { *over_ = true; }

void NodeHealth::start() {
  if (settings_.health.look_s > 0)
    look();
  if (!settings_.health.program.empty() && settings_.health.interval_s > 0)
    run_program_later(first_wait());
}

// --- the built-in checks ---

void NodeHealth::look_later() {
  loop_.after(seconds(settings_.health.look_s), [this] { look(); });
}

void NodeHealth::look() {
  auto found = std::make_shared<std::vector<MachineFinding>>();
  const auto begun = look_.start(
      [found, places = places_, memory = memory_, jobs = asks_.jobs()]() -> Result<void> {
        *found = look_at_machine(places, *memory, jobs);
        return {};
      },
      [this, found](const Result<void>&) {
        take(machine_checks(places_), findings_of(*found));
        look_later();
      });
  if (!begun)
    look_later();
}

void NodeHealth::see_devices(const std::vector<Device>& devices, const std::vector<std::string>& faults) {
  if (std::find(settings_.health.off.begin(), settings_.health.off.end(), kGpu) != settings_.health.off.end())
    return;
  std::size_t count = 0;
  std::vector<LookFinding> findings;
  std::vector<std::string> faulty;  // they get no work; the others do
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const Device& device = devices[i];
    if (device.kind != kGpu)
      continue;
    ++count;
    if (!device.healthy)
      faulty.push_back(i < faults.size() && !faults[i].empty()
                           ? faults[i]
                           : format("GPU {} ({}) is faulty", device.minor, device.uuid));
  }
  if (!faulty.empty())
    findings.push_back({kGpu, HealthLevel::kSuspect, join(faulty, ", "), true, true});
  if (count < devices_most_)
    findings.push_back({kGpu, HealthLevel::kBad,
                        format("{} of {} GPUs are missing", devices_most_ - count, devices_most_), true, true});
  devices_most_ = std::max(devices_most_, count);
  take({kGpu}, findings);
}

void NodeHealth::see_no_devices(const std::string& why) {
  if (std::find(settings_.health.off.begin(), settings_.health.off.end(), kGpu) == settings_.health.off.end() &&
      devices_most_ > 0)
    take({kGpu}, {{kGpu, HealthLevel::kBad, why, false}});
}

void NodeHealth::see_clock(Duration ahead, Duration blur) {
  if (std::find(settings_.health.off.begin(), settings_.health.off.end(), kClock) != settings_.health.off.end())
    return;
  const Duration off = Duration{std::abs(ahead.us)} - blur;
  std::vector<LookFinding> findings;
  if (off >= kClockSuspect)
    findings.push_back({kClock, off >= kClockBad ? HealthLevel::kBad : HealthLevel::kSuspect,
                        format("the clock is {} s {} the controller's", std::abs(ahead.us) / 1'000'000,
                               ahead.us > 0 ? "ahead of" : "behind"),
                        false});
  take({kClock}, findings);
}

// --- the site's program ---

// So that the nodes of a cluster do not all look at the same moment: each has its own place in the interval.
Duration NodeHealth::first_wait() const {
  if (!has_word(settings_.health.node_state, "CYCLE"))
    return {};
  std::uint64_t hash = 1469598103934665603ULL;
  for (const char c : settings_.node) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return millis(static_cast<std::int64_t>(hash % (std::uint64_t{settings_.health.interval_s} * 1000)));
}

bool NodeHealth::is_time_for_program() const {
  const std::string& when = settings_.health.node_state;
  const bool busy = !asks_.jobs().empty();
  if (has_word(when, "IDLE") || has_word(when, "NONDRAINED_IDLE"))
    return !busy;
  if (has_word(when, "ALLOC") || has_word(when, "MIXED"))
    return busy;
  return true;
}

void NodeHealth::run_program_later(Duration wait) {
  loop_.after(wait, [this] { run_program(); });
}

void NodeHealth::run_program() {
  const NodeHealthSettings& health = settings_.health;
  if (!has_word(health.node_state, "START_ONLY"))
    run_program_later(seconds(health.interval_s));
  if (program_.is_out() || !is_time_for_program())
    return;
  auto end = std::make_shared<Result<ProgramEnd>>(ProgramEnd{});
  (void)program_.start(
      [end, program = health.program, env = program_environment(settings_), limit = seconds(health.timeout_s),
       over = over_]() -> Result<void> {
        const auto trusted = check_trusted_program(program);
        *end = trusted ? run_program_within({program}, env, limit, over.get()) : Result<ProgramEnd>(trusted.error());
        return {};
      },
      [this, end](const Result<void>&) {
        take({kProgram}, {finding_of(settings_.health.program, *end, settings_.health.timeout_s)});
      });
}

void NodeHealth::take(const std::vector<std::string>& checks, const std::vector<LookFinding>& findings) {
  if (!book_.take(checks, findings, clock_.boot()))
    return;
  const std::string now_bad = bad(), now_suspect = suspect();
  log_line(now_bad.empty() ? LogLevel::kInfo : LogLevel::kWarning,
           format("lockstep-agent: health of this node: {}", !now_bad.empty()       ? "bad: " + now_bad
                                                             : !now_suspect.empty() ? "suspect: " + now_suspect
                                                                                    : "all checks pass again"));
  asks_.changed();
}

}  // namespace lockstep
