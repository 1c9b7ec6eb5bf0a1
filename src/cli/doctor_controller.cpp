// What the doctor asks of a controller, and of what it knows of its nodes.
#include <limits.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/plain_file.h"
#include "base/text.h"
#include "cli/controller_place.h"
#include "cli/doctor.h"

namespace lockstep {

namespace {

constexpr std::int64_t kLatelyS = 600;  // an end that is longer ago and was survived concerns nobody
constexpr double kBehindMost = 1'000;   // batches
constexpr std::string_view kReadOnly = "read-only: ";

std::string start_command(const Patient& patient) {
  return patient.is_installed ? "systemctl start lockstepd" : "lockstep up --dir " + patient.dir.root;
}

std::string controller_log(const Patient& patient) {
  return patient.is_installed ? "journalctl -u lockstepd" : patient.dir.file("log/controller.log");
}

std::string host_name() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return host;
}

std::string first_part(const std::string& name) { return name.substr(0, name.find('.')); }

// --- controller ---

void look_at_ends(const Patient& patient, const ClusterStatus& s, Diagnosis& report) {
  if (s.ends > 0 && time(nullptr) - s.last_end_at_s < kLatelyS)
    report.warning("", format("it ended {} time(s) and was started again, last: {}", s.ends, s.last_end),
                   "see what led to it: " + controller_log(patient));
  else if (s.ends > 0)
    report.note("", format("it has ended {} time(s) and was started again, last: {}", s.ends, s.last_end));
  if (s.controller_pid && !s.supervisor_pid && !s.supervisor_unknown && !patient.is_installed)
    report.warning("", "nobody starts it again if it ends", start_command(patient));
  for (const auto& command : s.quarantined)
    report.warning(command, "this request is refused, because it ended the controller",
                   format("to let it try again: stop the controller, remove its line from {}, start it",
                          patient.dir.file("applying.list")));
}

void look_at_controller(const Patient& patient, Diagnosis& report) {
  if (!patient.status)
    return report.error("", "nothing is known of it: it does not answer you", start_command(patient));
  const ClusterStatus& s = *patient.status;
  if (patient.is_quiet)
    report.note("", "this cluster was restored from a backup and is quiet: it changes nothing and starts no job",
                "lockstep restore --take-over --dir " + patient.dir.root);
  if (s.controller_state == "starting")
    report.warning("", "it is starting, and reads its log", "wait, and look again: lockstep status");
  else if (s.controller_state == "read-only" && !patient.is_quiet)
    report.error("", "it is read-only: its log cannot be written", "see the disks below; it goes on by itself");
  else if (s.controller_state == "not answering")
    report.error("", format("process {} does not answer", s.controller_pid), "see " + controller_log(patient));
  else if (s.controller_state == "down")
    report.error("", s.last_end.empty() ? "it does not run" : "it does not run; it ended: " + s.last_end,
                 start_command(patient));
  look_at_ends(patient, s, report);
  for (const auto& notice : s.notices)
    if (!notice.starts_with(kReadOnly))
      report.warning("", notice, "");
}

// --- nodes ---

void look_at_nodes(const Patient& patient, Diagnosis& report) {
  if (!patient.status || !patient.status->jobs_known)
    return report.unknown("", "the controller tells nothing of its nodes now");
  if (patient.is_quiet)
    return;
  if (patient.status->nodes.empty())
    report.warning("", "the cluster has no node", "lockstep node token --help");
  for (const NodeStatus& node : patient.status->nodes) {
    const std::string why = node.reason.empty() ? "" : ": " + node.reason;
    const std::string restart = node.pid || patient.conf
                                    ? "lockstep up --dir " + patient.dir.root
                                    : "on that machine: systemctl restart lockstep-agent; lockstep doctor";
    if (node.state == "down" || node.state == "unknown")
      report.error(node.name, format("it is {}{}", node.state, why), restart);
    else if (node.reason.find("while that lasts") != std::string::npos)
      report.warning(
          node.name, format("it is {} and takes no work{}", node.state, why),
          format("mend what is said: the node opens by itself then; lockstep health {} says more", node.name));
    else if (node.state == "drained" || node.state == "draining")
      report.note(node.name, format("it is {} and takes no work{}", node.state, why),
                  "lockstep node resume " + node.name);
    else if (!node.reason.empty())
      report.warning(
          node.name, node.reason,
          format("lockstep health {} says more; how much is wanted stands under \"pressure\" in its settings",
                 node.name));
    if (node.agent_ends > 0 && time(nullptr) - node.agent_last_end_at_s < kLatelyS)
      report.warning(node.name, format("its agent ended {} time(s), last: {}", node.agent_ends, node.agent_last_end),
                     format("see {}/log", patient.dir.node_dir(node.name)));
  }
}

// --- versions ---

// The file behind a running process was exchanged: an upgrade that was not followed by a start.
bool runs_another_file(pid_t pid) {
  char path[PATH_MAX];
  const ssize_t n = pid > 0 ? readlink(format("/proc/{}/exe", pid).c_str(), path, sizeof path) : -1;
  return n > 0 && std::string_view(path, static_cast<std::size_t>(n)).ends_with(" (deleted)");
}

void look_at_versions(const Patient& patient, Diagnosis& report) {
  if (!patient.status || patient.status->version.empty())
    return report.unknown("", "the controller does not say which version it is");
  const ClusterStatus& s = *patient.status;
  const std::string again = patient.is_installed
                                ? "systemctl restart lockstepd (jobs go on)"
                                : format("lockstep down --dir {0} && lockstep up --dir {0}", patient.dir.root);
  if (s.version != LOCKSTEP_VERSION)
    report.warning("", format("the controller is of version {}, these commands of {}", s.version, LOCKSTEP_VERSION),
                   "install one version on this machine; " + again);
  else if (runs_another_file(s.controller_pid))
    report.warning("", "the controller's program was exchanged since it started", again);
  for (const NodeStatus& node : s.nodes) {
    if (!node.version.empty() && node.version != s.version)
      report.warning(node.name, format("its agent is of version {}, the controller of {}", node.version, s.version),
                     "install that version there and restart the agent (jobs go on)");
    else if (runs_another_file(node.agent_pid))
      report.warning(node.name, "its agent's program was exchanged since it started", again);
  }
}

// --- names ---

// Virtual nodes have names of their own, which are known inside only.
void look_at_names(const Patient& patient, Diagnosis& report) {
  std::map<std::string, std::string> by_machine;
  const std::string here = first_part(host_name());
  for (const auto& node : patient.nodes) {
    if (node->has_fence_hook || node->hostname.empty())
      continue;
    const std::string& name = node->meta.name;
    if (const auto [other, is_first] = by_machine.try_emplace(node->hostname, name); !is_first)
      report.error(name,
                   format("it and {} are the same machine, {}: each counts all of it", other->second, node->hostname),
                   "lockstep node remove one of them");
    if (first_part(node->hostname) != name)
      report.note(name, format("its machine is called {}: launchers that go by ssh find it under that name only",
                               node->hostname));
    if (first_part(node->hostname) != here && !output_of({"getent", "hosts", name}))
      report.warning(name, "this machine cannot resolve the name; srun does without, ssh and MPI launchers do not",
                     format("add it to DNS or to /etc/hosts: {} {}", node->address, name));
  }
}

// --- ports ---

// As the running controller wrote it; else where it is to listen.
std::optional<ListenAt> whereabouts(const Patient& patient) {
  if (auto told = told_listener(patient.dir))
    return told;
  if (!patient.conf || patient.conf->port == 0)
    return std::nullopt;
  return ListenAt{patient.conf->has_bridge() ? patient.conf->network.host_address() : "127.0.0.1", patient.conf->port};
}

void look_at_ports(const Patient& patient, Diagnosis& report) {
  const auto where = whereabouts(patient);
  if (!where)
    return report.unknown("", "it is not known where the controller listens for nodes");
  const std::string place = host_and_port(where->address, where->port);
  const bool is_up = patient.status && patient.status->controller_pid != 0;
  const std::string who = listener_on(where->address, where->port);
  if (!is_up && !who.empty())
    return report.error(place, format("the controller's port is taken by {}", who),
                        "end that, or have the controller listen elsewhere");
  if (is_up && !accepts(where->address, where->port))
    report.error(place, "the controller runs and nothing can connect there: nodes cannot reach it",
                 "a firewall or a lost interface; " + start_command(patient));
}

// --- accounting ---

void look_at_accounting(const Patient& patient, Diagnosis& report) {
  const auto gauge = [&](const char* name) {
    const auto found = patient.gauges.find(name);
    return found == patient.gauges.end() ? 0 : found->second;
  };
  if (patient.gauges.empty())
    return report.unknown("", "the controller does not tell how far it is");
  if (gauge("lockstep_history_failing") > 0)
    report.error(patient.dir.file("history.db"),
                 "accounting cannot be written, so that the log is not trimmed and grows",
                 "see the disks, and " + controller_log(patient));
  else if (gauge("lockstep_history_behind") > kBehindMost)
    report.warning(patient.dir.file("history.db"),
                   format("accounting is {:.0f} entries behind the log", gauge("lockstep_history_behind")),
                   "look again in a minute; a slow disk is the usual cause");
}

}  // namespace

constexpr Check kControllerCheck{"controller",
                                 "whether it answers, why not, how often it ended, refused commands, notices",
                                 look_at_controller, nullptr};
constexpr Check kNodesCheck{"nodes", "nodes that are down or drained, and why; agents that keep ending", look_at_nodes,
                            nullptr};
constexpr Check kVersionsCheck{"versions",
                               "commands, controller and agents of one version, and running what is installed",
                               look_at_versions, nullptr};
constexpr Check kNamesCheck{"names", "names that resolve, one for each machine, as the machine is called",
                            look_at_names, nullptr};
constexpr Check kPortsCheck{"ports", "the controller's port: reachable, or taken by whom", look_at_ports, nullptr};
constexpr Check kAccountingCheck{"accounting", "how far accounting is behind the log", look_at_accounting, nullptr};

}  // namespace lockstep
