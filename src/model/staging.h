// What controller, agents and shims agree on about files that are staged before and behind a job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/command.h"
#include "model/spec.h"

namespace lockstep {

inline constexpr Duration kStagingMost = hours(24);  // no node copies longer for one job, either way

// LaunchFailed of a job whose files could not be staged in begins so: its user's mistake, and no node's.
inline constexpr std::string_view kStageInFailed = "StageInFailed ";
// Job::end_reason names so what could not be staged out, behind any other reason.
inline constexpr std::string_view kStageOutFailed = "StageOutFailed";

inline bool is_staging_failure(const LaunchFailed& report) {
  return !report.node_at_fault && report.why.starts_with(kStageInFailed);
}

// The program that copies is the shim's own, with these words (shim/stage_program.h).
inline constexpr const char* kStageOption = "--stage";
inline std::vector<std::string> words_of_staging(bool out, const std::vector<StagedPath>& paths) {
  std::vector<std::string> words = {"lockstep-shim", kStageOption, out ? "out" : "in"};
  for (const StagedPath& path : paths) words.insert(words.end(), {path.from, path.to});
  return words;
}

}  // namespace lockstep
