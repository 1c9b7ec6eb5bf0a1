// Action: something to do outside, addressed to one node. An action only names what to do; the details are read from
// the state when it is sent. Every action can be derived again from the state (core/reconcile.h), so losing all of
// them only costs time.
#pragma once

#include <cstdint>
#include <tuple>
#include <variant>
#include <vector>

#include "base/time.h"
#include "model/ids.h"

namespace lockstep {

struct StartAttempt {};  // the node's part; with the script where grants[0] is
struct StopAttempt {
  Duration kill_wait;
};  // TERM, after kill_wait KILL, then report MemberStopped
struct SignalAttempt {
  std::int32_t signal = 0;
  bool steps = true;
  bool script = false;
};
struct PauseAttempt {  // all its processes there stop where they are, or go on; reports MemberPaused
  bool paused = true;
  std::uint32_t number = 0;  // Job::pauses
};
struct StartStep {
  StepNo step = 0;
};
struct StopStep {
  StepNo step = 0;
  Duration kill_wait;
};
struct SignalStepTasks {
  StepNo step = 0;
  std::int32_t signal = 0;
};
struct StartTask {
  std::uint16_t group = 0;
  std::uint32_t index = 0, incarnation = 0;
};
struct StopTask {
  std::uint16_t group = 0;
  std::uint32_t index = 0, incarnation = 0;
  Duration kill_wait;
};

using ActionBody = std::variant<StartAttempt, StopAttempt, SignalAttempt, StartStep, StopStep, SignalStepTasks,
                                StartTask, StopTask, PauseAttempt>;

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
  std::vector<std::tuple<std::uint16_t, std::uint32_t, std::uint32_t>> tasks;  // group, index, incarnation
  bool paused = false;   // told to pause, not to go on: starts nothing
  StepNo next_step = 0;  // no step here has had this number or a higher one
};

}  // namespace lockstep
