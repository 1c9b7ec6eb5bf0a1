// The command line. One small static binary is every command by the name it is called with: as sbatch, srun, squeue …
// the Slurm command of that name, as lockstep everything, with the verb in front.
#include <stdlib.h>

#include <string_view>

#include "cli/cli.h"
#include "frontends/slurm/client/context.h"
#include "io/client/unix_api_client.h"

namespace {

using namespace lockstep;

struct Command {
  std::string_view name;
  int (*main)(const ClientContext&, int, char**);
};
constexpr Command kCommands[] = {
    {"sbatch", sbatch_main},     {"srun", srun_main},     {"salloc", salloc_main},     {"scancel", scancel_main},
    {"squeue", squeue_main},     {"sinfo", sinfo_main},   {"scontrol", scontrol_main}, {"sacct", sacct_main},
    {"sacctmgr", sacctmgr_main}, {"sshare", sshare_main}, {"sprio", sprio_main},
};

// A job carries the socket of where it was submitted; on a node that cannot see it, the node's own serves as well.
Result<std::unique_ptr<ApiClient>> connect() {
  auto client = connect_unix(find_socket());
  if (client || client.error().code != Errc::kUnavailable || !getenv("LOCKSTEP_SOCKET"))
    return client;
  auto here = connect_unix("/run/lockstep/api.sock");
  return here ? std::move(here) : std::move(client);
}

}  // namespace

int main(int argc, char** argv) {
  const ClientContext context{connect};
  std::string_view name = argc > 0 ? argv[0] : "lockstep";
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0: no slash, nothing to remove
  for (const Command& command : kCommands)
    if (command.name == name)
      return command.main(context, argc, argv);
  return cli_main(context, argc, argv);
}
