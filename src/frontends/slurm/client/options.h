// The job options of sbatch, srun and salloc: one table that knows every option of Slurm's manuals, and the set of
// options one invocation was given. Precedence: command line, then environment, then #SBATCH lines. Values are kept as
// written; job_ask.h gives them their meaning.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontends/slurm/client/option_words.h"

namespace lockstep::slurm {

enum class SlurmCommand : unsigned char { kSbatch = 1, kSrun = 2, kSalloc = 4 };
std::string_view name_of(SlurmCommand command);

enum class Standing : unsigned char {
  kEffective,  // does what Slurm's manual says
  kAdvisory,   // accepted without effect, said once
  kIgnored,    // accepted without effect where Slurm's own effect is none that a job could notice
  kRefused,    // known, not supported yet: fails, because the job would run as something else
};

struct OptionDef {
  const char* name;
  char letter;  // 0 = none
  Takes takes;
  unsigned commands;     // bits of SlurmCommand
  unsigned variable_in;  // commands that read the variable PREFIX_variable
  const char* variable;  // "" = none
  Standing standing;
  const char* value;    // how help names the value
  const char* about;    // help; for kRefused: why
  const char* same_as;  // nullptr, or the name this one is another spelling of
};
std::span<const OptionDef> option_table();

enum class Origin : unsigned char { kDirective, kEnvironment, kCommandLine };

struct Given {
  std::string text;  // "" for options without a value
  Origin origin = Origin::kCommandLine;
  unsigned line = 0;     // kDirective: line of the script
  std::string variable;  // kEnvironment
};

class OptionSet {
 public:
  explicit OptionSet(SlurmCommand command);

  SlurmCommand command() const { return command_; }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const Given* find(std::string_view name) const;  // nullptr = not given. CHECKs that the table knows the name
  std::string text(std::string_view name, std::string_view otherwise = {}) const;
  bool by(std::string_view name, Origin origin) const;  // given, and from there

  // A later call wins over an earlier one of the same or a lower origin; a higher origin stays. Of --stage-in and
  // --stage-out, calls of one origin add up: a line of text each. Options that exclude
  // each other (--mem, --mem-per-cpu, --mem-per-gpu; --requeue, --no-requeue) drop their rivals of lower origin.
  Result<void> set(std::string_view name, Given given);
  void unset(std::string_view name);

  // Words of one #SBATCH line. Words that are no options are reported in notes().
  Result<void> read_directive(const std::vector<std::string>& words, unsigned line);
  using GetVariable = std::function<const char*(const char*)>;  // null: there is none
  Result<void> read_environment(const GetVariable& get_variable);
  // argv[0] is skipped; parsing stops at the first word that is no option; its index is returned.
  Result<int> read_command_line(int argc, char** argv);

  // All options given, by table order: ("gpus-per-node", "h100:8").
  std::vector<std::pair<std::string, std::string>> verbatim() const;
  const std::vector<std::string>& notes() const { return notes_; }  // warnings for people, in order
  void note(std::string text) { notes_.push_back(std::move(text)); }

 private:
  // What becomes of an option beside others that exclude it: those of lower origin are dropped for it, and of a pair
  // the earlier one.
  enum class Rivalry : unsigned char { kNone, kLoses };
  Result<Rivalry> drop_rivals(std::string_view name, const Given& given);
  Result<bool> read_variable(const OptionDef& def, const std::string& variable, const GetVariable& get);
  Result<std::vector<std::string>> read_words(std::vector<std::string> words, OptionsStand stand, const Given& from);
  std::size_t row_of(std::string_view name) const;

  SlurmCommand command_;
  std::vector<std::optional<Given>> given_;  // by row of the table
  std::vector<std::string> notes_;
};

// A flag's variable: "" and yes switch it on, 0 and no leave it off; nothing: it says neither.
std::optional<bool> flag_value(std::string_view text);

// "--time (script line 7)", "--time (environment variable SBATCH_TIMELIMIT)", "--time".
std::string where_given(std::string_view name, const Given& given);

// The text behind --help and --usage.
std::string help_text(SlurmCommand command);
std::string usage_text(SlurmCommand command);

}  // namespace lockstep::slurm
