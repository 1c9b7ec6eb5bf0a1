#include "cli/local_cluster.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"
#include "io/client/unix_api_client.h"
#include "io/local/node_init.h"
#include "wire/codec.h"

namespace lockstep {

namespace {

// Simulated machines are as big as real ones of their kind unless told otherwise.
constexpr std::uint32_t kCpusPerGpu = 8;
constexpr std::int64_t kMemoryPerCpuMb = 8 * 1024;

std::string tail_of(const std::string& path) {
  const auto text = read_file(path);
  if (!text || text->empty())
    return "nothing was logged";
  auto lines = split(*text, '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  const std::size_t from = lines.size() > 5 ? lines.size() - 5 : 0;
  return join({lines.begin() + static_cast<std::ptrdiff_t>(from), lines.end()}, "\n  ");
}

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

Result<void> write_hosts(const ClusterDir& dir, const ClusterConf& conf) {
  std::string hosts = "127.0.0.1 localhost\n";
  hosts += format("{} controller\n", conf.network.host_address());
  const auto names = node_names(conf);
  for (std::uint32_t i = 0; i < names.size(); ++i) hosts += format("{} {}\n", conf.network.node_address(i), names[i]);
  return write_file(dir.file("hosts"), hosts);
}

// A certificate by the same door any other node uses: a one-time token, then join.
Result<void> join_node(const ClusterDir& dir, const ClusterConf& conf, const std::string& node) {
  const std::string pki = dir.node_dir(node) + "/pki";
  if (access((pki + "/node.crt").c_str(), F_OK) == 0)
    return {};
  TRY(make_dirs(pki, 0700));
  const std::string answer =
      TRY(api(dir, "POST", "/v1/tokens", format(R"({{"role":"compute","node":"{}","ttl_s":600}})", node)));
  const std::string token = TRY(decode_token_answer(answer));
  return run_program({program_dir() + "/lockstep-agent", "join", "--controller",
                      format("{}:{}", controller_host(conf), conf.port), "--node", node, "--pki", pki, "--token",
                      token});
}

Result<void> write_node_files(const ClusterDir& dir, const ClusterConf& conf, const std::string& node,
                              std::uint32_t index) {
  const std::string here = dir.node_dir(node);
  TRY(make_dirs(here + "/run"));
  TRY(make_dirs(here + "/state"));
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
  file.boot_id_file = here + "/boot_id";
  file.fence_hook = true;
  TRY(write_file(here + "/agent.json", encode(file)));
  if (gpus.count > 0 && access((here + "/gpus").c_str(), F_OK) != 0)
    TRY(write_file(here + "/gpus",
                   format("# Devices and faults of the stand-in NVML of this node; read on every query.\n"
                          "count = {}\ntype = {}\n",
                          gpus.count, gpus.type)));
  return {};
}

}  // namespace

std::optional<ProcessId> controller_process(const ClusterDir& dir) { return read_pid_file(dir.file("controller.pid")); }

std::optional<ProcessId> node_process(const ClusterDir& dir, const std::string& node) {
  return read_pid_file(dir.node_dir(node) + "/init.pid");
}

pid_t agent_of(const ProcessId& node) {
  for (const pid_t child : children_of(node.pid))
    if (command_name(child) == "lockstep-agent")
      return child;
  return 0;
}

Result<void> start_controller(const ClusterDir& dir, const ClusterConf& conf) {
  TRY(make_dirs(dir.file("log")));
  const std::string log = dir.file("log/controller.log");
  std::vector<std::string> argv = {program_dir() + "/lockstepd",
                                   "--dir",
                                   dir.root,
                                   "--cluster-name",
                                   conf.name,
                                   "--listen",
                                   format("{}:{}", controller_host(conf), conf.port)};
  if (conf.move_after_s > 0)
    argv.insert(argv.end(), {"--defragment", "--move-after", std::to_string(conf.move_after_s)});
  const ProcessId process = TRY(spawn_detached({argv, {}, log}));
  TRY(write_pid_file(dir.file("controller.pid"), process));
  for (int waited_ms = 0; waited_ms < 30'000; waited_ms += 5) {
    if (api(dir, "GET", "/v1/ping").ok())
      return {};
    if (!end_process(process, 0, Duration{1}) && alive(process)) {
      usleep(5'000);
      continue;
    }
    return Error{Errc::kUnavailable, format("the controller did not start:\n  {}\nIts log: {}", tail_of(log), log), {}};
  }
  return Error{
      Errc::kTimeout, format("the controller does not answer on {} after 30 s; its log: {}", dir.socket(), log), {}};
}

Result<std::size_t> start_nodes(const ClusterDir& dir, const ClusterConf& conf) {
  const auto names = node_names(conf);
  if (conf.nodes > 0)
    TRY(write_hosts(dir, conf));
  std::vector<StartedNode> started;
  std::vector<Cable> cables;
  const std::string bin = program_dir();
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    if (node_process(dir, names[i]))
      continue;
    TRY(write_node_files(dir, conf, names[i], i));
    TRY(join_node(dir, conf, names[i]));
    NodeInit init;
    init.name = names[i];
    init.dir = dir.node_dir(names[i]);
    init.hosts_file = dir.file("hosts");
    init.agent = bin + "/lockstep-agent";
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

Result<void> stop_cluster(const ClusterDir& dir, const ClusterConf& conf) {
  // The controller first: it would otherwise see its nodes go and begin to heal.
  if (const auto controller = controller_process(dir))
    if (!end_process(*controller, SIGTERM, seconds(10)) && !end_process(*controller, SIGKILL, seconds(5)))
      return Error{Errc::kTimeout, format("controller {} does not end", controller->pid), {}};
  const auto names = node_names(conf);
  std::vector<ProcessId> nodes;
  for (const auto& name : names)
    if (const auto node = node_process(dir, name)) {
      nodes.push_back(*node);
      kill(node->pid, SIGTERM);
    }
  for (const auto& node : nodes)
    if (!end_process(node, SIGTERM, seconds(10)) && !end_process(node, SIGKILL, seconds(5)))
      return Error{Errc::kTimeout, format("node process {} does not end", node.pid), {}};
  if (conf.nodes > 0)
    TRY(remove_network(conf.network, conf.nodes));
  for (const auto& name : names) unlink((dir.node_dir(name) + "/init.pid").c_str());
  for (const char* file : {"controller.pid", "api.sock"}) unlink(dir.file(file).c_str());
  return {};
}

Result<ClusterStatus> cluster_status(const ClusterDir& dir) {
  ClusterStatus status;
  const auto answer = api(dir, "GET", "/v1/status");
  if (answer)
    status = TRY(decode_cluster_status(*answer));
  status.dir = dir.root;
  status.socket = dir.socket();
  const auto controller = controller_process(dir);
  status.controller_pid = controller ? controller->pid : 0;
  if (!answer) {
    status.controller_state = controller ? "not answering" : "down";
    if (dir.exists())
      for (const auto& name : node_names(TRY(dir.load()))) status.nodes.push_back({name, "unknown"});
  } else if (status.controller_state.empty()) {
    status.controller_state = "up";
  }
  for (auto& node : status.nodes)
    if (const auto process = node_process(dir, node.name)) {
      node.pid = process->pid;
      node.agent_pid = agent_of(*process);
    }
  return status;
}

}  // namespace lockstep
