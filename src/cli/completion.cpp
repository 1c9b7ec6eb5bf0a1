// Completion for bash, zsh and fish. Options come from the table behind --help, or from a command's own --help while
// the shell asks; what can follow some of them (partitions, nodes, jobs …) is asked of the cluster then. Users and
// nodes choose many of these names, so nothing here lets a shell expand one: no compgen -W, no unquoted word, no eval.
#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/verb_words.h"
#include "frontends/slurm/client/options.h"
#include "frontends/slurm/client/say.h"

namespace lockstep {

namespace {

// What can follow an option of these commands: words that a command prints, or the words themselves. An option means
// what its command means by it: -t is a time for srun, states of jobs for squeue and of nodes for sinfo.
struct Values {
  std::string_view commands;
  std::string_view options;  // long names, and letters; sbatch, srun and salloc have theirs in the table
  std::string_view from;     // shell
};
constexpr std::string_view kPartitions = "sinfo -h -o %R", kNodes = "sinfo -h -N -o %N", kJobs = "squeue -h -o %i",
                           kQos = "sacctmgr -nP show qos format=name",
                           kAccounts = "sacctmgr -nP show account format=account", kUsers = "squeue -h -o %u",
                           kJobNames = "squeue -h -o %j | sort -u",
                           kFeatures = "sinfo -h -o %f | tr , '\\n' | grep -v '^(null)$'",
                           kSignals = "printf '%s\\n' TERM INT USR1 USR2 CONT STOP KILL",
                           // Jobs that one may end: all for root. Each shell has another word for "unless".
    kOwnJobs = "sh -c 'squeue -h -o %i $([ \"$(id -u)\" = 0 ] || echo --me)'",
                           kReservations =
                               "scontrol -o show reservation | sed -n 's/^ReservationName=\\([^ ]*\\).*/\\1/p'",
                           kLicences = "scontrol -o show license | sed -n 's/^LicenseName=\\([^ ]*\\).*/\\1/p'",
                           kOutputs = "printf '%s\\n' table json";
constexpr std::string_view
    kLogs = "sh -c 'echo controller; squeue -h -o %i'",
    kSections =
        "printf '%s\\n' nodes partitions qos accounts licences reservations health_checks policy "
        "topology administrators";
constexpr Values kValues[] = {
    {"sbatch srun salloc", "partition", kPartitions},
    {"squeue", "partition partitions p", kPartitions},
    {"sinfo scancel sprio", "partition p", kPartitions},
    {"sacct", "partition r", kPartitions},
    {"sbatch srun salloc", "nodelist exclude", kNodes},
    {"squeue", "nodelist node nodes w", kNodes},
    {"sinfo", "nodes node n", kNodes},
    {"scancel", "nodelist w", kNodes},
    {"sacct", "nodelist N", kNodes},
    {"srun salloc", "jobid", kJobs},
    {"squeue sacct sprio", "jobs j", kJobs},
    {"sbcast", "jobid j", kJobs},
    {"squeue scancel", "name n", kJobNames},
    {"sacct", "name", kJobNames},
    {"sbatch srun salloc", "qos", kQos},
    {"squeue scancel sacct", "qos q", kQos},
    {"sbatch srun salloc", "account", kAccounts},
    {"squeue", "account accounts A", kAccounts},
    {"scancel", "account A", kAccounts},
    {"sacct sshare", "accounts A", kAccounts},
    {"squeue", "user users u", kUsers},
    {"scancel sprio sacct", "user u", kUsers},
    {"sshare", "users u", kUsers},
    {"sbatch srun salloc", "constraint", kFeatures},
    {"sbatch srun salloc", "reservation", kReservations},
    {"squeue scancel", "reservation R", kReservations},
    {"sbatch srun salloc", "licenses", kLicences},
    {"squeue", "licenses L", kLicences},
    {"squeue", "states state t",
     "printf '%s\\n' PENDING RUNNING SUSPENDED COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL all"},
    {"sacct", "state s", "printf '%s\\n' PENDING RUNNING SUSPENDED COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL"},
    {"scancel", "state t", "printf '%s\\n' PENDING RUNNING SUSPENDED"},
    {"sinfo", "states state t",
     "printf '%s\\n' idle alloc mix down drain drained draining comp planned unk no_respond all"},
    {"sbatch srun", "open-mode", "printf '%s\\n' append truncate"},
    {"sbatch srun salloc", "distribution", "printf '%s\\n' block cyclic"},
    {"sbatch srun salloc", "signal", kSignals},
    {"scancel", "signal s", kSignals},
    {"status doctor backup restore health", "output o", kOutputs},
};

// What can stand behind a command that is no option: of lockstep's verbs, and of Slurm's commands that have verbs.
struct Operands {
  std::string_view commands;
  std::string_view after;  // the words before it, one of which it must be; "" = anything else
  std::string_view from;   // shell; lines
};
constexpr std::string_view kShowVerbs =
                               "printf '%s\\n' job node partition step reservation license config topology "
                               "hostnames hostlist",
                           kScontrolVerbs =
                               "printf '%s\\n' show update hold release requeue requeuehold suspend resume ping "
                               "create delete wait_job write",
                           kAccountThings = "printf '%s\\n' account user association qos",
                           kAccountVerbs = "printf '%s\\n' show list add create modify update delete remove",
                           kShells = "printf '%s\\n' bash zsh fish",
                           kTreeVerbs = "printf '%s\\n' load check show clear";
constexpr Operands kOperands[] = {
    {"scontrol show", "show", kShowVerbs},
    {"scontrol show", "job jobid", kJobs},
    {"scontrol", "hold release requeue requeuehold suspend resume wait_job", kOwnJobs},
    {"scontrol show", "node nodename", kNodes},
    {"scontrol show", "partition partitionname", kPartitions},
    {"scontrol show", "reservation reservationname", kReservations},
    {"scontrol show", "license licenses", kLicences},
    {"scontrol", "", kScontrolVerbs},
    {"show", "", kShowVerbs},
    {"sacctmgr", "show list add create modify update delete remove", kAccountThings},
    {"sacctmgr", "account accounts", kAccounts},
    {"sacctmgr", "qos", kQos},
    {"sacctmgr", "", kAccountVerbs},
    {"scancel explain checkpoint tasks", "", kOwnJobs},
    {"seff", "", kJobs},
    {"sattach", "", "squeue -h -s -o %i"},
    {"health", "", kNodes},
    {"topology", "topology", kTreeVerbs},
    {"completion", "", kShells},
    {"logs", "", kLogs},
    {"get", "", kSections},
};
// Names that `lockstep` has for them.
struct AliasName {
  std::string_view name, command;
};
constexpr AliasName kAliasNames[] = {{"submit", "sbatch"},    {"run", "srun"},        {"alloc", "salloc"},
                                     {"jobs", "squeue"},      {"nodes", "sinfo"},     {"cancel", "scancel"},
                                     {"history", "sacct"},    {"shares", "sshare"},   {"accounts", "sacctmgr"},
                                     {"priorities", "sprio"}, {"efficiency", "seff"}, {"broadcast", "sbcast"},
                                     {"usage", "sstat"},      {"attach", "sattach"}};
constexpr const char* kCommands =
    "sbatch srun salloc squeue sinfo scancel scontrol sacct sacctmgr sshare sprio sbcast seff sstat sattach";
constexpr slurm::SlurmCommand kOfTable[] = {slurm::SlurmCommand::kSbatch, slurm::SlurmCommand::kSrun,
                                            slurm::SlurmCommand::kSalloc};

bool has_help(const slurm::OptionDef& def) {
  return !def.same_as && def.standing != slurm::Standing::kRefused && *def.about != '\0';
}

bool is_among(std::string_view word, std::string_view words) {
  const auto each = split_words(words);
  return std::find(each.begin(), each.end(), word) != each.end();
}

const Values* values_of(std::string_view command, std::string_view option) {
  for (const Values& values : kValues)
    if (is_among(command, values.commands) && is_among(option, values.options))
      return &values;
  return nullptr;
}

// A file or a folder, which the shell completes. Of any other value that is not known nothing is offered.
bool takes_path(const slurm::OptionDef& def) { return is_among(def.value, "FILE DIR PATH PATHS PATTERN COMMAND"); }

std::string spelling(std::string_view name) { return format("{}{}", name.size() > 1 ? "--" : "-", name); }

std::vector<std::string> texts(const std::vector<std::string_view>& words) { return {words.begin(), words.end()}; }

// "sbatch:--partition | sbatch:-p) …" for the case of bash and zsh.
std::string bash_case(std::string_view command, const std::vector<std::string>& options, std::string_view from) {
  std::vector<std::string> patterns;
  for (const std::string& option : options) patterns.push_back(format("{}:{}", command, option));
  return format("    {}) {} ;;\n", join(patterns, " | "), from);
}

std::string bash_cases_of_table(slurm::SlurmCommand command) {
  std::string out;
  for (const slurm::OptionDef& def : slurm::option_table()) {
    const Values* const values = values_of(slurm::name_of(command), def.name);
    if (!(def.commands & static_cast<unsigned>(command)) || def.takes != slurm::Takes::kValue ||
        (!values && (!has_help(def) || takes_path(def))))
      continue;
    std::vector<std::string> options{spelling(def.name)};
    if (def.letter)
      options.push_back(spelling({&def.letter, 1}));
    out += bash_case(slurm::name_of(command), options,
                     values ? format("{} 2> /dev/null", values->from) : std::string(":"));
  }
  return out;
}

bool is_of_table(std::string_view command) {
  return std::any_of(std::begin(kOfTable), std::end(kOfTable),
                     [&](slurm::SlurmCommand one) { return command == slurm::name_of(one); });
}

std::string bash_cases() {
  std::string out;
  for (const slurm::SlurmCommand command : kOfTable) out += bash_cases_of_table(command);
  for (const Values& values : kValues)
    for (const auto& command : split_words(values.commands)) {
      if (is_of_table(command))
        continue;
      std::vector<std::string> options;
      for (const auto& name : split_words(values.options)) options.push_back(spelling(name));
      out += bash_case(command, options, format("{} 2> /dev/null", values.from));
    }
  return out;
}

// In the order of the table: what follows a word comes before what follows any other.
std::string bash_operands() {
  std::string out;
  for (const Operands& row : kOperands) {
    std::vector<std::string> patterns;
    for (const auto& command : split_words(row.commands)) {
      const auto words = split_words(row.after);
      for (const auto& word : words) patterns.push_back(format("{}:{}", command, word));
      if (words.empty())
        patterns.push_back(command + ":*");
    }
    out += format("    {}) {} 2> /dev/null ;;\n", join(patterns, " | "), row.from);
  }
  return out;
}

std::string bash_text() {
  std::string out =
      "# completion for lockstep and its Slurm commands, bash:  eval \"$(lockstep completion bash)\"\n"
      "_lockstep_values() {  # COMMAND:OPTION\n  case $1 in\n" +
      bash_cases() + "    *) return 1 ;;\n  esac\n  return 0\n}\n";
  out += format("_lockstep_verbs='{}'\n_lockstep_node_verbs='{}'\n_lockstep_checks='{}'\n",
                join(texts(all_verbs()), "\n"), join(texts(node_verbs()), "\n"), join(texts(doctor_checks()), "\n"));
  out += "_lockstep_alias() {\n  case $1 in\n";
  for (const AliasName& alias : kAliasNames) out += format("    {}) echo {} ;;\n", alias.name, alias.command);
  out += "    *) echo \"$1\" ;;\n  esac\n}\n_lockstep_operands() {  # COMMAND:WORD BEFORE\n  case $1 in\n" +
         bash_operands() + "    *) return 1 ;;\n  esac\n  return 0\n}\n";
  out +=
      R"bash(# Offers the lines of its input that begin with the word. What means something to a shell comes quoted: readline inserts
# it as it is, while zsh quotes by itself.
_lockstep_offer() {  # WORD
  local value
  while IFS= read -r value; do
    [[ -n $value && $value == "$1"* ]] || continue
    if [[ -n $BASH_VERSION && $value == *[!A-Za-z0-9_.,:/@%+=-]* ]]; then
      printf -v value %q "$value"
    fi
    COMPREPLY+=("$value")
  done
}
_lockstep() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[0]##*/} values help
  COMPREPLY=()
  [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD-2]}   # --partition=ma: bash cuts at the =
  [[ $word == = ]] && word=
  help=("$command")
  if [[ $command == lockstep ]]; then
    if [ "$COMP_CWORD" -eq 1 ] || [[ ${COMP_WORDS[1]} == help ]]; then
      _lockstep_offer "$word" <<< "$_lockstep_verbs"
      return
    fi
    help=("$command" "${COMP_WORDS[1]}")
    command=$(_lockstep_alias "${COMP_WORDS[1]}")
  fi
  if [[ $before == -* ]] && values=$(_lockstep_values "$command:$before"); then
    [[ -n $BASH_VERSION ]] && compopt +o default 2> /dev/null   # no file instead
    _lockstep_offer "$word" <<< "$values"
    return
  fi
  if [[ $word == -* ]]; then
    _lockstep_offer "$word" <<< "$("${help[@]}" --help 2> /dev/null | grep -oE -- '--[a-z][a-z0-9-]+' | sort -u)"
    return
  fi
  [[ $before == --dir || $before == --settings ]] && return   # a path
  case $command in
    node) values="$_lockstep_node_verbs"$'\n'"$(sinfo -h -N -o %N 2> /dev/null)" ;;
    doctor) values=$_lockstep_checks ;;
    man) values=$_lockstep_verbs ;;
    *) values=$(_lockstep_operands "$command:$before") || return ;;  # else a file, which the shell completes
  esac
  _lockstep_offer "$word" <<< "$values"
}
)bash";
  return out + format("complete -o default -F _lockstep lockstep {}\n", kCommands);
}

std::string zsh_text() {
  return "# completion for lockstep and its Slurm commands, zsh:  eval \"$(lockstep completion zsh)\"\n"
         "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n"
         "autoload -Uz bashcompinit && bashcompinit\n" +
         bash_text();
}

std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\')
      out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish_option(slurm::SlurmCommand command, const slurm::OptionDef& def) {
  std::string out = format("complete -c {} -l {}", slurm::name_of(command), def.name);
  if (def.letter)
    out += format(" -s {}", def.letter);
  const Values* const values = values_of(slurm::name_of(command), def.name);
  if (def.takes == slurm::Takes::kValue)
    out += values || takes_path(def) ? " -r" : " -x";
  if (values)
    out += " -f -a " + fish_quoted(format("({} 2> /dev/null)", values->from));
  return out + " -d " + fish_quoted(def.about) + "\n";
}

// The condition that a command, or one of lockstep's verbs that stands for it, is at hand; and, where words are named,
// that one of them stands just before.
std::string fish_condition(std::string_view verb, std::string_view after) {
  std::vector<std::string> conditions;
  if (!verb.empty())
    conditions.push_back(format("__fish_seen_subcommand_from {}", verb));
  if (!after.empty())
    conditions.push_back(format("contains -- (commandline -opc)[-1] {}", after));
  return conditions.empty() ? std::string() : " -n " + fish_quoted(join(conditions, "; and "));
}

std::vector<std::string_view> names_for(std::string_view command) {
  std::vector<std::string_view> out;
  for (const AliasName& alias : kAliasNames)
    if (alias.command == command)
      out.push_back(alias.name);
  return out;
}

// Of sbatch, srun and salloc only: the others list their letters beside the names. 0 = none.
char letter_in_table(std::string_view command, std::string_view name) {
  for (const slurm::OptionDef& def : slurm::option_table())
    if (is_of_table(command) && def.name == name)
      return def.letter;
  return 0;
}

// Of `lockstep submit -p`, which is sbatch's, and of `lockstep doctor -o`.
std::string fish_values_of_verbs() {
  std::string out;
  for (const Values& values : kValues)
    for (const auto& command : split_words(values.commands)) {
      std::vector<std::string_view> verbs = names_for(command);
      verbs.push_back(command);
      for (const auto verb : verbs)
        for (const auto& name : split_words(values.options)) {
          std::string spelt = format("-{} {}", name.size() > 1 ? "l" : "s", name);
          if (const char letter = letter_in_table(command, name))
            spelt += format(" -s {}", letter);
          out += format("complete -c lockstep{} {} -x -a {}\n", fish_condition(verb, ""), spelt,
                        fish_quoted(format("({} 2> /dev/null)", values.from)));
        }
    }
  return out;
}

std::string fish_operands() {
  std::string out;
  for (const Operands& row : kOperands)
    for (const auto& command : split_words(row.commands)) {
      // Behind one of its words a row of its own says what can follow.
      std::string what = fish_quoted(format("({} 2> /dev/null)", row.from));
      std::vector<std::string_view> verbs = names_for(command);
      verbs.push_back(command);
      if (is_among(command, kCommands))
        out += format("complete -c {}{} -f -a {}\n", command, fish_condition("", row.after), what);
      for (const auto verb : verbs)
        out += format("complete -c lockstep{} -f -a {}\n", fish_condition(verb, row.after), what);
    }
  return out;
}

std::string fish_text() {
  std::string out =
      "# completion for lockstep and its Slurm commands, fish:  lockstep completion fish | source\n"
      "function __lockstep_options\n"
      "  $argv --help 2> /dev/null | string match -ra -- '--[a-z][a-z0-9-]+' | sort -u\nend\n";
  out += format("complete -c lockstep -n __fish_use_subcommand -f -a {}\n", fish_quoted(join(texts(all_verbs()), " ")));
  out += "complete -c lockstep -n 'not __fish_use_subcommand' -f -a '(__lockstep_options (commandline -opc)[1..2])'\n";
  out +=
      format("complete -c lockstep -n '__fish_seen_subcommand_from node' -f -a '{} (sinfo -h -N -o %N 2> /dev/null)'\n",
             join(texts(node_verbs()), " "));
  out += format("complete -c lockstep -n '__fish_seen_subcommand_from doctor' -f -a {}\n",
                fish_quoted(join(texts(doctor_checks()), " ")));
  out += fish_values_of_verbs() + fish_operands();
  for (const slurm::SlurmCommand command : kOfTable)
    for (const slurm::OptionDef& def : slurm::option_table())
      if ((def.commands & static_cast<unsigned>(command)) && has_help(def))
        out += fish_option(command, def);
  for (const auto& command : split_words(kCommands)) {
    if (is_of_table(command))
      continue;
    out += format("complete -c {0} -f -a '(__lockstep_options {0})'\n", command);
    for (const Values& values : kValues)
      for (const auto& name : split_words(is_among(command, values.commands) ? values.options : ""))
        out += format("complete -c {} -{} {} -x -a {}\n", command, name.size() > 1 ? "l" : "s", name,
                      fish_quoted(format("({} 2> /dev/null)", values.from)));
  }
  return out;
}

constexpr const char* kUsage =
    "Usage: lockstep completion bash|zsh|fish\n\n"
    "For this shell, or in its start-up file:\n"
    "  bash   eval \"$(lockstep completion bash)\"\n"
    "  zsh    eval \"$(lockstep completion zsh)\"\n"
    "  fish   lockstep completion fish | source\n";

}  // namespace

int completion_main(int argc, char** argv) {
  static const option kOptions[] = {{"help", 0, nullptr, 'h'}, {nullptr, 0, nullptr, 0}};
  VerbWords words({.verb = "completion", .options = kOptions, .words = 1}, argc, argv);
  for (int c; (c = words.next()) != -1;) {
    if (c != 'h')
      return 2;
    fputs(kUsage, stdout);
    return 0;
  }
  const auto shells = words.rest();
  const std::string shell = shells.empty() ? "" : shells[0];
  if (shell == "bash" || shell == "zsh" || shell == "fish") {
    slurm::say(shell == "bash" ? bash_text() : shell == "zsh" ? zsh_text() : fish_text());
    return 0;
  }
  fputs(kUsage, stderr);
  return 2;
}

}  // namespace lockstep
