// `lockstep`: everything in one place. Verbs of its own (up, down, status, env, node …) and plain names for the Slurm
// commands (submit, run, alloc, jobs, nodes, cancel, show, history).
#pragma once

#include <string_view>
#include <vector>

#include "frontends/slurm/client/context.h"

namespace lockstep {

int cli_main(const slurm::ClientContext& context, int argc, char** argv);

// The verbs, each with its own arguments from argv[0] = the verb. Exit codes: 0 done, 1 failed, 2 wrong usage.
int up_main(int argc, char** argv);
int down_main(int argc, char** argv);
int env_main(int argc, char** argv);
int status_main(int argc, char** argv);
int node_main(int argc, char** argv);
std::vector<std::string_view> node_verbs();  // of `lockstep node`
int topology_main(int argc, char** argv);
int import_main(int argc, char** argv);
// `lockstep topology load FILE`; the exit code.
int load_topology(const std::string& socket, const std::string& path);
int get_main(int argc, char** argv);
int apply_main(int argc, char** argv);
int diff_main(int argc, char** argv);
int kubeconfig_main(const slurm::ClientContext& context, int argc, char** argv);
int health_main(const slurm::ClientContext& context, int argc, char** argv);
int tasks_main(const slurm::ClientContext& context, int argc, char** argv);
int checkpoint_main(const slurm::ClientContext& context, int argc, char** argv);
int completion_main(int argc, char** argv);
int man_main(int argc, char** argv);
int backup_main(int argc, char** argv);
int restore_main(int argc, char** argv);
int doctor_main(int argc, char** argv);
std::vector<std::string_view> doctor_checks();  // of `lockstep doctor`
std::vector<std::string_view> all_verbs();  // for people: what `lockstep help` lists, and the Slurm commands' own names
int explain_main(const slurm::ClientContext& context, int argc, char** argv);
int logs_main(const slurm::ClientContext& context, int argc, char** argv);
int enroot_main(const slurm::ClientContext& context, int argc, char** argv);
int shell_main(const slurm::ClientContext& context, int argc, char** argv);
int ssh_main(const slurm::ClientContext& context, int argc, char** argv);
int ssh_config_main(const slurm::ClientContext& context, int argc, char** argv);
int whatif_main(const slurm::ClientContext& context, int argc, char** argv);

}  // namespace lockstep
