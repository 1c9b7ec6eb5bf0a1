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
#include "io/local/state_dir.h"
#include "wire/api.h"

namespace lockstep {

namespace {

// Simulated machines are as big as real ones of their kind unless told otherwise.
constexpr std::uint32_t kCpusPerGpu = 8;
constexpr std::int64_t kMemoryPerCpuMb = 8 * 1024;

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
  const auto answer = ask_controller(dir, "GET", "/v1/nodes/" + node);
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
  const std::string answer = TRY(ask_controller(dir, "POST", "/v1/tokens", encode(ask)));
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

std::string library_dir() { return program_dir() + "/../lib"; }

NodeInit node_init(const ClusterDir& dir, const ClusterConf& conf, const std::string& name, std::uint32_t index) {
  NodeInit init;
  init.name = name;
  init.dir = dir.node_dir(name);
  init.hosts_file = dir.file("hosts");
  init.agent = program_dir() + "/lockstep-agent";
  init.cluster_id = dir.id;
  if (conf.nodes > 0) {
    init.address = conf.network.node_address(index);
    init.gateway = conf.network.host_address();
  }
  if (!conf.gpus.empty())
    init.library_path = library_dir();
  return init;
}

}  // namespace

std::string stand_in_nvml() { return library_dir() + "/libnvidia-ml.so.1"; }

Result<std::string> ask_controller(const ClusterDir& dir, std::string_view method, const std::string& target,
                                   const std::string& body) {
  const auto client = TRY(connect_unix(dir.socket()));
  const auto reply = TRY(client->call(method, target, body, seconds(30)));
  if (reply.status >= 300)
    return decode_error(reply.body, reply.status);
  return reply.body;
}

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

Result<StartedNodes> start_nodes(const ClusterDir& dir, const ClusterConf& conf) {
  const auto names = node_names(conf);
  const Folder folder = TRY(Folder::open(dir.root));
  if (conf.nodes > 0)
    TRY(write_hosts(folder, conf));
  std::vector<StartedNode> started;
  std::vector<Cable> cables, running_cables;
  const std::string bin = program_dir();
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    if (const auto running = own_node(dir, names[i])) {
      running->signal(SIGHUP);  // an agent that keeps ending is tried again at once
      running_cables.push_back({i, running->id().pid});
      continue;
    }
    TRY(write_node_files(folder, conf, names[i], i));
    TRY(join_node(dir, conf, names[i]));
    started.push_back(TRY(start_node_init(bin + "/lockstep", node_init(dir, conf, names[i], i))));
    cables.push_back({i, started.back().process.pid});
  }
  StartedNodes out{started.size(), 0};
  if (conf.nodes > 0) {
    out.replugged = TRY(restore_cables(conf.network, dir.id, running_cables));
    if (!cables.empty())
      TRY(connect_nodes(conf.network, dir.id, cables));
  }
  for (auto& node : started) release(node);
  return out;
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

}  // namespace lockstep
