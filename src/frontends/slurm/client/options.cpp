#include "frontends/slurm/client/options.h"

#include <getopt.h>
#include <strings.h>

#include <cstring>

#include "base/nearest.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr int kLongBase = 1000;  // getopt's value of a row: this plus the row

// Options that exclude each other. On one level the last of a pair wins; of the sizes of memory only one may be given.
struct Rivals {
  std::string_view names[3];
  bool conflict;
};
constexpr Rivals kRivals[] = {
    {{"requeue", "no-requeue", ""}, false},
    {{"bell", "no-bell", ""}, false},
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

unsigned bit(SlurmCommand command) { return static_cast<unsigned>(command); }

bool printable(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n')
      return false;
  return true;
}

// ". Did you mean …" for an option that nobody knows.
std::string meant_by(std::string_view word, const std::vector<::option>& longs) {
  std::vector<std::string_view> names;
  for (const auto& known : longs)
    if (known.name)
      names.emplace_back(known.name);
  while (word.starts_with('-')) word.remove_prefix(1);
  const auto meant = nearest(word, names);
  return meant.empty() ? std::string() : format("; did you mean '--{}'?", meant);
}

// A flag's variable: "" and yes switch it on, 0 and no leave it off.
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

}  // namespace

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

Result<void> OptionSet::set(std::string_view name, Given given) {
  const std::size_t row = row_of(name);
  const OptionDef& def = option_table()[row];
  const std::string where = where_given(def.name, given);
  if (!printable(given.text))
    return invalid(format("{}: the value holds control characters", where), def.name);
  if (def.standing == Standing::kRefused)
    return Error{Errc::kUnsupported, format("{}: {}", where, def.about), def.name};
  if (given_[row] && given_[row]->origin > given.origin)
    return {};
  for (const Rivals& rivals : kRivals) {
    bool member = false;
    for (const auto rival : rivals.names) member |= rival == def.name;
    if (!member)
      continue;
    for (const auto rival : rivals.names) {
      if (rival.empty() || rival == def.name)
        continue;
      const Given* other = find(rival);
      if (!other)
        continue;
      if (other->origin > given.origin)
        return {};
      if (other->origin == given.origin && rivals.conflict)
        return invalid(format("--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive: {} and {}.",
                              where_given(rival, *other), where),
                       def.name);
      unset(rival);
    }
  }
  if (def.standing == Standing::kAdvisory && !given_[row])
    note(format("{} is accepted, and has no effect here", where_given(def.name, given)));
  given_[row] = std::move(given);
  return {};
}

Result<void> OptionSet::read_environment(const std::function<const char*(const char*)>& get_variable) {
  const auto read = [&](const OptionDef& def, const std::string& variable) -> Result<bool> {
    const char* value = get_variable(variable.c_str());
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
    if (def.takes == Takes::kValue && given.text.empty())
      return true;
    TRY(set(def.name, std::move(given)));
    return true;
  };
  for (const OptionDef& def : option_table()) {
    if (!(def.commands & bit(command_)) || def.same_as)
      continue;
    bool found = false;
    for (const OtherVariable& other : kOtherVariables)
      if (!found && other.command == command_ && std::string_view(other.option) == def.name)
        found = TRY(read(def, other.variable));
    if (!found && (def.variable_in & bit(command_)) && *def.variable)
      TRY(read(def, format("{}{}", prefix_of(command_), def.variable)));
  }
  return {};
}

// getopt_long does the cutting: clusters of short options, "--name value", unique prefixes, optional values.
Result<int> OptionSet::parse(std::vector<std::string> words, Origin origin, unsigned line, bool permute) {
  const auto table = option_table();
  std::vector<::option> longs;
  std::string shorts = permute ? ":" : "+:";
  for (std::size_t row = 0; row < table.size(); ++row) {
    const OptionDef& def = table[row];
    if (!(def.commands & bit(command_)))
      continue;
    const int has = def.takes == Takes::kNothing ? no_argument
                    : def.takes == Takes::kValue ? required_argument
                                                 : optional_argument;
    longs.push_back({def.name, has, nullptr, kLongBase + static_cast<int>(row_of(def.name))});
    if (def.letter) {
      shorts += def.letter;
      shorts.append(static_cast<std::size_t>(has), ':');
    }
  }
  longs.push_back({nullptr, 0, nullptr, 0});

  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int argc = static_cast<int>(words.size());
  const std::string place = origin == Origin::kDirective ? format(" (script line {})", line) : "";

  opterr = 0;
  optind = 0;  // glibc: start afresh
  for (;;) {
    const int found = getopt_long(argc, argv.data(), shorts.c_str(), longs.data(), nullptr);
    if (found == -1)
      break;
    const char* word = argv[static_cast<std::size_t>(std::max(1, std::min(optind - 1, argc - 1)))];
    if (found == '?' || found == ':') {
      std::string message;
      if (found == ':') {
        if (optopt >= kLongBase)
          message =
              format("option '--{}' requires an argument", table[static_cast<std::size_t>(optopt - kLongBase)].name);
        else
          message = format("option requires an argument -- '{}'", static_cast<char>(optopt));
      } else if (optopt >= kLongBase) {
        message =
            format("option '--{}' doesn't allow an argument", table[static_cast<std::size_t>(optopt - kLongBase)].name);
      } else if (optopt != 0) {
        message = format("invalid option -- '{}'", static_cast<char>(optopt));
      } else {
        const std::string_view name = std::string_view(word).substr(0, std::string_view(word).find('='));
        std::string candidates;
        for (const auto& known : longs)
          if (known.name && name.size() > 2 && std::string_view(known.name).starts_with(name.substr(2)))
            candidates += format(" '--{}'", known.name);
        message = candidates.empty() ? format("unrecognized option '{}'{}", word, meant_by(name, longs))
                                     : format("option '{}' is ambiguous; possibilities:{}", word, candidates);
      }
      return Error{Errc::kInvalid, message + place, "usage"};
    }
    std::size_t row = 0;
    if (found >= kLongBase) {
      row = static_cast<std::size_t>(found - kLongBase);
    } else {
      while (!((table[row].commands & bit(command_)) && table[row].letter == found)) ++row;
      row = row_of(table[row].name);
    }
    TRY(set(table[row].name, Given{optarg ? optarg : "", origin, line, {}}));
  }
  if (permute)
    for (int i = optind; i < argc; ++i)
      note(format("script line {}: \"{}\" is no option and is ignored", line, argv[static_cast<std::size_t>(i)]));
  return optind;
}

Result<void> OptionSet::read_directive(const std::vector<std::string>& words, unsigned line) {
  std::vector<std::string> argv{std::string(name_of(command_))};
  argv.insert(argv.end(), words.begin(), words.end());
  TRY(parse(std::move(argv), Origin::kDirective, line, true));
  return {};
}

Result<int> OptionSet::read_command_line(int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  return parse(std::move(words), Origin::kCommandLine, 0, false);
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
}  // namespace

std::string help_text(SlurmCommand command) {
  std::string out = usage_text(command);
  out += "\nExamples:\n";
  out += examples(command);
  out += "\nOptions (a unique beginning of a long name is enough):\n";
  std::string refused;
  for (const OptionDef& def : option_table()) {
    if (!(def.commands & bit(command)) || def.same_as)
      continue;
    if (def.standing == Standing::kRefused) {
      refused += format("{}{}", refused.empty() ? "" : " ", def.name);
      continue;
    }
    if (def.standing == Standing::kIgnored && !*def.about)
      continue;
    std::string head = def.letter ? format("  -{}, --{}", def.letter, def.name) : format("      --{}", def.name);
    if (def.takes == Takes::kValue)
      head += format("={}", def.value);
    if (def.takes == Takes::kMaybe)
      head += *def.value ? format("[={}]", def.value) : std::string("[=VALUE]");
    out += format("{:<36} {}{}\n", head, def.about,
                  def.standing == Standing::kAdvisory || def.standing == Standing::kIgnored ? " (no effect here)" : "");
  }
  out += "\nKnown and refused, because they are not supported yet (names without their dashes):\n ";
  std::size_t column = 1;
  for (const auto& word : split_words(refused)) {
    if (column + word.size() + 1 > 100) {
      out += "\n ";
      column = 1;
    }
    out += format(" {}", word);
    column += word.size() + 1;
  }
  out += "\n";
  return out;
}

}  // namespace lockstep
