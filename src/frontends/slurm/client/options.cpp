#include "frontends/slurm/client/options.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/slurm/client/command_options.h"
#include "frontends/slurm/client/container_ask.h"

namespace lockstep::slurm {

namespace {

// Options that exclude each other. On one level the last of a pair wins; of the sizes of memory only one may be given.
struct Rivals {
  std::string_view names[3];
  bool conflict;
};
constexpr Rivals kRivals[] = {
    {{"requeue", "no-requeue", ""}, false},
    {{"bell", "no-bell", ""}, false},
    {{"container-mount-home", "no-container-mount-home", ""}, false},
    {{"container-remap-root", "no-container-remap-root", ""}, false},
    {{"container-entrypoint", "no-container-entrypoint", ""}, false},
    {{"container-writable", "container-readonly", ""}, false},
    {{"mem", "mem-per-cpu", "mem-per-gpu"}, true},
};

// Variables beside PREFIX_NAME of the table, the first that is set counts. They come before the table's own.
struct OtherVariable {
  SlurmCommand command;
  const char* option;
  const char* variable;
};
constexpr OtherVariable kOtherVariables[] = {
    {SlurmCommand::kSrun, "cpus-per-task", "SRUN_CPUS_PER_TASK"},
    {SlurmCommand::kSrun, "export", "SRUN_EXPORT_ENV"},
    {SlurmCommand::kSrun, "export", "SLURM_EXPORT_ENV"},
    {SlurmCommand::kSrun, "nodes", "SLURM_JOB_NUM_NODES"},
    {SlurmCommand::kSrun, "nodes", "SLURM_NNODES"},
    {SlurmCommand::kSrun, "ntasks", "SLURM_NTASKS"},
    {SlurmCommand::kSrun, "ntasks", "SLURM_NPROCS"},
    {SlurmCommand::kSrun, "gres", "SLURM_STEP_GRES"},
    {SlurmCommand::kSrun, "jobid", "SLURM_JOB_ID"},
    {SlurmCommand::kSrun, "jobid", "SLURM_JOBID"},
    {SlurmCommand::kSrun, "input", "SRUN_INPUT"},
    {SlurmCommand::kSrun, "input", "SLURM_STDINMODE"},
    {SlurmCommand::kSrun, "output", "SRUN_OUTPUT"},
    {SlurmCommand::kSrun, "output", "SLURM_STDOUTMODE"},
    {SlurmCommand::kSrun, "error", "SRUN_ERROR"},
    {SlurmCommand::kSrun, "error", "SLURM_STDERRMODE"},
    {SlurmCommand::kSbatch, "clusters", "SLURM_CLUSTERS"},
    {SlurmCommand::kSbatch, "hint", "SLURM_HINT"},
    {SlurmCommand::kSalloc, "clusters", "SLURM_CLUSTERS"},
    {SlurmCommand::kSalloc, "hint", "SLURM_HINT"},
};

std::string_view prefix_of(SlurmCommand command) {
  switch (command) {
    case SlurmCommand::kSbatch: return "SBATCH_";
    case SlurmCommand::kSrun: return "SLURM_";
    case SlurmCommand::kSalloc: return "SALLOC_";
  }
  return {};
}

// Given again they add to each other, a line each.
bool is_list(std::string_view name) { return name == "stage-in" || name == "stage-out"; }

unsigned bit(SlurmCommand command) { return static_cast<unsigned>(command); }

bool printable(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n')
      return false;
  return true;
}

}  // namespace

std::optional<bool> flag_value(std::string_view text) {
  const std::string word = lower(text);
  if (word.empty() || word == "yes" || word == "y" || word == "true" || word == "t" || word == "on")
    return true;
  if (word == "no" || word == "n" || word == "false" || word == "f" || word == "off")
    return false;
  const auto number = parse_int(word);
  if (!number)
    return std::nullopt;
  return *number != 0;
}

std::string_view name_of(SlurmCommand command) {
  switch (command) {
    case SlurmCommand::kSbatch: return "sbatch";
    case SlurmCommand::kSrun: return "srun";
    case SlurmCommand::kSalloc: return "salloc";
  }
  return {};
}

std::string where_given(std::string_view name, const Given& given) {
  switch (given.origin) {
    case Origin::kDirective: return format("--{} (script line {})", name, given.line);
    case Origin::kEnvironment: return format("--{} (environment variable {})", name, given.variable);
    case Origin::kCommandLine: break;
  }
  return format("--{}", name);
}

OptionSet::OptionSet(SlurmCommand command) : command_(command), given_(option_table().size()) {}

std::size_t OptionSet::row_of(std::string_view name) const {
  const auto table = option_table();
  for (std::size_t row = 0; row < table.size(); ++row)
    if ((table[row].commands & bit(command_)) && name == table[row].name)
      return table[row].same_as ? row_of(table[row].same_as) : row;
  for (std::size_t row = 0; row < table.size(); ++row)  // an option of another command is simply never given
    if (name == table[row].name)
      return row;
  CHECK(false, name);
  return 0;
}

const Given* OptionSet::find(std::string_view name) const {
  const auto& slot = given_[row_of(name)];
  return slot ? &*slot : nullptr;
}

std::string OptionSet::text(std::string_view name, std::string_view otherwise) const {
  const Given* given = find(name);
  return given ? given->text : std::string(otherwise);
}

bool OptionSet::by(std::string_view name, Origin origin) const {
  const Given* given = find(name);
  return given && given->origin == origin;
}

void OptionSet::unset(std::string_view name) { given_[row_of(name)].reset(); }

Result<OptionSet::Rivalry> OptionSet::drop_rivals(std::string_view name, const Given& given) {
  for (const Rivals& rivals : kRivals) {
    if (std::find(std::begin(rivals.names), std::end(rivals.names), name) == std::end(rivals.names))
      continue;
    for (const auto rival : rivals.names) {
      const Given* other = rival.empty() || rival == name ? nullptr : find(rival);
      if (!other)
        continue;
      if (other->origin > given.origin)
        return Rivalry::kLoses;
      if (other->origin == given.origin && rivals.conflict)
        return invalid(format("--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive: {} and {}.",
                              where_given(rival, *other), where_given(name, given)),
                       std::string(name));
      unset(rival);
    }
  }
  return Rivalry::kNone;
}

Result<void> OptionSet::set(std::string_view name, Given given) {
  const std::size_t row = row_of(name);
  const OptionDef& def = option_table()[row];
  const std::string where = where_given(def.name, given);
  const bool one_line = is_list(def.name) || std::string_view(def.name) == "checkpoint-file";
  if (!printable(given.text) || (one_line && given.text.find('\n') != std::string::npos))
    return invalid(format("{}: the value holds control characters", where), def.name);
  if (def.standing == Standing::kRefused)
    return Error{Errc::kUnsupported, format("{}: {}", where, def.about), def.name};
  if (given_[row] && given_[row]->origin > given.origin)
    return {};
  if (TRY(drop_rivals(def.name, given)) == Rivalry::kLoses)
    return {};
  if (def.standing == Standing::kAdvisory && !given_[row])
    note(format("{} is accepted, and has no effect here", where));
  if (is_list(def.name) && given_[row] && given_[row]->origin == given.origin)
    given.text = format("{}\n{}", given_[row]->text, given.text);
  given_[row] = std::move(given);
  return {};
}

// False: there is no such variable.
Result<bool> OptionSet::read_variable(const OptionDef& def, const std::string& variable, const GetVariable& get) {
  const char* value = get(variable.c_str());
  if (!value)
    return false;
  Given given{value, Origin::kEnvironment, 0, variable};
  if (def.takes == Takes::kNothing) {
    const auto on = flag_value(value);
    if (!on)
      return invalid(format("Invalid value \"{}\" for environment variable {}", value, variable), def.name);
    if (!*on)
      return true;
    given.text.clear();
  }
  if (def.takes != Takes::kValue || !given.text.empty())
    TRY(set(def.name, std::move(given)));
  return true;
}

Result<void> OptionSet::read_environment(const GetVariable& get_variable) {
  for (const OptionDef& def : option_table()) {
    if (!(def.commands & bit(command_)) || def.same_as)
      continue;
    bool found = false;
    for (const OtherVariable& other : kOtherVariables)
      if (!found && other.command == command_ && std::string_view(other.option) == def.name)
        found = TRY(read_variable(def, other.variable, get_variable));
    if (!found && (def.variable_in & bit(command_)) && *def.variable)
      TRY(read_variable(def, format("{}{}", prefix_of(command_), def.variable), get_variable));
  }
  return read_container_variables(*this, get_variable);
}

// The words that are no options.
Result<std::vector<std::string>> OptionSet::read_words(std::vector<std::string> words, OptionsStand stand,
                                                       const Given& from) {
  std::vector<OptionSpelling> spellings;
  for (const OptionDef& def : option_table())
    if (def.commands & bit(command_))
      spellings.push_back({def.name, def.letter, def.takes, row_of(def.name)});
  OptionWords cut(spellings, std::move(words), stand);
  for (;;) {
    auto found = cut.next();
    if (!found)
      return invalid(found.error().message +
                         (cut.meant().empty() ? std::string() : format("; did you mean '--{}'?", cut.meant())) +
                         (from.origin == Origin::kDirective ? format(" (script line {})", from.line) : ""),
                     found.error().field);
    if (!*found)
      return cut.others();
    Given given = from;
    given.text = (*found)->value.value_or("");
    TRY(set(option_table()[(*found)->row].name, std::move(given)));
  }
}

Result<void> OptionSet::read_directive(const std::vector<std::string>& words, unsigned line) {
  for (const std::string& word :
       TRY(read_words(words, OptionsStand::kAnywhere, Given{"", Origin::kDirective, line, {}})))
    note(format("script line {}: \"{}\" is no option and is ignored", line, word));
  return {};
}

Result<int> OptionSet::read_command_line(int argc, char** argv) {
  const auto others = TRY(read_words({argv + std::min(argc, 1), argv + argc}, OptionsStand::kInFront, Given{}));
  return argc - static_cast<int>(others.size());
}

std::vector<std::pair<std::string, std::string>> OptionSet::verbatim() const {
  std::vector<std::pair<std::string, std::string>> out;
  const auto table = option_table();
  for (std::size_t row = 0; row < table.size(); ++row)
    if (given_[row])
      out.emplace_back(table[row].name, given_[row]->text);
  return out;
}

std::string usage_text(SlurmCommand command) {
  switch (command) {
    case SlurmCommand::kSbatch:
      return "Usage: sbatch [OPTIONS...] [SCRIPT [ARGUMENTS...]]\n"
             "       sbatch [OPTIONS...] --wrap=COMMAND\n"
             "       sbatch [OPTIONS...] < SCRIPT\n";
    case SlurmCommand::kSrun: return "Usage: srun [OPTIONS...] PROGRAM [ARGUMENTS...]\n";
    case SlurmCommand::kSalloc: return "Usage: salloc [OPTIONS...] [COMMAND [ARGUMENTS...]]\n";
  }
  return {};
}

namespace {
std::string_view examples(SlurmCommand command) {
  switch (command) {
    case SlurmCommand::kSbatch:
      return "  sbatch train.sbatch                        a script with #SBATCH lines\n"
             "  sbatch -N 4 --gpus-per-node=8 train.sh     four nodes, eight GPUs on each\n"
             "  sbatch --array=0-99%10 --wrap 'python sweep.py $SLURM_ARRAY_TASK_ID'\n"
             "  sbatch --dependency=afterok:12 eval.sh     after job 12 has succeeded\n";
    case SlurmCommand::kSrun:
      return "  srun -N 2 -l hostname                      on two nodes, lines labelled by rank\n"
             "  srun --gpus-per-node=1 --pty bash -i       a shell with a GPU\n"
             "  srun --jobid 12 --overlap nvidia-smi       beside what job 12 is running\n";
    case SlurmCommand::kSalloc:
      return "  salloc -N 2 --gpus-per-node=8 -t 1:00:00   a shell that holds two nodes for an hour\n"
             "  salloc -N 1 srun hostname                  one command, then release\n";
  }
  return {};
}

std::string help_line(const OptionDef& def) {
  const std::string value = def.takes == Takes::kValue   ? format("={}", def.value)
                            : def.takes == Takes::kMaybe ? format("[={}]", *def.value ? def.value : "VALUE")
                                                         : std::string();
  const bool idle = def.standing == Standing::kAdvisory || def.standing == Standing::kIgnored;
  // As options of a plug-in stand in srun's help: tools learn from the word that images are taken.
  const std::string_view name(def.name);
  const bool is_pyxis = name.starts_with("container-") || name.starts_with("no-container-");
  return format("{:<36} {}{}{}\n", option_head(def.letter, def.name, value), is_pyxis ? "[pyxis] " : "", def.about,
                idle ? " (no effect here)" : "");
}

// Words between margins, each line behind two blanks.
std::string filled(const std::vector<std::string>& words) {
  constexpr std::size_t kMargin = 100;
  std::string out = " ";
  std::size_t column = 1;
  for (const auto& word : words) {
    if (column + word.size() + 1 > kMargin) {
      out += "\n ";
      column = 1;
    }
    out += format(" {}", word);
    column += word.size() + 1;
  }
  return out;
}

}  // namespace

std::string help_text(SlurmCommand command) {
  std::string out = usage_text(command);
  out += "\nExamples:\n";
  out += examples(command);
  out += "\nOptions (a unique beginning of a long name is enough):\n";
  std::vector<std::string> refused;
  for (const OptionDef& def : option_table()) {
    if (!(def.commands & bit(command)) || def.same_as)
      continue;
    if (def.standing == Standing::kRefused)
      refused.emplace_back(def.name);
    else if (def.standing != Standing::kIgnored || *def.about)
      out += help_line(def);
  }
  return out + "\nKnown and refused, because they are not supported yet (names without their dashes):\n" +
         filled(refused) + "\n";
}

}  // namespace lockstep::slurm
