// The process that stages files for a job: `lockstep-shim --stage in|out FROM TO …` (model/staging.h), with the user's
// rights, in the job's places and working directory. Of `in` every TO lies in the job's scratch, of `out` every FROM
// does. It tries again what may be another time, writes for people to its output, and tells its shim how far it is
// (descriptor 3).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/staging.h"

namespace lockstep {

inline constexpr int kStageTellFd = 3;
// What the shim of a staging keeps of that in its folder: one StageWord.
inline constexpr std::string_view kStageFile = "stage";

// "progress BYTES OF FILES OF", or "failed WHY".
struct StageWord {
  std::int64_t bytes_done = 0, bytes_total = 0, files_done = 0, files_total = 0;
  std::string failure;  // why it ended without success; "" = it has not
};
std::string encode_stage_word(const StageWord& word);
std::optional<StageWord> decode_stage_word(std::string_view line);

// "3.2 GiB", "512 B".
std::string bytes_text(std::int64_t bytes);

int run_staging(int count, char** words);  // behind the option; the exit code

}  // namespace lockstep
