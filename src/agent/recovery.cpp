#include "agent/recovery.h"

#include "base/check.h"

namespace lockstep {

bool knows(const HeldAttempts& held, const std::set<AttemptId>& gone, const WorkId& key) {
  const auto it = held.find(attempt_of(key));
  if (it == held.end())
    return gone.contains(attempt_of(key));
  const HeldAttempt& attempt = it->second;
  if (is_hook(key))
    return hook_in(attempt, step_of(key)->step).phase != HookPhase::kNone;
  if (attempt.works.contains(key))
    return true;
  // A script that has ended, or failed to start, leaves its attempt stopping, and is not listed once that was told.
  if (is_script(key))
    return attempt.stopping;
  if (const StepPart* step = step_of(key))
    return attempt.gone_steps.contains(static_cast<std::uint32_t>(step->step));
  CHECK(task_of(key), text_of(key));
  const TaskPart& task = *task_of(key);
  const auto incarnation = attempt.gone_incarnations.find({task.group, task.index});
  return incarnation != attempt.gone_incarnations.end() && task.incarnation <= incarnation->second;
}

Missing missing_in(const HeldAttempts& held, const std::set<WorkId>& survivors) {
  Missing missing;
  for (const auto& [id, attempt] : held) {
    for (const auto& [key, work] : attempt.works)
      if (!work.ended && !survivors.contains(key))
        missing.works.push_back(key);
    const WorkId script{id.first, id.second, ScriptPart{}};
    if (attempt.has_script && !attempt.stopping && !attempt.works.contains(script) && !awaits_script(id, attempt))
      missing.scripts.push_back(id);
    if (attempt.stopping)
      missing.stopping.push_back(id);
    for (const StepNo hook : kHookSteps) {
      const WorkId key{id.first, id.second, StepPart{hook}};
      if (runs(hook_in(attempt, hook)) && !survivors.contains(key))
        missing.hooks.push_back(key);
    }
  }
  return missing;
}

}  // namespace lockstep
