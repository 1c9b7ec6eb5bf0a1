#include "rules/preempt.h"

#include <algorithm>

#include "base/mutant.h"
#include "model/job.h"
#include "model/spec.h"
#include "rules/growth.h"
#include "rules/tres.h"

namespace lockstep {

namespace {

constexpr std::int64_t kCoresPerGpu = 16;     // what a job without GPUs loses, in GPUs
constexpr std::int64_t kMigSliceMilli = 143;  // a seventh of a device, whatever its profile

// A check of an idle node goes for whoever wants the node, at once and for good.
bool is_health_run(const JobSpec& spec) { return !spec.health_check.empty(); }

bool is_scavenger(const Directory& directory, const JobSpec& spec) {
  const Qos* qos = directory.qos_named(spec.qos);
  return qos && qos->scavenger;
}

// Every QOS that this one may preempt, directly or through others.
void reach(const Directory& directory, std::string_view from, std::set<std::string, std::less<>>& out) {
  if (const Qos* qos = directory.qos_named(from))
    for (const std::string& next : qos->preempts)
      if (out.insert(next).second)
        reach(directory, next, out);
}

PreemptMode mode_of(const Directory& directory, const JobSpec& victim, const Partition* where) {
  const Qos* qos = directory.qos_named(victim.qos);
  PreemptMode mode = qos ? qos->preempt_mode : PreemptMode::kCluster;
  if (mode == PreemptMode::kCluster && where)
    mode = where->preempt_mode;
  if (mode == PreemptMode::kCluster)
    mode = directory.policy().preempt_mode;
  const bool starts_again = mode == PreemptMode::kRequeue || mode == PreemptMode::kCheckpoint;
  return starts_again && !restartable(victim) ? PreemptMode::kCancel : mode;
}

}  // namespace

PreemptLoss& PreemptLoss::operator+=(const PreemptLoss& o) {
  work += o.work, jobs += o.jobs, spare_work += o.spare_work, spare_jobs += o.spare_jobs;
  return *this;
}
PreemptLoss& PreemptLoss::operator-=(const PreemptLoss& o) {
  work -= o.work, jobs -= o.jobs, spare_work -= o.spare_work, spare_jobs -= o.spare_jobs;
  return *this;
}

std::int64_t size_milli(const std::vector<Grant>& grants) {
  std::int64_t gpus = 0, cores = 0;
  for (const Grant& grant : grants) {
    gpus += std::int64_t{grant.devices.count()} * kWholeDevice;
    for (const DevicePart& part : grant.parts) gpus += part.mig.empty() ? part.milli : kMigSliceMilli;
    cores += grant.cores.count();
  }
  return gpus > 0 ? gpus : cores * kWholeDevice / kCoresPerGpu;
}

bool restartable(const JobSpec& spec) {
  return spec.requeue && !is_health_run(spec) &&
         (spec.groups.front().launch == Launch::kScript ||
          std::any_of(spec.groups.begin(), spec.groups.end(),
                      [](const GroupSpec& g) { return g.launch == Launch::kTasks; }));
}

bool preemption_is_on(const Directory& directory) {
  const Policy& policy = directory.policy();
  return policy.preempt_by_tier || policy.preempt_for_quota || !directory.health_checks.empty() ||
         std::any_of(directory.qos.begin(), directory.qos.end(),
                     [](const auto& q) { return q.second->scavenger || !q.second->preempts.empty(); });
}

PreemptRight::PreemptRight(const Directory& directory, const JobSpec& spec, const Partition& partition,
                           const QuotaTree* quotas, const Tres& tres)
    : directory_(directory), spec_(spec), partition_(partition), quotas_(quotas) {
  scavenger_ = is_scavenger(directory, spec);
  by_tier_ = directory.policy().preempt_by_tier;
  if (const Qos* qos = directory.qos_named(spec.qos))
    preempts_.insert(qos->preempts.begin(), qos->preempts.end());
  if (quotas && !quotas->empty() && directory.policy().preempt_for_quota) {
    QuotaTree with = *quotas;
    with.add(spec.account, tres, 1);
    for_quota_ = true;
    for (const std::string& name : with.resources()) {
      if (!with.governs(spec.account, name) || count_of(tres, name) <= 0)
        continue;
      wanted_.push_back(name);
      for_quota_ = for_quota_ && with.borrowed(spec.account, name) == 0;
    }
    for_quota_ = for_quota_ && !wanted_.empty();
  }
  const bool scavengers =
      std::any_of(directory.qos.begin(), directory.qos.end(), [](const auto& q) { return q.second->scavenger; });
  any_ = (spec.precedence && !spec.waits_its_turn) || by_tier_ || !preempts_.empty() || for_quota_ ||
         (scavengers && !scavenger_) || !directory.health_checks.empty();
}

int PreemptRight::rank_over(std::string_view qos, std::optional<std::int32_t> precedence,
                            const Partition* where) const {
  if (spec_.precedence && precedence && *spec_.precedence != *precedence)
    return *spec_.precedence < *precedence ? -1 : spec_.waits_its_turn ? 0 : 1;
  const Qos* theirs = directory_.qos_named(qos);
  if (const bool scavenger = theirs && theirs->scavenger; scavenger != scavenger_)
    return scavenger ? 1 : -1;
  if (by_tier_ && where && where->tier != partition_.tier)
    return where->tier < partition_.tier ? 1 : -1;
  if (preempts_.contains(qos))
    return 1;
  std::set<std::string, std::less<>> reached;
  reach(directory_, qos, reached);
  return reached.contains(std::string_view(spec_.qos)) ? -1 : 0;
}

bool PreemptRight::outranks(std::string_view qos, std::optional<std::int32_t> precedence,
                            const Partition* where) const {
  return rank_over(qos, precedence, where) > 0;
}

bool PreemptRight::precedes(const Job& victim) const {
  return spec_.precedence && victim.spec->precedence && !spec_.waits_its_turn &&
         *spec_.precedence > *victim.spec->precedence;
}

bool PreemptRight::claims_back(const Job& victim) const {
  const JobSpec& theirs = *victim.spec;
  return for_quota_ && theirs.account != spec_.account &&
         std::any_of(wanted_.begin(), wanted_.end(), [&](const std::string& r) {
           return quotas_->borrowed(theirs.account, r) > 0 && count_of(victim.allocation->tres, r) > 0;
         });
}

bool PreemptRight::may_displace(const Job& victim, const Partition* where) const {
  const bool could_go = victim.state == JobState::kStarting || victim.state == JobState::kRunning;
  if (!any_ || !could_go || victim.eviction || victim.hangs)
    return false;
  if (is_health_run(*victim.spec))
    return true;
  const int rank = rank_over(victim.spec->qos, victim.spec->precedence, where);
  return rank > 0 || (rank == 0 && claims_back(victim));
}

namespace {

// Whether a victim can be sent away so. What has not started yet has nothing to pause.
bool can_go(PreemptMode mode, JobState state) {
  switch (mode) {
    case PreemptMode::kOff:
    case PreemptMode::kGang:
    case PreemptMode::kCluster: return false;
    case PreemptMode::kSuspend: return state == JobState::kRunning;
    case PreemptMode::kCancel:
    case PreemptMode::kRequeue:
    case PreemptMode::kCheckpoint: break;
  }
  return true;
}

// How long it has between being told and being ended. Told to save its work it needs time for it, whether or not
// anybody thought of a grace.
Duration grace_of(const JobSpec& victim, PreemptMode mode, const Qos* qos, const Partition* where) {
  const Duration grace = qos && qos->grace.us > 0 ? qos->grace : where ? where->grace : Duration{};
  const bool saves = mode == PreemptMode::kCheckpoint && victim.checkpoint_signal != 0;
  return saves && grace.us <= 0 ? victim.kill_wait : grace;
}

}  // namespace

std::optional<PreemptTerms> PreemptRight::against(const Job& victim, const Partition* where) const {
  if (!may_displace(victim, where))
    return std::nullopt;
  PreemptTerms out;
  if (is_health_run(*victim.spec)) {
    out.mode = PreemptMode::kCancel;
    return out;
  }
  out.mode = mode_of(directory_, *victim.spec, where);
  if (precedes(victim))
    out.mode = restartable(*victim.spec) ? PreemptMode::kRequeue : PreemptMode::kCancel;
  if (!can_go(out.mode, victim.state))
    return std::nullopt;
  const Qos* qos = directory_.qos_named(victim.spec->qos);
  out.grace = grace_of(*victim.spec, out.mode, qos, where);
  const Duration exempt = qos && qos->preempt_exempt.us > 0 ? qos->preempt_exempt : directory_.policy().preempt_exempt;
  if (exempt.us > 0)
    out.from = victim.started ? victim.started + exempt : kNever;
  return out;
}

namespace {
std::int64_t work_since(const Job& victim, const std::vector<Grant>& grants, Instant now) {
  if (!victim.started)
    return 0;
  const Duration run = now - std::max(victim.started, victim.checkpointed);
  return std::max<std::int64_t>(run.us / 1000, 0) * size_milli(grants) / kWholeDevice;
}
}  // namespace

PreemptLoss loss_on(const Directory& directory, const Job& victim, NodeId node, Instant now) {
  std::vector<Grant> grants = victim.allocation->grants;
  std::erase_if(grants, [&](const Grant& grant) { return grant.node != node; });
  const std::int64_t work = work_since(victim, grants, now);
  return is_scavenger(directory, *victim.spec) ? PreemptLoss{.spare_work = work} : PreemptLoss{.work = work};
}

PreemptLoss loss_of(const Directory& directory, const Job& victim, PreemptMode mode, Instant now) {
  // What is told to save its work, or only pauses, loses nothing to speak of.
  const bool kept =
      mode == PreemptMode::kSuspend || (mode == PreemptMode::kCheckpoint && victim.spec->checkpoint_signal != 0);
  const std::int64_t work = kept ? 0 : work_since(victim, victim.allocation->grants, now);
  PreemptLoss out;
  if (is_health_run(*victim.spec))
    out = {.spare_jobs = 1};
  else if (is_scavenger(directory, *victim.spec))
    out = {.spare_work = work, .spare_jobs = 1};
  else
    out = {.work = work, .jobs = 1};
  return out;
}

std::optional<PreemptTerms> move_terms(const Directory& directory, const Job& job, const Partition* where,
                                       Duration after) {
  const JobSpec& spec = *job.spec;
  if (job.state != JobState::kRunning || job.eviction || !job.started || !where || spec.checkpoint_signal == 0 ||
      !restartable(spec) || spec.groups.size() != 1 || is_elastic(spec.groups.front()))
    return std::nullopt;
  const Qos* qos = directory.qos_named(spec.qos);
  PreemptTerms out;
  out.mode = PreemptMode::kCheckpoint;
  out.grace = qos && qos->grace.us > 0 ? qos->grace : where->grace;
  if (out.grace.us <= 0)
    out.grace = spec.kill_wait;
  out.from = job.started + after;
  return out;
}

PreemptLoss move_loss(const Job& job, Instant now) {
  const Duration run = now - std::max(job.started, job.checkpointed);
  const std::int64_t ms = (std::max(run, Duration{}) + kMoveTakes).us / 1000;
  return {.work = ms * size_milli(job.allocation->grants) / kWholeDevice, .jobs = 1};
}

bool is_paused(const Job& job) { return holds_allocation(job.state) && job.suspended_at; }

bool gave_up(const Job& job, std::size_t grant) {
  if (mutant(Mutant::kPauseUnasked))
    return is_paused(job);
  return is_paused(job) && (job.members[grant] == MemberState::kPaused || job.members[grant] == MemberState::kStopped);
}

bool all_gave_up(const Job& job) {
  for (std::size_t i = 0; i < job.members.size(); ++i)
    if (!gave_up(job, i))
      return false;
  return true;
}

Grant memory_of(const Grant& grant) { return {.node = grant.node, .group = grant.group, .memory_mb = grant.memory_mb}; }

}  // namespace lockstep
