// What an agent decides about files that are staged in before an attempt and out behind it, and by which signs the
// attempt tells of checkpoints. The copying is a work of a shim around the job, as hooks are (agent/hooks.h), but with
// the rights of the job's user: what fails there is told of the job, and is no fault of the node.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/hooks.h"
#include "model/agent_messages.h"

namespace lockstep {

// What of a launch is needed behind its start, too.
struct StagingPlan {
  std::vector<StagedPath> in, out;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;
  std::string work_dir, std_out, std_err;  // the script's: what the copying says stands there, too
  bool append = false;
  std::int32_t umask = 022;
  std::string checkpoint_file, checkpoint_line;
  friend bool operator==(const StagingPlan&, const StagingPlan&) = default;
};
StagingPlan staging_plan(const LaunchAttempt& launch);
bool is_needed(const StagingPlan& plan);

// The order to a shim.
ShimStart stage_start(const WorkId& staging, std::uint32_t uid, const StagingPlan& plan);

// Why it is no success; "" = it is one. stopped: it took longer than limit.
std::string stage_failure(const ShimEvent& end, bool stopped, Duration limit);

// One line of words for the journal, without blanks in them.
std::vector<std::string> words_of(const StagingPlan& plan);
std::optional<StagingPlan> plan_of_words(const std::vector<std::string>& words);

}  // namespace lockstep
