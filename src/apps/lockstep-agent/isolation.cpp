#include "isolation.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

#include "base/log_line.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "io/local/process.h"
#include "io/local/text_check.h"

namespace lockstep {
namespace {

// The unit that holds the groups of an installed node (docs/decisions/0011-control-groups.md).
constexpr std::string_view kJobsUnit = "system.slice/lockstep-jobs.service";
constexpr std::uint32_t kProcessesLeast = 256, kProcessesMost = 1 << 22;  // the kernel counts no more

std::uint64_t number_or_none(const std::string& path) {
  const auto text = read_plain(path, Links::kFollowed);
  return text ? parse_uint(trim(*text)).value_or(UINT64_MAX) : UINT64_MAX;  // "max"
}

// A quarter of what the machine, or the group that we are in, may hold: whoever forks without end leaves room for the
// others, and all jobs together for us.
std::uint32_t processes_of_a_job(const CgroupHost& host) {
  std::uint64_t all =
      std::min(number_or_none("/proc/sys/kernel/threads-max"), number_or_none("/proc/sys/kernel/pid_max"));
  if (host.has("pids"))
    all = std::min(all, number_or_none(host.dir("pids") + "/pids.max"));
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(all / 4, kProcessesLeast, kProcessesMost));
}

// Below the delegated unit, else below our own group. Version 2 wants groups or processes in one place: where ours
// holds processes, as in a login, the top of the hierarchy is left, which may have both.
Result<std::unique_ptr<Cgroups>> open_groups(const CgroupHost& host, const std::string& name, bool installed) {
  if (host.version == CgroupVersion::kV1)
    return Cgroups::open(host, name);
  const std::string unit = format("{}/{}", host.mount, kJobsUnit);
  if (installed && ::access(unit.c_str(), W_OK) == 0)
    return Cgroups::open(host, name, unit);
  auto own = Cgroups::open(host, name);
  return own.ok() ? std::move(own) : Cgroups::open(host, name, host.mount);
}

}  // namespace

Isolation make_isolation(const AgentFile& settings, const std::string& node) {
  Isolation out;
  const auto without = [&out](const std::string& why) {
    log_line(LogLevel::kWarning,
             "lockstep-agent: jobs are not held to their memory and processes on this node: " + why);
    return std::move(out);
  };
  if (::geteuid() != 0)
    return without("the agent is not root");
  const auto host = this_cgroup_host();
  if (!host.ok())
    return without(host.error().message);
  // Without a cluster's id its directory tells two agents of one machine apart: each ends what it finds in its tree.
  const char* cluster = ::getenv(kClusterIdVariable);
  const std::string id = cluster ? cluster : format("{:016x}", text_check(settings.state_dir));
  auto groups = open_groups(*host, tree_name(id, node), settings.cluster_dir.empty());
  if (!groups.ok())
    return without(groups.error().message);
  out.groups = std::move(*groups);
  out.processes = processes_of_a_job(*host);
  if (const auto limited = out.groups->limit_all(3 * out.processes); !limited.ok())
    return without(limited.error().message);
  out.processors = settings.cpus == 0;  // else nobody has said which cores are the node's
  return out;
}

}  // namespace lockstep
