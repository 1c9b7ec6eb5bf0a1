// The small JSON files and answers a local cluster is run by: the agent's settings and the cluster's status.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

// Programs of the site that run on a node around jobs. They are settings of the node alone: who may change them can run
// anything as root there, which no right of the cluster gives.
struct NodeHooks {
  std::vector<std::string> prolog, epilog;  // paths, or patterns of glob(7)
  std::uint32_t timeout_s = 300;            // of each prolog and epilog
  std::uint32_t staging_timeout_s = 14400;  // of what a job stages in, and of what it stages out, on this node
  std::string task_prolog, task_epilog;     // "" = none
};

// What is looked at again and again to tell whether the node is fit for work.
struct NodeHealthSettings {
  std::string program;              // HealthCheckProgram; "" = none
  std::uint32_t interval_s = 0;     // of the program; 0 = never
  std::uint32_t timeout_s = 60;     // of the program
  std::string node_state = "ANY";   // ANY, IDLE, ALLOC, START_ONLY; with ",CYCLE": nodes take turns within the interval
  std::uint32_t look_s = 30;        // between two looks of the built-in checks; 0 = none
  std::vector<std::string> mounts;  // that must answer, and be mounted
  std::vector<std::string> disks;   // that must not be full, besides those of the agent
  std::uint32_t disk_full_percent = 99;
  std::vector<std::string> off;  // built-in checks that are not made
};

// What jobs have to themselves on a node.
struct NodePlaces {
  std::optional<bool> private_tmp;  // a /tmp of its own for each job; unset: not on nodes that `lockstep up` made
  std::string scratch;              // directory for files of jobs; "" = below state_dir
};

// What images and containers may take of the node's disk.
struct NodeImages {
  std::int64_t user_mb = 0;         // of each user's; 0 = half of the file system
  std::uint32_t free_percent = 10;  // of the file system, which images leave to others
};

// When the node says that it runs short of something (wire/shortage_bounds.h): the least that is to be left.
struct NodePressure {
  std::string memory = "100Mi";
  std::string disk = "10%", disk_files = "5%";     // of the file system of state_dir
  std::string images = "15%", image_files = "5%";  // of that in which images lie, which is the same one
  std::string processes;                           // of those that the machine may have; "" = it is not looked at
  std::uint32_t look_s = 10;                       // between two looks; 0 = it never says so
  std::uint32_t lasts_s = 300;                     // it goes on saying so for as long after it has enough again
  std::int64_t disk_mb = 0;                        // what of the file system is this node's; 0 = all of it
};

// How often an agent measures its node and what runs there.
struct NodeSampling {
  std::uint32_t work_s = 30;  // scripts, steps and tasks, and the machine's load
  std::uint32_t gpus_s = 1;   // GPUs; 0 = never
};

// nodes/NAME/agent.json, read once by lockstep-agent.
struct AgentFile {
  std::string node;     // name; "" = the host's
  std::string address;  // where its tasks are reached; "" = the address it dials from
  std::string controller_host;
  std::uint16_t controller_port = 0;
  std::string ca, certificate, key;  // PEM paths
  std::string state_dir;             // what must survive the agent: its journal, output that exceeds memory
  std::string run_dir;          // the shims' folders: need not survive the machine, best on a tmpfs; "" = state_dir
  std::string socket;           // local API socket
  std::uint16_t peer_port = 0;  // where other agents dial this one; 0 = any free port
  std::string shim;             // path of lockstep-shim
  std::string realm = "local";  // user database of this node's uids
  std::string task_range;       // addresses for its tasks, "10.88.3.0/24": nobody else's; "" = none
  std::uint32_t cpus = 0;       // 0 = what the machine has
  std::int64_t memory_mb = 0;   // 0 = what the machine has
  std::uint32_t weight = 1;
  std::vector<std::string> features, domains;
  std::vector<std::string> resources;  // counted ones: "fpga=2"
  std::string boot_id_file;            // "" = /proc/sys/kernel/random/boot_id
  bool fence_hook = false;             // the controller's side can prove this node stopped
  std::string cluster_dir;             // of the `lockstep up` that made this node; "" = it joined by itself
  bool leaving = false;                // it takes no new work, since `lockstep node leave` waits for what runs
  bool no_new_privs = false;           // setuid programs (sudo, su, ping) give jobs nothing here
  NodeHooks hooks;
  NodeHealthSettings health;
  NodePlaces places;
  NodeSampling sampling;
  NodeImages images;
  NodePressure pressure;
};
// What `lockstep-agent join` prints of what the node was given, for its settings.
inline constexpr std::string_view kGivenAddress = "address ", kGivenRange = "task_range ";
std::string encode(const AgentFile& file);
Result<AgentFile> decode_agent_file(std::string_view text);
// Takes "hooks", "health", "places", "sampling", "images" and "pressure" of another file of the same form; it may hold
// nothing else.
Result<void> add_hook_settings(AgentFile& file, std::string_view text);

// GET /v1/status, and what `lockstep status -o json` prints (with the local parts filled in).
struct NodeStatus {
  std::string name, state, address, version, reason;
  std::uint32_t cores = 0, cores_used = 0, devices = 0, devices_used = 0;
  std::int64_t memory_mb = 0, memory_used_mb = 0;
  std::string device_type;
  std::int32_t pid = 0, agent_pid = 0;   // of a local node's first process and its agent; 0 = not here
  std::uint32_t agent_ends = 0;          // times the agent ended and was started again
  std::string agent_last_end;            // how, the last time: "signal 9 (Killed)"
  std::int64_t agent_last_end_at_s = 0;  // since the epoch
};
struct ClusterStatus {
  std::string cluster, version, dir, socket;
  std::int32_t controller_pid = 0;
  std::int32_t supervisor_pid = 0;       // of who starts the controller again; 0 = nobody
  bool supervisor_unknown = true;        // the caller may not look: only the cluster's owner may
  std::uint32_t ends = 0;                // times the controller ended under this supervisor
  std::string last_end;                  // how, the last time: "exit code 1: what it said last"
  std::int64_t last_end_at_s = 0;        // since the epoch
  std::int64_t next_start_at_s = 0;      // 0 = it runs, or nobody will start it
  std::vector<std::string> quarantined;  // commands that are refused, because they ended the controller
  std::string controller_state;          // "up", "read-only", "down"
  std::uint64_t seq = 0;
  std::map<std::string, std::uint64_t> jobs;  // by state
  bool jobs_known = true;                     // false: nobody answered
  std::vector<std::string> notices;           // what an administrator should know: damaged files, nodes taken over
  std::vector<NodeStatus> nodes;
};
std::string encode(const ClusterStatus& status);
Result<ClusterStatus> decode_cluster_status(std::string_view text);

// {"token":"…"} of POST /v1/tokens.
Result<std::string> decode_token_answer(std::string_view text);

}  // namespace lockstep
