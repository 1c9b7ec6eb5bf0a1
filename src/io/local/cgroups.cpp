#include "io/local/cgroups.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/plain_file.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::int64_t kMiB = 1 << 20;
// A group that says nothing weighs 100 of 10,000 under version 2, and has 1024 shares under version 1.
constexpr std::uint32_t kWeightPerCore = 10, kWeightMax = 10'000, kSharesPerCore = 512;
constexpr int kSharesOfProcess = 1024;
constexpr int kKillRounds = 5;  // a process that forks faster than we read is in the next round

Result<void> put(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return os_error(path);
  const ssize_t n = ::write(fd, text.data(), text.size());
  const int why = errno;
  ::close(fd);
  errno = why;
  return n == static_cast<ssize_t>(text.size()) ? Result<void>() : os_error(format("{} <- {}", path, text));
}

std::string get(const std::string& path) {
  auto text = read_plain(path);
  return text ? std::string(trim(*text)) : std::string();
}

std::int64_t number_in(const std::string& path) { return parse_int(get(path)).value_or(0); }

// "oom_kill 3" among lines of a word and a number.
std::int64_t number_of(const std::string& path, std::string_view word) {
  for (const std::string& line : split(get(path), '\n')) {
    const auto words = split_words(line);
    if (words.size() == 2 && words[0] == word)
      return parse_int(words[1]).value_or(0);
  }
  return 0;
}

Result<void> make_dir(const std::string& path) {
  return ::mkdir(path.c_str(), 0755) == 0 || errno == EEXIST ? Result<void>() : os_error(path);
}

Result<void> deny_devices_v1(const std::string& group, const DeviceLimits& limits) {
  for (const DeviceFamily& family : limits.families)
    for (const std::uint32_t minor : family.known)
      if (std::find(family.minors.begin(), family.minors.end(), minor) == family.minors.end())
        TRY(put(group + "/devices.deny", format("c {}:{} rwm", family.major, minor)));
  for (const DeviceNumber& device : limits.denied)
    TRY(put(group + "/devices.deny", format("c {}:{} rwm", device.major, device.minor)));
  return {};
}

constexpr int kDepthMost = 8;  // of groups that a part has made below its own

std::vector<std::string> groups_in(const std::string& path) {
  std::vector<std::string> out;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(path, none))
    if (entry.is_directory(none) && !entry.is_symlink(none))
      out.push_back(entry.path().string());
  return out;
}

// With what was made below it.
bool is_gone(const std::string& path, int depth = kDepthMost) {
  if (::rmdir(path.c_str()) == 0 || errno == ENOENT)
    return true;
  if (depth > 0)
    for (const std::string& below : groups_in(path)) is_gone(below, depth - 1);
  return ::rmdir(path.c_str()) == 0 || errno == ENOENT;
}

void add_processes(const std::string& path, std::vector<std::string>& pids, int depth = kDepthMost) {
  for (std::string& pid : split_words(get(path + "/cgroup.procs"))) pids.push_back(std::move(pid));
  if (depth > 0)
    for (const std::string& below : groups_in(path)) add_processes(below, pids, depth - 1);
}

// A cpuset of version 1 takes no process before it has processors and memory. One that has them keeps them, unless
// others are named. What is made below it has them from its first moment: to write them takes a lock of the machine's
// for a millisecond.
Result<void> inherit_cpuset(const std::string& dir, const std::string& above, const std::string& cpus) {
  const std::string has = get(dir + "/cpuset.cpus");
  if (!has.empty() && (cpus.empty() || cpus == has))
    return {};
  (void)put(dir + "/cgroup.clone_children", "1");  // where there is no such file, each is written
  if (get(dir + "/cpuset.mems").empty())
    TRY(put(dir + "/cpuset.mems", get(above + "/cpuset.mems")));
  return put(dir + "/cpuset.cpus", cpus.empty() ? get(above + "/cpuset.cpus") : cpus);
}

std::string job_word(const WorkId& work) { return format("{}-{}", work.job.value, work.attempt); }
std::string part_word(const WorkId& work) { return text_of(work).substr(job_word(work).size() + 1); }

}  // namespace

std::string tree_name(const std::string& owner, const std::string& node) {
  return format("lockstep-{}{}{}", owner, node.empty() ? "" : "-", node);
}

Result<std::unique_ptr<Cgroups>> Cgroups::open(CgroupHost host, const std::string& name, const std::string& base) {
  if (host.version == CgroupVersion::kV2 && !base.empty())
    for (auto& [controller, dir] : host.own) dir = base;
  std::unique_ptr<Cgroups> out(new Cgroups(std::move(host), name));
  for (const std::string& root : out->roots()) {
    const std::string tree = root + "/" + name;
    TRY(make_dir(tree));
    if (out->host_.version == CgroupVersion::kV2) {
      TRY(put(root + "/cgroup.subtree_control", "+memory +pids"));
      TRY(put(tree + "/cgroup.subtree_control", "+memory +pids"));
      for (const char* wanted : {"+cpuset", "+cpu", "+io"})  // where the host has them
        if (put(root + "/cgroup.subtree_control", wanted))
          (void)put(tree + "/cgroup.subtree_control", wanted);
    } else {
      if (out->host_.has("cpuset") && root == out->host_.dir("cpuset"))
        TRY(inherit_cpuset(tree, root, {}));
      // All jobs together are no single process, which the tree would count for beside those that are in no group.
      if (out->host_.has("cpu") && root == out->host_.dir("cpu"))
        (void)put(tree + "/cpu.shares", format("{}", kSharesOfProcess * ::get_nprocs()));
    }
  }
  return out;
}

std::vector<std::string> Cgroups::roots() const {
  std::vector<std::string> out;
  for (const auto& [controller, dir] : host_.own)
    if (std::find(out.begin(), out.end(), dir) == out.end())
      out.push_back(dir);
  return out;
}

std::string Cgroups::job_dir(const std::string& root, const WorkId& work) const {
  return format("{}/{}/{}", root, name_, job_word(work));
}
std::string Cgroups::part_dir(const std::string& root, const WorkId& work) const {
  return format("{}/{}", job_dir(root, work), part_word(work));
}

// Memory in swap counts as well; a kernel that does not count it has no such file.
Result<void> Cgroups::limit_memory(const std::string& group, std::int64_t megabytes) {
  if (megabytes <= 0)
    return {};
  const bool v2 = host_.version == CgroupVersion::kV2;
  const std::string bytes = format("{}", megabytes * kMiB);
  TRY(put(group + (v2 ? "/memory.max" : "/memory.limit_in_bytes"), bytes));
  // What sockets hold is counted apart under version 1, and not at all unless it is limited.
  if (const std::string sockets = group + "/memory.kmem.tcp.limit_in_bytes";
      !v2 && ::access(sockets.c_str(), W_OK) == 0)
    TRY(put(sockets, bytes));
  const std::string swap = group + (v2 ? "/memory.swap.max" : "/memory.memsw.limit_in_bytes");
  if (::access(swap.c_str(), W_OK) == 0)
    TRY(put(swap, v2 ? "0" : bytes));
  return {};
}

Result<void> Cgroups::limit_all(std::uint32_t processes) {
  return host_.has("pids") ? put(format("{}/{}/pids.max", host_.dir("pids"), name_), format("{}", processes))
                           : Result<void>();
}

// Siblings get processors and disks by their weights while they compete for them. A kernel without a file for it shares
// equally, which is no reason to refuse the job.
void Cgroups::weigh(const WorkId& work, std::uint32_t cores) {
  if (cores == 0)
    return;
  if (host_.version == CgroupVersion::kV2) {
    const std::string job = job_dir(host_.dir("memory"), work);
    const std::string weight = format("{}", std::min(cores * kWeightPerCore, kWeightMax));
    for (const char* file : {"/cpu.weight", "/io.weight"})
      if (::access((job + file).c_str(), W_OK) == 0)
        (void)put(job + file, weight);
  } else if (host_.has("cpu")) {
    (void)put(job_dir(host_.dir("cpu"), work) + "/cpu.shares", format("{}", cores * kSharesPerCore));
  }
}

Result<void> Cgroups::limit(const WorkId& work, const GroupLimits& limits) {
  TRY(limit_memory(job_dir(host_.dir("memory"), work), limits.memory_mb));
  TRY(limit_memory(part_dir(host_.dir("memory"), work), limits.part_memory_mb));
  if (limits.processes > 0 && host_.has("pids"))
    TRY(put(job_dir(host_.dir("pids"), work) + "/pids.max", format("{}", limits.processes)));
  weigh(work, limits.cores);
  return {};
}

Result<std::vector<std::string>> Cgroups::make(const WorkId& work, const GroupLimits& limits) {
  std::vector<std::string> out;
  for (const std::string& root : roots()) {
    const std::string job = job_dir(root, work), part = part_dir(root, work);
    const bool is_cpuset = host_.has("cpuset") && root == host_.dir("cpuset");
    TRY(make_dir(job));
    if (host_.version == CgroupVersion::kV2) {
      TRY(put(job + "/cgroup.subtree_control", "+memory"));
      if (!limits.cpus.empty() && is_cpuset)
        TRY(put(job + "/cpuset.cpus", limits.cpus));
    } else if (is_cpuset) {
      TRY(inherit_cpuset(job, format("{}/{}", root, name_), limits.cpus));
    }
    TRY(make_dir(part));
    if (host_.version == CgroupVersion::kV1 && is_cpuset)
      TRY(inherit_cpuset(part, job, {}));
    if (limits.devices.any() && host_.has("devices") && root == host_.dir("devices"))
      TRY(host_.version == CgroupVersion::kV1 ? deny_devices_v1(part, limits.devices)
                                              : deny_devices_v2(part, limits.devices));
    // A thread that moves itself alone by `tasks` needs not wait for all others of the machine to hold still
    // (cgroup_attach_lock in kernel/cgroup/cgroup.c).
    out.push_back(part + (host_.version == CgroupVersion::kV1 ? "/tasks" : "/cgroup.procs"));
  }
  TRY(limit(work, limits));
  return out;
}

GroupUse Cgroups::use(const WorkId& work) const {
  GroupUse out;
  const std::string memory = part_dir(host_.dir("memory"), work);
  if (host_.version == CgroupVersion::kV2) {
    out.cpu_us = number_of(memory + "/cpu.stat", "usage_usec");
    out.user_us = number_of(memory + "/cpu.stat", "user_usec");
    out.system_us = number_of(memory + "/cpu.stat", "system_usec");
    out.memory_peak = number_in(memory + "/memory.peak");
    out.oom_kills = static_cast<std::uint64_t>(number_of(memory + "/memory.events", "oom_kill"));
    return out;
  }
  if (host_.has("cpuacct")) {
    const std::string processors = part_dir(host_.dir("cpuacct"), work);
    const std::int64_t tick_us = 1'000'000 / ::sysconf(_SC_CLK_TCK);
    out.cpu_us = number_in(processors + "/cpuacct.usage") / 1000;
    out.user_us = number_of(processors + "/cpuacct.stat", "user") * tick_us;
    out.system_us = number_of(processors + "/cpuacct.stat", "system") * tick_us;
  }
  out.memory_peak = number_in(memory + "/memory.max_usage_in_bytes");
  out.oom_kills = static_cast<std::uint64_t>(number_of(memory + "/memory.oom_control", "oom_kill"));
  return out;
}

std::int64_t Cgroups::memory_held() const {
  const std::string tree = format("{}/{}", host_.dir("memory"), name_);
  const bool v2 = host_.version == CgroupVersion::kV2;
  return std::max<std::int64_t>(0, number_in(tree + (v2 ? "/memory.current" : "/memory.usage_in_bytes")) -
                                       number_of(tree + "/memory.stat", v2 ? "inactive_file" : "total_inactive_file"));
}

namespace {

// Who makes groups below a part's calls them alike in every hierarchy, by the part's path in that of memory. Our own
// tree may begin elsewhere in another one.
std::string cpuacct_group(const std::string& memory, const std::string& own) {
  constexpr std::string_view kMemory = "/sys/fs/cgroup/memory/";
  if (!memory.starts_with(kMemory))
    return own;
  std::string alike = "/sys/fs/cgroup/cpuacct/" + memory.substr(kMemory.size());
  return ::access(alike.c_str(), F_OK) == 0 ? alike : own;
}

}  // namespace

std::vector<GroupBelow> Cgroups::below(const WorkId& work) const {
  const bool v2 = host_.version == CgroupVersion::kV2;
  const std::string memory = part_dir(host_.dir("memory"), work);
  std::vector<GroupBelow> out;
  for (const std::string& path : groups_in(memory)) {
    GroupBelow one{path.substr(path.rfind('/') + 1), 0, 0};
    const std::int64_t held = number_in(path + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
    one.memory = std::max<std::int64_t>(
        0, held - number_of(path + "/memory.stat", v2 ? "inactive_file" : "total_inactive_file"));
    if (v2)
      one.cpu_us = number_of(path + "/cpu.stat", "usage_usec");
    else if (host_.has("cpuacct"))
      one.cpu_us =
          number_in(cpuacct_group(memory, part_dir(host_.dir("cpuacct"), work)) + "/" + one.name + "/cpuacct.usage") /
          1000;
    out.push_back(std::move(one));
  }
  return out;
}

std::string Cgroups::oom_file(const WorkId& work) const {
  return part_dir(host_.dir("memory"), work) +
         (host_.version == CgroupVersion::kV2 ? "/memory.events" : "/memory.oom_control");
}

std::string Cgroups::freeze_file(const WorkId& work) const {
  if (!host_.has("freezer"))
    return {};
  return part_dir(host_.dir("freezer"), work) +
         (host_.version == CgroupVersion::kV2 ? "/cgroup.freeze" : "/freezer.state");
}

Result<void> Cgroups::freeze(const WorkId& work, bool frozen) {
  if (!host_.has("freezer"))
    return not_found("this host has no freezer");
  const std::string dir = part_dir(host_.dir("freezer"), work);
  return host_.version == CgroupVersion::kV2 ? put(dir + "/cgroup.freeze", frozen ? "1" : "0")
                                             : put(dir + "/freezer.state", frozen ? "FROZEN" : "THAWED");
}

bool Cgroups::is_frozen(const WorkId& work) const {
  if (!host_.has("freezer"))
    return false;
  const std::string dir = part_dir(host_.dir("freezer"), work);
  return host_.version == CgroupVersion::kV2 ? number_of(dir + "/cgroup.events", "frozen") == 1
                                             : get(dir + "/freezer.state") == "FROZEN";
}

std::size_t Cgroups::kill(const WorkId& work) {
  const std::string dir = part_dir(host_.dir("memory"), work);
  std::size_t seen = 0;
  for (int round = 0; round < kKillRounds; ++round) {
    std::vector<std::string> pids;
    add_processes(dir, pids);
    if (pids.empty())
      break;
    seen = std::max(seen, pids.size());
    if (host_.version == CgroupVersion::kV2 && put(dir + "/cgroup.kill", "1"))
      break;
    for (const std::string& word : pids)
      if (const auto pid = parse_int(word); pid && *pid > 0)
        ::kill(static_cast<pid_t>(*pid), SIGKILL);
  }
  return seen;
}

bool Cgroups::remove(const WorkId& work) {
  bool all = true;
  for (const std::string& root : roots()) {
    all = is_gone(part_dir(root, work)) && all;
    if (all)
      ::rmdir(job_dir(root, work).c_str());  // not while it has other parts
  }
  return all;
}

void Cgroups::close() {
  for (const std::string& root : roots()) ::rmdir((root + "/" + name_).c_str());
}

namespace {

// Groups of jobs' parts, in all trees of the host whose names begin so; then their jobs' and the trees themselves.
std::vector<std::string> groups_below(const CgroupHost& host, const std::string& prefix) {
  std::vector<std::string> roots, parts, jobs, trees;
  for (const auto& [controller, dir] : host.own) roots.push_back(dir);
  if (!host.mount.empty())
    roots.push_back(host.mount);
  std::error_code none;
  const auto folders = [&none](const std::string& dir, const std::string& begin) {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(dir, none))
      if (entry.path().filename().string().starts_with(begin) && entry.is_directory(none))
        out.push_back(entry.path().string());
    return out;
  };
  for (const std::string& root : roots)
    for (const std::string& tree : folders(root, prefix)) {
      trees.push_back(tree);
      for (const std::string& job : folders(tree, "")) {
        jobs.push_back(job);
        for (const std::string& part : folders(job, "")) {
          for (std::string& own : folders(part, "")) parts.push_back(std::move(own));  // of a sandbox's containers
          parts.push_back(part);
        }
      }
    }
  parts.insert(parts.end(), jobs.begin(), jobs.end());
  parts.insert(parts.end(), trees.begin(), trees.end());
  return parts;
}

}  // namespace

void Cgroups::thaw_trees(const CgroupHost& host, const std::string& prefix) {
  if (host.version == CgroupVersion::kV2 || !host.has("freezer"))
    return;  // what is killed there ends, frozen or not
  for (const std::string& group : groups_below(host, prefix))
    if (get(group + "/freezer.state") != "THAWED" && ::access((group + "/freezer.state").c_str(), W_OK) == 0)
      (void)put(group + "/freezer.state", "THAWED");
}

void Cgroups::remove_trees(const CgroupHost& host, const std::string& prefix) {
  for (const std::string& group : groups_below(host, prefix)) ::rmdir(group.c_str());
}

std::vector<WorkId> Cgroups::parts() const {
  std::vector<WorkId> out;
  std::error_code none;
  const std::filesystem::path tree = format("{}/{}", host_.dir("memory"), name_);
  for (const auto& job : std::filesystem::directory_iterator(tree, none))
    if (job.is_directory(none))
      for (const auto& part : std::filesystem::directory_iterator(job.path(), none))
        if (part.is_directory(none))
          if (const auto work = parse_work_id(job.path().filename().string() + "-" + part.path().filename().string()))
            out.push_back(*work);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace lockstep
