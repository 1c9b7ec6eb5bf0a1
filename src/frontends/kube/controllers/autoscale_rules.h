// How many replicas an autoscaler wants: from what its pods use, how fast it may go there, and what it wanted before.
// Arithmetic alone; who reads and writes objects is autoscalers.cpp.
// Source: kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace lockstep::kube {

// --- from use to a number ---

// One pod that counts: neither ended nor being deleted.
struct ScalePod {
  std::optional<std::int64_t> used;  // thousandths of a processor, or bytes; nothing: it was not measured
  std::int64_t requested = 0;        // in the same unit
  bool ready = true;                 // false: what it uses says nothing yet
};

struct ScaleTarget {
  bool utilization = false;  // value is a percentage of what is requested; else an average over the pods
  std::int64_t value = 0;    // > 0
};

struct Tolerances {
  double up = 0.1, down = 0.1;  // of the ratio between use and target: less is no reason to change
};

struct ScaleProposal {
  std::int64_t replicas = 0;
  std::optional<std::int64_t> utilization;  // percent, as it is now
  std::int64_t average = 0;                 // of those that were measured
};

// What one metric asks for. Error: it says nothing, and why.
Result<ScaleProposal> propose_replicas(std::int64_t current, const std::vector<ScalePod>& pods,
                                       const ScaleTarget& target, const Tolerances& tolerances);

// --- from a number to the next step ---

struct ScalePolicy {
  bool percent = false;  // else pods
  std::int64_t value = 0;
  Duration period;
};

struct ScaleDirection {
  enum class Select : unsigned char { kMost, kLeast, kDisabled } select = Select::kMost;
  Duration window;  // what was wanted within it counts as well
  std::vector<ScalePolicy> policies;
};

struct ScaleBehavior {
  bool plain = true;  // the autoscaler says nothing of it: up to twice as many, or 4
  ScaleDirection up{ScaleDirection::Select::kMost, {}, {{false, 4, seconds(15)}, {true, 100, seconds(15)}}};
  ScaleDirection down{ScaleDirection::Select::kMost, seconds(300), {{true, 100, seconds(15)}}};
};

struct ScaleNote {
  Instant at;
  std::int64_t number = 0;
};
// What an autoscaler remembers. `wanted`: an entry holds from its time to the next one's.
struct ScaleHistory {
  std::vector<ScaleNote> wanted, ups, downs;
};
inline constexpr std::size_t kScaleNotesMax = 512;  // of each; the oldest go

struct ScaleStep {
  std::int64_t replicas = 0;
  const char* limited = nullptr;  // reason of the condition ScalingLimited; null: within range
  std::string limited_message;
  const char* held = nullptr;  // "ScaleDownStabilized", "ScaleUpStabilized"; null: what was wanted is what comes
};
ScaleStep next_step(std::int64_t current, std::int64_t wanted, std::int64_t least, std::int64_t most,
                    const ScaleBehavior& behavior, const ScaleHistory& history, Instant now);

// Adds what is wanted now, and drops what no window or period reaches any more.
void note_wanted(ScaleHistory& history, std::int64_t wanted, const ScaleBehavior& behavior, Instant now);
void note_scaled(ScaleHistory& history, std::int64_t from, std::int64_t to, Instant now);

}  // namespace lockstep::kube
