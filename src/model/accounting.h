// Who may use how much, and who goes first: the tree of accounts, associations (a user in an account), QOS, quotas,
// licences, past use, and the cluster's policy. Slurm's words and meanings (sacctmgr(1), slurm.conf(5)).
#pragma once

#include <string>
#include <vector>

#include "model/meta.h"
#include "model/preempt_mode.h"
#include "model/tres.h"

namespace lockstep {

// kNoLimit where nothing is bounded. An association or account is bound by the fields of the first two blocks, a QOS by
// those of the first and the last.
struct Limits {
  TresLimit grp_tres;           // in use at once by all jobs together
  TresLimit grp_tres_mins;      // TRES-minutes of past (decayed) and running jobs
  TresLimit grp_tres_run_mins;  // TRES-minutes that running jobs may still use
  std::int64_t grp_jobs = kNoLimit;
  std::int64_t grp_submit_jobs = kNoLimit;  // pending and running; array elements count one by one
  std::int64_t grp_wall_mins = kNoLimit;    // wall time of past (decayed) and running jobs
  TresLimit max_tres_per_job;
  TresLimit max_tres_per_node;
  TresLimit max_tres_mins_per_job;
  std::int64_t max_wall_mins_per_job = kNoLimit;

  std::int64_t max_jobs = kNoLimit;  // of one association
  std::int64_t max_submit_jobs = kNoLimit;

  TresLimit max_tres_per_user;
  TresLimit max_tres_per_account;
  std::int64_t max_jobs_per_user = kNoLimit;
  std::int64_t max_jobs_per_account = kNoLimit;
  std::int64_t max_submit_jobs_per_user = kNoLimit;
  std::int64_t max_submit_jobs_per_account = kNoLimit;
  TresLimit min_tres_per_job;
  std::int64_t min_priority = kNoLimit;  // below it a job gets no promise of a start (MinPrioThreshold)
  friend bool operator==(const Limits&, const Limits&) = default;
};

// What an account is guaranteed and may trade with its siblings, by resource, as Kueue's cohorts do. An amount that no
// account of the tree guarantees is not governed.
struct Quota {
  TresLimit nominal;  // guaranteed; kNoLimit counts as 0 where others guarantee some
  TresLimit borrow;   // at most this much beyond nominal; kNoLimit = whatever is free
  TresLimit lend;     // at most this much of what is unused goes to others; kNoLimit = all
  friend bool operator==(const Quota&, const Quota&) = default;
};

inline constexpr std::uint32_t kParentShares = 0x7fffffff;  // "parent": counts as its parent for fair share

struct Account {
  Meta meta;           // meta.name
  std::string parent;  // "" = the root
  std::uint32_t shares = 1;
  std::string description, organization;
  std::string default_qos;                // "" = the parent's
  std::vector<std::string> qos;           // allowed; empty = the parent's, and at the root all
  std::vector<std::string> coordinators;  // users who may manage it and what is below
  Limits limits;
  Quota quota;
};

// A user in an account, or in an account and one partition. meta.name is association_name() of the three.
struct Association {
  Meta meta;
  std::string account, user;
  std::string partition;    // "" = any that has no association of its own
  bool is_default = false;  // of its user's accounts; one has it
  std::uint32_t shares = 1;
  std::string default_qos;       // "" = the account's
  std::vector<std::string> qos;  // allowed; empty = the account's
  std::int64_t priority = 0;     // factor for Policy::weight_assoc
  Limits limits;
};
std::string association_name(const std::string& account, const std::string& user, const std::string& partition);

struct Qos {
  Meta meta;  // meta.name
  std::string description;
  std::uint32_t priority = 0;
  std::uint32_t usage_factor_milli = 1000;  // what its jobs use counts so many thousandths
  std::vector<std::string> preempts;        // QOS whose jobs it may stop
  PreemptMode preempt_mode = PreemptMode::kCluster;
  Duration grace;           // from the warning to the stop of a preempted job
  Duration preempt_exempt;  // a job may not be preempted before it ran so long
  bool scavenger = false;   // its jobs run on what nobody else wants: behind everybody, and everybody may preempt them
  Limits limits;
  bool deny_on_limit = false;         // what would exceed a Max limit is refused at submit instead of waiting
  bool enforce_threshold = false;     // EnforceUsageThreshold
  std::int64_t threshold_ppm = -1;    // UsageThreshold: lowest fair-share factor in millionths
  bool no_decay = false;              // its past use does not fade
  bool no_reserve = false;            // its jobs get no promise of a start
  bool override_partition = false;    // OverPartQOS: goes before the partition's QOS
  bool partition_nodes_max = false;   // PartitionMaxNodes: may exceed the partition's node bound
  bool partition_time = false;        // PartitionTimeLimit: may exceed the partition's time limit
  bool requires_reservation = false;  // RequiresReservation
  bool usage_factor_safe = false;     // UsageFactorSafe: limits of minutes count the factor in advance
};

// Past use of a user's jobs in an account under a QOS, as it stood at as_of. Later it is worth
// 2^-((t - as_of) / half-life) of that, so it is rewritten only when a job ends. meta.name is usage_name().
// spent: milliseconds × amount; of memory seconds × MB.
struct Usage {
  Meta meta;
  std::string account;
  UserId user;
  std::string partition, qos;
  Instant as_of;
  Tres spent;
  std::int64_t wall_ms = 0;
};
std::string usage_name(const Usage& usage);

// Counted keys that jobs use while they run.
struct Licence {
  Meta meta;  // meta.name
  std::int64_t total = 0;
};

// The cluster's settings of order and accounting; one record, named "policy". The meaning of the weights is Slurm's
// (priority_multifactor). With all weights 0 jobs go by submission.
struct Policy {
  Meta meta;
  std::uint32_t weight_age = 0;
  std::uint32_t weight_fair_share = 100'000;
  std::uint32_t weight_job_size = 0;
  std::uint32_t weight_partition = 100'000;
  std::uint32_t weight_qos = 1'000'000;
  std::uint32_t weight_assoc = 0;
  std::vector<TresWeight> weight_tres;  // whole points at the largest job of the cluster: {"cpu",2000000} is 2000
  Duration age_max = hours(7 * 24);
  Duration half_life = hours(7 * 24);  // 0 = use never fades
  enum class Reset : unsigned char { kNone, kNow, kDaily, kWeekly, kMonthly, kQuarterly, kYearly } reset = Reset::kNone;
  WallTime reset_at;  // kNow: use before this instant is forgotten
  bool favor_small = false;
  Duration calc_period = minutes(5);  // fair-share factors and ages are looked at this often
  bool enforce_associations = false;  // users without an association may not submit
  bool enforce_qos = false;           // every job needs a QOS that its association allows
  bool enforce_safe = false;          // a job starts only if its minutes last to its end
  bool preempt_by_tier = false;       // jobs of a partition of higher tier preempt (Slurm's preempt/partition_prio)
  bool preempt_for_quota = false;     // jobs within their guarantee preempt those that borrow it
  PreemptMode preempt_mode = PreemptMode::kRequeue;  // what kCluster stands for
  Duration preempt_exempt;                           // no job is preempted before it ran so long
};

}  // namespace lockstep
