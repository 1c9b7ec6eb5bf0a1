#include "cli/local_cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/plain_file.h"
#include "base/text.h"
#include "cli/vm_nodes.h"
#include "io/client/unix_api_client.h"
#include "io/local/folder.h"
#include "io/local/node_init.h"
#include "io/local/restarts.h"
#include "io/local/state_dir.h"
#include "io/local/survivors.h"
#include "io/local/thawing.h"
#include "wire/api.h"
#include "wire/shortage_bounds.h"

namespace lockstep {

namespace {

// Simulated machines are as big as real ones of their kind unless told otherwise.
constexpr std::uint32_t kCpusPerGpu = 8;
constexpr std::int64_t kMemoryPerCpuMb = 8 * 1024;

Result<void> write_hosts(const Folder& dir, const ClusterConf& conf) {
  std::string hosts = "127.0.0.1 localhost\n";
  hosts += format("{} controller\n", conf.network.host_address());
  const auto names = node_names(conf);
  for (std::uint32_t i = 0; i < names.size(); ++i) hosts += format("{} {}\n", conf.network.node_address(i), names[i]);
  const auto machines = vm_names(conf);
  for (std::uint32_t i = 0; i < machines.size(); ++i)
    hosts += format("{} {}\n", conf.network.node_address(conf.nodes + i), machines[i]);
  return dir.keep("hosts", hosts, 0644);  // bound over /etc/hosts in every node
}

// As the controller knows it; null when it does not.
Ref<Node> node_record(const ClusterDir& dir, const std::string& node) {
  const auto answer = ask_controller(dir, "GET", "/v1/nodes/" + node);
  const auto record = answer ? decode_record(Kind::kNode, *answer) : Result<Record>(answer.error());
  return record.ok() ? std::get<Ref<Node>>(*record) : nullptr;
}

// What the node held is off: its first process has ended, and what a plain node ran may have outlived that but is ended
// here, since nobody could answer for it under a new certificate.
Result<void> call_off(const ClusterDir& dir, const ClusterConf& conf, const std::string& node) {
  if (conf.nodes == 0)
    TRY(end_plain_node(dir.node_dir(node)));
  UpdateNode off;
  off.revoke = true;
  TRY(ask_controller(dir, "POST", "/v1/nodes/" + node + "?now=1", encode(off)));
  return {};
}

// Whether the files are what they should be: the agent can read them. What is wrong with them is said.
bool is_usable_certificate(const ClusterDir& dir, const std::string& node) {
  const std::string pki = dir.node_dir(node) + "/pki";
  const auto checked = run_and_hear({program_dir() + "/lockstep-agent", "check", pki});
  const bool is_usable = checked && checked->code == 0;
  if (!is_usable)
    fprintf(stderr, "the certificate of node %s cannot be used, and it gets a new one: %s\n", node.c_str(),
            checked ? checked->err.c_str() : checked.error().message.c_str());
  return is_usable;
}

// A certificate by the same door any other node uses: a one-time token, then join. Again for a node that was removed or
// revoked, whose old one counts no more, and for one whose files are lost or damaged. Where this machine is the node,
// whoever is root or administrator there is so here.
Result<void> join_node(const ClusterDir& dir, const ClusterConf& conf, const std::string& node, std::uint32_t index) {
  const std::string pki = dir.node_dir(node) + "/pki";
  const auto record = node_record(dir, node);
  const bool has_network = conf.nodes > 0;
  const std::string address = has_network ? conf.network.node_address(index) : "";
  const std::string range = has_network ? conf.network.task_range(index) : "";
  if (has_certificate(dir, node) && record && record->certificate != kNoCertificate &&
      is_usable_certificate(dir, node)) {
    if (!has_network || (record->terms.address == address && record->terms.task_range == range))
      return {};
    UpdateNode moved;  // its cluster got another network
    moved.address = address;
    moved.task_range = range;
    TRY(ask_controller(dir, "POST", "/v1/nodes/" + node, encode(moved)));
    return {};
  }
  if (record)
    TRY(call_off(dir, conf, node));
  TokenRequest ask;
  ask.node = node;
  ask.ttl_s = 600;
  ask.replace = true;
  ask.trust_administrators = !has_network;
  ask.address = address;
  ask.task_range = range;
  const std::string answer = TRY(ask_controller(dir, "POST", "/v1/tokens", encode(ask)));
  const std::string token = TRY(decode_token_answer(answer));
  return run_program({program_dir() + "/lockstep-agent", "join", "--controller",
                      host_and_port(controller_host(conf), conf.port), "--node", node, "--pki", pki, "--token", "-"},
                     token + "\n");
}

constexpr const char* kAgentSettingsFile = "agent-settings.json";

// 0 = what the machine has.
std::uint32_t node_cpus(const ClusterConf& conf, std::uint32_t gpus) {
  if (conf.nodes == 0 || conf.cpus > 0)
    return conf.cpus;
  return gpus > 0 ? gpus * kCpusPerGpu : static_cast<std::uint32_t>(sysconf(_SC_NPROCESSORS_ONLN));
}

std::int64_t node_memory_mb(const ClusterConf& conf, std::uint32_t cpus) {
  return conf.nodes == 0 || conf.memory_mb > 0 ? conf.memory_mb : cpus * kMemoryPerCpuMb;
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
  const std::string plain = conf.listen.empty() ? "127.0.0.1" : "";  // "": where it dials the controller from
  file.address = conf.nodes == 0 ? plain : conf.network.node_address(index);
  file.task_range = conf.nodes == 0 ? "" : conf.network.task_range(index);
  file.controller_host = controller_host(conf);
  file.controller_port = conf.port;
  file.ca = here + "/pki/ca.crt";
  file.certificate = here + "/pki/node.crt";
  file.key = here + "/pki/node.key";
  file.state_dir = here + "/state";
  file.run_dir = conf.nodes == 0 ? "" : "/run/lockstep-agent";  // a virtual node's /run is its own and in memory
  file.socket = conf.nodes == 0 ? here + "/run/api.sock" : "/run/lockstep/api.sock";
  file.shim = program_dir() + "/lockstep-shim";
  file.cpus = node_cpus(conf, gpus.count);
  file.memory_mb = node_memory_mb(conf, file.cpus);
  file.boot_id_file = here + "/" + kBootIdFile;
  file.fence_hook = conf.nodes > 0;  // a plain node's work outlives its first process
  file.cluster_dir = dir.path();
  if (const auto settings = read_plain(dir.path() + "/" + kAgentSettingsFile, Links::kRefused))
    if (const auto added = add_hook_settings(file, *settings); !added)
      return Error{added.error().code,
                   format("{}/{}: {} {}", dir.path(), kAgentSettingsFile, added.error().field, added.error().message),
                   {}};
  TRY(folder.keep("agent.json", encode(file), 0600));
  if (gpus.count > 0 && access((here + "/gpus").c_str(), F_OK) != 0)
    TRY(folder.write("gpus",
                     format("# Devices and faults of the stand-in NVML of this node; read on every query.\n"
                            "count = {}\ntype = {}\n",
                            gpus.count, gpus.type),
                     0644));  // jobs ask the library too
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
  if (const auto pid_max = read_plain("/proc/sys/kernel/pid_max", Links::kRefused))
    init.pid_max = trim(*pid_max);
  if (conf.nodes > 0) {
    init.address = conf.network.node_address(index);
    init.gateway = conf.network.host_address();
  }
  if (!conf.gpus.empty())
    init.library_path = library_dir();
  return init;
}

}  // namespace

Result<void> check_agent_settings(const ClusterConf& conf, const std::string& text) {
  AgentFile trial;
  TRY(add_hook_settings(trial, text));
  const std::int64_t memory_mb = node_memory_mb(conf, node_cpus(conf, TRY(parse_gpus(conf.gpus)).count));
  const auto wanted = TRY(parse_shortage_bound(trial.pressure.memory));
  if (memory_mb > 0 && wanted.amount >> 20 >= memory_mb)
    return Error{Errc::kInvalid,
                 format("{} is all that a node has, or more ({} MiB): it would run short of memory for ever",
                        trial.pressure.memory, memory_mb),
                 "pressure.memory"};
  return {};
}

Result<void> keep_agent_settings(const ClusterDir& dir, const std::string& text) {
  const Folder folder = TRY(Folder::open(dir.root));
  return folder.keep(kAgentSettingsFile, text, 0600);
}

bool has_certificate(const ClusterDir& dir, const std::string& node) {
  const std::string pki = dir.node_dir(node) + "/pki";
  const auto theirs = read_plain(pki + "/ca.crt", Links::kRefused), ours = read_plain(dir.file("pki/ca.pem"));
  return access((pki + "/node.crt").c_str(), F_OK) == 0 && access((pki + "/node.key").c_str(), F_OK) == 0 && theirs &&
         (!ours || *theirs == *ours);
}

std::string room_text(const std::string& path) {
  constexpr std::uint64_t kLittle = 1 << 20;
  struct statvfs disk {};
  if (statvfs(path.c_str(), &disk) != 0 || disk.f_bavail * disk.f_frsize > kLittle)
    return {};
  return format("\nThe disk that {} lies on is full: {} KiB are free", path, disk.f_bavail * disk.f_frsize / 1024);
}

std::string stand_in_nvml() { return library_dir() + "/libnvidia-ml.so.1"; }

Result<std::string> ask_controller(const ClusterDir& dir, std::string_view method, const std::string& target,
                                   const std::string& body) {
  const auto client = TRY(connect_unix(dir.socket()));
  tell_of_silence(*client, dir);
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

Result<void> check_has_ended(const ClusterDir& dir, const std::string& node) {
  const auto noted = read_pid_file(dir.node_dir(node) + "/" + kInitPidFile);
  if (!noted)
    return {};
  const auto ends = [&] {
    const auto process = OwnProcess::prove(*noted, dir.id);
    return !process && process.error().code == Errc::kTimeout ? Result<void>(process.error()) : Result<void>();
  };
  if (ends())
    return {};
  const Thawing thawing(dir.id, node);
  return ends();  // looks for seconds
}

std::optional<OwnProcess> own_process(const ProcessId& noted, const std::string& cluster_id) {
  auto process = OwnProcess::prove(noted, cluster_id);
  if (process)
    return std::move(*process);
  if (process.error().code != Errc::kNotFound)
    fprintf(stderr, "lockstep: %s\n", process.error().message.c_str());
  return std::nullopt;
}

namespace {

constexpr Duration kSilence = seconds(2);

// What its process shows of why the controller does not answer.
std::string silence_text(const ClusterDir& dir) {
  const auto note = read_run_note(dir.file(kControllerNoteFile));
  if (!note || !note->process || !alive(*note->process))
    return "nothing is known of its process";
  if (is_stopped(note->process->pid))
    return format("process {0} is stopped; `kill -CONT {0}` lets it go on", note->process->pid);
  return format("process {} is overloaded, or waits for its disk", note->process->pid);
}

}  // namespace

void tell_of_silence(ApiClient& client, const ClusterDir& dir) {
  client.on_silence(kSilence, [&dir] {
    static bool told = false;  // a command that asks again and again says it once
    if (!std::exchange(told, true))
      fprintf(stderr, "lockstep: waiting for the controller, which has not answered for %lld s: %s\n",
              static_cast<long long>(kSilence.seconds()), silence_text(dir).c_str());
  });
}

bool end_and_tell(const OwnProcess& process, Duration patience, const char* what) {
  process.signal(SIGTERM);
  process.signal(SIGCONT);
  if (process.ended(kSilence))
    return true;
  fprintf(stderr, "lockstep: waiting for %s (process %d) to end; it is killed if it has not in %lld s\n", what,
          process.id().pid, static_cast<long long>((patience - kSilence).seconds()));
  return process.end(patience - kSilence);
}

ClusterLock::~ClusterLock() {
  if (fd >= 0)
    close(fd);
}

// The directory itself is locked, to which nobody else can get: a file in it could be missing, damaged or removed.
Result<ClusterLock> lock_cluster(const ClusterDir& dir, bool is_marked) {
  const int fd = open(dir.root.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return os_error("cannot lock " + dir.root);
  ClusterLock lock(fd);
  constexpr int kTries = 200;  // of 10 ms
  for (int tries = 0; flock(lock.fd, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return os_error("cannot lock " + dir.root);
    if (tries == kTries)
      fprintf(stderr, "lockstep: waiting for another `lockstep up` or `lockstep down` of %s\n", dir.root.c_str());
    usleep(10'000);
  }
  struct stat locked {};
  struct stat there {};
  const bool is_same = fstat(lock.fd, &locked) == 0 && lstat(dir.root.c_str(), &there) == 0 &&
                       there.st_dev == locked.st_dev && there.st_ino == locked.st_ino;
  if (!is_same || (is_marked && access(dir.file(kMarkFile).c_str(), F_OK) != 0))
    return conflict(format("another `lockstep down --delete` has removed the cluster in {} meanwhile", dir.root));
  return lock;
}

pid_t agent_of(const ProcessId& node) {
  for (const pid_t child : children_of(node.pid))
    if (command_name(child) == "lockstep-agent")
      return child;
  return 0;
}

namespace {

// One call of start_nodes.
class NodeStarts {
 public:
  NodeStarts(const ClusterDir& dir, const ClusterConf& conf, const Folder& folder)
      : dir_(dir), conf_(conf), folder_(folder) {}

  Result<StartedNodes> run() {
    const auto names = node_names(conf_);
    find_unnoted(names);
    for (std::uint32_t i = 0; i < names.size(); ++i)
      if (const auto done = see_to(names[i], i); !done)
        out_.failed[names[i]] = done.error().message;
    if (conf_.nodes > 0)
      plug_in();
    for (const auto& one : started_) release(one.node);
    const Instant until = boot_now() + kBootPatience;
    out_.started = static_cast<std::size_t>(std::count_if(started_.begin(), started_.end(), [&](Started& one) {
      const auto booted = hear(one.node, until - boot_now());
      if (!booted)
        out_.failed[one.name] = booted.error().message;
      return booted.ok();
    }));
    if (conf_.nodes > 0)
      out_.replugged = TRY(restore_cables(conf_.network, dir_.id, running_cables_));
    return std::move(out_);
  }

 private:
  static constexpr Duration kBootPatience = seconds(10);  // a slow one is waited for later, with the others

  struct Started {
    std::string name;
    std::uint32_t index;
    StartedNode node;
  };

  // First processes that no note names: it was lost, or the node's whole folder.
  void find_unnoted(const std::vector<std::string>& names) {
    const auto is_noted = [&](const std::string& name) {
      const auto noted = read_pid_file(dir_.node_dir(name) + "/" + kInitPidFile);
      return noted && OwnProcess::prove(*noted, dir_.id).ok();
    };
    if (std::all_of(names.begin(), names.end(), is_noted))
      return;
    for (auto& process : survivors(dir_.id, kNodeName))
      if (std::string name = node_of(process.id().pid); !name.empty() && !is_noted(name))
        unnoted_.emplace(std::move(name), std::move(process));
  }

  // Noted again where its folder is left; one that lost it is of no use to anybody.
  Result<void> see_to_unnoted(const std::string& name) {
    const auto found = unnoted_.find(name);
    if (found == unnoted_.end())
      return {};
    const OwnProcess& process = found->second;
    if (access((dir_.node_dir(name) + "/agent.json").c_str(), F_OK) == 0)
      return write_pid_file(dir_.node_dir(name) + "/" + kInitPidFile, process.id());
    fprintf(stderr, "lockstep: the folder of node %s is gone while it ran: it is started anew\n", name.c_str());
    if (!process.end(seconds(10)))
      return Error{Errc::kTimeout, format("its first process (process {}) does not end", process.id().pid), {}};
    return {};
  }

  // One whose `up` was killed before it plugged the node in ends by itself. Which of the two it does is soon seen.
  bool ends_at_its_gate(const OwnProcess& node, const std::string& name) const {
    constexpr int kLooks = 1000;  // of 10 ms
    const std::string booted = dir_.node_dir(name) + "/" + kBootIdFile;
    for (int look = 0; look < kLooks; ++look) {
      if (access(booted.c_str(), F_OK) == 0 || agent_of(node.id()) != 0)
        return false;
      if (node.ended(millis(10)))
        return true;
    }
    return false;
  }

  Result<void> see_to(const std::string& name, std::uint32_t index) {
    TRY(see_to_unnoted(name));
    TRY(check_has_ended(dir_, name));
    if (const auto running = own_node(dir_, name); running && !ends_at_its_gate(*running, name)) {
      running->signal(SIGHUP);  // an agent that keeps ending is tried again at once
      running_cables_.push_back({index, running->id().pid});
      return {};
    }
    TRY(write_node_files(folder_, conf_, name, index));
    if (conf_.nodes > 0)
      unlink((dir_.node_dir(name) + "/" + kBootIdFile).c_str());  // the node's first process makes a new one
    TRY(join_node(dir_, conf_, name, index));
    const NodeInit init = node_init(dir_, conf_, name, index);
    started_.push_back({name, index, TRY(start_node_init(program_dir() + "/lockstep", init))});
    return {};
  }

  // All at once; where that fails one by one, to learn whose cable it is.
  void plug_in() {
    std::vector<Cable> cables;
    for (const auto& one : started_) cables.push_back({one.index, one.node.process.pid});
    if (cables.empty() || connect_nodes(conf_.network, dir_.id, cables))
      return;
    std::erase_if(started_, [&](Started& one) {
      const auto done = connect_nodes(conf_.network, dir_.id, {{one.index, one.node.process.pid}});
      if (done)
        return false;
      kill(one.node.process.pid, SIGKILL);
      const auto booted = hear(one.node, kBootPatience);  // one that ended by itself is why there is no cable
      out_.failed[one.name] = booted ? done.error().message : booted.error().message;
      return true;
    });
  }

  const ClusterDir& dir_;
  const ClusterConf& conf_;
  const Folder& folder_;
  StartedNodes out_;
  std::vector<Started> started_;
  std::vector<Cable> running_cables_;
  std::map<std::string, OwnProcess> unnoted_;
};

}  // namespace

Result<StartedNodes> start_nodes(const ClusterDir& dir, const ClusterConf& conf) {
  CHECK(!dir.id.empty(), dir.root);  // the nodes' processes carry it
  const Folder folder = TRY(Folder::open(dir.root));
  if (conf.has_bridge())
    TRY(write_hosts(folder, conf));
  const StartedNodes out = TRY(NodeStarts(dir, conf, folder).run());
  CHECK(out.started + out.failed.size() <= node_names(conf).size());
  return out;
}

Result<void> move_nodes(const ClusterDir& dir, const ClusterConf& conf) {
  const Folder folder = TRY(Folder::open(dir.root));
  const auto names = node_names(conf);
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    TRY(write_node_files(folder, conf, names[i], i));
    const auto node = node_process(dir, names[i]);
    if (const pid_t agent = node ? agent_of(*node) : 0; agent > 0)
      kill(agent, SIGTERM);  // the node's first process starts it again
  }
  return {};
}

namespace {

bool is_usable(const NodeStatus& node) { return node.state != "down" && node.state != "unknown"; }

// What is known of why a node is not there. An agent that ended and was started again before `since_s` is no reason.
std::string missing_text(const ClusterDir& dir, const std::string& name, const NodeStatus* known,
                         std::int64_t since_s) {
  const bool agent_ended =
      known && !known->agent_last_end.empty() && (known->agent_pid == 0 || known->agent_last_end_at_s >= since_s);
  std::string why = !known                  ? "the controller does not know it"
                    : known->pid == 0       ? "its first process has ended"
                    : agent_ended           ? "its agent ended: " + known->agent_last_end
                    : known->agent_pid == 0 ? "it has no agent"
                    : is_stopped(known->agent_pid)
                        ? format("its agent (process {0}) is stopped: kill -CONT {0}", known->agent_pid)
                    : !known->reason.empty() ? known->reason
                                             : "its agent has not said hello";
  return format("  {}: {}; its log: {}/log{}", name, why, dir.node_dir(name), room_text(dir.node_dir(name)));
}

// The controller takes a moment to see that a node which was killed is not what it was: it must speak of this boot.
bool is_of_this_boot(const ClusterDir& dir, const std::string& name) {
  const auto boot = read_file(dir.node_dir(name) + "/" + kBootIdFile);
  const auto record = boot ? node_record(dir, name) : nullptr;
  return record && record->boot_id == trim(*boot);
}

// `done`: those that need no look, to which those that are found now are added.
std::vector<std::string> missing_nodes(const ClusterDir& dir, const ClusterConf& conf, std::int64_t since_s,
                                       std::set<std::string>& done) {
  std::vector<std::string> missing;
  const auto status = cluster_status(dir);
  for (const auto& name : node_names(conf)) {
    if (done.contains(name))
      continue;
    const NodeStatus* known = nullptr;
    for (std::size_t i = 0; status && i < status->nodes.size() && !known; ++i)
      known = status->nodes[i].name == name ? &status->nodes[i] : nullptr;
    if (known && is_usable(*known) && is_of_this_boot(dir, name))
      done.insert(name);
    else
      missing.push_back(status ? missing_text(dir, name, known, since_s) : status.error().message);
  }
  return missing;
}

}  // namespace

Result<void> wait_nodes_up(const ClusterDir& dir, const ClusterConf& conf, const StartedNodes& nodes,
                           Duration timeout) {
  const Instant until = boot_now() + timeout;
  const std::int64_t since_s = time(nullptr);
  std::set<std::string> done;
  for (const auto& [name, why] : nodes.failed) done.insert(name);
  std::vector<std::string> missing = missing_nodes(dir, conf, since_s, done);
  while (!missing.empty() && boot_now() < until) {
    usleep(10'000);
    missing = missing_nodes(dir, conf, since_s, done);
  }
  const std::string waited = missing.empty() ? "" : format(" after {} s", timeout.seconds());
  for (const auto& [name, why] : nodes.failed) missing.push_back(format("  {}: it cannot be started: {}", name, why));
  if (missing.empty())
    return {};
  const std::size_t want = node_names(conf).size();
  return Error{Errc::kTimeout,
               format("the controller runs, but only {} of {} nodes are up{}:\n{}", want - missing.size(), want, waited,
                      join(missing, "\n")),
               {}};
}

}  // namespace lockstep
