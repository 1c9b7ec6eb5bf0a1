// What every Slurm command gets from its main: how to reach the cluster, and the world it was started in.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ports/http.h"

namespace lockstep::slurm {

struct ClientContext {
  // Connects to the cluster's socket: $LOCKSTEP_SOCKET, else the machine's, else the default cluster's. Bears
  // with a controller that is away for a while, and tells so.
  std::function<Result<std::unique_ptr<ApiClient>>()> connect;
  // The same without patience, for who tries again by itself. Empty: connect is.
  std::function<Result<std::unique_ptr<ApiClient>>()> connect_now = {};
  std::function<void(std::string_view)> tell = {};  // a line for who waits at the terminal; empty: nobody does
  Duration patience = seconds(15);                  // with a controller that is away
  Duration message_timeout = seconds(30);           // of a query; Slurm's MessageTimeout is 10 s
  Duration answer_timeout = minutes(2);             // of what changes something: its answer is worth more
  Duration end_patience = seconds(10);              // with nodes that do not answer who wants a step to end

  Result<std::unique_ptr<ApiClient>> connect_at_once() const { return connect_now ? connect_now() : connect(); }
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
int sbcast_main(const ClientContext& context, int argc, char** argv);
int seff_main(const ClientContext& context, int argc, char** argv);
int sstat_main(const ClientContext& context, int argc, char** argv);
int sattach_main(const ClientContext& context, int argc, char** argv);

}  // namespace lockstep::slurm
