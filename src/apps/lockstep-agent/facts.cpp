#include "facts.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <set>

#include "base/log_line.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "io/memory_nodes.h"
#include "shim/sandbox_network.h"

namespace lockstep {
namespace {

std::string read_text(const std::string& path) {
  auto text = read_plain(path, Links::kFollowed);
  return text ? std::move(*text) : std::string();
}

std::int64_t memory_mb() {
  for (const auto& line : split(read_text("/proc/meminfo"), '\n')) {
    const auto words = split_words(line);
    if (words.size() >= 2 && words[0] == "MemTotal:")
      return parse_int(words[1]).value_or(0) / 1024;
  }
  return 0;
}

// Where jobs have their files, whether it is there yet or not.
std::int64_t tmp_disk_mb(const AgentFile& settings) {
  struct statvfs disk {};
  const std::string& scratch = settings.places.scratch.empty() ? settings.state_dir : settings.places.scratch;
  if (::statvfs(scratch.c_str(), &disk) != 0)
    return 0;
  return static_cast<std::int64_t>(disk.f_blocks) * static_cast<std::int64_t>(disk.f_frsize) / (1 << 20);
}

// The address of the interface that leads to the controller: nothing is sent.
std::string address_towards(const std::string& host, std::uint16_t port) {
  addrinfo ask{}, *found = nullptr;
  ask.ai_socktype = SOCK_DGRAM;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &ask, &found) != 0)
    return {};
  std::string text;
  for (const addrinfo* at = found; at && text.empty(); at = at->ai_next) {
    const int fd = ::socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    char name[NI_MAXHOST];
    if (fd >= 0 && ::connect(fd, at->ai_addr, at->ai_addrlen) == 0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, name, sizeof name, nullptr, 0, NI_NUMERICHOST) == 0)
      text = name;
    if (fd >= 0)
      ::close(fd);
  }
  ::freeaddrinfo(found);
  return text;
}

// Addresses that can be given: nobody but root makes namespaces.
std::string range_for_tasks(const AgentFile& settings) {
  if (settings.task_range.empty() || ::geteuid() != 0)
    return {};
  if (const auto plugins = check_plugins(); !plugins.ok()) {
    log_line(LogLevel::kWarning, "lockstep-agent: tasks get no addresses of their own: " + plugins.error().message);
    return {};
  }
  return settings.task_range;
}

}  // namespace

CpuLayout parse_cpuinfo(std::string_view text, std::uint32_t online) {
  std::set<std::string> sockets;
  std::set<std::pair<std::string, std::string>> cores;
  std::uint32_t threads = 0;
  std::string socket = "0";
  for (const auto& line : split(text, '\n')) {
    const auto colon = line.find(':');
    if (colon == line.npos)
      continue;
    const std::string_view name = trim(std::string_view(line).substr(0, colon));
    const std::string value(trim(std::string_view(line).substr(colon + 1)));
    if (name == "processor") {
      ++threads;
    } else if (name == "physical id") {
      socket = value;
      sockets.insert(value);
    } else if (name == "core id") {
      cores.insert({socket, value});
    }
  }
  CpuLayout layout;
  layout.cores = std::max(1u, online);
  // Only where every core has equally many threads do the numbers describe the machine.
  if (!cores.empty() && threads == online && threads % cores.size() == 0) {
    layout.cores = static_cast<std::uint32_t>(cores.size());
    layout.threads_per_core = threads / layout.cores;
    layout.sockets = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(sockets.size()));
  }
  return layout;
}

Result<Node> read_facts(const AgentFile& settings) {
  Node node;
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  node.hostname = host;
  node.meta.name = settings.node.empty() ? node.hostname.substr(0, node.hostname.find('.')) : settings.node;
  node.address =
      settings.address.empty() ? address_towards(settings.controller_host, settings.controller_port) : settings.address;
  node.task_range = range_for_tasks(settings);
  const std::string boot_file =
      settings.boot_id_file.empty() ? "/proc/sys/kernel/random/boot_id" : settings.boot_id_file;
  node.boot_id = trim(read_text(boot_file));
  if (node.boot_id.empty())
    return Error{Errc::kIo, boot_file + ": no boot id there", {}};
  node.version = LOCKSTEP_VERSION;
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  CpuLayout layout = parse_cpuinfo(read_text("/proc/cpuinfo"), online > 0 ? static_cast<std::uint32_t>(online) : 1);
  if (settings.cpus > 0)
    layout = {1, settings.cpus, 1};
  node.sockets = layout.sockets;
  node.cores = std::min(layout.cores, CoreSet::kCapacity);
  node.threads_per_core = layout.threads_per_core;
  node.numa = memory_nodes();
  const CoreSet all = CoreSet::first_n(node.cores);
  for (CoreSet& cores : node.numa) cores = cores & all;
  node.memory_mb = settings.memory_mb > 0 ? settings.memory_mb : memory_mb();
  node.tmp_disk_mb = tmp_disk_mb(settings);
  node.features = settings.features;
  for (const std::string& resource : settings.resources) {
    const auto mark = resource.find('=');
    const auto count = mark == resource.npos ? std::nullopt : parse_uint(std::string_view(resource).substr(mark + 1));
    if (!count || mark == 0 || *count > (std::uint64_t{1} << 32))
      return invalid(format("resources: \"{}\" is not name=count", resource), "resources");
    node.counted.push_back({resource.substr(0, mark), static_cast<std::int64_t>(*count)});
  }
  std::sort(node.counted.begin(), node.counted.end());
  node.domains = settings.domains;
  node.weight = settings.weight;
  node.has_fence_hook = settings.fence_hook;
  if (!settings.hooks.prolog.empty() || !settings.hooks.epilog.empty())
    node.hooks_take = seconds(settings.hooks.timeout_s);
  return node;
}

}  // namespace lockstep
