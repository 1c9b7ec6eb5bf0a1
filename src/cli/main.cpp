#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/nearest.h"
#include "cli/cli.h"
#include "cli/verb_words.h"
#include "io/local/node_init.h"
#include "io/local/supervisor.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(lockstep runs training, interactive work and services on one pool of GPU nodes.

A cluster
  up         start a cluster on this machine (or start a stopped one again)
  down       stop it, leaving nothing behind but its directory
  status     controller, nodes and jobs at a glance
  env        print the shell exports that point commands at a cluster
  logs       logs of the controller and of nodes; what a job wrote, and how it ended
  node       join a node, drain, resume, cut off or remove nodes
  health     what checks found on nodes, with evidence and time
  topology   load, check, show or clear the tree of switches
  get        print all settings of the cluster as one file
  apply      make the cluster what such a file says
  diff       what the cluster has otherwise than such a file says
  backup     write all of a cluster to a directory, while it runs
  restore    make a cluster of a backup
  doctor     what is wrong with a cluster or a node, and how to mend it
  import     make a cluster file of a Slurm site's slurm.conf

Work (each is the Slurm command of the same meaning, with all of its options)
  submit     queue a batch script            sbatch
  run        run a command on nodes          srun
  alloc      hold nodes and open a shell     salloc
  jobs       list waiting and running jobs   squeue
  nodes      list nodes and partitions       sinfo
  cancel     end jobs                        scancel
  show       everything about one thing      scontrol show
  history    jobs that have ended            sacct
  accounts   accounts, users, QOS, limits    sacctmgr
  shares     fair shares and past use        sshare
  priorities what priorities are made of     sprio
  usage      what running steps have used so far  sstat
  attach     the output and input of a step that runs  sattach
  efficiency how much of what it held a job has used  seff
  broadcast  copy a file to a job's nodes    sbcast
  shell      a shell within a job that runs
  ssh        carry an SSH connection into a job
  ssh-config print what ~/.ssh/config needs for that
  tasks      tasks that the cluster keeps running for a job: addresses, containers
  kubeconfig print what kubectl and Helm need to speak to this cluster
  checkpoint tell that a job's present state is saved
  explain    why a job waits, and what would start it sooner
  whatif     when jobs would start with other nodes, limits, weights or jobs

  completion SHELL   completion for bash, zsh or fish
  man                manual pages, of one command or of all

Examples
  lockstep up --nodes 5 --gpus 8xh100
  eval "$(lockstep env)"
  sbatch train.sbatch && squeue
  lockstep down

`lockstep VERB --help` says more. -o json works with every list.
)help";

struct Alias {
  const char* word;
  int (*command)(const slurm::ClientContext&, int, char**);
};
constexpr Alias kAliases[] = {
    {"submit", slurm::sbatch_main}, {"run", slurm::srun_main},          {"alloc", slurm::salloc_main},
    {"jobs", slurm::squeue_main},   {"nodes", slurm::sinfo_main},       {"cancel", slurm::scancel_main},
    {"show", slurm::scontrol_main}, {"history", slurm::sacct_main},     {"sbatch", slurm::sbatch_main},
    {"srun", slurm::srun_main},     {"salloc", slurm::salloc_main},     {"squeue", slurm::squeue_main},
    {"sinfo", slurm::sinfo_main},   {"scancel", slurm::scancel_main},   {"scontrol", slurm::scontrol_main},
    {"sacct", slurm::sacct_main},   {"accounts", slurm::sacctmgr_main}, {"sacctmgr", slurm::sacctmgr_main},
    {"shares", slurm::sshare_main}, {"sshare", slurm::sshare_main},     {"priorities", slurm::sprio_main},
    {"sprio", slurm::sprio_main},   {"efficiency", slurm::seff_main},   {"seff", slurm::seff_main},
    {"usage", slurm::sstat_main},   {"sstat", slurm::sstat_main},       {"broadcast", slurm::sbcast_main},
    {"sbcast", slurm::sbcast_main}, {"attach", slurm::sattach_main},    {"sattach", slurm::sattach_main},
};

struct Verb {
  const char* word;
  int (*command)(int, char**);
};
constexpr Verb kVerbs[] = {
    {"up", up_main},           {"down", down_main},
    {"env", env_main},         {"status", status_main},
    {"node", node_main},       {"topology", topology_main},
    {"get", get_main},         {"apply", apply_main},
    {"diff", diff_main},       {"backup", backup_main},
    {"restore", restore_main}, {"doctor", doctor_main},
    {"import", import_main},   {"completion", completion_main},
    {"man", man_main},
};
constexpr Alias kQuestions[] = {{"explain", explain_main},       {"logs", logs_main},   {"whatif", whatif_main},
                                {"checkpoint", checkpoint_main}, {"shell", shell_main}, {"ssh", ssh_main},
                                {"ssh-config", ssh_config_main}, {"tasks", tasks_main}, {"kubeconfig", kubeconfig_main},
                                {"health", health_main}};

int no_such_verb(const std::string& verb) {
  const auto meant = nearest(verb, all_verbs());
  fprintf(stderr, "lockstep: no such verb: %s\n", verb.c_str());
  if (!meant.empty())
    fprintf(stderr, "Did you mean `lockstep %s`?\n", std::string(meant).c_str());
  fputs("Try `lockstep help`.\n", stderr);
  return 2;
}

// The Slurm commands spell it --json; here every list also takes -o json.
std::vector<std::string> with_json_spelling(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 0; i < argc; ++i) {
    if (i + 1 < argc && strcmp(argv[i], "-o") == 0 && strcmp(argv[i + 1], "json") == 0) {
      words.push_back("--json");
      ++i;
    } else {
      words.emplace_back(argv[i]);
    }
  }
  return words;
}

}  // namespace

std::vector<std::string_view> all_verbs() {
  std::vector<std::string_view> words{"help", "version"};
  for (const auto& known : kVerbs) words.emplace_back(known.word);
  for (const auto& known : kQuestions) words.emplace_back(known.word);
  for (const auto& known : kAliases) words.emplace_back(known.word);
  return words;
}

namespace {

// Words of `help` and `version`, which have no options but --help. An exit code when one is not taken.
std::optional<int> read_words(std::vector<std::string>& words, VerbSyntax syntax, int argc, char** argv) {
  static const option kOptions[] = {{"help", 0, nullptr, 'h'}, {nullptr, 0, nullptr, 0}};
  syntax.options = kOptions;
  VerbWords given(std::move(syntax), argc, argv);
  for (int c; (c = given.next()) != -1;)
    if (c == '?')
      return 2;
  words = given.rest();
  return std::nullopt;
}

// `lockstep help node` is `lockstep node --help`.
int help_main(const slurm::ClientContext& context, int argc, char** argv) {
  const bool may_name_verb = argc > 0 && strcmp(argv[0], "help") == 0;
  std::vector<std::string> words;
  if (const auto refused = read_words(words, {.verb = "help", .words = may_name_verb ? 1u : 0u}, argc, argv))
    return *refused;
  if (words.empty() || words[0] == "help") {
    fputs(kHelp, stdout);
    return 0;
  }
  char self[] = "lockstep", asked[] = "--help";
  char* about[] = {self, words[0].data(), asked, nullptr};
  return cli_main(context, 3, about);
}

int version_main(int argc, char** argv) {
  std::vector<std::string> words;
  if (const auto refused = read_words(words, {.verb = "version"}, argc, argv))
    return *refused;
  puts("lockstep " LOCKSTEP_VERSION);
  return 0;
}

// "" would mean the default cluster, which somebody with an unset variable does not mean.
bool has_empty_dir(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--dir=" || (word == "--dir" && i + 1 < argc && argv[i + 1][0] == '\0'))
      return true;
  }
  return false;
}

int fail_inner(const Error& error) {
  fprintf(stderr, "lockstep: %s\n", error.message.c_str());
  return 2;
}

// What lockstep starts itself as.
int node_init_main(int argc, char** argv) {
  const auto init = parse_node_init({argv, argv + argc});
  return init ? run_node_init(*init) : fail_inner(init.error());
}

int supervise_main(int argc, char** argv) {
  const auto what = parse_supervise({argv, argv + argc});
  return what ? run_supervisor(*what) : fail_inner(what.error());
}

constexpr Verb kInnerVerbs[] = {{"node-init", node_init_main}, {"supervise", supervise_main}};

// A Slurm command by one of its names. argv[0] is the name.
int slurm_main(const Alias& alias, const slurm::ClientContext& context, int argc, char** argv) {
  CHECK(argc > 0);  // its own name
  auto words = with_json_spelling(argc, argv);
  const bool asks_for_help = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
  if (words[0] == "show" && !asks_for_help)  // `lockstep show job 3` is `scontrol show job 3`
    words.insert(words.begin(), "scontrol");
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return alias.command(context, static_cast<int>(words.size()), pointers.data());
}

template <class Row, std::size_t kRows>
const Row* find_verb(const Row (&rows)[kRows], std::string_view word) {
  for (const Row& row : rows)
    if (word == row.word)
      return &row;
  return nullptr;
}

}  // namespace

int cli_main(const slurm::ClientContext& context, int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "--help";
  if (verb == "help" || verb == "--help" || verb == "-h")
    return help_main(context, std::max(argc - 1, 0), argv + 1);
  if (verb == "version" || verb == "--version" || verb == "-V")
    return version_main(argc - 1, argv + 1);
  if (has_empty_dir(argc, argv)) {
    fputs("lockstep: --dir is empty: name the cluster's directory (is a variable not set?)\n", stderr);
    return 2;
  }
  if (const Verb* known = find_verb(kVerbs, verb))
    return known->command(argc - 1, argv + 1);
  if (const Alias* known = find_verb(kQuestions, verb))
    return known->command(context, argc - 1, argv + 1);
  if (const Verb* known = find_verb(kInnerVerbs, verb))
    return known->command(argc - 1, argv + 1);
  if (const Alias* known = find_verb(kAliases, verb))
    return slurm_main(*known, context, argc - 1, argv + 1);
  return no_such_verb(verb);
}

}  // namespace lockstep
