#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/local_cluster.h"
#include "io/local/state_dir.h"
#include "io/local/survivors.h"

namespace lockstep {

namespace {

constexpr std::uint16_t kVirtualPort = 6820;  // free by construction: the bridge's address is ours alone

constexpr const char* kHelp = R"help(Usage: lockstep up [options]

Starts a cluster on this machine: a controller and, with --nodes, that many virtual nodes, each in its own network, UTS,
mount and process namespaces with its own address and host name. Without --nodes this machine is the one node. A stopped
cluster is started again with the settings it was made with. Safe to run twice. Controller and agents that end are
started again by themselves, until `lockstep down`. Started by root the cluster serves every user of this machine, else
its owner only.

  --dir DIR          state directory (default $LOCKSTEP_DIR, else ~/.lockstep/default): a new or empty one, or a
                     cluster's. Nobody else may be able to exchange it, or a directory that leads to it
  --nodes N          virtual nodes n1 … nN (needs root)
  --gpus COUNTxTYPE  simulated GPUs of each virtual node, for example 8xh100
  --cpus C           cores of each node (default: 8 for each GPU, else this machine's)
  --memory M         memory of each node (default: 8G for each core)
  --name NAME        the cluster's name (default lockstep): at most 64 letters, digits, - _ and .
  --port PORT        the controller's TLS port (default: chosen once, then kept)
  --defragment[=S]   move jobs that can save their work where a waiting one fits for it, though none in the first S
                     seconds after its start (default 600)
  --topology FILE    load this topology.conf once the nodes are up, as `lockstep topology load FILE` does

Examples
  lockstep up --nodes 5 --gpus 8xh100
  lockstep up --dir /tmp/a --nodes 2 --cpus 16 --memory 64G
  eval "$(lockstep env --dir /tmp/a)"
)help";

struct Options {
  std::string dir, gpus, name, topology;
  std::uint32_t nodes = 0, cpus = 0, port = 0;
  std::int64_t memory_mb = 0;
  std::uint32_t move_after_s = 0;
  bool any_setting = false;
};

Result<std::uint32_t> number(const char* option, const char* text, std::uint64_t low, std::uint64_t high) {
  const auto value = parse_uint(text);
  if (!value || *value < low || *value > high)
    return invalid(format("{} {}: write a number from {} to {}", option, text, low, high));
  return static_cast<std::uint32_t>(*value);
}

Result<Options> parse(int argc, char** argv, bool& help) {
  static const option kOptions[] = {
      {"dir", 1, nullptr, 'd'},      {"nodes", 1, nullptr, 'n'},  {"gpus", 1, nullptr, 'g'},
      {"cpus", 1, nullptr, 'c'},     {"memory", 1, nullptr, 'm'}, {"name", 1, nullptr, 'N'},
      {"port", 1, nullptr, 'p'},     {"help", 0, nullptr, 'h'},   {"defragment", 2, nullptr, 'D'},
      {"topology", 1, nullptr, 't'}, {nullptr, 0, nullptr, 0}};
  Options o;
  optind = 1;
  for (int c; (c = getopt_long(argc, argv, "h", kOptions, nullptr)) != -1;) {
    if (c != 'd' && c != 'h' && c != 't')
      o.any_setting = true;
    switch (c) {
      case 'd': o.dir = optarg; break;
      case 'n': o.nodes = TRY(number("--nodes", optarg, 1, 2000)); break;
      case 'g':
        o.gpus = optarg;
        TRY(parse_gpus(o.gpus));
        break;
      case 'c': o.cpus = TRY(number("--cpus", optarg, 1, 512)); break;
      case 'm': o.memory_mb = TRY(parse_memory_mb(optarg)); break;
      case 'N':
        o.name = optarg;
        TRY(check_plain_word("--name", o.name));
        break;
      case 'p': o.port = TRY(number("--port", optarg, 1, 65535)); break;
      case 'D': o.move_after_s = optarg ? TRY(number("--defragment", optarg, 1, 1'000'000'000)) : 600; break;
      case 't': o.topology = optarg; break;
      case 'h': help = true; return o;
      default: return invalid("Try `lockstep up --help`.");
    }
  }
  if (optind < argc)
    return invalid(format("unexpected argument: {}", argv[optind]));
  if (!o.gpus.empty() && o.nodes == 0)
    return invalid("--gpus simulates GPUs on virtual nodes: add --nodes N");
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

Result<ClusterConf> conf_for(const ClusterDir& dir, const Options& o) {
  if (dir.exists()) {
    const ClusterConf conf = TRY(dir.load());
    if (!conf.damage.empty())
      fprintf(stderr, "%s; its copy is used\n", conf.damage.c_str());
    const bool differs = (o.nodes && o.nodes != conf.nodes) || (!o.gpus.empty() && o.gpus != conf.gpus) ||
                         (o.cpus && o.cpus != conf.cpus) || (o.memory_mb && o.memory_mb != conf.memory_mb) ||
                         (!o.name.empty() && o.name != conf.name) || (o.port && o.port != conf.port) ||
                         (o.move_after_s && o.move_after_s != conf.move_after_s);
    if (differs)
      return conflict(
          format("{} already holds cluster \"{}\" with {} node(s){}{}. Start it without these options, use "
                 "another --dir, or remove it with: lockstep down --delete --dir {}",
                 dir.root, conf.name, std::max(1u, conf.nodes), conf.gpus.empty() ? "" : " of ", conf.gpus, dir.root));
    return conf;
  }
  ClusterConf conf;
  if (!o.name.empty())
    conf.name = o.name;
  conf.nodes = o.nodes;
  conf.gpus = o.gpus;
  conf.cpus = o.cpus;
  conf.memory_mb = o.memory_mb;
  conf.move_after_s = o.move_after_s;
  if (conf.nodes > 0 && geteuid() != 0) {
    fprintf(stderr,
            "lockstep: virtual nodes need root (network namespaces and a bridge); starting a cluster of one node, this "
            "machine, instead.\n");
    conf.nodes = 0;
    conf.gpus.clear();
  }
  if (conf.nodes > 0)
    conf.network = TRY(choose_network(dir.root));
  conf.port = o.port ? static_cast<std::uint16_t>(o.port) : conf.nodes > 0 ? kVirtualPort : TRY(free_port());
  return conf;
}

// A copied directory names the original's bridge: it gets a network of its own.
Result<void> settle_network(const ClusterDir& dir, ClusterConf& conf) {
  if (conf.nodes == 0 || !TRY(is_another_clusters(conf.network, dir.id)))
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

Result<int> up(const Options& options) {
  ClusterDir dir = cluster_dir(options.dir);
  if (dir.is_ours() && access(dir.file(kMarkFile).c_str(), F_OK) != 0 && !id_of_those_in(dir.root).empty())
    return conflict(lost_mark_text(dir));
  const StateDir state = TRY(claim_state_dir(dir.root));
  if (state.tightened > 0)
    fprintf(stderr, "%zu files and directories in %s were open to other users; they are closed now\n", state.tightened,
            dir.root.c_str());
  dir.id = state.id;
  const auto lock = TRY(lock_cluster(dir));

  ClusterConf conf = TRY(conf_for(dir, options));
  if (conf.nodes > 0 && geteuid() != 0)
    return denied(format("the cluster in {} has virtual nodes and needs root to start", dir.root));
  if (const std::string nvml = stand_in_nvml(); !conf.gpus.empty() && access(nvml.c_str(), R_OK) != 0)
    return Error{Errc::kNotFound,
                 format("the nodes cannot have GPUs: {} is missing, which stands in for NVIDIA's library on virtual "
                        "nodes. Keep lib/ beside bin/, or run up without --gpus",
                        nvml),
                 {}};
  TRY(settle_network(dir, conf));
  TRY(save(dir, conf));
  if (conf.nodes > 0)
    TRY(make_bridge(conf.network, dir.id));
  const bool already = TRY(start_controller(dir, conf));
  const std::size_t wanted = node_names(conf).size();
  const auto [started, replugged] = TRY(start_nodes(dir, conf));
  if (replugged > 0)
    fprintf(stderr, "the cables of %zu running node(s) were missing; they are plugged in again\n", replugged);
  if (started > 0)
    fprintf(stderr, "starting %zu of %zu node(s) …\n", started, wanted);
  TRY(wait_nodes_up(dir, conf, seconds(60)));
  close_to_others(state);  // certificates of new nodes are made readable to everybody
  if (!options.topology.empty())
    if (const int failed = load_topology(dir.socket(), options.topology); failed != 0)
      return failed;
  if (already && started == 0)
    printf("cluster \"%s\" is already up in %s\n", conf.name.c_str(), dir.root.c_str());
  else
    printf("cluster \"%s\" is up: %zu node(s)%s%s, state in %s\n", conf.name.c_str(), wanted,
           conf.gpus.empty() ? "" : " with ", conf.gpus.c_str(), dir.root.c_str());
  printf("point your shell at it:  eval \"$(%s/lockstep env --dir %s)\"\n", program_dir().c_str(), dir.root.c_str());
  return 0;
}

}  // namespace

int up_main(int argc, char** argv) {
  bool help = false;
  const auto options = parse(argc, argv, help);
  if (!options) {
    fprintf(stderr, "lockstep up: %s\n", options.error().message.c_str());
    return 2;
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
