#include "task_routes.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <charconv>

#include "base/plain_file.h"
#include "base/text.h"
#include "io/local/process.h"
#include "model/node.h"

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

std::set<std::uint32_t> gateways_in(std::string_view routes) {
  std::set<std::uint32_t> out;
  for (const auto& line : split(routes, '\n')) {
    const auto words = split_words(line);
    std::uint32_t gateway = 0;  // as it lies in memory
    if (words.size() > 2 &&
        std::from_chars(words[2].data(), words[2].data() + words[2].size(), gateway, 16).ec == std::errc() &&
        gateway != 0)
      out.insert(ntohl(gateway));
  }
  return out;
}

bool may_lead(const RouteBounds& bounds, const IpRange& range, std::uint32_t via) {
  const auto services = parse_ip_range(kServiceRange);
  if (!is_private(range) || (services && services->overlaps(range)) || (bounds.own && bounds.own->overlaps(range)))
    return false;
  if (is_loopback(via) || !is_unicast(via) || range.contains(via))
    return false;
  const auto first = bounds.kept.lower_bound(range.first);
  return first == bounds.kept.end() || *first > range.last();
}

namespace {

void add_own_addresses(std::set<std::uint32_t>& out) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0)
    return;
  for (const ifaddrs* one = all; one; one = one->ifa_next)
    if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET) {
      sockaddr_in address{};
      ::memcpy(&address, one->ifa_addr, sizeof address);
      out.insert(ntohl(address.sin_addr.s_addr));
    }
  ::freeifaddrs(all);
}

std::set<std::uint32_t> addresses_of(const std::string& host) {
  std::set<std::uint32_t> out;
  addrinfo ask{}, *found = nullptr;
  ask.ai_family = AF_INET;
  ask.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), nullptr, &ask, &found) != 0)
    return out;
  for (const addrinfo* one = found; one; one = one->ai_next) {
    sockaddr_in address{};
    ::memcpy(&address, one->ai_addr, sizeof address);
    out.insert(ntohl(address.sin_addr.s_addr));
  }
  ::freeaddrinfo(found);
  return out;
}

}  // namespace

RouteBounds TaskRouteTable::bounds() {
  if (controller_at_.empty())
    controller_at_ = addresses_of(controller_);
  RouteBounds out{parse_ip_range(own_), controller_at_};
  add_own_addresses(out.kept);
  if (const auto routes = read_plain("/proc/net/route", Links::kFollowed))
    out.kept.merge(gateways_in(*routes));
  return out;
}

// Ranges and addresses become words of a command: nothing else is taken.
std::string TaskRouteTable::take(const TaskRoutes& told) {
  if (told.all)
    routes_.clear();
  const RouteBounds kept = bounds();
  for (const TaskRoute& route : told.routes) {
    const auto range = parse_ip_range(route.range);
    if (!range || route.range == own_)
      continue;
    const auto via = parse_ip(route.via);
    if (!via || !may_lead(kept, *range, *via))
      routes_.erase(text_of(*range));
    else if (routes_.size() < kRangesMax)
      routes_[text_of(*range)] = ip_text(*via);
  }
  return set();
}

void TaskRouteTable::forget() {
  routes_.clear();
  (void)set();
}

std::string TaskRouteTable::set() {
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
