#include "cli/installed_cluster.h"

#include <stdio.h>
#include <unistd.h>

#include <algorithm>

#include "base/installed.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/controller_place.h"
#include "cli/installed_conf.h"
#include "cli/installed_node.h"
#include "cli/local_cluster.h"
#include "cli/units.h"
#include "io/client/unix_api_client.h"
#include "io/local/node_init.h"

namespace lockstep {

namespace {

constexpr Duration kPatience = seconds(60);

ClusterDir controller_dir() { return {installed_paths().controller_dir, "", ClusterDir::Kind::kController}; }

Result<void> check_may_manage(const char* verb) {
  if (geteuid() != 0)
    return denied(
        format("the cluster of this machine is installed, and only root may `lockstep {}` it. For a cluster of "
               "your own name a directory: lockstep {} --dir DIR",
               verb, verb));
  if (!has_systemd())
    return Error{Errc::kUnavailable,
                 format("the cluster of this machine is installed ({}), and systemd, which runs its services, does not "
                        "run here. For a cluster without it name a directory: lockstep {} --dir DIR",
                        installed_paths().controller_settings, verb),
                 {}};
  return {};
}

// The service says that it is ready when it listens; an older one just runs.
Result<Ping> wait_for_controller() {
  const ClusterDir dir = controller_dir();
  std::string why;
  for (const Instant until = boot_now() + kPatience; boot_now() < until; usleep(20'000)) {
    const auto answer = ask_controller(dir, "GET", "/v1/ping");
    if (answer)
      return decode_ping(*answer);
    why = answer.error().message;
    if (const auto state = unit_state(kControllerUnit); state && state->active == "failed")
      break;
  }
  const std::string said = last_words(kControllerUnit);
  return Error{Errc::kUnavailable,
               format("the controller does not answer: {}\n{}More: journalctl -u {}", why,
                      said.empty() ? "" : "It said last:\n" + said, kControllerUnit),
               {}};
}

Result<ListenAt> installed_listener() {
  const std::string value = setting_in(TRY(read_installed_conf()), "LISTEN");
  if (value.empty())
    return ListenAt{"127.0.0.1", kControllerPort};
  auto at = parse_listen(value);
  if (!at)
    return invalid(
        format("{}: LISTEN={}: an address and a port are meant", installed_paths().controller_settings, value));
  return at;
}

// A key and a certificate by the same door any other machine uses. Root of the controller's machine is an administrator
// of the cluster, through its agent too.
Result<void> join_this_machine(const ListenAt& at) {
  AgentFile file = new_agent_file(host_name(), address_from_here(at.address), at.port);
  TokenRequest ask;
  ask.node = file.node;
  ask.ttl_s = 600;
  ask.trust_administrators = true;
  const std::string answer = TRY(ask_controller(controller_dir(), "POST", "/v1/tokens", encode(ask)));
  TRY(join_with_token(file, TRY(decode_token_answer(answer))));
  return write_agent_file(file);
}

Result<void> bring_up_node(const ListenAt& at) {
  if (access((program_dir() + "/lockstep-agent").c_str(), X_OK) != 0) {
    puts(
        "this machine is no node: lockstep-agent is not installed here. `lockstep node token --any-name` makes a token "
        "with which another one joins");
    return {};
  }
  if (!is_installed_node())
    TRY(join_this_machine(at));
  TRY(start_agent());
  const Ping ping = TRY(wait_for_node(kPatience));
  printf("node %s: %s\n", ping.node.c_str(), offer_text(ping).c_str());
  return {};
}

}  // namespace

Result<int> bring_up_node_alone() {
  if (geteuid() != 0)
    return denied(
        "this machine is a node of a cluster whose controller is elsewhere, and only root may start its agent. For "
        "a cluster of your own name a directory: lockstep up --dir DIR");
  TRY(start_agent());
  const Ping ping = TRY(wait_for_node(kPatience));
  printf("this machine is node %s of cluster \"%s\": %s\n", ping.node.c_str(), ping.cluster.c_str(),
         offer_text(ping).c_str());
  return 0;
}

namespace {

// Its agent dials the controller where that listens now.
Result<void> move_own_node(const ListenAt& at) {
  if (!is_installed_node())
    return {};
  AgentFile file = TRY(read_agent_file());
  if (!is_own_node(file) || (file.controller_host == address_from_here(at.address) && file.controller_port == at.port))
    return {};
  file.controller_host = address_from_here(at.address);
  file.controller_port = at.port;
  TRY(write_agent_file(file));
  return restart_agent();
}

}  // namespace

Result<int> bring_up_installed(const std::string& topology) {
  TRY(check_may_manage("up"));
  const ListenAt at = TRY(installed_listener());
  TRY(enable_and_start(kControllerUnit));
  Ping ping = TRY(wait_for_controller());
  if (const auto told = told_listener(controller_dir()); told && *told != at) {
    printf("the controller listens on %s, and its settings say %s: it is started again\n",
           host_and_port(told->address, told->port).c_str(), host_and_port(at.address, at.port).c_str());
    TRY(restart_unit(kControllerUnit));
    ping = TRY(wait_for_controller());
  }
  TRY(move_own_node(at));
  TRY(bring_up_node(at));
  if (!topology.empty())
    if (const int failed = load_topology(controller_dir().socket(), topology); failed != 0)
      return failed;
  printf("cluster \"%s\", installed on this machine, is up; its controller listens on %s\n", ping.cluster.c_str(),
         host_and_port(at.address, at.port).c_str());
  return 0;
}

namespace {

// With these settings, if it starts with them.
Result<void> restart_controller_with(const std::string& settings) {
  TRY(write_installed_conf(settings));
  TRY(restart_unit(kControllerUnit));
  TRY(wait_for_controller());
  return {};
}

}  // namespace

Result<void> listen_for_others(const ListenAt& at) {
  TRY(check_may_manage("up"));
  const std::string before = TRY(read_installed_conf());
  const auto old = installed_listener();
  const auto unit = unit_state(kControllerUnit);
  const bool runs = unit && unit->active == "active";
  if (runs && old && *old == at)
    return {};  // bring_up_installed() sees to it that it does
  TRY(check_can_listen(at, runs && old ? std::optional(*old) : std::nullopt));
  const auto moved = restart_controller_with(with_setting(before, "LISTEN", as_argument(at)));
  if (!moved) {
    const auto back = runs ? restart_controller_with(before) : write_installed_conf(before);
    return Error{moved.error().code,
                 format("the controller does not start with {}: {}\n{}", as_argument(at), moved.error().message,
                        back ? format("LISTEN={} is in {} again", old ? as_argument(*old) : "",
                                      installed_paths().controller_settings)
                             : back.error().message),
                 {}};
  }
  return move_own_node(at);
}

Result<void> print_join_line(const ClusterDir& dir, const ListenAt& at) {
  const std::string address = address_for_others(at.address);
  if (address.empty()) {
    printf(
        "the controller listens on %s, which other machines do not reach: `lockstep up --listen ADDR` names an address "
        "that they do\n",
        host_and_port(at.address, at.port).c_str());
    return {};
  }
  TokenRequest ask;
  ask.any_name = true;
  const std::string answer = TRY(ask_controller(dir, "POST", "/v1/tokens", encode(ask)));
  printf(
      "another machine joins with this line, as root there, once and within an hour; `lockstep node token` makes "
      "more:\n"
      "  lockstep node join --controller %s --token %s\n",
      host_and_port(address, at.port).c_str(), TRY(decode_token_answer(answer)).c_str());
  return {};
}

Result<void> take_down_installed() {
  TRY(check_may_manage("down"));
  // The controller first: it would otherwise see its node go and begin to heal.
  TRY(stop_unit(kControllerUnit));
  if (is_installed_node())
    TRY(stop_unit(kAgentUnit));
  TRY(end_shims_below(installed_paths().agent_run_dir + "/shims/"));
  unlink((installed_paths().agent_run_dir + "/" + kBootIdFile).c_str());  // the next start is a new boot
  return {};
}

namespace {

// On a node its root is nobody, and learns from the controller how that sees the node.
Result<ClusterStatus> status_of_own_node(const ClusterDir& dir) {
  const Ping ping = TRY(decode_ping(TRY(ask_controller(dir, "GET", "/v1/ping"))));
  ClusterStatus status;
  status.cluster = ping.cluster;
  status.version = ping.version;
  status.controller_state = ping.read_only ? "read-only" : "up";
  status.jobs_known = false;
  NodeStatus node;
  node.name = ping.node;
  node.state = ping.node_state;
  node.reason = ping.node_reason;
  node.cores = ping.cores;
  node.memory_mb = ping.memory_mb;
  node.devices = ping.gpus;
  node.device_type = ping.gpu_type;
  status.nodes.push_back(std::move(node));
  return status;
}

// Without an answer: what this machine knows of its services.
void add_units(ClusterStatus& status, const ClusterDir& dir, bool answers) {
  if (!has_systemd())
    return;
  const auto controller = dir.kind == ClusterDir::Kind::kController && !answers ? unit_state(kControllerUnit)
                                                                                : Result<UnitState>(UnitState{});
  if (controller && controller->active == "active")
    status.controller_state = "not answering";
  else if (controller && !controller->active.empty())
    status.notices.push_back(
        format("{} is {} ({}); `lockstep up` starts it, `journalctl -u {}` says why it ended. It said last: {}",
               kControllerUnit, controller->active, controller->result, kControllerUnit, last_line(kControllerUnit)));
  if (!is_installed_node())
    return;
  if (const auto agent = unit_state(kAgentUnit); agent && agent->active != "active")
    status.notices.push_back(format("this machine's agent does not run: {} is {}; `systemctl start {}` starts it",
                                    kAgentUnit, agent->active.empty() ? "not known to systemd" : agent->active,
                                    kAgentUnit));
}

}  // namespace

Result<ClusterStatus> installed_status(const ClusterDir& dir) {
  ClusterStatus status;
  const auto answer = ask_controller(dir, "GET", "/v1/status");
  if (answer) {
    status = TRY(decode_cluster_status(*answer));
  } else if (answer.error().code == Errc::kDenied) {
    if (dir.kind != ClusterDir::Kind::kNode)
      return answer.error();
    status = TRY(status_of_own_node(dir));
  } else {
    status.jobs_known = false;
    status.controller_state = "down";
    status.notices.push_back(answer.error().message);
  }
  status.dir = dir.root;
  status.socket = dir.socket();
  add_units(status, dir, answer.ok());
  if (status.controller_state.empty())
    status.controller_state = "up";
  return status;
}

}  // namespace lockstep
