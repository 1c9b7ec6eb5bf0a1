// What every Slurm command gets from its main: how to reach the cluster, and the world it was started in.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ports/http.h"

namespace lockstep {

struct ClientContext {
  // Connects to the cluster's socket: $LOCKSTEP_SOCKET, else /run/lockstep/api.sock, else the default cluster's.
  std::function<Result<std::unique_ptr<ApiClient>>()> connect;
};

// Each is the whole command: argv as the shell gave it, exit code returned. Messages on stderr begin with the command's
// name ("sbatch: error: …"), as Slurm's do.
int sbatch_main(const ClientContext& context, int argc, char** argv);
int srun_main(const ClientContext& context, int argc, char** argv);
int salloc_main(const ClientContext& context, int argc, char** argv);
int scancel_main(const ClientContext& context, int argc, char** argv);
int squeue_main(const ClientContext& context, int argc, char** argv);
int sinfo_main(const ClientContext& context, int argc, char** argv);
int scontrol_main(const ClientContext& context, int argc, char** argv);
int sacct_main(const ClientContext& context, int argc, char** argv);
int sacctmgr_main(const ClientContext& context, int argc, char** argv);
int sshare_main(const ClientContext& context, int argc, char** argv);
int sprio_main(const ClientContext& context, int argc, char** argv);

}  // namespace lockstep
