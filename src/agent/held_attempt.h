// What an agent knows of an attempt that it holds, and questions about that alone.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "agent/hooks.h"
#include "agent/staging.h"
#include "base/interval_set.h"
#include "model/agent_messages.h"
#include "ports/shims.h"

namespace lockstep {

using AttemptId = std::pair<JobId, AttemptNo>;

// What runs here for an attempt: its script, a step, or a task.
//
// ordered ──kStarted──▶ running ──kEnded/kFailed──▶ ended (reported) ──acknowledged──▶ forgotten
struct HeldWork {
  std::vector<std::uint32_t> ranks;
  bool started = false, ended = false;
  bool settled = true;  // it has done as the last order to pause or to go on said
};

struct HeldAttempt {
  std::uint32_t uid = 0;
  Duration fence_after, kill_wait;
  bool has_script = false;
  std::int64_t memory_mb = 0;               // 0 = no bound
  std::string cores;                        // "0-3,8"; "" = no bound
  std::optional<DeviceSet> devices;         // nothing: not known, since an older agent noted the attempt
  std::vector<DevicePart> parts;            // of devices that it shares with others
  bool started = false;                     // AttemptStarted was reported
  bool stopping = false;                    // starts nothing any more
  bool fenced = false;                      // stopped by our own fence
  bool stopped = false;                     // MemberStopped was reported
  bool paused = false;                      // told to pause, not to go on: starts nothing
  std::uint32_t pause = 0, pause_done = 0;  // numbers of the last order and of the last one reported as done
  bool has_hooks = false;                   // programs of the site run around it, as it was when it came
  std::vector<std::string> hook_env;        // what they are told
  StagingPlan staging;
  // None of `works`: of them the controller hears by what follows from them.
  HookRun prolog, stage_in, stage_out, epilog;
  std::string trouble;  // why not all was staged out
  std::map<WorkId, HeldWork> works;
  IntervalSet gone_steps;                                                              // never (again) here
  std::map<std::pair<std::uint16_t, std::uint32_t>, std::uint32_t> gone_incarnations;  // this and older ones
};

inline AttemptId attempt_of(const WorkId& key) { return {key.job, key.attempt}; }

HookRun& hook_in(HeldAttempt& attempt, StepNo hook);
const HookRun& hook_in(const HeldAttempt& attempt, StepNo hook);
inline HookRun& hook_in(HeldAttempt& attempt, const WorkId& hook) { return hook_in(attempt, step_of(hook)->step); }
bool runs(const HookRun& run);

// What has to be through before anything of the attempt starts is not.
bool prepares(const HeldAttempt& attempt);
// Its script came behind a prolog or a staging, and has not been ordered: it is started when all are there.
bool awaits_script(const AttemptId& id, const HeldAttempt& attempt);

// The shim whose end, or start, a report tells; unset for other reports.
std::optional<WorkId> ended_shim(const Report& r);
std::optional<WorkId> started_shim(const Report& r);

// Its end is acknowledged: it is gone for good.
void forget_in(HeldAttempt& attempt, const WorkId& key);
// No step here has had this number or a higher one.
StepNo next_step(const HeldAttempt& attempt);

}  // namespace lockstep
