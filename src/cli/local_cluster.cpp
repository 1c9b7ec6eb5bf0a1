#include "cli/local_cluster.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/text.h"
#include "io/client/unix_api_client.h"
#include "io/local/folder.h"
#include "io/local/node_init.h"
#include "io/local/restarts.h"
#include "io/local/state_dir.h"
#include "wire/api.h"

namespace lockstep {

namespace {

// Simulated machines are as big as real ones of their kind unless told otherwise.
constexpr std::uint32_t kCpusPerGpu = 8;
constexpr std::int64_t kMemoryPerCpuMb = 8 * 1024;

Result<std::string> api(const ClusterDir& dir, std::string_view method, const std::string& target,
                        const std::string& body = {}) {
  const auto client = TRY(connect_unix(dir.socket()));
  const auto reply = TRY(client->call(method, target, body, seconds(30)));
  if (reply.status >= 300)
    return decode_error(reply.body, reply.status);
  return reply.body;
}

std::string controller_host(const ClusterConf& conf) {
  return conf.nodes == 0 ? "127.0.0.1" : conf.network.host_address();
}

Result<void> write_hosts(const Folder& dir, const ClusterConf& conf) {
  std::string hosts = "127.0.0.1 localhost\n";
  hosts += format("{} controller\n", conf.network.host_address());
  const auto names = node_names(conf);
  for (std::uint32_t i = 0; i < names.size(); ++i) hosts += format("{} {}\n", conf.network.node_address(i), names[i]);
  return dir.keep("hosts", hosts, 0644);  // bound over /etc/hosts in every node
}

bool counts(const ClusterDir& dir, const std::string& node) {
  const auto answer = api(dir, "GET", "/v1/nodes/" + node);
  const auto record = answer ? decode_record(Kind::kNode, *answer) : Result<Record>(answer.error());
  return record.ok() && std::get<Ref<Node>>(*record)->certificate != kNoCertificate;
}

// A certificate by the same door any other node uses: a one-time token, then join. Again for a node that was removed or
// revoked: its old one counts no more. Where this machine is the node, whoever is root or administrator there is so
// here.
Result<void> join_node(const ClusterDir& dir, const ClusterConf& conf, const std::string& node) {
  const std::string pki = dir.node_dir(node) + "/pki";
  if (access((pki + "/node.crt").c_str(), F_OK) == 0 && counts(dir, node))
    return {};
  TokenRequest ask;
  ask.node = node;
  ask.ttl_s = 600;
  ask.trust_administrators = conf.nodes == 0;
  const std::string answer = TRY(api(dir, "POST", "/v1/tokens", encode(ask)));
  const std::string token = TRY(decode_token_answer(answer));
  return run_program({program_dir() + "/lockstep-agent", "join", "--controller",
                      format("{}:{}", controller_host(conf), conf.port), "--node", node, "--pki", pki, "--token", "-"},
                     token + "\n");
}

Result<void> write_node_files(const Folder& dir, const ClusterConf& conf, const std::string& node,
                              std::uint32_t index) {
  const Folder nodes = TRY(dir.folder("nodes", pass_through_mode()));
  const Folder folder = TRY(nodes.folder(node, pass_through_mode()));
  const std::string here = folder.path();
  for (const auto& part : {"run", "state"}) TRY(folder.folder(part, pass_through_mode()));
  TRY(folder.folder("pki", 0700));
  const GpuSpec gpus = TRY(parse_gpus(conf.gpus));
  AgentFile file;
  file.node = node;
  file.address = conf.nodes == 0 ? "127.0.0.1" : conf.network.node_address(index);
  file.controller_host = controller_host(conf);
  file.controller_port = conf.port;
  file.ca = here + "/pki/ca.crt";
  file.certificate = here + "/pki/node.crt";
  file.key = here + "/pki/node.key";
  file.state_dir = here + "/state";
  file.run_dir = conf.nodes == 0 ? "" : "/run/lockstep-agent";  // a virtual node's /run is its own and in memory
  file.socket = conf.nodes == 0 ? here + "/run/api.sock" : "/run/lockstep/api.sock";
  file.shim = program_dir() + "/lockstep-shim";
  file.cpus = conf.cpus;
  if (conf.nodes > 0 && file.cpus == 0)
    file.cpus = gpus.count > 0 ? gpus.count * kCpusPerGpu : static_cast<std::uint32_t>(sysconf(_SC_NPROCESSORS_ONLN));
  file.memory_mb = conf.memory_mb;
  if (conf.nodes > 0 && file.memory_mb == 0)
    file.memory_mb = file.cpus * kMemoryPerCpuMb;
  file.boot_id_file = here + "/" + kBootIdFile;
  file.fence_hook = conf.nodes > 0;  // a plain node's work outlives its first process
  TRY(folder.keep("agent.json", encode(file), 0600));
  if (gpus.count > 0 && access((here + "/gpus").c_str(), F_OK) != 0)
    TRY(folder.write("gpus",
                     format("# Devices and faults of the stand-in NVML of this node; read on every query.\n"
                            "count = {}\ntype = {}\n",
                            gpus.count, gpus.type),
                     0600));
  return {};
}

}  // namespace

std::optional<ProcessId> node_process(const ClusterDir& dir, const std::string& node) {
  const auto noted = read_pid_file(dir.node_dir(node) + "/" + kInitPidFile);
  return noted && alive(*noted) ? noted : std::nullopt;
}

std::optional<OwnProcess> own_node(const ClusterDir& dir, const std::string& node) {
  const auto noted = read_pid_file(dir.node_dir(node) + "/" + kInitPidFile);
  return noted ? own_process(*noted, dir.id) : std::nullopt;
}

std::optional<OwnProcess> own_process(const ProcessId& noted, const std::string& cluster_id) {
  auto process = OwnProcess::prove(noted, cluster_id);
  if (process)
    return std::move(*process);
  if (process.error().code != Errc::kNotFound)
    fprintf(stderr, "lockstep: %s\n", process.error().message.c_str());
  return std::nullopt;
}

ClusterLock::~ClusterLock() {
  if (fd >= 0)
    close(fd);
}

Result<ClusterLock> lock_cluster(const ClusterDir& dir) {
  ClusterLock lock(open(dir.file("up.lock").c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (lock.fd < 0 || flock(lock.fd, LOCK_EX) != 0)
    return os_error("cannot lock " + dir.file("up.lock"));
  return lock;
}

pid_t agent_of(const ProcessId& node) {
  for (const pid_t child : children_of(node.pid))
    if (command_name(child) == "lockstep-agent")
      return child;
  return 0;
}

Result<std::size_t> start_nodes(const ClusterDir& dir, const ClusterConf& conf) {
  const auto names = node_names(conf);
  const Folder folder = TRY(Folder::open(dir.root));
  if (conf.nodes > 0)
    TRY(write_hosts(folder, conf));
  std::vector<StartedNode> started;
  std::vector<Cable> cables;
  const std::string bin = program_dir();
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    if (const auto running = own_node(dir, names[i])) {
      running->signal(SIGHUP);  // an agent that keeps ending is tried again at once
      continue;
    }
    TRY(write_node_files(folder, conf, names[i], i));
    TRY(join_node(dir, conf, names[i]));
    NodeInit init;
    init.name = names[i];
    init.dir = dir.node_dir(names[i]);
    init.hosts_file = dir.file("hosts");
    init.agent = bin + "/lockstep-agent";
    init.cluster_id = dir.id;
    if (conf.nodes > 0) {
      init.address = conf.network.node_address(i);
      init.gateway = conf.network.host_address();
    }
    if (!conf.gpus.empty())
      init.library_path = bin + "/../lib";
    started.push_back(TRY(start_node_init(bin + "/lockstep", init)));
    cables.push_back({i, started.back().process.pid});
  }
  if (conf.nodes > 0 && !cables.empty())
    TRY(connect_nodes(conf.network, cables));
  for (auto& node : started) release(node);
  return started.size();
}

Result<void> wait_nodes_up(const ClusterDir& dir, const ClusterConf& conf, Duration timeout) {
  std::size_t up = 0;
  const std::size_t want = node_names(conf).size();
  for (std::int64_t waited_ms = 0; waited_ms < timeout.millis(); waited_ms += 10) {
    const auto status = cluster_status(dir);
    up = 0;
    if (status)
      for (const auto& node : status->nodes) up += node.state != "down" && node.state != "unknown";
    if (up >= want)
      return {};
    usleep(10'000);
  }
  return Error{Errc::kTimeout,
               format("{} of {} nodes are up after {} s; see the log in {}/nodes/NAME/log", up, want, timeout.seconds(),
                      dir.root),
               {}};
}

namespace {

// The notes of a copied directory name the original's processes, and its network is the original's.
Result<void> check_is_no_copy(const ClusterDir& dir, const std::vector<std::string>& names) {
  std::vector<ProcessId> noted;
  if (const auto note = read_run_note(dir.file(kControllerNoteFile)))
    for (const auto& process : {note->supervisor, note->process})
      if (process)
        noted.push_back(*process);
  for (const auto& name : names)
    if (const auto process = read_pid_file(dir.node_dir(name) + "/" + kInitPidFile))
      noted.push_back(*process);
  for (const ProcessId& process : noted) {
    const auto proven = OwnProcess::prove(process, dir.id);
    if (!proven && proven.error().code == Errc::kDenied && command_name(process.pid).starts_with("lockstep"))
      return denied(
          format("{} says that process {} is its own, which runs for another directory: is this a copy of a "
                 "running cluster's? Nothing was touched",
                 dir.root, process.pid));
  }
  return {};
}

}  // namespace

Result<void> stop_cluster(const ClusterDir& dir, const ClusterConf& conf) {
  // The controller first: it would otherwise see its nodes go and begin to heal.
  const auto names = node_names(conf);
  TRY(check_is_no_copy(dir, names));
  TRY(stop_controller(dir));
  // Notes may have been lost: what still holds a lock is not down, and the notes that are left are kept for the next
  // try.
  if (const std::string who = user_of(dir.root); !who.empty())
    return conflict(
        format("the controller is not down: {} uses {} and is not proven to be this cluster's. Look at it, "
               "end it with kill, then run this again",
               who, dir.root));
  std::vector<OwnProcess> nodes;
  for (const auto& name : names)
    if (auto node = own_node(dir, name)) {
      node->signal(SIGTERM);
      nodes.push_back(std::move(*node));
    }
  for (const auto& node : nodes)
    if (!node.end(seconds(10)))
      return Error{Errc::kTimeout, format("node process {} does not end", node.id().pid), {}};
  if (conf.nodes > 0)
    TRY(remove_network(conf.network, conf.nodes));
  else
    end_plain_node(dir.node_dir(names[0]));
  for (const auto& name : names)
    if (const std::string who = user_of(dir.node_dir(name) + "/state"); !who.empty())
      return conflict(
          format("node {} is not down: its agent ({} of its own pid namespace) still uses {}/state. End it "
                 "with kill, then run this again",
                 name, who, dir.node_dir(name)));
  for (const auto& name : names) unlink((dir.node_dir(name) + "/" + kInitPidFile).c_str());
  for (const char* file : {kControllerNoteFile, "public/api.sock", "api.sock"}) unlink(dir.file(file).c_str());
  return {};
}

namespace {

void add_local_parts(ClusterStatus& status, const ClusterDir& dir) {
  // Only the cluster's owner can read these; others see what the controller says of itself.
  if (const auto note = read_run_note(dir.file(kControllerNoteFile))) {
    const auto running = [](const std::optional<ProcessId>& process) {
      return process && alive(*process) ? process->pid : 0;
    };
    status.controller_pid = running(note->process);
    status.supervisor_pid = running(note->supervisor);
    status.supervisor_unknown = false;
    status.ends = note->ends;
    status.last_end = note->ended;
    status.last_end_at_s = note->ended_at_s;
    status.next_start_at_s = status.controller_pid ? 0 : note->next_at_s;
  }
  if (const auto list = read_file(dir.file("applying.list")))
    for (auto& line : split(*list, '\n'))
      if (!line.empty())
        status.quarantined.push_back(std::move(line));
  for (auto& node : status.nodes) {
    if (const auto process = node_process(dir, node.name)) {
      node.pid = process->pid;
      node.agent_pid = agent_of(*process);
    }
    if (const auto note = read_run_note(dir.node_dir(node.name) + "/" + kAgentNoteFile)) {
      node.agent_ends = note->ends;
      node.agent_last_end = note->ended;
    }
  }
}

}  // namespace

Result<ClusterStatus> cluster_status(const ClusterDir& dir) {
  ClusterStatus status;
  const auto answer = api(dir, "GET", "/v1/status");
  if (answer)
    status = TRY(decode_cluster_status(*answer));
  status.dir = dir.root;
  status.socket = dir.socket();
  if (!answer)
    if (const auto conf = dir.load())
      for (const auto& name : node_names(*conf)) status.nodes.push_back({name, "unknown"});
  add_local_parts(status, dir);
  if (!answer && answer.error().code == Errc::kDenied)
    return answer.error();
  if (!answer)
    status.controller_state = status.controller_pid ? "not answering" : "down";
  else if (status.controller_state.empty())
    status.controller_state = "up";
  return status;
}

}  // namespace lockstep
