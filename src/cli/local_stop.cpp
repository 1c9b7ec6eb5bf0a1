// Ending an embedded cluster, whatever of its directory is still readable.
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "cli/local_cluster.h"
#include "cli/vm_nodes.h"
#include "io/local/cgroups.h"
#include "io/local/folder.h"
#include "io/local/node_init.h"
#include "io/local/restarts.h"
#include "io/local/state_dir.h"
#include "io/local/survivors.h"
#include "io/local/thawing.h"

namespace lockstep {

namespace {

// For a moment a process of our own looks so, too: one whose `up` was killed before it got its program and what tells
// whose it is.
bool is_a_strangers(const ProcessId& process, const std::string& cluster_id) {
  constexpr int kLooks = 100;  // of 10 ms
  for (int look = 0; look < kLooks; ++look) {
    const auto proven = OwnProcess::prove(process, cluster_id);
    if (proven || proven.error().code != Errc::kDenied || !command_name(process.pid).starts_with("lockstep"))
      return false;
    usleep(10'000);
  }
  return true;
}

// The notes of a copied directory name the original's processes.
Result<void> check_is_no_copy(const ClusterDir& dir, const std::vector<std::string>& names) {
  std::vector<ProcessId> noted;
  if (const auto note = read_run_note(dir.file(kControllerNoteFile)))
    for (const auto& process : {note->supervisor, note->process})
      if (process)
        noted.push_back(*process);
  for (const auto& name : names)
    if (const auto process = read_pid_file(dir.node_dir(name) + "/" + kInitPidFile))
      noted.push_back(*process);
  for (const ProcessId& process : noted)
    if (is_a_strangers(process, dir.id))
      return denied(
          format("{} says that process {} is its own, which runs for another directory: is this a copy of a "
                 "running cluster's? Nothing was touched",
                 dir.root, process.pid));
  return {};
}

// Those that no note names: it was lost or damaged. The supervisor first, which would start the controller again.
Result<void> stop_unnoted_controller(const ClusterDir& dir) {
  for (const auto name : {kSupervisorName, kControllerName})
    for (const auto& process : survivors(dir.id, name))
      if (!end_and_tell(process, seconds(20), "the controller"))
        return Error{Errc::kTimeout, format("process {} does not end", process.id().pid), {}};
  return {};
}

Result<void> stop_nodes(const ClusterDir& dir, const std::vector<std::string>& names) {
  std::vector<OwnProcess> nodes;
  std::optional<Error> unending;
  for (const auto& name : names) {
    if (auto ended = check_has_ended(dir, name); !ended)
      unending = ended.error();
    else if (auto node = own_node(dir, name))
      nodes.push_back(std::move(*node));
  }
  const std::size_t noted = nodes.size();
  for (auto& node : survivors(dir.id, kNodeName))
    if (std::none_of(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(noted),
                     [&](const OwnProcess& known) { return known.id() == node.id(); }))
      nodes.push_back(std::move(node));
  for (const auto& node : nodes) node.signal(SIGTERM);
  const Thawing thawing(dir.id);
  for (const auto& node : nodes)
    if (!end_and_tell(node, seconds(10), "a node"))
      return Error{Errc::kTimeout, format("node process {} does not end", node.id().pid), {}};
  if (unending)
    return *unending;
  return {};
}

}  // namespace

std::string lost_mark_text(const ClusterDir& dir) {
  return format(
      "{0}/{1} is not there, by which the processes of this cluster are known: stop them with `lockstep down --dir "
      "{0}`, then `lockstep up --dir {0}` makes a new one",
      dir.root, kMarkFile);
}

std::vector<std::string> all_node_names(const ClusterDir& dir, const ClusterConf* conf) {
  auto names = conf ? node_names(*conf) : std::vector<std::string>();
  const auto folder = Folder::open(dir.root + "/nodes");
  const auto found = folder ? folder->names() : Result<std::vector<std::string>>(folder.error());
  if (!found)
    return names;
  for (const auto& name : *found)
    if (access((dir.node_dir(name) + "/agent.json").c_str(), F_OK) == 0 &&
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  return names;
}

Result<void> stop_cluster(const ClusterDir& dir, const ClusterConf* conf) {
  CHECK(!dir.id.empty(), dir.root);  // by it processes are proven ours
  // The controller first: it would otherwise see its nodes go and begin to heal.
  const auto names = all_node_names(dir, conf);
  TRY(check_is_no_copy(dir, names));
  TRY(stop_controller(dir));
  TRY(stop_unnoted_controller(dir));
  // What still holds a lock is not down, and the notes that are left are kept for the next try.
  if (const std::string who = user_of(dir.root); !who.empty())
    return conflict(
        format("the controller is not down: {} uses {} and is not proven to be this cluster's. Look at it, "
               "end it with kill, then run this again",
               who, dir.root));
  TRY(stop_vms(dir));
  TRY(stop_nodes(dir, names));
  if (!conf || conf->has_bridge())
    TRY(remove_network(conf ? conf->network.bridge : "", dir.id));
  if (!conf || !conf->has_bridge())
    for (const auto& name : names) TRY(end_plain_node(dir.node_dir(name)));
  for (const auto& name : names)
    if (const std::string who = user_of(dir.node_dir(name) + "/state"); !who.empty())
      return conflict(
          format("node {} is not down: its agent ({} of its own pid namespace) still uses {}/state. End it "
                 "with kill, then run this again",
                 name, who, dir.node_dir(name)));
  if (const auto host = this_cgroup_host(); host.ok())
    Cgroups::remove_trees(*host, tree_name(dir.id) + "-");
  for (const auto& name : names) unlink((dir.node_dir(name) + "/" + kInitPidFile).c_str());
  for (const char* file : {kControllerNoteFile, "public/api.sock", "api.sock"}) unlink(dir.file(file).c_str());
  return {};
}

}  // namespace lockstep
