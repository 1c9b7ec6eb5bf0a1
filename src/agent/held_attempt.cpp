#include "agent/held_attempt.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "model/staging.h"

namespace lockstep {

namespace {

template <class Body>
TaskPart task_in(const Body& body) {
  return {body.group, body.index, body.incarnation};
}

}  // namespace

std::optional<WorkId> ended_shim(const Report& r) {
  if (const auto* body = std::get_if<StepEnded>(&r.body))
    return WorkId{r.job, r.attempt, StepPart{body->step}};
  if (const auto* body = std::get_if<TaskEnded>(&r.body))
    return WorkId{r.job, r.attempt, task_in(*body)};
  // A hook that fails is the node's fault, a staging that does is nobody's; both have shims of their own.
  const auto* failed = std::get_if<LaunchFailed>(&r.body);
  const bool of_script = failed && !failed->node_at_fault && !is_staging_failure(*failed);
  if (std::holds_alternative<ScriptEnded>(r.body) || of_script)
    return WorkId{r.job, r.attempt, ScriptPart{}};
  return std::nullopt;
}

std::optional<WorkId> started_shim(const Report& r) {
  if (const auto* body = std::get_if<StepStarted>(&r.body))
    return WorkId{r.job, r.attempt, StepPart{body->step}};
  if (const auto* body = std::get_if<TaskStarted>(&r.body))
    return WorkId{r.job, r.attempt, task_in(*body)};
  return std::nullopt;
}

const HookRun& hook_in(const HeldAttempt& attempt, StepNo hook) {
  switch (hook) {
    case kPrologStep: return attempt.prolog;
    case kStageInStep: return attempt.stage_in;
    case kStageOutStep: return attempt.stage_out;
    default: CHECK(hook == kEpilogStep, format("{} is no hook", hook)); return attempt.epilog;
  }
}

HookRun& hook_in(HeldAttempt& attempt, StepNo hook) {
  return const_cast<HookRun&>(hook_in(static_cast<const HeldAttempt&>(attempt), hook));
}

bool runs(const HookRun& run) { return run.phase == HookPhase::kRunning; }

bool prepares(const HeldAttempt& attempt) { return runs(attempt.prolog) || runs(attempt.stage_in); }

bool awaits_script(const AttemptId& id, const HeldAttempt& attempt) {
  const bool behind = attempt.prolog.phase != HookPhase::kNone || attempt.stage_in.phase != HookPhase::kNone;
  return attempt.has_script && !attempt.stopping && behind &&
         !attempt.works.contains({id.first, id.second, ScriptPart{}});
}

void forget_in(HeldAttempt& attempt, const WorkId& key) {
  attempt.works.erase(key);
  if (const StepPart* step = step_of(key)) {
    attempt.gone_steps.insert(static_cast<std::uint32_t>(step->step));
  } else if (const TaskPart* task = task_of(key)) {
    auto& incarnation = attempt.gone_incarnations[{task->group, task->index}];
    incarnation = std::max(incarnation, task->incarnation);
  }
  CHECK(!attempt.works.contains(key), text_of(key));
}

StepNo next_step(const HeldAttempt& attempt) {
  constexpr std::uint32_t kLast = INT32_MAX - 1;
  StepNo next = 0;
  if (!attempt.gone_steps.empty())
    next = static_cast<StepNo>(std::min(attempt.gone_steps.back(), kLast)) + 1;
  for (const auto& [key, work] : attempt.works)
    if (const StepPart* step = step_of(key); step && step->step >= next)
      next = std::min(step->step, static_cast<StepNo>(kLast)) + 1;
  CHECK(next >= 0);
  return next;
}

}  // namespace lockstep
