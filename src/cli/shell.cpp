// `lockstep shell`, `lockstep ssh`, `lockstep ssh-config`: into a job that runs, with its processors, memory and GPUs.
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/plain_file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/verb_words.h"
#include "ports/lingering_step.h"

namespace lockstep {

namespace {

constexpr const char* kShellHelp = R"help(Usage: lockstep shell JOB[.TASK] [-w NODE] [COMMAND...]

A shell, or a command, beside what a job runs: on its first node, or on the node named, in the job's own control group.
It ends when the job does.

  -w, --node NODE   on this node of the job

Examples
  lockstep shell 12
  lockstep shell 12 -w n3 nvidia-smi
)help";

constexpr const char* kSshHelp = R"help(Usage: lockstep ssh JOB

Carries an SSH connection into a job, for OpenSSH's ProxyCommand: editors that work on remote machines work in a job then,
also on nodes that nobody can log in to. What they start has the job's processors, memory and GPUs, outlives the connection
(servers of editors, nohup, tmux), and ends with the job. The node needs the program sshd (openssh-server); its service
need not run.

`lockstep ssh-config` prints the lines for ~/.ssh/config and makes the key they name. Then: ssh job-12
)help";

constexpr const char* kConfigHelp = R"help(Usage: lockstep ssh-config

Prints what ~/.ssh/config needs, so that `ssh job-12`, `scp`, `rsync` and editors reach into job 12. Makes the key
~/.ssh/lockstep if it is not there.

Example
  lockstep ssh-config >> ~/.ssh/config && ssh job-12
)help";

// Shown by whoever runs the step: with the job's number, everything on the node is as in the job.
std::vector<std::string> step_words(const std::string& job, const std::string& node) {
  std::vector<std::string> words = {"srun", "-Q",  "--jobid=" + job, "--overlap",
                                    "-N1",  "-n1", "--mpi=none",     "--cpu-bind=none"};
  if (!node.empty())
    words.push_back("-w" + node);
  return words;
}

int run_step(const slurm::ClientContext& context, std::vector<std::string> words) {
  // What variables of another job say of its steps says nothing of this one.
  for (const char* name : {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_NNODES",
                           "SLURM_JOB_NUM_NODES", "SLURM_CPUS_PER_TASK", "SLURM_GPUS", "SLURM_GPUS_PER_NODE",
                           "SLURM_GPUS_PER_TASK", "SLURM_NTASKS_PER_GPU", "SLURM_DISTRIBUTION", "SLURM_MPI_TYPE"})
    ::unsetenv(name);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return slurm::srun_main(context, static_cast<int>(words.size()), arguments.data());
}

bool is_job_word(const std::string& word) {
  return !word.empty() && word[0] != '-' && parse_uint(word.substr(0, word.find_first_of("._+"))).has_value();
}

// On the node: a server for this one connection, with a host key of its own, that takes the caller's key alone. The
// folder goes when the connection ends. A client that is gone without a word is noticed by the server itself.
constexpr const char* kServe = R"sh(
sshd=$(command -v sshd || ls /usr/sbin/sshd 2> /dev/null) ||
  { echo "lockstep ssh: $(hostname) has no sshd: install openssh-server there" >&2; exit 1; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-ssh-XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 0' TERM HUP INT  # how a connection ends that went well
ssh-keygen -q -t ed25519 -N "" -f "$dir/host" < /dev/null > /dev/null || exit 1
printf '%s\n' "$0" > "$dir/keys"
env | grep -E '^(SLURM|CUDA|LOCKSTEP|GPU|ROCR|LD_LIBRARY_PATH|TMPDIR)[A-Za-z0-9_]*=[^"\\]*$' |
  sed 's/.*/"&"/' | tr '\n' ' ' | sed 's/^./SetEnv &/' > "$dir/config"
[ "$(id -u)" != 0 ] || mkdir -p -m 755 /run/sshd
"$sshd" -i -e -f "$dir/config" -h "$dir/host" -o "AuthorizedKeysFile=$dir/keys" -o StrictModes=no -o UsePAM=no \
  -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no -o PidFile=none -o LogLevel=ERROR \
  -o ClientAliveInterval=30 -o ClientAliveCountMax=3 \
  -o "Subsystem=sftp internal-sftp" -o AllowTcpForwarding=yes -o AllowStreamLocalForwarding=yes -o PrintMotd=no
exit 0  # sshd fails when its client hangs up; what matters was told to the client
)sh";

std::string home_dir() {
  const char* home = ::getenv("HOME");
  return home ? home : "";
}

std::string key_path() { return home_dir() + "/.ssh/lockstep"; }

Result<std::string> public_key() {
  const auto text = read_plain(key_path() + ".pub", Links::kFollowed);
  if (!text)
    return not_found(format("{}.pub is not there: `lockstep ssh-config` makes it", key_path()));
  return std::string(trim(*text));
}

Result<void> make_key() {
  if (home_dir().empty())
    return invalid("$HOME is not set");
  if (::access((key_path() + ".pub").c_str(), R_OK) == 0)
    return {};
  ::mkdir((home_dir() + "/.ssh").c_str(), 0700);
  const std::string command =
      format("ssh-keygen -q -t ed25519 -N '' -C lockstep -f {} < /dev/null 1>&2", "\"$HOME/.ssh/lockstep\"");
  if (::system(command.c_str()) != 0)
    return Error{Errc::kIo, "ssh-keygen could not make " + key_path() + ": is openssh-client installed?", {}};
  return {};
}

}  // namespace

int shell_main(const slurm::ClientContext& context, int argc, char** argv) {
  std::string job, node;
  std::vector<std::string> command;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!command.empty() || (!job.empty() && word[0] != '-')) {
      command.push_back(word);
    } else if (word == "--help" || word == "-h") {
      fputs(kShellHelp, stdout);
      return 0;
    } else if ((word == "-w" || word == "--node") && i + 1 < argc) {
      node = argv[++i];
    } else if (word.starts_with("--node=")) {
      node = word.substr(7);
    } else if (job.empty() && is_job_word(word)) {
      job = word;
    } else {
      fprintf(stderr, "lockstep shell: %s: not the number of a job. Try `lockstep shell --help`.\n", word.c_str());
      return 2;
    }
  }
  if (job.empty()) {
    fputs("lockstep shell: which job? `squeue --me` lists yours.\n", stderr);
    return 2;
  }
  auto words = step_words(job.substr(0, job.find('.')), node);
  const bool at_terminal = ::isatty(0) && ::isatty(1);
  if (at_terminal)
    words.emplace_back("--pty");
  if (command.empty()) {
    const char* shell = ::getenv("SHELL");
    command = {shell && *shell ? shell : "/bin/sh"};
    if (at_terminal)
      command.emplace_back("-i");
  }
  words.insert(words.end(), command.begin(), command.end());
  return run_step(context, std::move(words));
}

int ssh_main(const slurm::ClientContext& context, int argc, char** argv) {
  if (argc == 2 && (::strcmp(argv[1], "--help") == 0 || ::strcmp(argv[1], "-h") == 0)) {
    fputs(kSshHelp, stdout);
    return 0;
  }
  std::string job = argc == 2 ? argv[1] : "";
  if (job.starts_with("job-"))
    job = job.substr(4);
  if (!is_job_word(job)) {
    fputs("lockstep ssh: which job? `lockstep ssh --help` says how it is used.\n", stderr);
    return 2;
  }
  const auto key = public_key();
  if (!key) {
    fprintf(stderr, "lockstep ssh: %s\n", key.error().message.c_str());
    return 1;
  }
  auto words = step_words(job.substr(0, job.find('.')), {});
  words.insert(words.end(), {"/bin/sh", "-c", kServe, *key});
  ::setenv(kLingerVariable, "1", 1);
  return run_step(context, std::move(words));
}

int ssh_config_main(const slurm::ClientContext&, int argc, char** argv) {
  if (argc > 1) {
    const bool help = ::strcmp(argv[1], "--help") == 0 || ::strcmp(argv[1], "-h") == 0;
    fputs(help ? kConfigHelp : "lockstep ssh-config: takes no words. Try --help.\n", help ? stdout : stderr);
    return help ? 0 : 2;
  }
  if (const auto made = make_key(); !made) {
    fprintf(stderr, "lockstep ssh-config: %s\n", made.error().message.c_str());
    return 1;
  }
  printf(
      "Host job-*\n"
      "  ProxyCommand lockstep ssh %%n\n"
      "  IdentityFile %s\n"
      "  IdentitiesOnly yes\n"
      "  StrictHostKeyChecking no\n"
      "  UserKnownHostsFile /dev/null\n"
      "  LogLevel ERROR\n",
      key_path().c_str());
  return 0;
}

}  // namespace lockstep
