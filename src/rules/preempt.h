// Preemption: which running job has to go for which waiting one, how, and what is lost by it. The core asks before it
// commits a plan, the planner while it looks for victims.
//
// Who may preempt whom is decided by the first of these that tells two jobs apart, so that no two jobs may ever preempt
// each other: runs of health checks go for everybody; of two with a precedence the lower goes for the higher;
// scavengers go for everybody else; with Policy::preempt_by_tier the lower tier of partitions goes for the higher; a
// QOS goes for those that name it (Qos::preempts, which never runs in a circle); with Policy::preempt_for_quota jobs of
// an account that borrows go for jobs within their own guarantee.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "model/directory.h"
#include "rules/quota.h"

namespace lockstep {

struct Job;
struct JobSpec;

// How a victim goes.
struct PreemptTerms {
  PreemptMode mode = PreemptMode::kRequeue;  // kCancel, kRequeue, kSuspend or kCheckpoint
  Duration grace;                            // from the warning to the stop
  Instant from;                              // not before this: Qos::preempt_exempt; in the past: now
};

// What goes with a victim, the cheaper set first: work of jobs that are no scavengers, how many of those, and the same
// of scavengers. Work in GPU-milliseconds; a core of a job without GPUs counts like a sixteenth of one.
struct PreemptLoss {
  std::int64_t work = 0, jobs = 0, spare_work = 0, spare_jobs = 0;
  PreemptLoss& operator+=(const PreemptLoss& o);
  PreemptLoss& operator-=(const PreemptLoss& o);
  friend auto operator<=>(const PreemptLoss&, const PreemptLoss&) = default;
};

// A requeued job of this kind could start again without harm (core/attempts.h uses the same).
bool restartable(const JobSpec& spec);

// Whether anybody may preempt anybody under these settings: a look at a few records.
bool preemption_is_on(const Directory& directory);

// The right of one waiting job, worked out once for all victims.
class PreemptRight {
 public:
  // quotas: null = quota reclaim is not looked at. tres: what the job would take. All must outlive this.
  PreemptRight(const Directory& directory, const JobSpec& spec, const Partition& partition, const QuotaTree* quotas,
               const Tres& tres);

  bool any() const { return any_; }              // false: it may preempt nobody
  bool precedes(const Job& victim) const;        // by its precedence
  bool for_quota() const { return for_quota_; }  // it may claim back what others borrow
  // By scavenging, tier or QOS: whether jobs of that QOS in that partition go for it. Quotas are another matter.
  bool outranks(std::string_view qos, std::optional<std::int32_t> precedence, const Partition* where) const;
  // Nullopt: the victim stays. where: the victim's partition; null = it is gone.
  std::optional<PreemptTerms> against(const Job& victim, const Partition* where) const;

 private:
  bool may_displace(const Job& victim, const Partition* where) const;
  bool claims_back(const Job& victim) const;
  // What tells the two apart: 1 for the right, -1 against it, 0 = nothing.
  int rank_over(std::string_view qos, std::optional<std::int32_t> precedence, const Partition* where) const;

  const Directory& directory_;
  const JobSpec& spec_;
  const Partition& partition_;
  const QuotaTree* quotas_;
  bool scavenger_ = false, by_tier_ = false, for_quota_ = false, any_ = false;
  std::set<std::string, std::less<>> preempts_;  // QOS
  std::vector<std::string> wanted_;              // resources of quotas that it takes some of
};

// What the stop of a running job at `now` would lose: what was computed since its last checkpoint, or since it began.
PreemptLoss loss_of(const Directory& directory, const Job& victim, PreemptMode mode, Instant now);

// What it would lose by giving up what it has on the node, as if the node were lost.
PreemptLoss loss_on(const Directory& directory, const Job& victim, NodeId node, Instant now);

// Moving a running job to another place of its partition so that a waiting one fits: it saves its work, is requeued and
// starts again there. Only jobs that can save their work, have one group of a fixed size and have run for a while.
inline constexpr std::size_t kMovesMost = 4;         // in one decision
inline constexpr Duration kMoveAfter = minutes(10);  // since its start, unless set: nobody is moved all the time
inline constexpr Duration kMoveTakes = minutes(1);   // in which it computes nothing
// Nullopt: it cannot be moved. where: its partition; null = it is gone. after: since its start.
std::optional<PreemptTerms> move_terms(const Directory& directory, const Job& job, const Partition* where,
                                       Duration after = kMoveAfter);
// Everything since its last checkpoint, as if the signal were of no use, and the time of the move itself.
PreemptLoss move_loss(const Job& job, Instant now);

// Computing resources in thousandths of a GPU; cores count where there are no GPUs.
std::int64_t size_milli(const std::vector<Grant>& grants);

// Suspended, or ended while it was.
bool is_paused(const Job& job);
// Of that grant a paused job has nothing but the memory: its node has said that nothing of it runs there any more.
// Until then it has all of it.
bool gave_up(const Job& job, std::size_t grant);
bool all_gave_up(const Job& job);  // everywhere
Grant memory_of(const Grant& grant);

}  // namespace lockstep
