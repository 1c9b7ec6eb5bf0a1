#include "task_routes.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/ip_range.h"
#include "base/text.h"
#include "io/local/process.h"

namespace lockstep {
namespace {

constexpr int kProtocol = 76;                // rtnetlink(7): numbers that the kernel leaves to those who set routes
constexpr std::size_t kRangesMax = 100'000;  // of a cluster

}  // namespace

std::string route_commands(const std::map<std::string, std::string>& wanted, std::string_view there) {
  std::map<std::string, std::string> present;
  for (const auto& line : split(there, '\n')) {
    const auto words = split_words(line);
    if (words.size() >= 3 && words[1] == "via")
      present.emplace(words[0], words[2]);
  }
  std::string batch;
  for (const auto& [range, via] : present)
    if (const auto it = wanted.find(range); it == wanted.end() || it->second != via)
      batch += format("route del {} proto {}\n", range, kProtocol);
  // `replace` would take the place of anybody's route to the same range.
  for (const auto& [range, via] : wanted)
    if (const auto it = present.find(range); it == present.end() || it->second != via)
      batch += format("route add {} via {} proto {}\n", range, via, kProtocol);
  return batch;
}

namespace {

// An address of this machine. What is sent to it must not leave.
bool holds_own_address(const IpRange& range) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0)
    return false;
  bool holds = false;
  for (const ifaddrs* one = all; one; one = one->ifa_next)
    if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET) {
      sockaddr_in address{};
      ::memcpy(&address, one->ifa_addr, sizeof address);
      holds = holds || range.contains(ntohl(address.sin_addr.s_addr));
    }
  ::freeifaddrs(all);
  return holds;
}

}  // namespace

// Ranges and addresses become words of a command: nothing else is taken.
std::string TaskRouteTable::take(const TaskRoutes& told) {
  if (told.all)
    routes_.clear();
  for (const TaskRoute& route : told.routes) {
    const auto range = parse_ip_range(route.range);
    if (!range || route.range == own_)
      continue;
    const auto via = parse_ip(route.via);
    if (!via || range->contains(*via) || holds_own_address(*range))
      routes_.erase(text_of(*range));
    else if (routes_.size() < kRangesMax)
      routes_[text_of(*range)] = route.via;
  }
  if (::geteuid() != 0)
    return {};
  std::string there;
  if (FILE* pipe = ::popen(format("ip route show proto {}", kProtocol).c_str(), "re")) {
    char chunk[4096];
    for (std::size_t n; (n = ::fread(chunk, 1, sizeof chunk, pipe)) > 0;) there.append(chunk, n);
    ::pclose(pipe);
  }
  const std::string batch = route_commands(routes_, there);
  if (batch.empty())
    return {};
  const auto set = run_program({"ip", "-force", "-batch", "-"}, batch);
  return set.ok() ? std::string()
                  : format("addresses of tasks on other nodes may not be reached from here: {}", set.error().message);
}

}  // namespace lockstep
