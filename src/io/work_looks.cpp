#include "io/work_looks.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/plain_file.h"
#include "base/text.h"
#include "model/hook_part.h"
#include "shim/process_tree.h"

namespace lockstep {
namespace {

constexpr std::size_t kShimRecordMost = 64 << 20;
constexpr std::int64_t kStartSlackUs = 30'000;  // /proc counts in hundredths of a second
constexpr int kDepthMost = 256;                 // of descent; a longer line is nobody's

std::int64_t tick_us() {
  static const std::int64_t us = 1'000'000 / ::sysconf(_SC_CLK_TCK);
  return us;
}

// The number behind "read_bytes:" in /proc/PID/io, and the like.
std::int64_t number_after(const std::string& text, std::string_view word) {
  const auto at = text.find(word);
  return at == text.npos ? 0 : std::strtoll(text.c_str() + at + word.size(), nullptr, 10);
}

}  // namespace

// A line of /proc/PID/stat.
struct WorkLooks::Process {
  pid_t parent = 0, session = 0;
  std::int64_t started_us = 0;
  Duration user, system;                // of its own threads
  Duration waited_user, waited_system;  // of children that it has waited for, and theirs
  std::int64_t memory = 0;              // bytes

  static std::optional<Process> read(pid_t pid) {
    const std::string text = read_proc_text("/proc/" + std::to_string(pid) + "/stat");
    const auto close = text.rfind(')');  // the name before it may hold anything
    if (close == text.npos)
      return std::nullopt;
    int parent = 0, session = 0;
    unsigned long user = 0, system = 0;
    long waited_user = 0, waited_system = 0, pages = 0;
    unsigned long long started = 0;
    // Fields 4 (ppid) to 24 (rss).
    const int got = ::sscanf(text.c_str() + close + 1,
                             " %*c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld %*d %*d %*d %*d %llu %*u %ld",
                             &parent, &session, &user, &system, &waited_user, &waited_system, &started, &pages);
    if (got != 8)
      return std::nullopt;
    static const std::int64_t page_size = ::sysconf(_SC_PAGESIZE);
    const auto span = [](auto ticks) { return micros(static_cast<std::int64_t>(ticks) * tick_us()); };
    return Process{parent,
                   session,
                   static_cast<std::int64_t>(started) * tick_us(),
                   span(user),
                   span(system),
                   span(waited_user),
                   span(waited_system),
                   pages * page_size};
  }

  static std::map<pid_t, Process> read_all() {
    std::map<pid_t, Process> all;
    DIR* dir = ::opendir("/proc");
    while (const dirent* entry = dir ? ::readdir(dir) : nullptr)
      if (const auto pid = parse_uint(entry->d_name))
        if (const auto process = read(static_cast<pid_t>(*pid)))
          all.emplace(static_cast<pid_t>(*pid), *process);
    if (dir)
      ::closedir(dir);
    return all;
  }
};

WorkLooks::WorkLooks(const std::string& run_dir, std::shared_ptr<const Cgroups> groups)
    : shims_(run_dir + "/shims"), groups_(std::move(groups)) {}

// What has been launched once stays as it is: its record, which may be long, is read until then.
void WorkLooks::read_record(const WorkId& key, Known& known) const {
  const auto bytes =
      read_plain(format("{}/{}/{}", shims_, text_of(key), kShimRecordFile), Links::kRefused, kShimRecordMost);
  const auto records = bytes ? decode_shim_records(*bytes) : Result<ShimRecords>(bytes.error());
  if (!records.ok() || !records->launch || records->pids.empty())
    return;
  known.launched = true;
  known.ranks = records->launch->launch.ranks;
  known.tasks = records->pids;
  known.tasks.resize(std::min(known.tasks.size(), known.ranks.size()));
  for (const ShimPid& task : known.tasks)
    if (const auto process = Process::read(static_cast<pid_t>(task.pid));
        process && std::abs(process->started_us - task.started_us) <= kStartSlackUs)
      known.shim = process->parent;
}

void WorkLooks::look_for_folders() {
  std::set<WorkId> there;
  if (DIR* dir = ::opendir(shims_.c_str())) {
    while (const dirent* entry = ::readdir(dir))
      if (const auto key = parse_work_id(entry->d_name); key && !is_hook(*key))
        there.insert(*key);
    ::closedir(dir);
  }
  std::erase_if(known_, [&there](const auto& one) { return !there.contains(one.first); });
  for (const WorkId& key : there)
    if (Known& known = known_[key]; !known.launched)
      read_record(key, known);
  find_roots();
}

void WorkLooks::find_roots() {
  roots_.clear();
  for (const auto& [key, known] : known_) {
    if (known.shim > 1)
      roots_[known.shim] = {key, std::nullopt, 0};
    for (std::size_t i = 0; i < known.tasks.size(); ++i)
      if (known.tasks[i].pid > 1)
        roots_[static_cast<pid_t>(known.tasks[i].pid)] = {key, i, known.tasks[i].started_us};
  }
}

const WorkLooks::Root* WorkLooks::root_of(pid_t pid, const Process& process) const {
  const auto at = roots_.find(pid);
  if (at == roots_.end())
    return nullptr;
  const bool same = at->second.started_us == 0 || std::abs(process.started_us - at->second.started_us) <= kStartSlackUs;
  return same ? &at->second : nullptr;
}

std::size_t WorkLooks::task_of_session(const WorkId& key, pid_t session) const {
  const std::vector<ShimPid>& tasks = known_.at(key).tasks;
  const auto leader = std::find_if(tasks.begin(), tasks.end(),
                                   [session](const ShimPid& task) { return static_cast<pid_t>(task.pid) == session; });
  return leader == tasks.end() ? 0 : static_cast<std::size_t>(leader - tasks.begin());
}

namespace {

// Groups are called as the runtime calls containers: "web.3" is its third life. While one ends and the next begins both
// are there.
std::vector<ContainerLook> containers_of(const Cgroups& groups, const WorkId& key) {
  std::map<std::string, std::pair<std::uint64_t, ContainerLook>> newest;
  for (const GroupBelow& group : groups.below(key)) {
    const auto dot = group.name.rfind('.');
    const auto life = dot == std::string::npos ? std::nullopt : parse_uint(group.name.substr(dot + 1));
    if (!life)
      continue;
    std::string name = group.name.substr(0, dot);
    auto& [known, look] = newest[name];
    if (look.name.empty() || *life > known) {
      known = *life;
      look = {std::move(name), micros(group.cpu_us), group.memory};
    }
  }
  std::vector<ContainerLook> out;
  for (auto& [name, one] : newest) out.push_back(std::move(one.second));
  return out;
}

}  // namespace

std::vector<WorkLook> WorkLooks::look() {
  look_for_folders();
  struct Sum {
    WorkLook look;
    std::map<std::size_t, TaskLook> tasks;
  };
  std::map<WorkId, Sum> sums;
  for (const auto& [key, known] : known_) sums[key].look.key = key;
  const std::map<pid_t, Process> all = roots_.empty() ? std::map<pid_t, Process>() : Process::read_all();
  for (const auto& [pid, process] : all) {
    const Root* root = nullptr;
    auto at = all.find(pid);
    for (int depth = 0; !root && at != all.end() && depth < kDepthMost; ++depth) {
      root = root_of(at->first, at->second);
      at = all.find(at->second.parent);
    }
    if (!root)
      continue;
    Sum& sum = sums[root->key];
    if (!root->task && known_.at(root->key).shim == pid) {  // the shim: what it has waited for are its tasks
      sum.look.user = sum.look.user + process.waited_user;
      sum.look.system = sum.look.system + process.waited_system;
      continue;
    }
    const std::size_t task = root->task ? *root->task : task_of_session(root->key, process.session);
    const Duration user = process.user + process.waited_user, system = process.system + process.waited_system;
    sum.look.user = sum.look.user + user;
    sum.look.system = sum.look.system + system;
    TaskLook& one = sum.tasks[task];
    one.rank = known_.at(root->key).ranks[task];
    one.memory += process.memory;
    one.cpu = one.cpu + user + system;
    const std::string io = read_proc_text("/proc/" + std::to_string(pid) + "/io");
    sum.look.read_bytes += number_after(io, "\nread_bytes:");
    sum.look.written_bytes += number_after(io, "\nwrite_bytes:");
  }
  std::vector<WorkLook> out;
  for (auto& [key, sum] : sums) {
    for (const auto& [task, look] : sum.tasks) sum.look.tasks.push_back(look);
    if (groups_ && !sum.tasks.empty())
      if (const GroupUse use = groups_->use(key); use.user_us + use.system_us > 0) {
        sum.look.user = std::max(sum.look.user, micros(use.user_us));
        sum.look.system = std::max(sum.look.system, micros(use.system_us));
      }
    if (groups_ && task_of(key))
      sum.look.containers = containers_of(*groups_, key);
    out.push_back(std::move(sum.look));
  }
  return out;
}

std::optional<WorkId> WorkLooks::work_of(pid_t pid) {
  for (const bool fresh : {false, true}) {
    if (fresh)
      look_for_folders();
    pid_t at = pid;
    for (int depth = 0; at > 1 && depth < kDepthMost; ++depth) {
      const auto process = Process::read(at);
      if (!process)
        break;
      if (const Root* root = root_of(at, *process))
        return root->key;
      at = process->parent;
    }
  }
  return std::nullopt;
}

std::uint32_t load_percent() {
  double loads[1] = {};
  return ::getloadavg(loads, 1) == 1 && loads[0] > 0 ? static_cast<std::uint32_t>(loads[0] * 100 + 0.5) : 0;
}

std::int64_t memory_used_mb() {
  const std::string text = read_proc_text("/proc/meminfo");
  return std::max<std::int64_t>(0, number_after(text, "MemTotal:") - number_after(text, "MemAvailable:")) / 1024;
}

// user nice system idle iowait irq softirq steal, in ticks; what guests take is in the first two.
Duration processors_busy() {
  const std::string text = read_proc_text("/proc/stat");
  long long user = 0, nice = 0, system = 0, irq = 0, softirq = 0, steal = 0;
  if (::sscanf(text.c_str(), "cpu %lld %lld %lld %*d %*d %lld %lld %lld", &user, &nice, &system, &irq, &softirq,
               &steal) != 6)
    return {};
  return micros((user + nice + system + irq + softirq + steal) * tick_us());
}

std::int64_t memory_free_mb() { return number_after(read_proc_text("/proc/meminfo"), "MemFree:") / 1024; }

}  // namespace lockstep
