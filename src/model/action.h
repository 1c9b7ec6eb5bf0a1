// Action: something to do outside, addressed to one node. An action only names what to do; the details are read from
// the state when it is sent. Every action can be derived again from the state (core/reconcile.h), so losing all of
// them only costs time.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "base/time.h"
#include "model/work_id.h"

namespace lockstep {

struct StartAttempt {};  // the node's part; with the script where grants[0] is
struct StopAttempt {
  Duration kill_wait;
};  // TERM, after kill_wait KILL, then report MemberStopped
struct SignalAttempt {
  std::int32_t signal = 0;
  SignalReach reach = SignalReach::kSteps;
  Duration stops_in = {};  // it warns of the end, at which whoever still runs then is killed; 0 = of nothing
};
struct PauseAttempt {  // all its processes there stop where they are, or go on; reports MemberPaused
  bool paused = true;
  std::uint32_t number = 0;  // Job::pauses
};
struct StartPart {  // a step or a task; the script starts with the attempt
  WorkPart part;
};
struct StopPart {
  WorkPart part;
  Duration kill_wait;
};
struct SignalPart {
  WorkPart part;
  std::int32_t signal = 0;
};

using ActionBody =
    std::variant<StartAttempt, StopAttempt, SignalAttempt, PauseAttempt, StartPart, StopPart, SignalPart>;

struct Action {
  NodeId node;
  JobId job;
  AttemptNo attempt = 0;
  ActionBody body;
};

// What an agent says it has, with every renewal.
struct Holding {
  JobId job;
  AttemptNo attempt = 0;
  bool stopping = false;
  std::vector<StepNo> steps;  // launched here and not yet acknowledged as ended
  std::vector<TaskPart> tasks;
  bool paused = false;   // told to pause, not to go on: starts nothing
  StepNo next_step = 0;  // no step here has had this number or a higher one
};

}  // namespace lockstep
