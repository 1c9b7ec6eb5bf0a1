#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include "base/installed.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/installed_cluster.h"
#include "cli/listen.h"
#include "cli/local_cluster.h"
#include "cli/verb_words.h"
#include "cli/vm_nodes.h"
#include "frontends/slurm/client/shell_word.h"
#include "io/local/backup_note.h"
#include "io/local/state_dir.h"
#include "io/local/survivors.h"

namespace lockstep {

namespace {

constexpr std::uint16_t kVirtualPort = 6820;  // free by construction: the bridge's address is ours alone

constexpr const char* kHelp = R"help(Usage: lockstep up [options]

Starts a cluster on this machine: a controller and, with --nodes, that many virtual nodes, each in its own network, UTS,
mount and process namespaces with its own address and host name. Without --nodes this machine is the one node. A stopped
cluster is started again with the settings it was made with. Safe to run twice. Controller and agents that end are
started again by themselves, until `lockstep down`. A node that cannot be started is named, and keeps no other from
starting; the exit code is 1 then. Started by root the cluster serves every user of this machine, else
its owner only.

  --dir DIR          state directory (default $LOCKSTEP_DIR, else ~/.lockstep/default): a new or empty one, or a
                     cluster's. Nobody else may be able to write to it, or to exchange it or a directory that leads
                     to it; not below another cluster's, nor, with --nodes, below /run or /dev/shm
  --nodes N          virtual nodes n1 … nN (needs root)
  --vm N             nodes vm1 … vmN (at most 9) that are virtual machines, with a kernel and a systemd of their own; with
                     --nodes they come beside those. Needs root, qemu, and scripts/vm or the package (docs/vm-nodes.md)
  --vm-memory M      memory of each (default 1G)
  --vm-cpus C        processors of each (default 2)
  --gpus COUNTxTYPE  simulated GPUs of each virtual node, for example 8xh100
  --cpus C           cores of each node (default: 8 for each GPU, else this machine's)
  --memory M         memory of each node (default: 8G for each core)
  --name NAME        the cluster's name (default lockstep): at most 64 letters, digits, - _ and .
  --port PORT        the controller's TLS port (default: chosen once, then kept)
  --defragment[=S]   move jobs that can save their work where a waiting one fits for it, though none in the first S
                     seconds after its start (default 600)
  --unkillable-after S  a node that answers and does not stop a job within S seconds after its kill wait takes no new
                     work until it has (default 60)
  --namespace-objects N  objects of Kubernetes' API that a namespace may hold (default 100000)
  --topology FILE    load this topology.conf once the nodes are up, as `lockstep topology load FILE` does
  --agent-settings FILE  what the nodes' agents are told of the site's own programs and of the node's health: the
                     "hooks", "health" and "places" of an agent.json (docs/hooks.md, isolation.md). Kept; nodes
                     that run go on with theirs
  --listen ADDR[:PORT]  let other machines reach the controller there: an address of this machine, or 0.0.0.0 for all of
                     them; port 6820 if none is named. Prints the line that joins another machine. Jobs go on

Where Lockstep is installed (/etc/lockstep/lockstepd.conf) and no directory is named, that cluster is meant: root starts
its services lockstepd and lockstep-agent, now and for every start of the machine, and this machine becomes a node of it
if it is none. Its settings are in that file and not among the options here, but for --topology and --listen. On a node
of a cluster whose controller is elsewhere it starts the agent.

Examples
  lockstep up --nodes 5 --gpus 8xh100
  lockstep up --dir /tmp/a --nodes 2 --cpus 16 --memory 64G
  lockstep up --listen 10.0.0.5
  eval "$(lockstep env --dir /tmp/a)"
)help";

struct Options {
  std::string dir, gpus, name, topology, listen, agent_settings;
  std::uint32_t nodes = 0, cpus = 0, port = 0, vms = 0, vm_cpus = 0;
  std::int64_t memory_mb = 0, vm_memory_mb = 0;
  std::uint32_t move_after_s = 0, unkillable_s = 0, namespace_objects = 0;
  friend bool operator==(const Options&, const Options&) = default;
};

Result<std::uint32_t> number(const char* option, const char* text, std::uint64_t low, std::uint64_t high) {
  const auto value = parse_uint(text);
  if (!value || *value < low || *value > high)
    return invalid(format("{} {}: write a number from {} to {}", option, text, low, high));
  return static_cast<std::uint32_t>(*value);
}

using Reader = Result<void> (*)(Options& options, const char* value);

template <std::string Options::*kText>
Result<void> set_text(Options& o, const char* value) {
  o.*kText = value;
  return {};
}

// A number's bounds, and its option's name for who gave another.
struct Bounds {
  const char* name;
  std::uint64_t low, high;
};
constexpr Bounds kNodes{"--nodes", 1, 2000}, kCpus{"--cpus", 1, 512}, kPort{"--port", 1, 65535},
    kVms{"--vm", 1, kVmsMax}, kVmCpus{"--vm-cpus", 1, 64}, kMoveAfter{"--defragment", 1, 1'000'000'000},
    kUnkillable{"--unkillable-after", 1, 1'000'000'000}, kObjects{"--namespace-objects", 1, 1'000'000};

template <std::uint32_t Options::*kNumber, const Bounds& kBounds>
Result<void> set_number(Options& o, const char* value) {
  o.*kNumber = TRY(number(kBounds.name, value, kBounds.low, kBounds.high));
  return {};
}

Result<void> set_gpus(Options& o, const char* value) {
  o.gpus = value;
  TRY(parse_gpus(o.gpus));
  return {};
}

Result<void> set_memory(Options& o, const char* value) {
  o.memory_mb = TRY(parse_memory_mb(value));
  return {};
}

Result<void> set_vm_memory(Options& o, const char* value) {
  constexpr std::int64_t kLeastMb = 256;  // less does not boot
  o.vm_memory_mb = TRY(parse_memory_mb(value));
  return o.vm_memory_mb >= kLeastMb ? Result<void>()
                                    : invalid(format("--vm-memory {}: a machine needs {}M at least", value, kLeastMb));
}

Result<void> set_name(Options& o, const char* value) {
  o.name = value;
  return check_plain_word("--name", o.name);
}

Result<void> set_move_after(Options& o, const char* value) {
  constexpr const char* kOtherwise = "600";
  return set_number<&Options::move_after_s, kMoveAfter>(o, value ? value : kOtherwise);
}

Result<void> set_listen(Options& o, const char* value) {
  o.listen = value;
  TRY(parse_listen(o.listen));
  return {};
}

struct UpOption {
  const char* name;
  int argument;  // as getopt has it: 0 none, 1 required, 2 optional
  Reader set;
};
constexpr UpOption kUpOptions[] = {{"dir", 1, set_text<&Options::dir>},
                                   {"nodes", 1, set_number<&Options::nodes, kNodes>},
                                   {"vm", 1, set_number<&Options::vms, kVms>},
                                   {"vm-memory", 1, set_vm_memory},
                                   {"vm-cpus", 1, set_number<&Options::vm_cpus, kVmCpus>},
                                   {"gpus", 1, set_gpus},
                                   {"cpus", 1, set_number<&Options::cpus, kCpus>},
                                   {"memory", 1, set_memory},
                                   {"name", 1, set_name},
                                   {"port", 1, set_number<&Options::port, kPort>},
                                   {"defragment", 2, set_move_after},
                                   {"topology", 1, set_text<&Options::topology>},
                                   {"listen", 1, set_listen},
                                   {"agent-settings", 1, set_text<&Options::agent_settings>},
                                   {"unkillable-after", 1, set_number<&Options::unkillable_s, kUnkillable>},
                                   {"namespace-objects", 1, set_number<&Options::namespace_objects, kObjects>}};

Result<void> check_together(const Options& o) {
  if (o.nodes > 0 && geteuid() != 0)
    return denied(
        "virtual nodes need root (network namespaces and a bridge): run it as root, or without --nodes and --gpus, "
        "which makes this machine the one node of a cluster of your own");
  if (o.vms > 0)
    TRY(check_vms_possible());
  if (o.vms == 0 && (o.vm_cpus || o.vm_memory_mb))
    return invalid("--vm-memory and --vm-cpus are of virtual machines: add --vm N");
  if (!o.listen.empty() && o.port)
    return invalid("--port: --listen ADDR:PORT names the port");
  if (!o.gpus.empty() && o.nodes == 0)
    return invalid("--gpus simulates GPUs on virtual nodes: add --nodes N");
  return {};
}

Result<Options> parse(int argc, char** argv, bool& help) {
  std::vector<::option> longs;
  for (const UpOption& one : kUpOptions) longs.push_back({one.name, one.argument, nullptr, 0});
  longs.push_back({"help", 0, nullptr, 'h'});
  longs.push_back({nullptr, 0, nullptr, 0});
  Options o;
  VerbWords words({.verb = "up", .options = longs.data(), .instead = kDirInstead}, argc, argv);
  int row = 0;
  for (int c; (c = words.next(&row)) != -1;) {
    if (c == 'h') {
      help = true;
      return o;
    }
    if (c != 0)
      return invalid("");  // it is said
    const UpOption& one = kUpOptions[row];
    TRY(one.set(o, optarg));
  }
  if (const auto together = check_together(o); !together)
    return together.error();
  return o;
}

Result<std::uint16_t> free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool ok = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (fd >= 0)
    close(fd);
  if (!ok)
    return os_error("no free port on 127.0.0.1");
  return ntohs(address.sin_port);
}

// Whether options ask for other settings than the cluster has. What is not given asks for nothing.
bool ask_for_others(const Options& o, const ClusterConf& conf) {
  const auto differs = [](const auto& asked, const auto& is) {
    return asked != std::remove_cvref_t<decltype(asked)>{} && asked != is;
  };
  return differs(o.nodes, conf.nodes) || differs(o.gpus, conf.gpus) || differs(o.cpus, conf.cpus) ||
         differs(o.vms, conf.vms) || differs(o.vm_cpus, conf.vm_cpus) || differs(o.vm_memory_mb, conf.vm_memory_mb) ||
         differs(o.memory_mb, conf.memory_mb) || differs(o.name, conf.name) || differs(o.port, conf.port) ||
         differs(o.move_after_s, conf.move_after_s) || differs(o.unkillable_s, conf.unkillable_s) ||
         differs(o.namespace_objects, conf.namespace_objects);
}

Result<ClusterConf> kept_conf(const ClusterDir& dir, const Options& o) {
  const ClusterConf conf = TRY(dir.load());
  if (!conf.damage.empty())
    fprintf(stderr, "%s; its copy is used\n", conf.damage.c_str());
  if (ask_for_others(o, conf))
    return conflict(
        format("{} already holds cluster \"{}\" with {} node(s){}{}. Start it without these options, use "
               "another --dir, or remove it with: lockstep down --delete --dir {}",
               dir.root, conf.name, std::max(1u, conf.nodes + conf.vms), conf.gpus.empty() ? "" : " of ", conf.gpus,
               dir.root));
  return conf;
}

Result<ClusterConf> new_conf(const ClusterDir& dir, const Options& o) {
  ClusterConf conf;
  if (!o.name.empty())
    conf.name = o.name;
  conf.nodes = o.nodes;
  conf.vms = o.vms;
  conf.vm_cpus = o.vm_cpus;
  conf.vm_memory_mb = o.vm_memory_mb;
  conf.gpus = o.gpus;
  conf.cpus = o.cpus;
  conf.memory_mb = o.memory_mb;
  conf.move_after_s = o.move_after_s;
  if (o.unkillable_s)
    conf.unkillable_s = o.unkillable_s;
  if (o.namespace_objects)
    conf.namespace_objects = o.namespace_objects;
  if (conf.has_bridge())
    conf.network = TRY(choose_network(dir.root));
  conf.port = o.port ? static_cast<std::uint16_t>(o.port) : conf.has_bridge() ? kVirtualPort : TRY(free_port());
  CHECK(conf.port != 0);
  return conf;
}

Result<ClusterConf> conf_for(const ClusterDir& dir, const Options& o) {
  return dir.exists() ? kept_conf(dir, o) : new_conf(dir, o);
}

// A copied directory names the original's bridge: it gets a network of its own.
Result<void> settle_network(const ClusterDir& dir, ClusterConf& conf) {
  if (!conf.has_bridge() || !TRY(is_another_clusters(conf.network, dir.id)))
    return {};
  for (const auto& name : node_names(conf))
    if (own_node(dir, name))
      return conflict(
          format("the bridge {} of this cluster was made anew for another one while nodes of this one run; "
                 "stop them with: lockstep down --dir {}",
                 conf.network.bridge, dir.root));
  const std::string before = conf.network.bridge;
  conf.network = TRY(choose_network(dir.root));
  fprintf(stderr, "the bridge %s is another cluster's, of which this one may be a copy; this one gets %s\n",
          before.c_str(), conf.network.bridge.c_str());
  return {};
}

// Settings that could be read are not needed on disk again: a full one keeps no cluster down.
Result<void> save(const ClusterDir& dir, const ClusterConf& conf) {
  const bool known = dir.load().ok();
  const auto saved = dir.save(conf);
  if (!saved && !known)
    return saved;
  if (!saved)
    fprintf(stderr, "lockstep up: %s\n", saved.error().message.c_str());
  return {};
}

// Whoever could write to it until now may have put another CA there.
void mend_public(const StateDir& state) {
  const auto pki = state.folder.existing("pki");
  const auto certificate = pki ? pki->read("ca.pem") : Result<std::string>(pki.error());
  const auto open_to_all = state.folder.existing("public");
  if (!certificate || !open_to_all)
    return;
  const auto shown = open_to_all->read("ca.pem");
  if (shown && *shown != *certificate)
    fprintf(stderr, "%s/ca.pem was not the certificate of this cluster's CA; it is again\n",
            open_to_all->path().c_str());
  if (const auto kept = open_to_all->keep("ca.pem", *certificate, 0644); !kept)
    fprintf(stderr, "lockstep up: %s\n", kept.error().message.c_str());
}

// The controller is about to make a CA whose certificates no node has.
void tell_of_lost_authority(const ClusterDir& dir) {
  const bool had_one = access(dir.file("lockstep.db").c_str(), F_OK) == 0;
  if (!had_one || access(dir.file("pki/ca.pem").c_str(), F_OK) == 0)
    return;
  fprintf(stderr,
          "lockstep up: %s/pki/ca.pem is missing. Where it is not put back from a backup, the cluster gets a new CA: "
          "nodes of this machine that do not run get new certificates now, those that run after `lockstep down --dir "
          "%s`, and other machines join again (`lockstep node token --help`)\n",
          dir.root.c_str(), dir.root.c_str());
}

// Virtual nodes have these of their own, so that nothing of the machine's is seen there.
bool is_hidden_from_nodes(const std::string& path) {
  return path.starts_with("/run/") || path.starts_with("/dev/shm/") || path.starts_with("/proc/");
}

// Whether a cluster can live in this directory.
Result<void> check_place(const ClusterDir& dir, const StateDir& state, const Options& o) {
  const std::string real = state.folder.real_path();
  const bool is_new = !dir.exists();
  const auto conf = is_new ? Result<ClusterConf>(not_found("")) : dir.load();
  const bool is_virtual = conf ? conf->nodes > 0 : o.nodes > 0;
  for (const auto& [what, path] : {std::pair("the state directory", real), std::pair("the programs", program_dir())})
    if (is_virtual && is_hidden_from_nodes(path + "/"))
      return denied(
          format("virtual nodes have a /run and a /dev/shm of their own and would not see {} in {}: use "
                 "another place, such as /var/lib/lockstep",
                 what, path));
  if (is_new && in_memory(state.folder))
    fprintf(stderr, "lockstep up: %s lies in memory: the cluster is gone when this machine is started again\n",
            dir.root.c_str());
  return {};
}

constexpr std::string_view kNoController =
    ". Without a controller a machine with the agent becomes a node of another one's cluster (`lockstep node "
    "join`, with the line that `lockstep up --listen ADDR` prints there), and one with the client alone uses it";

// Else nodes would come up that cannot run anything, or none, and nobody would say why.
Result<void> check_programs() {
  for (const char* name : {"lockstepd", "lockstep-agent", "lockstep-shim"})
    if (const std::string path = program_dir() + "/" + name; access(path.c_str(), X_OK) != 0)
      return Error{Errc::kNotFound,
                   format("{} is missing or may not be run: lockstepd, lockstep-agent and lockstep-shim belong beside "
                          "lockstep{}",
                          path, name == std::string_view("lockstepd") ? kNoController : ""),
                   {}};
  return {};
}

// What could not be told, nor typed again; and what no address of a socket has room for.
Result<void> check_path(const ClusterDir& dir, const Options& o) {
  constexpr std::size_t kSocketPathMax = sizeof(sockaddr_un::sun_path) - 1;
  if (std::any_of(dir.root.begin(), dir.root.end(), [](unsigned char c) { return c < 32 || c == 127; }))
    return invalid("--dir: no line breaks and other control characters, please");
  ClusterConf plain;
  const std::string longest =
      o.nodes + o.vms > 0 ? dir.socket() : dir.node_dir(node_names(plain).front()) + "/run/api.sock";
  if (longest.size() > kSocketPathMax && !dir.exists())
    return invalid(format("{} is too long: the socket {} would have {} characters, and may have {}. Use a shorter one",
                          dir.root, longest, longest.size(), kSocketPathMax));
  return {};
}

// New ones would name another bridge and port, and perhaps other nodes, than what runs has.
Result<void> check_settings_of_what_runs(const ClusterDir& dir) {
  constexpr std::string_view kNames[] = {kSupervisorName, kControllerName, kNodeName};
  if (dir.exists() ||
      std::all_of(std::begin(kNames), std::end(kNames), [&](auto name) { return survivors(dir.id, name).empty(); }))
    return {};
  return conflict(
      format("{}. The cluster runs, and nothing was touched: if none is restored, `lockstep down --dir {}` "
             "comes first",
             dir.load().error().message, dir.root));
}

Result<StateDir> claim_place(const ClusterDir& dir, const Options& options) {
  TRY(check_path(dir, options));
  TRY(check_programs());
  if (access(dir.file(kMarkFile).c_str(), F_OK) != 0 && !id_of_those_in(dir.root).empty())
    return conflict(lost_mark_text(dir));
  return claim_state_dir(dir.root);
}

// Whether the cluster can live and start there. A directory that was made for nothing goes again.
Result<void> check_claimed(const ClusterDir& dir, StateDir& state, const Options& options) {
  if (const auto place = check_place(dir, state, options); !place) {
    if (state.is_new && !dir.exists())  // another `up` may have been quicker
      (void)remove_state_dir(std::move(state));
    return place.error();
  }
  if (state.tightened > 0)
    fprintf(stderr, "%zu files and directories in %s were open to other users; they are closed now\n", state.tightened,
            dir.root.c_str());
  if (is_half_deleted(state.folder))
    return conflict(half_deleted_text(dir.root));
  return check_settings_of_what_runs(dir);
}

// The settings, chosen, kept, and with the network there that they name.
Result<ClusterConf> settle_conf(const ClusterDir& dir, const Options& options) {
  std::optional<NetworkChoice> choice;
  if (geteuid() == 0)  // nobody else makes virtual nodes
    choice.emplace();
  ClusterConf conf = TRY(conf_for(dir, options));
  if (conf.has_bridge() && geteuid() != 0)
    return denied(format("the cluster in {} has virtual nodes and needs root to start", dir.root));
  if (const std::string nvml = stand_in_nvml(); !conf.gpus.empty() && access(nvml.c_str(), R_OK) != 0)
    return Error{Errc::kNotFound,
                 format("the nodes cannot have GPUs: {} is missing, which stands in for NVIDIA's library on virtual "
                        "nodes. Keep lib/ beside bin/, or run up without --gpus",
                        nvml),
                 {}};
  TRY(settle_network(dir, conf));
  TRY(save(dir, conf));
  if (conf.has_bridge()) {
    TRY(make_bridge(conf.network, dir.id));
    if (const auto led = lead_to_tasks(conf.network, conf.nodes); !led)
      fprintf(stderr, "lockstep up: this machine does not reach pods by their addresses: %s\n",
              led.error().message.c_str());
  }
  return conf;
}

// Where nothing was before and nothing was started: what was made for it goes again.
void leave_nothing(const ClusterDir& dir, StateDir state) {
  if (const auto conf = dir.load(); conf && conf->has_bridge())
    if (!remove_network(conf->network.bridge, dir.id))
      return;  // `lockstep down` needs the directory, to try again
  (void)remove_state_dir(std::move(state));
}

// How many nodes were started; all of them are up.
Result<std::size_t> bring_up_nodes(const ClusterDir& dir, const ClusterConf& conf, const StateDir& state) {
  const StartedNodes nodes = TRY(start_nodes(dir, conf));
  if (nodes.replugged > 0)
    fprintf(stderr, "the cables of %zu running node(s) were missing; they are plugged in again\n", nodes.replugged);
  if (nodes.started > 0)
    fprintf(stderr, "starting %zu of %zu node(s) …\n", nodes.started, node_names(conf).size());
  const auto all_up = wait_nodes_up(dir, conf, nodes, seconds(60));
  close_to_others(state);  // certificates of new nodes are made readable to everybody
  TRY(all_up);
  const std::size_t booted = TRY(start_vms(dir, conf));
  return nodes.started + booted;
}

void tell_up(const ClusterDir& dir, const ClusterConf& conf, bool was_up) {
  if (was_up)
    printf("cluster \"%s\" is already up in %s\n", conf.name.c_str(), dir.root.c_str());
  else
    printf("cluster \"%s\" is up: %zu node(s)%s%s, state in %s\n", conf.name.c_str(),
           node_names(conf).size() + conf.vms, conf.gpus.empty() ? "" : " with ", conf.gpus.c_str(), dir.root.c_str());
  printf("point your shell at it:  eval \"$(%s env --dir %s)\"\n",
         slurm::as_shell_word(program_dir() + "/lockstep").c_str(), slurm::as_shell_word(dir.root).c_str());
}

// What an installed cluster has in its settings' file.
Result<void> check_for_installed(const Options& o) {
  Options alike;
  alike.dir = o.dir;
  alike.topology = o.topology;
  alike.listen = o.listen;
  if (o == alike)
    return {};
  return invalid(
      format("a cluster is installed on this machine, with its settings in {}. For another one, with these "
             "options, name a directory: --dir DIR",
             installed_paths().controller_settings));
}

Result<int> up_installed(const ClusterDir& dir, const Options& options) {
  TRY(check_for_installed(options));
  if (dir.kind == ClusterDir::Kind::kNode && (!options.listen.empty() || !options.topology.empty()))
    return invalid("this machine is a node of a cluster whose controller is elsewhere: say this there");
  if (dir.kind == ClusterDir::Kind::kNode)
    return bring_up_node_alone();
  if (options.listen.empty())
    return bring_up_installed(options.topology);
  const ListenAt at = TRY(parse_listen(options.listen));
  TRY(listen_for_others(at));
  const int failed = TRY(bring_up_installed(options.topology));
  if (failed == 0)
    TRY(print_join_line(dir, at));
  return failed;
}

// Before the controller is started, or instead of the one that runs.
Result<ClusterConf> move(const ClusterDir& dir, const ClusterConf& conf, const std::string& listen) {
  const ListenAt at = TRY(parse_listen(listen));
  if (listener_of(conf) == at)
    return conf;
  const ClusterConf moved = TRY(move_controller(dir, conf, at));
  TRY(move_nodes(dir, moved));
  return moved;
}

// "" where none are given. They are wrong here, before anything is made, or right on every node.
Result<std::string> read_agent_settings(const Options& options) {
  const std::string& path = options.agent_settings;
  if (path.empty())
    return std::string();
  std::string text = TRY(read_plain(path, Links::kFollowed));
  ClusterConf conf;
  conf.nodes = options.nodes;
  conf.cpus = options.cpus;
  conf.gpus = options.gpus;
  conf.memory_mb = options.memory_mb;
  if (const auto added = check_agent_settings(conf, text); !added)
    return invalid(format("--agent-settings {}: {}{}{}", path, added.error().field,
                          added.error().field.empty() ? "" : ": ", added.error().message));
  return text;
}

Result<int> up(const Options& options) {
  ClusterDir dir = cluster_dir(options.dir);
  if (dir.is_installed())
    return up_installed(dir, options);
  const std::string agents = TRY(read_agent_settings(options));
  StateDir state = TRY(claim_place(dir, options));
  dir.id = state.id;
  const auto lock = TRY(lock_cluster(dir, true));
  TRY(check_claimed(dir, state, options));
  const bool begins = state.is_new && !dir.exists();  // as this `up` alone has it, which holds the lock
  const auto settled = settle_conf(dir, options);
  if (!settled && begins)
    leave_nothing(dir, std::move(state));
  ClusterConf conf = TRY(settled);
  if (!agents.empty())
    TRY(keep_agent_settings(dir, agents));
  tell_of_lost_authority(dir);
  if (!options.listen.empty())
    conf = TRY(move(dir, conf, options.listen));
  const auto started_controller = start_controller(dir, conf);
  if (!started_controller)
    return Error{started_controller.error().code, started_controller.error().message + room_text(dir.root), {}};
  mend_public(state);
  if (const auto note = TRY(read_restore_note(dir.root))) {
    printf("%s\nlook at it with:  eval \"$(lockstep env --dir %s)\"\n", quiet_text(*note, dir.root).c_str(),
           slurm::as_shell_word(dir.root).c_str());
    return 0;
  }
  const std::size_t started = TRY(bring_up_nodes(dir, conf, state));
  if (!options.topology.empty())
    if (const int failed = load_topology(dir.socket(), options.topology); failed != 0)
      return failed;
  tell_up(dir, conf, *started_controller && started == 0);
  if (!agents.empty() && started < node_names(conf).size())
    fprintf(stderr,
            "nodes that ran already keep their settings until their next start: lockstep down, then lockstep up\n");
  if (!options.listen.empty())
    TRY(print_join_line(dir, listener_of(conf)));
  return 0;
}

}  // namespace

int up_main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);  // who reads what we say may go away: the cluster is brought up all the same
  bool help = false;
  const auto options = parse(argc, argv, help);
  if (!options) {
    if (!options.error().message.empty())
      fprintf(stderr, "lockstep up: %s\n", options.error().message.c_str());
    return options.error().code == Errc::kDenied ? 1 : 2;
  }
  if (help) {
    fputs(kHelp, stdout);
    return 0;
  }
  const auto done = up(*options);
  if (!done) {
    fprintf(stderr, "lockstep up: %s\n", done.error().message.c_str());
    return 1;
  }
  return *done;
}

}  // namespace lockstep
