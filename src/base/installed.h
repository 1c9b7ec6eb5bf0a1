// Where an installed cluster lies on this machine (docs/decisions/0009-installed.md). Who knows one of these places
// knows it from here.
#pragma once

#include <string>

namespace lockstep {

struct InstalledPaths {
  std::string settings_dir;         // what a backup takes besides the state
  std::string controller_settings;  // shell-style lines, which systemd reads
  std::string agent_settings;       // JSON; there where this machine is a node
  std::string controller_dir, node_dir, pki_dir;
  std::string socket, agent_socket, agent_run_dir;
  std::string systemd;  // there where systemd runs
};
// Below $LOCKSTEP_INSTALL_ROOT, which tests set. It opens nothing to anybody: what is written goes through folders that
// nobody else can exchange, wherever they are (io/local/folder.h).
InstalledPaths installed_paths();

inline constexpr const char* kControllerUnit = "lockstepd.service";
inline constexpr const char* kAgentUnit = "lockstep-agent.service";

// By their settings: whether the machine has the controller of an installed cluster, or is a node of one.
bool has_installed_controller();
bool is_installed_node();

}  // namespace lockstep
