// Where packages put a cluster on a machine (docs/decisions/0009-installed.md), for the verbs that take care of one.
#pragma once

#include <string>

namespace lockstep {

inline constexpr const char* kInstalledController = "/var/lib/lockstep/controller";
inline constexpr const char* kInstalledSettings = "/etc/lockstep";
inline constexpr const char* kInstalledAgentFile = "/etc/lockstep/agent.json";
inline constexpr const char* kInstalledNode = "/var/lib/lockstep/node";

bool is_installed(const std::string& dir);  // the directory is that of the installed controller
// $LOCKSTEP_DIR, else the installed controller's directory where there is one, else ~/.lockstep/default.
std::string cluster_of_this_machine();
std::string installed_cluster_name();  // as lockstepd.conf has it

}  // namespace lockstep
