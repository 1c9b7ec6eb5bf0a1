// The agent's journal: one line of text for each fact that a restart of the agent must not lose. Lines that cannot be
// read (a torn last one) are skipped by the reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/staging.h"
#include "model/agent_messages.h"
#include "ports/shims.h"

namespace lockstep {

struct SeenAttempt {
  JobId job;
  AttemptNo attempt = 0;
  std::uint32_t uid = 0;
  Duration fence_after, kill_wait;
  bool has_script = false;
  Instant renewed;  // the last acknowledged renewal at that moment
  std::int64_t memory_mb = 0;
  std::string cores;  // interval set; "" = no bound
  std::optional<DeviceSet> devices;
};
struct SeenShim {  // a script, step or task whose start was ordered
  WorkId key;
  std::vector<std::uint32_t> ranks;
};
struct Stopping {
  JobId job;
  AttemptNo attempt = 0;
  bool fenced = false;
};
struct Pausing {  // told to pause or to go on
  JobId job;
  AttemptNo attempt = 0;
  bool paused = false;
  std::uint32_t number = 0;
  bool done = false;  // and reported
};
struct GoneAttempt {  // must never start here (again)
  JobId job;
  AttemptNo attempt = 0;
};
struct GoneSteps {  // of a held attempt: ended and acknowledged, or stopped before they came
  JobId job;
  AttemptNo attempt = 0;
  std::string steps;  // interval set
};
struct GoneTask {  // of a held attempt: this incarnation and older ones
  WorkId key;
};
struct Acknowledged {
  std::vector<std::uint64_t> numbers;
};
struct Renewed {
  Instant at;
};
struct NextReport {
  std::uint64_t number = 0;
};
struct HighestJob {  // that ever came here: told to a controller whose log may be an older one
  JobId job;
};
struct HooksOf {  // programs of the site run around this attempt
  JobId job;
  AttemptNo attempt = 0;
  std::vector<std::string> env;  // what they are told
};
struct PartsOf {  // what this attempt has of devices that it shares with others
  JobId job;
  AttemptNo attempt = 0;
  std::vector<DevicePart> parts;
};
struct HookBegun {  // its start was ordered
  WorkId key;
  Instant at;
};
struct HookEnded {
  WorkId key;
  bool passed = false;
  std::string why;  // of a stage-out that failed: its attempt's last words tell it
};
struct StagingOf {  // files are staged around this attempt, or it tells of checkpoints
  JobId job;
  AttemptNo attempt = 0;
  StagingPlan plan;
};
using JournalFact =
    std::variant<SeenAttempt, SeenShim, Stopping, GoneAttempt, GoneSteps, GoneTask, Report, Acknowledged, Renewed,
                 NextReport, Pausing, HighestJob, HooksOf, HookBegun, HookEnded, PartsOf, StagingOf>;

// The highest job that lines of an older boot tell of.
JobId highest_job(const std::vector<std::string>& lines);

std::string encode_fact(const JournalFact& fact);
std::optional<JournalFact> decode_fact(std::string_view line);

}  // namespace lockstep
