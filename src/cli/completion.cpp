// Completion for bash, zsh and fish. Options come from the table behind --help, or from a command's own --help while
// the shell asks; what can follow some of them (partitions, nodes, jobs …) is asked of the cluster then. Users and
// nodes choose many of these names, so nothing here lets a shell expand one: no compgen -W, no unquoted word, no eval.
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "frontends/slurm/client/options.h"
#include "frontends/slurm/client/say.h"

namespace lockstep {

namespace {

// What can follow an option: words that a command prints, or the words themselves.
struct Values {
  std::string_view options;  // long names, and letters where other commands than sbatch, srun and salloc have one
  std::string_view from;     // shell
};
constexpr Values kValues[] = {
    {"partition p", "sinfo -h -o %R"},
    {"nodelist w exclude x nodes n", "sinfo -h -N -o %N"},
    {"jobs jobid j job", "squeue -h -o %i"},
    {"qos q", "sacctmgr -nP show qos format=name"},
    {"account accounts A", "sacctmgr -nP show account format=account"},
    {"user users u", "squeue -h -o %u"},
    {"constraint C", "sinfo -h -o %f | tr , '\\n' | grep -v '^(null)$'"},
    {"states state t", "printf '%s\\n' PENDING RUNNING SUSPENDED COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL all"},
    {"open-mode", "printf '%s\\n' append truncate"},
    {"distribution m", "printf '%s\\n' block cyclic"},
    {"signal s", "printf '%s\\n' TERM INT USR1 USR2 CONT STOP KILL"},
};
constexpr const char* kCommands = "sbatch srun salloc squeue sinfo scancel scontrol sacct sacctmgr sshare sprio";
constexpr slurm::SlurmCommand kOfTable[] = {slurm::SlurmCommand::kSbatch, slurm::SlurmCommand::kSrun,
                                            slurm::SlurmCommand::kSalloc};

bool has_help(const slurm::OptionDef& def) {
  return !def.same_as && def.standing != slurm::Standing::kRefused && *def.about != '\0';
}

// A word as the value of which option? Letters count only where the command's own option of that letter is meant: -t is
// a time for srun and states for squeue.
const Values* values_of(std::string_view option, const slurm::OptionDef* def) {
  for (const Values& values : kValues)
    for (const auto& name : split_words(values.options))
      if (name == option && (!def || name == def->name))
        return &values;
  return nullptr;
}

std::vector<std::string> texts(const std::vector<std::string_view>& words) { return {words.begin(), words.end()}; }

// "sbatch:-p" and "--partition" for the case of bash and zsh: letters of the table by command, of the others for all.
std::string bash_cases() {
  std::string out;
  for (const slurm::SlurmCommand command : kOfTable)
    for (const slurm::OptionDef& def : slurm::option_table())
      if ((def.commands & static_cast<unsigned>(command)) && def.letter)
        if (const Values* values = values_of(def.name, &def); !values || has_help(def))
          out += format("    {}:-{}) {} ;;\n", slurm::name_of(command), def.letter,
                        values ? format("{} 2> /dev/null", values->from) : std::string(":"));
  for (const Values& values : kValues) {
    std::string patterns;
    for (const auto& name : split_words(values.options))
      patterns += format("{}*:-{}{}", patterns.empty() ? "" : " | ", name.size() > 1 ? "-" : "", name);
    out += format("    {}) {} 2> /dev/null ;;\n", patterns, values.from);
  }
  return out;
}

std::string bash_text() {
  std::string out =
      "# completion for lockstep and its Slurm commands, bash:  eval \"$(lockstep completion bash)\"\n"
      "_lockstep_values() {  # COMMAND:OPTION\n  case $1 in\n" +
      bash_cases() + "    *) return 1 ;;\n  esac\n}\n";
  out += format(
      "_lockstep_verbs='{}'\n_lockstep_node_verbs='{}'\n"
      "_lockstep_alias() {{\n  case $1 in submit) echo sbatch ;; run) echo srun ;; alloc) echo salloc ;; jobs) echo "
      "squeue ;;\n"
      "    nodes) echo sinfo ;; cancel) echo scancel ;; history) echo sacct ;; *) echo \"$1\" ;; esac\n}}\n",
      join(texts(all_verbs()), "\n"), join(texts(node_verbs()), "\n"));
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
_lockstep_words() { printf '%s\n' "$@"; }
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
  if [[ $before == -* ]] && values=$(_lockstep_values "$command:$before") && [ -n "$values" ]; then
    _lockstep_offer "$word" <<< "$values"
    return
  fi
  if [[ $word == -* ]]; then
    _lockstep_offer "$word" <<< "$("${help[@]}" --help 2> /dev/null | grep -oE -- '--[a-z][a-z0-9-]+' | sort -u)"
    return
  fi
  case $command in
    scancel | explain | checkpoint) values=$(squeue -h -o %i 2> /dev/null) ;;
    node) values="$_lockstep_node_verbs"$'\n'"$(sinfo -h -N -o %N 2> /dev/null)" ;;
    completion) values=$(_lockstep_words bash zsh fish) ;;
    man) values=$_lockstep_verbs ;;
    scontrol | show)
      values=$(_lockstep_words show update hold release requeue requeuehold suspend resume ping create delete wait_job write)
      case $before in
        show) values=$(_lockstep_words job node partition step reservation license config topology hostnames hostlist) ;;
        job | hold | release | requeue | requeuehold | suspend | resume) values=$(squeue -h -o %i 2> /dev/null) ;;
        node) values=$(sinfo -h -N -o %N 2> /dev/null) ;;
        partition) values=$(sinfo -h -o %R 2> /dev/null) ;;
      esac ;;
    *) return ;;  # a file, which the shell completes
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
  if (def.takes == slurm::Takes::kValue)
    out += " -r";
  if (const Values* values = values_of(def.name, &def))
    out += " -f -a " + fish_quoted(format("({} 2> /dev/null)", values->from));
  return out + " -d " + fish_quoted(def.about) + "\n";
}

std::string fish_text() {
  std::string out =
      "# completion for lockstep and its Slurm commands, fish:  lockstep completion fish | source\n"
      "function __lockstep_options\n"
      "  $argv --help 2> /dev/null | string match -ra -- '--[a-z][a-z0-9-]+' | sort -u\nend\n";
  out += format("complete -c lockstep -n __fish_use_subcommand -f -a {}\n", fish_quoted(join(texts(all_verbs()), " ")));
  out +=
      "complete -c lockstep -n 'not __fish_use_subcommand' -f -a '(__lockstep_options (commandline -opc)[1..2])'\n"
      "complete -c lockstep -n '__fish_seen_subcommand_from cancel explain checkpoint' -f "
      "-a '(squeue -h -o %i 2> /dev/null)'\n"
      "complete -c lockstep -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n";
  out +=
      format("complete -c lockstep -n '__fish_seen_subcommand_from node' -f -a '{} (sinfo -h -N -o %N 2> /dev/null)'\n",
             join(texts(node_verbs()), " "));
  for (const slurm::SlurmCommand command : kOfTable)
    for (const slurm::OptionDef& def : slurm::option_table())
      if ((def.commands & static_cast<unsigned>(command)) && has_help(def))
        out += fish_option(command, def);
  for (const auto& command : split_words(kCommands)) {
    if (command == "sbatch" || command == "srun" || command == "salloc")
      continue;
    out += format("complete -c {0} -f -a '(__lockstep_options {0})'\n", command);
    for (const Values& values : kValues)
      for (const auto& name : split_words(values.options))
        out += format("complete -c {} -{} {} -x -a {}\n", command, name.size() > 1 ? "l" : "s", name,
                      fish_quoted(format("({} 2> /dev/null)", values.from)));
  }
  out += "complete -c scancel -f -a '(squeue -h -o %i 2> /dev/null)'\n";
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
  const std::string shell = argc == 2 ? argv[1] : "";
  if (shell == "bash" || shell == "zsh" || shell == "fish") {
    slurm::say(shell == "bash" ? bash_text() : shell == "zsh" ? zsh_text() : fish_text());
    return 0;
  }
  fputs(kUsage, shell == "--help" || shell == "-h" ? stdout : stderr);
  return shell == "--help" || shell == "-h" ? 0 : 2;
}

}  // namespace lockstep
