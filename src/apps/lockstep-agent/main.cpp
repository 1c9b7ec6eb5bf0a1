// lockstep-agent: one per node. Reads its settings, puts the parts together, runs until SIGTERM. What runs on the node
// goes on without it.
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log_line.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "facts.h"
#include "first_look.h"
#include "io/clock.h"
#include "io/directory_lock.h"
#include "io/event_loop.h"
#include "io/http_server.h"
#include "io/https_look.h"
#include "io/local/daemon.h"
#include "io/local/node_init.h"
#include "io/local/state_dir.h"
#include "io/nvml.h"
#include "io/shims.h"
#include "isolation.h"
#include "join.h"
#include "node_agent.h"
#include "pod_logs.h"
#include "services_program.h"
#include "wire/sandbox_paths.h"

namespace lockstep {
namespace {

constexpr const char* kHelp =
    R"help(Usage: lockstep-agent --settings FILE
       lockstep-agent join --controller HOST:PORT --token TOKEN [--node NAME] [--pki DIR]
       lockstep-agent check DIR
       lockstep-agent services --settings FILE

Makes this machine a node of a Lockstep cluster. Jobs on the node go on when the agent ends; the next one finds them.
`check` says whether the certificate, key and CA that `join` wrote to DIR can be used.
`services` is what the agent starts beside itself: it leads to the cluster's services and answers their names.

  --settings FILE   JSON: node, address, controller_host, controller_port, ca, certificate, key, state_dir, socket,
                    shim, realm, run_dir, peer_port, task_range (docs/sandboxes.md), cpus, memory_mb, weight, features,
                    resources ("fpga=2"), domains, boot_id_file, fence_hook, no_new_privs, hooks, health (docs/hooks.md),
                    places (docs/isolation.md), sampling (docs/use.md), images (docs/containers.md),
                    pressure (docs/kubernetes.md)
  --version         prints the version
  --help            prints this

Exit codes: 0 ended by SIGTERM, 1 cannot run (the message says why), 2 wrong usage.
)help";

Result<AgentFile> read_settings(const std::string& path) {
  const std::string text = TRY(read_plain(path, Links::kFollowed));
  auto settings = decode_agent_file(text);
  if (!settings.ok())
    return Error{
        settings.error().code, format("{}: {} {}", path, settings.error().field, settings.error().message), {}};
  if (settings->controller_host.empty() || settings->controller_port == 0)
    return invalid(path + ": controller_host and controller_port are needed");
  if (settings->state_dir.empty() || settings->socket.empty())
    return invalid(path + ": state_dir and socket are needed");
  if (settings->shim.empty()) {
    char self[4096];
    const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self);
    const std::string program(self, n > 0 ? static_cast<std::size_t>(n) : 0);
    settings->shim = program.substr(0, program.rfind('/') + 1) + "lockstep-shim";
  }
  return settings;
}

// Where the shims' folders go. Those of an agent from before the setting are still in the old place.
Result<std::string> choose_run_dir(const AgentFile& settings) {
  if (settings.run_dir.empty() || has_shims(settings.state_dir))
    return settings.state_dir;
  TRY(Folder::make(absolute_path(settings.run_dir), pass_through_mode()));
  return settings.run_dir;
}

// Blocked in this thread and those that it makes, and read from there.
int signals_of(std::initializer_list<int> numbers) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : numbers) ::sigaddset(&set, number);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  return ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

Result<void> run(const std::string& settings_path) {
  AgentFile settings = TRY(read_settings(settings_path));
  settings.state_dir = absolute_path(settings.state_dir);
  TRY(Folder::make(settings.state_dir, pass_through_mode()));
  const auto lock = TRY(DirectoryLock::take(settings.state_dir));
  if (const auto slash = settings.socket.rfind('/'); slash != std::string::npos && slash > 0)
    TRY(Folder::make(absolute_path(settings.socket.substr(0, slash)), pass_through_mode()));

  // Before the loop, so that no thread of it takes them.
  const int signals = signals_of({SIGTERM, SIGINT}), children = signals_of({SIGCHLD});
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_IGN);  // a limit of file sizes is a full disk

  if (!settings.boot_id_file.empty() && settings.cluster_dir.empty())  // else a node's first process makes it
    TRY(keep_machine_boot_id(settings.boot_id_file));
  Node facts = TRY(read_facts(settings));
  TRY(settle_renewal({settings.ca, settings.certificate, settings.key}));
  TRY(check_certificates(settings));
  auto devices = make_nvml_devices();
  if (auto found = devices->list(); found.ok())
    facts.devices = std::move(*found);
  else
    ::fprintf(stderr, "lockstep-agent: GPUs: %s\n", found.error().message.c_str());

  settings.run_dir = TRY(choose_run_dir(settings));
  FirstLook look = TRY(look_first(settings, facts.boot_id));
  const std::string no_services = settings.task_range.empty() ? "" : why_no_services(settings);
  if (!no_services.empty())
    look.trouble += (look.trouble.empty() ? "" : "; ") + no_services;
  const auto loop = make_event_loop();
  const RealClock clock;
  Isolation isolation = make_isolation(settings, facts.meta.name);
  const std::shared_ptr<const Cgroups> groups = isolation.groups;
  auto shims = TRY(make_shims(*loop, settings.run_dir, settings.shim, settings.state_dir, std::move(isolation)));
  const auto survivors = TRY(shims->recover());
  // Other agents dial here. Without it the controller passes their bytes on.
  NodeAgent* dialed = nullptr;
  HttpLimits peer_limits;  // upgrades and nothing else
  peer_limits.body_bytes = 0;
  peer_limits.connections = 4096;
  peer_limits.memory_bytes = 64 << 20;
  const auto peers = make_http_server(
      *loop, [&dialed](std::shared_ptr<HttpExchange> exchange) { dialed->peer_request(std::move(exchange)); },
      peer_limits);
  const auto peer_port =
      peers->listen_tls(facts.address, settings.peer_port, {settings.ca, settings.certificate, settings.key});
  if (!peer_port.ok())
    ::fprintf(stderr, "lockstep-agent: other agents cannot dial this one: %s\n", peer_port.error().message.c_str());
  settings.peer_port = peer_port.ok() ? *peer_port : 0;

  const std::string folder_of_containers = settings.state_dir + "/containers";
  NodeAgent agent(*loop, clock, settings, std::move(facts), std::move(devices), std::move(look), std::move(shims),
                  survivors, groups);
  dialed = &agent;
  agent.on_renewed([&peers](const TlsFiles& files) {
    if (const auto shown = peers->renew_tls(files); !shown)
      log_line(LogLevel::kWarning, "lockstep-agent: " + shown.error().message);
  });
  const auto server = make_http_server(
      *loop, [&agent](std::shared_ptr<HttpExchange> exchange) { agent.broker().request(std::move(exchange)); });
  TRY(server->listen_unix(settings.socket, socket_mode()));
  loop->watch(signals, [&loop] { loop->stop(); });
  loop->watch(children, [&agent, children] {
    signalfd_siginfo info{};
    while (::read(children, &info, sizeof info) == sizeof info) {}
    agent.children_ended();
  });
  agent.start();
  if (::geteuid() == 0 && !settings.task_range.empty())
    if (const auto shown = show_pod_logs(folder_of_containers); !shown.ok())
      log_line(LogLevel::kWarning,
               format("lockstep-agent: logs of pods are not in {}: {}", kPodLogs, shown.error().message));
  ServicesProgram services(*loop, settings_path);
  if (!settings.task_range.empty() && no_services.empty())
    services.start();
  loop->run();
  for (const int fd : {signals, children}) {
    loop->unwatch(fd);
    ::close(fd);
  }
  ::unlink(settings.socket.c_str());
  return agent.outcome();
}

int main(int argc, char** argv) {
  if (argc == 2 && ::strcmp(argv[1], kHttpsLook) == 0)
    return run_https_look();  // with a descriptor that is closed below
  // Files for us alone; through root's folders others may pass, because jobs find their scripts behind them.
  close_behind_us(serves_others() ? 066 : 077);
  if (argc > 1 && ::strcmp(argv[1], "join") == 0)
    return join_main(argc - 1, argv + 1);
  if (argc > 1 && ::strcmp(argv[1], "check") == 0)
    return check_main(argc - 1, argv + 1);
  if (argc > 1 && ::strcmp(argv[1], "services") == 0)
    return services_main(argc - 1, argv + 1);
  static const option kOptions[] = {{"settings", required_argument, nullptr, 's'},
                                    {"version", no_argument, nullptr, 'v'},
                                    {"help", no_argument, nullptr, 'h'},
                                    {nullptr, 0, nullptr, 0}};
  std::string settings;
  for (int c; (c = ::getopt_long(argc, argv, "h", kOptions, nullptr)) != -1;) switch (c) {
      case 's': settings = optarg; break;
      case 'v': ::puts("lockstep-agent " LOCKSTEP_VERSION); return 0;
      case 'h': ::fputs(kHelp, stdout); return 0;
      default: ::fputs("Try `lockstep-agent --help`.\n", stderr); return 2;
    }
  if (settings.empty() || optind != argc) {
    ::fputs("lockstep-agent: --settings FILE is needed\nTry `lockstep-agent --help`.\n", stderr);
    return 2;
  }
  const auto ran = run(settings);
  if (!ran.ok()) {
    log_line(LogLevel::kError, "lockstep-agent: " + ran.error().message);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::main(argc, argv); }
