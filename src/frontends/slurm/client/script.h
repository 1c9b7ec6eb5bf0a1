// Batch scripts: what may be submitted, and the options their #SBATCH lines hold.
//
// The rules are Slurm's. A directive is a line that begins, in the first column, with #SBATCH (or, deprecated, #SLURM).
// The scan stops at the first line that is neither blank nor a comment. Within a line quotes group, a backslash
// escapes, and an unescaped # ends it, even in the middle of a word. "#SBATCH hetjob" begins the next component.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::slurm {

inline constexpr std::size_t kScriptMax = 4 << 20;  // bytes; Slurm's own default

struct Directive {
  std::vector<std::string> words;
  unsigned line = 0;  // 1 = the first
};

struct ScriptOptions {
  std::vector<std::vector<Directive>> components{1};  // one; more with "#SBATCH hetjob" lines
  std::vector<std::string> notes;                     // warnings for people
};

// Refuses what cannot be a batch script: empty, no #!, NUL bytes, DOS line ends, too large. The message is Slurm's, one
// line each.
Result<void> check_script(std::string_view text);
inline constexpr const char* kNotAScript = "script.interpreter";  // the error's field where #! is missing

Result<ScriptOptions> read_directives(std::string_view text);

// The words of one directive line, after its prefix. line is for messages.
Result<std::vector<std::string>> split_directive(std::string_view text, unsigned line);

}  // namespace lockstep::slurm
