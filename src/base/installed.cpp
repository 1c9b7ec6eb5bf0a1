#include "base/installed.h"

#include <stdlib.h>
#include <unistd.h>

namespace lockstep {

InstalledPaths installed_paths() {
  const char* const moved = ::getenv("LOCKSTEP_INSTALL_ROOT");
  const std::string root = moved ? moved : "";
  return {.settings_dir = root + "/etc/lockstep",
          .controller_settings = root + "/etc/lockstep/lockstepd.conf",
          .agent_settings = root + "/etc/lockstep/agent.json",
          .controller_dir = root + "/var/lib/lockstep/controller",
          .node_dir = root + "/var/lib/lockstep/node",
          .pki_dir = root + "/var/lib/lockstep/pki",
          .socket = root + "/run/lockstep/api.sock",
          .agent_socket = root + "/run/lockstep-agent/api.sock",
          .agent_run_dir = root + "/run/lockstep-agent",
          .systemd = root + "/run/systemd/system"};
}

namespace {
bool is_there(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }
}  // namespace

bool has_installed_controller() { return is_there(installed_paths().controller_settings); }
bool is_installed_node() { return is_there(installed_paths().agent_settings); }

}  // namespace lockstep
