// The cluster that packages put on this machine (docs/decisions/0009-installed.md): its controller is systemd's to run,
// and this machine is a node of it.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/cluster_dir.h"
#include "cli/listen.h"
#include "wire/local_files.h"

namespace lockstep {

// `lockstep up`: controller and agent run now and after every start of the machine, which is a usable node. topology: a
// file to load, "" = none. Returns an exit code.
Result<int> bring_up_installed(const std::string& topology);
// The same on a machine that is a node of a cluster whose controller is elsewhere: its agent runs.
Result<int> bring_up_node_alone();
// `lockstep up --listen`: other machines reach the controller there from now on. Jobs go on.
Result<void> listen_for_others(const ListenAt& at);
// `lockstep down`: ends the controller, this machine's agent, and what runs here.
Result<void> take_down_installed();

// What the controller says of itself; where it does not answer, what systemd knows of it.
Result<ClusterStatus> installed_status(const ClusterDir& dir);

// Prints the line that makes another machine a node of the cluster, whose controller listens there.
Result<void> print_join_line(const ClusterDir& dir, const ListenAt& at);

}  // namespace lockstep
