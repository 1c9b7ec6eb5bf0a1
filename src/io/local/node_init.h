// The first process of a local node. In a virtual node it is pid 1 of its own pid, network, UTS, IPC and mount
// namespaces, so that ending it ends everything on the node at once, as pulling the plug does. It sets the node up,
// keeps the agent running and reaps orphans.
#pragma once

#include <string>
#include <vector>

#include "io/local/process.h"

namespace lockstep {

struct NodeInit {
  std::string name;        // host name
  std::string dir;         // the node's folder in the state directory
  std::string hosts_file;  // becomes /etc/hosts
  std::string address;     // "10.77.1.1"; "" = plain: no namespaces of its own
  int prefix = 16;
  std::string gateway;
  std::string agent;         // path of lockstep-agent
  std::string library_path;  // LD_LIBRARY_PATH of the agent: where the stand-in NVML is; "" = none
  std::string cluster_id;    // told to the process, by which it is known later; not among the arguments
  std::string pid_max;       // of this machine (/proc/sys/kernel/pid_max); "" = not known
};

// Files of a node's folder: the node's first process; how its agent fares (restarts.h).
inline constexpr const char* kInitPidFile = "init.pid";
inline constexpr const char* kAgentNoteFile = "agent.run";
inline constexpr const char* kBootIdFile = "boot_id";

// Sees to it that the file names this start of the machine, or of the container that we are in, as a boot of the node.
// It stays while that lasts: what runs here outlives the agent.
Result<void> keep_machine_boot_id(const std::string& path);

// Starts `self node-init …` in fresh namespaces (virtual) or as a plain session. It waits until release() before it
// sets up its network, so that the caller can move a network interface in.
struct StartedNode {
  ProcessId process;
  int gate = -1;  // our end of the socket it waits on, and says on what keeps it from starting
};
Result<StartedNode> start_node_init(const std::string& self, const NodeInit& init);
void release(const StartedNode& node);
// Waits until it is about to start its agent, or has ended, or patience has, and closes the gate: the error is its own
// word of why it cannot.
Result<void> hear(StartedNode& node, Duration patience);

// Ends what runs on a plain node whose first process has ended, or was killed and could not see to it itself. kTimeout:
// some of it does not end.
Result<void> end_plain_node(const std::string& node_dir);
// The same for every shim that works below a folder, which may be gone.
Result<void> end_shims_below(const std::string& folder);

// What runs below a folder, by the names of its shims' own ("12-1-batch"); sorted.
std::vector<std::string> work_below(const std::string& folder);
// Kills it, so that the shims tell how it ended, and end.
void kill_work_below(const std::string& folder);

// argv of node-init <-> NodeInit.
std::vector<std::string> node_init_arguments(const NodeInit& init);
Result<NodeInit> parse_node_init(const std::vector<std::string>& words);

// The program itself; returns only on failure or after SIGTERM. SIGHUP: start an agent that waits at once.
int run_node_init(const NodeInit& init);

}  // namespace lockstep
