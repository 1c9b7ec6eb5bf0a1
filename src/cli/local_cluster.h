// Starting, finding and ending the processes of an embedded cluster. What is running is read from the machine each time
// (pid files checked against start times), never remembered.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/cluster_dir.h"
#include "io/local/process.h"
#include "wire/local_files.h"

namespace lockstep {

std::optional<ProcessId> controller_process(const ClusterDir& dir);
std::optional<ProcessId> node_process(const ClusterDir& dir, const std::string& node);
pid_t agent_of(const ProcessId& node);  // 0 = not running just now

// Starts the controller and waits until its socket answers (30 s).
Result<void> start_controller(const ClusterDir& dir, const ClusterConf& conf);
// Starts the nodes that are not running, all at once; makes bridge, cables, settings and certificates as needed.
Result<std::size_t> start_nodes(const ClusterDir& dir, const ClusterConf& conf);
// Waits until every node is up in the controller's eyes.
Result<void> wait_nodes_up(const ClusterDir& dir, const ClusterConf& conf, Duration timeout);
// Ends everything and removes bridge and leftovers outside the directory.
Result<void> stop_cluster(const ClusterDir& dir, const ClusterConf& conf);

// The controller's own status with the local parts; controller_state "down" when it does not answer.
Result<ClusterStatus> cluster_status(const ClusterDir& dir);

}  // namespace lockstep
