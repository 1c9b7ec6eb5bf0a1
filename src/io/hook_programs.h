// Programs of the site that an agent runs with its own rights: which they are, whether they may be trusted, and how to
// run one of them beside the loop.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace lockstep {

// An absolute path of an executable file that nobody but root, or whoever we run as, can change or exchange: the file
// and every directory on its way belong to them, and nobody else may write there; only on the way, a directory may be
// sticky as /tmp is. Links are followed, and looked at in the same way. kDenied names what is not so.
Result<void> check_trusted_program(const std::string& path);

// Of several programs: kStop ends with the first that fails, kGoOn runs the others, too.
enum class AtFailure : unsigned char { kStop, kGoOn };

// What paths and patterns of glob(7) name, in their order; one pattern's in the order of the alphabet. A path that
// names nothing is kNotFound, a pattern that does is no program; what is found must be trusted. At most 256. With kGoOn
// a program that is not there or not trusted has a place in the list, too: words_to_run() makes a failure of it.
Result<std::vector<std::string>> find_hook_programs(const std::vector<std::string>& patterns,
                                                    AtFailure at_failure = AtFailure::kStop);

// The words of one process that runs them one behind the other, and ends with the code of the first that failed. Its
// output tells which program said what.
std::vector<std::string> words_to_run(const std::vector<std::string>& programs, AtFailure at_failure);

// What it has said so far, or the last of that.
struct HookOutput {
  std::string program;             // that failed first; else the one that ran last: by it one knows what hangs
  std::string verdict;             // "exit code 3"; "" = none has failed
  std::string said;                // the last line of that program's own
  std::vector<std::string> lines;  // of all
};
HookOutput read_hook_output(std::string_view text);

struct ProgramEnd {
  int code = 0, signal = 0;
  bool late = false;  // ended by us after its time
  std::string said;   // the last line of its output that is not empty, without control characters, at most 200 bytes
  bool ok() const { return code == 0 && signal == 0 && !late; }
};
// Waits for it, on a thread of its caller's that may wait. It runs in / as we do, in a session of its own which ends
// with it or after `limit`, or when somebody sets `over`. Its environment is env alone.
Result<ProgramEnd> run_program_within(const std::vector<std::string>& argv, const std::vector<std::string>& env,
                                      Duration limit, const std::atomic<bool>* over = nullptr);

// The last line of a text that is not empty, as ProgramEnd::said.
std::string last_line_of(std::string_view text);

}  // namespace lockstep
