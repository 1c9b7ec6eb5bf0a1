#include "task_routes.h"

#include <stdio.h>
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
    if (!wanted.contains(range))
      batch += format("route del {} proto {}\n", range, kProtocol);
  for (const auto& [range, via] : wanted)
    if (const auto it = present.find(range); it == present.end() || it->second != via)
      batch += format("route replace {} via {} proto {}\n", range, via, kProtocol);
  return batch;
}

// Ranges and addresses become words of a command: nothing else is taken.
std::string TaskRouteTable::take(const TaskRoutes& told) {
  if (told.all)
    routes_.clear();
  for (const TaskRoute& route : told.routes) {
    const auto range = parse_ip_range(route.range);
    if (!range || route.range == own_)
      continue;
    if (route.via.empty())
      routes_.erase(text_of(*range));
    else if (parse_ip(route.via) && routes_.size() < kRangesMax)
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
