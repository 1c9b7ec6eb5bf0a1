// Messages of the Slurm commands: raw writes, each line with the command's name in front, as Slurm words them.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::slurm {

bool write_all(int fd, std::string_view bytes);  // false when it cannot be written; errno says why
void say(std::string_view text);                 // to standard output, as it is

// Why something said to standard output did not get there, as an errno; 0 when all of it did. A command must not end
// as if it had told what nobody could read.
int unsaid();
// The end of a command: what stdio still holds is written, and its exit code becomes 1 instead of 0, with a word on
// standard error, when its output was lost. A reader that has seen enough (head) is no failure.
int finish(std::string_view command, int code);

// Speaks on standard error for one command. Text of several lines gets the prefix on each.
class Voice {
 public:
  explicit Voice(std::string command) : command_(std::move(command)) {}
  void error(std::string_view text) const;    // "sbatch: error: …"
  void fatal(std::string_view text) const;    // "srun: fatal: …"
  void warning(std::string_view text) const;  // "sbatch: warning: …"
  void info(std::string_view text) const;     // "sbatch: …"; silent with --quiet
  void verbose(std::string_view text) const;  // "sbatch: …" with -v only
  void set_quiet(bool quiet) { quiet_ = quiet; }
  void set_verbose(bool verbose) { verbose_ = verbose; }
  const std::string& command() const { return command_; }

 private:
  void speak(std::string_view kind, std::string_view text) const;
  std::string command_;
  bool quiet_ = false, verbose_ = false;
};

// How lines of all voices end: a raw terminal needs its carriage returned.
void set_line_end(std::string_view end);

// Slurm's own sentence for what the cluster refused ("Invalid partition name specified"); "" when it has none.
std::string_view slurm_sentence(const Error& error);

// Nobody answered: Slurm's own line, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
// which programs look for at the very beginning, then what we know of it. False, and nothing is said, of other errors.
bool say_unreached(const Voice& voice, std::string_view what, const Error& error);

// "sbatch: error: DETAIL" when there is one beyond the sentence, then "sbatch: error: WHAT: SENTENCE".
void say_refusal(const Voice& voice, std::string_view what, const Error& error);

}  // namespace lockstep::slurm
