#include "cli/node_join.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/hostlist.h"
#include "base/installed.h"
#include "base/text.h"
#include "cli/cluster_dir.h"
#include "cli/installed_node.h"
#include "cli/listen.h"
#include "cli/verb_words.h"
#include "io/local/folder.h"

namespace lockstep {

namespace {

constexpr const char* kHelp = R"help(Usage: lockstep node join --controller HOST:PORT --token TOKEN [options]

Makes this machine a node of a cluster, as root: looks first whether it can be one, has the cluster sign a certificate,
writes /etc/lockstep/agent.json, starts lockstep-agent now and for every start of the machine, and waits until the
controller has the node. The whole line is printed by `lockstep up --listen ADDR` on the controller's machine; a token for
it by `lockstep node token` there. Where anything fails, it says what and what to do, and nothing is left behind. On a
machine that has joined that cluster already it sees to it that the agent runs.

  --controller HOST:PORT  where the controller listens for other machines
  --token TOKEN      from the controller; - reads it from stdin, where no other user of the machine can see it
  --name NAME        the node's name (default: this machine's host name without its domain)
  --peer-port PORT   where other nodes reach this one (default 6821), TCP; 0 = any that is free
  --pki DIR          only make key and certificate, in DIR, and nothing else (lockstep-agent join)

Without systemd, as in most containers, the agent runs under a supervisor of its own and does not start by itself with
the machine: say `lockstep up` then.

Examples
  lockstep node join --controller 10.0.0.5:6820 --token 3f2a….b17c….9d0e…
  lockstep node join --controller head.example.org:6820 --token - --name gpu17 < token
)help";

struct Ask {
  std::string host, token, name;
  std::uint16_t port = 0, peer_port = kPeerPort;
  bool help = false, pki = false;
};

Result<void> take_controller(Ask& ask, const std::string& text) {
  const auto colon = text.rfind(':');
  const auto port = colon == text.npos ? std::nullopt : parse_uint(text.substr(colon + 1));
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  if (host.empty() || !port || *port == 0 || *port > 65535)
    return invalid(format("--controller {}: write HOST:PORT, such as 10.0.0.5:{}", text, kControllerPort));
  ask.host = std::move(host);
  ask.port = static_cast<std::uint16_t>(*port);
  return {};
}

Result<void> take_peer_port(Ask& ask, const std::string& text) {
  const auto port = parse_uint(text);
  if (!port || *port > 65535)
    return invalid(format("--peer-port {}: write a number from 0 to 65535", text));
  ask.peer_port = static_cast<std::uint16_t>(*port);
  return {};
}

std::string line_of_stdin() {
  std::string line;
  for (char c; line.size() < 4096 && read(0, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

Result<Ask> parse(int argc, char** argv) {
  static const option kOptions[] = {
      {"controller", 1, nullptr, 'c'}, {"token", 1, nullptr, 't'}, {"name", 1, nullptr, 'n'}, {"node", 1, nullptr, 'n'},
      {"peer-port", 1, nullptr, 'P'},  {"pki", 1, nullptr, 'p'},   {"help", 0, nullptr, 'h'}, {nullptr, 0, nullptr, 0}};
  Ask ask;
  VerbWords words({.verb = "node join", .options = kOptions}, argc, argv);
  for (int c; (c = words.next()) != -1;) switch (c) {
      case 'c': TRY(take_controller(ask, optarg)); break;
      case 't': ask.token = optarg; break;
      case 'n': ask.name = optarg; break;
      case 'P': TRY(take_peer_port(ask, optarg)); break;
      case 'p': ask.pki = true; break;
      case 'h': ask.help = true; break;
      default: return invalid("");  // it is said
    }
  if (ask.help || ask.pki)
    return ask;
  if (ask.host.empty() || ask.token.empty())
    return invalid(
        "--controller HOST:PORT and --token TOKEN are needed: `lockstep up --listen ADDR` on the controller's "
        "machine prints the whole line");
  if (ask.token == "-")
    ask.token = line_of_stdin();
  const auto parts = split(ask.token, '.');
  if (parts.size() != 3 || parts[2].size() != 64)
    return invalid("--token: this is no token of `lockstep node token`: it has three parts with points between them");
  return ask;
}

// --- what is looked at before anything is written ---

Result<void> check_name(const std::string& name) {
  if (!is_node_name(name) || name == "localhost")
    return invalid(
        format("\"{}\" cannot be a node's name: it has letters, digits and dashes, and is not localhost. Set "
               "this machine's host name (hostnamectl set-hostname NAME), or name it with --name",
               name));
  return {};
}

constexpr std::uint64_t kStateBytes = 64 << 20, kSettingsBytes = 1 << 20;

// On the disk that a path will lie on.
Result<void> check_room(std::string path, std::uint64_t bytes) {
  struct statvfs disk {};
  while (statvfs(path.c_str(), &disk) != 0 && path.size() > 1)
    path = path.substr(0, std::max<std::size_t>(1, path.rfind('/')));
  const std::uint64_t free = disk.f_bavail * disk.f_frsize;
  if (free >= bytes)
    return {};
  return Error{Errc::kExhausted,
               format("the disk under {} has {} MiB left, and {} MiB are needed: make room there", path, free >> 20,
                      bytes >> 20),
               {}};
}

Result<void> check_programs() {
  for (const char* name : {"lockstep-agent", "lockstep-shim"})
    if (const std::string path = program_dir() + "/" + name; access(path.c_str(), X_OK) != 0)
      return not_found(format("{} is missing: install the package lockstep-agent", path));
  return {};
}

Result<void> check_machine(const Ask& ask) {
  if (geteuid() != 0)
    return denied("only root can make this machine a node: the agent starts jobs as their users");
  TRY(check_programs());
  TRY(check_name(ask.name));
  const InstalledPaths at = installed_paths();
  TRY(check_room(at.node_dir, kStateBytes));
  TRY(check_room(at.agent_settings, kSettingsBytes));
  if (ask.peer_port != 0)
    if (const auto free = check_can_listen({"0.0.0.0", ask.peer_port}, std::nullopt); !free)
      return Error{
          free.error().code,
          format("other nodes are to reach this one at port {0}, which is taken by another program (`ss -ltnp sport "
                 "= :{0}` names it for root): end that, or choose another: --peer-port {1}",
                 ask.peer_port, ask.peer_port == 65535 ? 0 : ask.peer_port + 1),
          {}};
  return {};
}

// Jobs look names up: torchrun, MPI and others do at once.
void warn_of_names(const std::string& name) {
  if (const auto found = run_and_hear({"getent", "hosts", name}); found && found->code == 2)
    fprintf(
        stderr,
        "lockstep node join: note: this machine does not find the address of its own name %s, which programs of jobs "
        "look up: add it to DNS or to /etc/hosts of every node\n",
        name.c_str());
}

// --- a machine that has joined before ---

// The fingerprint of the cluster's CA that this machine has a certificate of.
Result<std::string> known_authority(const AgentFile& file) {
  const Ran ran =
      TRY(run_and_hear({program_dir() + "/lockstep-agent", "check", file.key.substr(0, file.key.rfind('/'))}));
  for (const auto& line : split(ran.out, '\n'))
    if (ran.code == 0 && line.starts_with("ca "))
      return line.substr(3);
  return Error{Errc::kCorrupt, std::string(trim(ran.err)), {}};
}

Result<void> stay(const Ask& ask, AgentFile file) {
  const std::string whose = format("this machine is node {} of a cluster whose controller is at {}", file.node,
                                   host_and_port(file.controller_host, file.controller_port));
  const auto authority = known_authority(file);
  if (!authority)
    return conflict(format("{}, but its certificate cannot be used: {}. Take it out first: lockstep node leave --now",
                           whose, authority.error().message));
  if (*authority != split(ask.token, '.')[2])
    return conflict(
        format("{}, and the token is another cluster's. Take it out of that first: lockstep node leave", whose));
  if (ask.name != host_name() && ask.name != file.node)
    return conflict(format("{}, and cannot be {} besides. Take it out first: lockstep node leave", whose, ask.name));
  const bool moves = file.controller_host != ask.host || file.controller_port != ask.port || file.leaving;
  file.controller_host = ask.host;
  file.controller_port = ask.port;
  file.leaving = false;
  if (moves)
    TRY(write_agent_file(file));
  TRY(start_agent());
  if (moves)
    TRY(restart_agent());
  const auto ping = wait_for_node(seconds(30));
  if (!ping)
    return Error{
        ping.error().code,
        format("{}\nIf its certificate counts no more (it was removed or revoked there): lockstep node leave --now, "
               "then join with a new token",
               ping.error().message),
        {}};
  printf("this machine is node %s of cluster \"%s\" already: %s\n", file.node.c_str(), ping->cluster.c_str(),
         offer_text(*ping).c_str());
  return {};
}

// --- a new one ---

// Takes back what was done so far.
Error leave_nothing(const Error& error, const std::string& name) {
  (void)stop_agent();
  const auto removed = remove_node_files();
  return {
      error.code,
      format("{}\nNothing of it stays on this machine{}. The token is used up: the next one comes from `lockstep node "
             "token --node {} --replace` on the controller's machine",
             error.message, removed ? "" : ", but for this: " + removed.error().message, name),
      {}};
}

Result<void> become_node(const Ask& ask) {
  AgentFile file = new_agent_file(ask.name, ask.host, ask.port);
  file.peer_port = ask.peer_port;
  TRY(join_with_token(file, ask.token));
  if (const auto written = write_agent_file(file); !written)
    return leave_nothing(written.error(), ask.name);
  if (const auto started = start_agent(); !started)
    return leave_nothing(started.error(), ask.name);
  const auto ping = wait_for_node(seconds(60));
  if (!ping)
    return leave_nothing(ping.error(), ask.name);
  printf("this machine is node %s of cluster \"%s\": %s\n", ping->node.c_str(), ping->cluster.c_str(),
         offer_text(*ping).c_str());
  return {};
}

Result<void> join_cluster(Ask ask) {
  const bool has_name = !ask.name.empty();
  if (!has_name)
    ask.name = host_name();
  if (geteuid() == 0 && is_installed_node())
    return stay(ask, TRY(read_agent_file()));
  TRY(check_machine(ask));
  warn_of_names(ask.name);
  return become_node(ask);
}

int exec_agent(int argc, char** argv) {
  std::vector<char*> words(argv, argv + argc);
  words.push_back(nullptr);
  const std::string agent = program_dir() + "/lockstep-agent";
  words.insert(words.begin(), const_cast<char*>("lockstep-agent"));
  execv(agent.c_str(), words.data());
  fprintf(stderr, "lockstep node: cannot run %s: %s\n", agent.c_str(), strerror(errno));
  return 1;
}

}  // namespace

int node_join_main(int argc, char** argv) {
  const auto ask = parse(argc, argv);
  if (!ask) {
    if (!ask.error().message.empty())
      fprintf(stderr, "lockstep node join: %s\nTry `lockstep node join --help`.\n", ask.error().message.c_str());
    return 2;
  }
  if (ask->help) {
    fputs(kHelp, stdout);
    return 0;
  }
  if (ask->pki)
    return exec_agent(argc, argv);
  if (const auto done = join_cluster(*ask); !done) {
    fprintf(stderr, "lockstep node join: %s\n", done.error().message.c_str());
    return 1;
  }
  return 0;
}

}  // namespace lockstep
