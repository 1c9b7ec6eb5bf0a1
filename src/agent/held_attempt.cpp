#include "agent/held_attempt.h"

#include <algorithm>

namespace lockstep {

AttemptId attempt_of(const ShimKey& key) { return {key.job, key.attempt}; }

ShimKey step_key(JobId job, AttemptNo attempt, StepNo step) { return {job, attempt, step, 0, 0, 0}; }

std::optional<ShimKey> ended_shim(const Report& r) {
  if (const auto* body = std::get_if<StepEnded>(&r.body))
    return step_key(r.job, r.attempt, body->step);
  if (const auto* body = std::get_if<TaskEnded>(&r.body))
    return task_key(r.job, r.attempt, *body);
  if (std::holds_alternative<ScriptEnded>(r.body) || std::holds_alternative<LaunchFailed>(r.body))
    return step_key(r.job, r.attempt, kBatchStep);
  return std::nullopt;
}

std::optional<ShimKey> started_shim(const Report& r) {
  if (const auto* body = std::get_if<StepStarted>(&r.body))
    return step_key(r.job, r.attempt, body->step);
  if (const auto* body = std::get_if<TaskStarted>(&r.body))
    return task_key(r.job, r.attempt, *body);
  return std::nullopt;
}

void forget_in(HeldAttempt& attempt, const ShimKey& key) {
  attempt.works.erase(key);
  if (key.step >= 0) {
    attempt.gone_steps.insert(static_cast<std::uint32_t>(key.step));
  } else if (key.step == kTasksStep) {
    auto& incarnation = attempt.gone_incarnations[{key.group, key.index}];
    incarnation = std::max(incarnation, key.incarnation);
  }
}

StepNo next_step(const HeldAttempt& attempt) {
  constexpr std::uint32_t kLast = INT32_MAX - 1;
  StepNo next = 0;
  if (!attempt.gone_steps.empty())
    next = static_cast<StepNo>(std::min(attempt.gone_steps.back(), kLast)) + 1;
  for (const auto& [key, work] : attempt.works)
    if (key.step >= next)
      next = std::min(key.step, static_cast<StepNo>(kLast)) + 1;
  return next;
}

}  // namespace lockstep
