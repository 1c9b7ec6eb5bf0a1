// What an agent decides about hooks: the site's programs that run on a node before a job (the prolog) and behind it
// (the epilog). A shim runs them, so they survive the agent as steps do; which files they are is their runner's
// business.
//
//   none ──ordered──▶ running ──exit code 0──▶ passed
//                        └────else, or late──▶ failed
#pragma once

#include <string>
#include <vector>

#include "model/agent_messages.h"
#include "model/hook_part.h"
#include "ports/shims.h"

namespace lockstep {

struct HookSettings {
  bool prolog = false, epilog = false;
  Duration prolog_limit = minutes(5), epilog_limit = minutes(5);  // how long one may take before it is killed
  Duration staging_limit = hours(4);                              // of what is staged in, and of what is staged out
};

enum class HookPhase : unsigned char { kNone, kRunning, kPassed, kFailed };

// One hook of one attempt.
struct HookRun {
  HookPhase phase = HookPhase::kNone;
  Instant began;         // boot clock
  bool stopped = false;  // told to end, since it took too long
};

// What the programs are told of a job: the variables that the cluster makes for it, and none of its user's own.
std::vector<std::string> hook_environment(const LaunchAttempt& launch, const std::string& node);
// Of an attempt whose launch nothing tells any more.
std::vector<std::string> hook_environment(JobId job, std::uint32_t uid, const std::string& node);

// Tells the epilog how the attempt's work here ended, as wait(2) does: its script, and the worst of its steps. False:
// nothing that it was not told before.
bool tell_end(std::vector<std::string>& env, const WorkId& work, const std::vector<TaskResult>& results);

// All that may run around a job, in the order of their beginnings.
inline constexpr StepNo kHookSteps[] = {kPrologStep, kStageInStep, kStageOutStep, kEpilogStep};

// The order to a shim; whoever runs it adds the program. env: hook_environment().
ShimStart hook_start(const WorkId& hook, std::vector<std::string> env);

// Why a hook that has ended is no success; "" = it is one. stopped: it took longer than limit.
std::string hook_failure(const WorkId& hook, const ShimEvent& end, bool stopped, Duration limit);

}  // namespace lockstep
