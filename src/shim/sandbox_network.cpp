#include "shim/sandbox_network.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "base/check.h"
#include "base/ip_range.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "model/node.h"
#include "shim/held_port.h"
#include "shim/process_tree.h"
#include "shim/task_inheritance.h"
#include "wire/json_text.h"

namespace lockstep {
namespace {

constexpr const char* kNetworkName = "lockstep";
constexpr const char* kInterface = "eth0";
constexpr std::int64_t kPluginPatienceUs = 20'000'000;
constexpr std::size_t kAnswerMax = 64 << 10;
constexpr const char* kPlugins[] = {"ptp", "host-local"};
constexpr const char* kPortPlugin = "portmap";

// A descriptor with the text, to be read from its beginning.
int memory_file(const std::string& text) {
  const int fd = ::memfd_create("cni", MFD_CLOEXEC);
  if (fd >= 0 &&
      (::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()) || ::lseek(fd, 0, SEEK_SET) != 0)) {
    ::close(fd);
    return -1;
  }
  return fd;
}

// Reads until the end, or until patience has passed.
std::string read_until(int fd, std::int64_t until_us) {
  std::string text;
  char chunk[4096];
  for (;;) {
    pollfd wait{fd, POLLIN, 0};
    const std::int64_t left = until_us - boot_clock_us();
    if (left <= 0 || ::poll(&wait, 1, static_cast<int>(left / 1000 + 1)) < 0)
      return text;
    const ssize_t n = wait.revents ? ::read(fd, chunk, sizeof chunk) : -1;
    if (n == 0 || text.size() > kAnswerMax)
      return text;
    if (n > 0)
      text.append(chunk, static_cast<std::size_t>(n));
  }
}

struct PluginRun {
  std::string work, config;
  int host = -1;  // network namespace in which it runs
  const char* plugin = kPlugins[0];
  const char* command = "ADD";
};

[[noreturn]] void become_plugin(const PluginRun& run, int in, int out, const std::string& network) {
  reset_signals();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::setns(run.host, CLONE_NEWNET) != 0 || ::dup2(in, 0) < 0 || ::dup2(out, 1) < 0 || ::dup2(out, 2) < 0)
    ::_exit(127);
  std::string env[] = {
      format("CNI_COMMAND={}", run.command), "CNI_CONTAINERID=" + run.work,     "CNI_NETNS=" + network,
      format("CNI_IFNAME={}", kInterface),   format("CNI_PATH={}", kCniFolder), "PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
  char* variables[] = {env[0].data(), env[1].data(), env[2].data(), env[3].data(),
                       env[4].data(), env[5].data(), nullptr};
  std::string program = format("{}/{}", kCniFolder, run.plugin);
  char* words[] = {program.data(), nullptr};
  close_on_exec_from(3);
  ::execve(program.c_str(), words, variables);
  ::_exit(127);
}

// What it wrote. An error: what it said is wrong.
Result<std::string> run_plugin(const PluginRun& run) {
  const int in = memory_file(run.config);
  int ends[2];
  if (in < 0 || ::pipe2(ends, O_CLOEXEC) != 0)
    return os_error("pipe");
  const std::string network = format("/proc/{}/ns/net", ::getpid());
  const pid_t pid = ::fork();
  if (pid == 0)
    become_plugin(run, in, ends[1], network);
  ::close(in);
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    return os_error("cannot make a process");
  }
  const std::int64_t until_us = boot_clock_us() + kPluginPatienceUs;
  std::string said = read_until(ends[0], until_us);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0 && boot_clock_us() < until_us) ::usleep(1000);
  if (boot_clock_us() >= until_us) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return said;
  return Error{Errc::kIo,
               format("the CNI plug-in {}/{} failed: {}", kCniFolder, run.plugin,
                      said.empty() ? "it said nothing" : std::string(trim(said.substr(0, 512)))),
               {}};
}

Result<void> set_loopback_up() {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq ask{};
  std::string("lo").copy(ask.ifr_name, IFNAMSIZ - 1);
  const bool up = fd >= 0 && ::ioctl(fd, SIOCGIFFLAGS, &ask) == 0 &&
                  (ask.ifr_flags = static_cast<short>(ask.ifr_flags | IFF_UP), ::ioctl(fd, SIOCSIFFLAGS, &ask) == 0);
  const Error error = up ? Error{} : os_error("cannot set lo up");
  if (fd >= 0)
    ::close(fd);
  return up ? Result<void>() : Result<void>(error);
}

// Each file is called as its address, and begins with the name of who has it: as host-local keeps it.
void release_where(const std::string& folder, const std::function<bool(std::string_view)>& is_gone) {
  const std::string kept = format("{}/{}", folder, kNetworkName);
  DIR* const dir = ::opendir(kept.c_str());
  if (!dir)
    return;
  while (const dirent* entry = ::readdir(dir)) {
    if (!parse_ip(entry->d_name))
      continue;
    const std::string path = format("{}/{}", kept, entry->d_name);
    const auto text = read_plain(path);
    const std::string_view owner = text ? std::string_view(*text).substr(0, text->find_first_of("\r\n")) : "";
    if (text && is_gone(owner))
      ::unlink(path.c_str());
  }
  ::closedir(dir);
}

}  // namespace

Result<void> check_plugins(const std::string& folder) {
  for (const char* name : kPlugins)
    if (::access(format("{}/{}", folder, name).c_str(), X_OK) != 0)
      return Error{
          Errc::kUnsupported,
          format("{}/{} is not there: tasks get addresses by the package containernetworking-plugins", folder, name),
          {}};
  return {};
}

std::string plugin_configuration(const SandboxPlace& place, const std::string& folder) {
  return format(R"({{"cniVersion":"0.4.0","name":"{}","type":"ptp","ipam":{{"type":"host-local","dataDir":"{}",)"
                R"("ranges":[[{{"subnet":"{}"}}]],"routes":[{{"dst":"0.0.0.0/0"}}]}}}})",
                kNetworkName, folder, place.range);
}

// Of a program of the node's own: what is looked for is enough.
Result<std::string> address_in(std::string_view answer) {
  constexpr std::string_view kKey = "\"address\":";
  const auto key = answer.find(kKey);
  const auto from = key == answer.npos ? key : answer.find('"', key + kKey.size());
  const auto to = from == answer.npos ? from : answer.find_first_of("/\"", from + 1);
  if (to != answer.npos && parse_ip(answer.substr(from + 1, to - from - 1)))
    return std::string(answer.substr(from + 1, to - from - 1));
  return Error{Errc::kIo, "the CNI plug-in named no address", {}};
}

namespace {

Result<void> fill_sandbox_network(SandboxNetwork& network, const SandboxPlace& place, const std::string& work,
                                  const std::string& folder) {
  if (!place.host_name.empty() && ::sethostname(place.host_name.data(), place.host_name.size()) != 0)
    return os_error("cannot set the task's host name");
  TRY(set_loopback_up());
  network.answer = TRY(run_plugin({work, plugin_configuration(place, folder), network.host}));
  network.address = TRY(address_in(network.answer));
  return {};
}

}  // namespace

Result<SandboxNetwork> enter_sandbox_network(const SandboxPlace& place, const std::string& work,
                                             const std::string& folder, IpcSpace ipc) {
  if (::geteuid() != 0)
    return Error{Errc::kUnsupported, "a task gets an address of its own only where the agent is root", {}};
  if (!parse_ip_range(place.range))
    return Error{
        Errc::kUnsupported, "this node has no addresses for tasks: its agent's settings name no task_range", {}};
  TRY(check_plugins());
  const int host = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (host < 0)
    return os_error("/proc/self/ns/net");
  if (::unshare(CLONE_NEWNET | CLONE_NEWUTS | (ipc == IpcSpace::kOwn ? CLONE_NEWIPC : 0)) != 0) {
    const Error error = os_error("cannot make namespaces for the task");
    ::close(host);
    return error;
  }
  SandboxNetwork network;
  network.host = host;
  if (auto made = fill_sandbox_network(network, place, work, folder); !made.ok()) {
    leave_sandbox_network(network, work, folder);
    return made.error();
  }
  return network;
}

void leave_sandbox_network(SandboxNetwork& network, const std::string& work, const std::string& folder) {
  for (const int port : std::exchange(network.held, {})) ::close(port);
  withdraw_ports(network.host, work, folder);
  (void)::setns(network.host, CLONE_NEWNET);
  ::close(std::exchange(network.host, -1));
  release_address_of(folder, work);
}

std::string portmap_configuration(const std::vector<PublishedPort>& ports, const std::string& answer) {
  JsonText j;
  j.object().field("cniVersion", "0.4.0").field("name", kNetworkName).field("type", kPortPlugin).field("snat", true);
  j.key("runtimeConfig").object().key("portMappings").array();
  for (const PublishedPort& port : ports) {
    j.object().field("hostPort", port.node_port).field("containerPort", port.port).field("protocol", port.protocol);
    if (!port.node_address.empty())
      j.field("hostIP", port.node_address);
    j.end();
  }
  j.end().end();
  if (!answer.empty())
    j.key("prevResult").raw(answer);
  j.end();
  return j.take();
}

namespace {

std::string published_folder(const std::string& folder) { return folder + "/published"; }

// Those whose address is nobody's any more.
std::vector<std::string> left_published(const std::string& folder) {
  std::vector<std::string> out;
  DIR* const dir = ::opendir(published_folder(folder).c_str());
  if (!dir)
    return out;
  while (const dirent* entry = ::readdir(dir))
    if (const std::string work = entry->d_name; !work.starts_with('.')) {
      bool has_address = false;
      release_where(folder, [&](std::string_view owner) {
        has_address = has_address || owner == work;
        return false;
      });
      if (!has_address)
        out.push_back(work);
    }
  ::closedir(dir);
  return out;
}

}  // namespace

namespace {

// In the network of the node, by the process that is in the sandbox's.
Result<void> hold_ports(SandboxNetwork& network, const std::vector<PublishedPort>& ports) {
  const int own = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (own < 0 || ::setns(network.host, CLONE_NEWNET) != 0) {
    const Error error = os_error("cannot look at the node's ports");
    if (own >= 0)
      ::close(own);
    return error;
  }
  Result<void> done;
  for (const PublishedPort& port : ports) {
    const auto services = parse_ip_range(kServiceRange);
    const auto address = parse_ip(port.node_address);
    if (address && services && services->contains(*address))
      done = Error{Errc::kInvalid,  // it never can
                   format("{} is an address of services, and no port there can lead to a task", port.node_address),
                   {}};
    auto held = hold_port(lower(port.protocol), address && *address != 0 ? port.node_address : "", port.node_port);
    if (held.ok())
      network.held.push_back(*held);
    else if (held.error().code == Errc::kConflict && done.ok())
      done = held.error();
    if (!done.ok())
      break;
  }
  const bool is_back = ::setns(own, CLONE_NEWNET) == 0;
  CHECK(is_back, "a shim outside of its sandbox");
  ::close(own);
  return done;
}

}  // namespace

Result<void> publish_ports(SandboxNetwork& network, const std::vector<PublishedPort>& ports, const std::string& work,
                           const std::string& folder) {
  for (const std::string& left : left_published(folder)) withdraw_ports(network.host, left, folder);
  if (ports.empty())
    return {};
  TRY(hold_ports(network, ports));
  const std::string path = format("{}/{}", published_folder(folder), work);
  if (::mkdir(published_folder(folder).c_str(), 0700) != 0 && errno != EEXIST)
    return os_error(path);
  const std::string undo = portmap_configuration(ports, {});
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool kept = fd >= 0 && ::write(fd, undo.data(), undo.size()) == static_cast<ssize_t>(undo.size());
  if (fd >= 0)
    ::close(fd);
  if (!kept)
    return os_error(path);
  PluginRun run{work, portmap_configuration(ports, network.answer), network.host};
  run.plugin = kPortPlugin;
  TRY(run_plugin(run));
  return {};
}

void withdraw_ports(int host, const std::string& work, const std::string& folder) {
  const std::string path = format("{}/{}", published_folder(folder), work);
  const auto undo = read_plain(path);
  if (!undo.ok())
    return;
  PluginRun run{work, *undo, host};
  run.plugin = kPortPlugin;
  run.command = "DEL";
  (void)run_plugin(run);
  ::unlink(path.c_str());
}

void leave_ipc_of_node() {
  if (::geteuid() == 0)
    (void)::unshare(CLONE_NEWIPC);
}

void release_address_of(const std::string& folder, const std::string& work) {
  release_where(folder, [&work](std::string_view owner) { return owner == work; });
}

void release_addresses_but(const std::string& folder, const std::vector<std::string>& lives) {
  release_where(
      folder, [&lives](std::string_view owner) { return std::find(lives.begin(), lives.end(), owner) == lives.end(); });
}

}  // namespace lockstep
