// The command line. One small static binary is every command by the name it is called with: as sbatch, srun, squeue …
// the Slurm command of that name, as lockstep everything, with the verb in front.
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cli.h"
#include "frontends/slurm/client/context.h"
#include "frontends/slurm/client/say.h"
#include "io/client/unix_api_client.h"

namespace {

using namespace lockstep;

struct Command {
  std::string_view name;
  int (*main)(const slurm::ClientContext&, int, char**);
};
constexpr Command kCommands[] = {
    {"sbatch", slurm::sbatch_main},     {"srun", slurm::srun_main},
    {"salloc", slurm::salloc_main},     {"scancel", slurm::scancel_main},
    {"squeue", slurm::squeue_main},     {"sinfo", slurm::sinfo_main},
    {"scontrol", slurm::scontrol_main}, {"sacct", slurm::sacct_main},
    {"sacctmgr", slurm::sacctmgr_main}, {"sshare", slurm::sshare_main},
    {"sprio", slurm::sprio_main},       {"sbcast", slurm::sbcast_main},
    {"seff", slurm::seff_main},         {"sstat", slurm::sstat_main},
    {"sattach", slurm::sattach_main},   {"enroot", enroot_main},
};

// A job carries the socket of where it was submitted; on a node that cannot see it, the node's own serves as well.
// Outside of jobs, whoever names a cluster means that one and no other.
std::vector<std::string> sockets() {
  std::vector<std::string> paths{find_socket()};
  if (getenv("SLURM_JOB_ID"))
    paths.insert(paths.end(), std::begin(kSocketsOfTheMachine), std::end(kSocketsOfTheMachine));
  return paths;
}

// A standard descriptor that the caller closed would be the next file opened, such as the cluster's socket, and what
// is printed would go there. In its place: a file that can be used for neither, gone in programs we start.
void fill_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0)
      (void)!::open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

// Programs look for the words of a refusal at its very beginning. Of the commands that they ask, people alone are told
// that one waits.
bool tells_of_waiting(std::string_view name) {
  constexpr std::string_view kAsked[] = {"squeue", "sinfo", "scontrol", "sacct", "sstat", "sprio", "sshare", "scancel"};
  return std::find(std::begin(kAsked), std::end(kAsked), name) == std::end(kAsked) || ::isatty(STDERR_FILENO);
}

slurm::ClientContext context_of(std::string_view name) {
  slurm::ClientContext context;
  context.tell = [voice = slurm::Voice(std::string(name)), tells = tells_of_waiting(name)](std::string_view text) {
    if (tells)
      voice.info(text);
  };
  context.connect = [tell = context.tell, away = context.patience] {
    return connect_patiently(sockets(), Patience{away, seconds(1), tell});
  };
  context.connect_now = [] { return connect_patiently(sockets(), Patience{}); };
  return context;
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  ::mallopt(M_ARENA_MAX, 1);  // a heap for each of our few threads would cost more than it saves
  std::string_view name = argc > 0 ? argv[0] : "lockstep";
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0: no slash, nothing to remove
  const slurm::ClientContext context = context_of(name);
  for (const Command& command : kCommands)
    if (command.name == name)
      return slurm::finish(name, command.main(context, argc, argv));
  return slurm::finish(name, cli_main(context, argc, argv));
}
