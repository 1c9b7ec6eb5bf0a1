// Where the output and input of an srun step go: what -o, -e and -i say, and file name patterns for the files that srun
// itself opens (one file for all tasks). Files of their own per task or node are opened on the nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::slurm {

struct StepFile {
  enum class Kind : unsigned char {
    kClient,   // "all": to srun
    kOneRank,  // "3": that task's to srun, the others' nowhere
    kNone,     // "none"
    kShared,   // one file, opened by srun
    kPerTask,  // %t, %n or %N: opened where the task runs
  } kind = Kind::kClient;
  std::uint32_t rank = 0;  // kOneRank
  std::string pattern;     // kShared, kPerTask
};
StepFile parse_step_file(std::string_view text);

struct PatternFacts {
  std::uint64_t job = 0, array_job = 0;  // array_job 0 = not an array
  std::uint32_t array_index = 0;
  std::int32_t step = 0;
  std::string user, job_name;
};
// Expands %j %J %s %A %a %b %u %x %%, with zero padding ("%4j"). A backslash in the name switches expansion off.
std::string expand_pattern(std::string_view pattern, const PatternFacts& facts);
// Whether the pattern holds one of these fields: "jJ" for %j and %4J.
bool names_any(std::string_view pattern, std::string_view letters);

// The lines of a --multi-prog file: argv by rank. "0-2,5 program args", "*" for the rest; %t rank, %o offset.
Result<std::vector<std::vector<std::string>>> parse_multi_prog(std::string_view text, std::uint32_t tasks);

}  // namespace lockstep::slurm
