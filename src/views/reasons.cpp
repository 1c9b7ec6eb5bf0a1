#include "views/reasons.h"

#include "base/text.h"
#include "model/job.h"
#include "model/job_state.h"
#include "rules/limits.h"

namespace lockstep {

namespace {

std::string_view hold_reason(Hold hold) {
  switch (hold) {
    case Hold::kNone: return "None";
    case Hold::kUser: return "JobHeldUser";
    case Hold::kAdmin: return "JobHeldAdmin";
    case Hold::kRequeueLimit: return "JobHoldMaxRequeue";
    case Hold::kDependency: return "Dependency";
    case Hold::kDependencyNever: return "DependencyNeverSatisfied";
    case Hold::kBeginTime: return "BeginTime";
    case Hold::kArrayThrottle: return "JobArrayTaskLimit";
    case Hold::kLaunchFailed: return "launch_failed_requeued_held";
  }
  return "None";
}

std::string_view wait_reason(Wait wait) {
  switch (wait) {
    case Wait::kNone: return "None";
    case Wait::kPriority: return "Priority";
    case Wait::kResources: return "Resources";
    case Wait::kNodesUnavailable: return "ReqNodeNotAvail";
    case Wait::kPartitionDown: return "PartitionDown";
    case Wait::kPartitionTimeLimit: return "PartitionTimeLimit";
    case Wait::kPartitionNodeLimit: return "PartitionNodeLimit";
    case Wait::kBadConstraints: return "BadConstraints";
    case Wait::kReservation: return "Reservation";
    case Wait::kLicenses: return "Licenses";
    case Wait::kLimit: return "AccountingPolicy";
  }
  return "None";
}

}  // namespace

Reason slurm_reason_parts(const Job& job, const PlanNote* note) {
  if (is_final(job.state) || job.state == JobState::kCompleting) {
    const std::string_view reason(job.end_reason);
    const std::string_view first = reason.substr(0, reason.find(' '));
    return {first.empty() ? "None" : first, {}};
  }
  if (job.state == JobState::kSuspended && job.eviction)
    return {"Resources", {}};  // it goes on when there is room
  if (job.state != JobState::kPending)
    return {"None", {}};
  if (job.hold != Hold::kNone || !note)
    return {hold_reason(job.hold), {}};
  const std::string_view detail(note->detail);
  if (note->wait == Wait::kLimit && !detail.empty())
    return {detail.substr(0, detail.find(':')), {}};
  if (note->wait == Wait::kPartitionDown && detail == kPartitionClosed)
    return {"PartitionInactive", {}};
  return {wait_reason(note->wait), note->wait == Wait::kNodesUnavailable ? detail : std::string_view()};
}

std::string slurm_reason(const Job& job, const PlanNote* note) {
  const Reason reason = slurm_reason_parts(job, note);
  return reason.detail.empty() ? std::string(reason.word) : format("{}, {}", reason.word, reason.detail);
}

}  // namespace lockstep
