// Starting, finding and ending the processes of an embedded cluster. What is running is read from the machine each time
// (notes checked against start times), never remembered; a signal goes only to a process that is proven ours.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster_dir.h"
#include "io/local/process.h"
#include "io/local/restarts.h"
#include "wire/local_files.h"

namespace lockstep {

// How the controller fares, by its supervisor (io/local/restarts.h).
inline constexpr const char* kControllerNoteFile = "controller.run";

std::optional<ProcessId> node_process(const ClusterDir& dir, const std::string& node);
// nullopt: it is gone, or something else runs under its number, which is said on stderr.
std::optional<OwnProcess> own_process(const ProcessId& noted, const std::string& cluster_id);
std::optional<OwnProcess> own_node(const ClusterDir& dir, const std::string& node);
// An error while its first process ends and something of the node does not: it is no other boot yet.
Result<void> check_has_ended(const ClusterDir& dir, const std::string& node);
pid_t agent_of(const ProcessId& node);  // 0 = not running just now

// Says on stderr, once, what is waited for when the controller has not answered for two seconds.
void tell_of_silence(ApiClient& client, const ClusterDir& dir);
// Its API: the body of a good answer.
Result<std::string> ask_controller(const ClusterDir& dir, std::string_view method, const std::string& target,
                                   const std::string& body = {});
// Sees to it that the controller runs under a supervisor, and waits until it answers (30 s). True: it did already.
Result<bool> start_controller(const ClusterDir& dir, const ClusterConf& conf);
// Lets it listen there from now on: the settings that say so. Where it cannot, it goes on as before.
Result<ClusterConf> move_controller(const ClusterDir& dir, const ClusterConf& conf, const ListenAt& at);
// A supervisor of its own for the process, as a daemon.
struct Supervised;
Result<OwnProcess> start_supervisor(const Supervised& what);
// Why the last start came to nothing, by the note that its supervisor left.
std::string failed_start_text(const ClusterDir& dir, const RunNote& note);
// Ends the supervisor, then the controller if that was left.
Result<void> stop_controller(const ClusterDir& dir);
// As OwnProcess::end, and says after two seconds what is waited for: "the controller".
bool end_and_tell(const OwnProcess& process, Duration patience, const char* what);
// One `lockstep up` or `down` at a time; waits for the other. Unlocked with the returned object. kConflict: the other
// has removed the directory, or its mark where that was there (`is_marked`).
struct ClusterLock {
  explicit ClusterLock(int held) : fd(held) {}
  ClusterLock(ClusterLock&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  ~ClusterLock();
  int fd;
};
Result<ClusterLock> lock_cluster(const ClusterDir& dir, bool is_marked);
std::string stand_in_nvml();  // the library that virtual nodes with GPUs need: lib/ beside bin/
// Starts the nodes that are not running, all at once; makes bridge, cables, settings and certificates as needed. One
// that cannot be started keeps no other from it.
struct StartedNodes {
  std::size_t started = 0, replugged = 0;     // replugged: running ones whose cable was missing
  std::map<std::string, std::string> failed;  // by name: why
};
// Whether settings of agents hold for the nodes of such a cluster. Error::field is the setting's path.
Result<void> check_agent_settings(const ClusterConf& conf, const std::string& text);
// What the settings of nodes that are started later say of hooks and health, as `up` was given it.
Result<void> keep_agent_settings(const ClusterDir& dir, const std::string& text);
Result<StartedNodes> start_nodes(const ClusterDir& dir, const ClusterConf& conf);
// After the controller has moved: its nodes' settings say where it is, and their agents read them. Jobs go on.
Result<void> move_nodes(const ClusterDir& dir, const ClusterConf& conf);
// Waits until every node is up in the controller's eyes but those that were not started, and names all that are not.
Result<void> wait_nodes_up(const ClusterDir& dir, const ClusterConf& conf, const StartedNodes& nodes, Duration timeout);
// Ends everything and removes bridge and leftovers outside the directory. conf: null where it cannot be read. Notes
// that are lost or damaged keep nothing running: what they name is looked for among all processes then.
Result<void> stop_cluster(const ClusterDir& dir, const ClusterConf* conf);
// Whether a node of this machine has a certificate of this cluster's CA. Where that was lost, the controller has made
// another.
bool has_certificate(const ClusterDir& dir, const std::string& node);
// What to say where the directory's mark is gone: by it processes are known.
std::string lost_mark_text(const ClusterDir& dir);
// That the disk under a path is full, on a line of its own, by whatever could not even write its log; "" = it is not.
std::string room_text(const std::string& path);
// The settings' nodes, and those that have a folder in the directory.
std::vector<std::string> all_node_names(const ClusterDir& dir, const ClusterConf* conf);

// The controller's own status with the local parts (notices: what is damaged here, too); controller_state "down",
// "starting" or "not answering" when it does not answer.
Result<ClusterStatus> cluster_status(const ClusterDir& dir);

}  // namespace lockstep
