#include "foresight/job_words.h"

#include "base/text.h"
#include "model/job.h"

namespace lockstep {

namespace {

std::string dependency_words(const Tables& tables, const Job& job) {
  const auto verb = [](Dependency::Type type) {
    switch (type) {
      case Dependency::Type::kAfter: return "to have begun";
      case Dependency::Type::kAfterAny: return "to end";
      case Dependency::Type::kAfterOk: return "to end well";
      case Dependency::Type::kAfterNotOk: return "to fail";
      case Dependency::Type::kAfterCorr: return "to end well, element by element";
      case Dependency::Type::kSingleton: return "";
    }
    return "";
  };
  std::vector<std::string> parts;
  for (const Dependency& d : job.spec->dependencies) {
    if (d.type == Dependency::Type::kSingleton) {
      parts.push_back(format("the owner's other jobs named {} to end", job.spec->name));
      continue;
    }
    const Job* other = tables.job(d.job);
    parts.push_back(format("job {} {} ({})", d.job.value, verb(d.type), other ? state_word(other->state) : "gone"));
  }
  return parts.empty() ? "nothing that is known" : join(parts, job.spec->dependency_any ? " or " : " and ");
}

}  // namespace

std::string_view state_word(JobState state) {
  switch (state) {
    case JobState::kPending: return "pending";
    case JobState::kStarting: return "starting";
    case JobState::kRunning: return "running";
    case JobState::kSuspended: return "suspended";
    case JobState::kCompleting: return "completing";
    default: return "ended";
  }
}

std::string held_words(const Tables& tables, const Job& job) {
  switch (job.hold) {
    case Hold::kUser: return "It is held by its owner.";
    case Hold::kAdmin: return "It is held by an administrator.";
    case Hold::kRequeueLimit: return "It was requeued too often and is held.";
    case Hold::kLaunchFailed:
      return format("A node could not launch it{}; it was requeued and is held.",
                    job.end_reason.empty() ? "" : format(" ({})", job.end_reason));
    case Hold::kDependency: return format("It waits for {}.", dependency_words(tables, job));
    case Hold::kDependencyNever:
      return format("It waits for {}: that cannot happen any more.", dependency_words(tables, job));
    case Hold::kBeginTime:
      return job.begin_after && job.spec->begin.us == 0
                 ? "It was put back into the queue, and waits a while before it is started again."
                 : "It may not begin before the time its owner named.";
    case Hold::kArrayThrottle: {
      const Job* array = job.array ? &job : tables.job(job.array_job);
      if (array && array->array)
        return format("At most {} elements of the array run at once, and {} do.", array->array->throttle,
                      array->array->running);
      return "As many elements of the array run as may at once.";
    }
    case Hold::kNone: break;
  }
  return "";
}

std::string ended_words(const Job& job) {
  const std::string_view reason(job.end_reason);
  const auto because = [&](std::string_view words) {
    return reason.empty() ? format("{}.", words) : format("{} ({}).", words, reason);
  };
  switch (job.state) {
    case JobState::kCompleted: return "It ended well.";
    case JobState::kFailed:
      return because(job.exit.signal != 0 ? format("It failed: signal {}", job.exit.signal)
                                          : format("It failed: exit code {}", job.exit.code));
    case JobState::kCancelled: return because(reason == "ClientLost" ? "Its client went away" : "It was cancelled");
    case JobState::kTimeout: return because("Its time limit ended it");
    case JobState::kNodeFail: return because("It ended with a node that was lost");
    case JobState::kOutOfMemory: return because("It ended for lack of memory");
    case JobState::kDeadline: return because("Its deadline ended it");
    default: return because("It has ended");
  }
}

std::string refused_words(const RefusedPart& refused) {
  const std::string why = refused.detail.empty() ? refused.reason : format("{}: {}", refused.reason, refused.detail);
  return format("{} is refused ({}). It is tried again; if this stays so, tell an administrator.",
                refused.part == PlanPart::kPreemption ? "Others could make room for it, and that"
                                                      : "A place is found for it, and its start there",
                why);
}

}  // namespace lockstep
