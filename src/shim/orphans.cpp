#include "shim/orphans.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "shim/process_tree.h"

namespace lockstep {
namespace {

constexpr int kRoundsMax = 64;                      // against something that makes processes as fast as we look
constexpr std::int64_t kSlackUs = 30'000;           // /proc counts in hundredths of a second
constexpr const char* kNodeInit = "lockstep-node";  // the first process of a node that `lockstep up` made

using Table = std::map<pid_t, ProcessFacts>;

struct OwnChildren {
  std::mutex mutex;  // held while one is made, and while orphans are told from them
  std::set<pid_t> pids;
};
OwnChildren& own_children() {
  static OwnChildren children;
  return children;
}

// A service's processes cannot leave its cgroup without root, and nobody else's are in it.
std::string service_of(pid_t pid) {
  const std::string text = read_proc_text("/proc/" + std::to_string(pid) + "/cgroup");
  const auto at = text.find("0::/");
  const std::string group = at == text.npos ? std::string() : text.substr(at + 3, text.find('\n', at) - at - 3);
  return group.ends_with(".service") ? group : std::string();
}

std::string program_of(pid_t pid) {
  char path[4096];
  const ssize_t n = ::readlink(("/proc/" + std::to_string(pid) + "/exe").c_str(), path, sizeof path);
  return {path, n > 0 ? static_cast<std::size_t>(n) : 0};
}

// What a node's first process may have started itself.
bool supervised(pid_t pid) {
  const std::string own = program_of(::getpid()), program = program_of(pid);
  const std::string folder = own.substr(0, own.rfind('/') + 1);
  return program == own || program == folder + "lockstepd" || program == folder + "lockstep-agent";
}

// Children of a process above us that can only be orphans: of a node's first process, or of a service manager and in
// our own service.
bool may_be_ours(pid_t pid, bool of_node, const std::string& service) {
  return of_node ? !supervised(pid) : !service.empty() && service_of(pid) == service;
}

std::vector<pid_t> orphans_in(const Table& table, const std::set<pid_t>& shims, std::int64_t since_us) {
  const pid_t self = ::getpid(), above = ::getppid();
  const bool of_node = read_proc_text("/proc/" + std::to_string(above) + "/comm") == std::string(kNodeInit) + "\n";
  const std::string service = of_node ? std::string() : service_of(self);
  std::vector<pid_t> found;
  for (const auto& [pid, facts] : table) {
    if (pid == self || shims.contains(pid) || own_children().pids.contains(pid))
      continue;
    const bool adopted = facts.parent == self && !facts.zombie;
    if (facts.parent == self && facts.zombie)
      ::waitpid(pid, nullptr, WNOHANG);  // one that somebody traces stays, and harms nobody
    const bool passed_on = facts.parent == above && facts.started_us + kSlackUs >= since_us && !facts.zombie &&
                           may_be_ours(pid, of_node, service);
    if (adopted || passed_on)
      found.push_back(pid);
  }
  return found;
}

// Theirs too, or they would be adopted one by one.
void add_descendants(const Table& table, std::vector<pid_t>& found) {
  std::multimap<pid_t, pid_t> children;
  for (const auto& [pid, facts] : table) children.emplace(facts.parent, pid);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [from, to] = children.equal_range(found[i]);
    for (auto it = from; it != to; ++it) found.push_back(it->second);
  }
}

std::vector<pid_t> children_now() {
  std::vector<pid_t> found;
  DIR* const threads = ::opendir("/proc/self/task");
  while (const dirent* thread = threads ? ::readdir(threads) : nullptr)
    for (const std::string& word :
         split_words(read_proc_text(format("/proc/self/task/{}/children", static_cast<const char*>(thread->d_name)))))
      if (const auto pid = parse_uint(word); pid && *pid > 0 && *pid <= INT32_MAX)
        found.push_back(static_cast<pid_t>(*pid));
  if (threads)
    ::closedir(threads);
  return found;
}

}  // namespace

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

std::size_t kill_orphans(const std::set<pid_t>& shims, std::int64_t since_us) {
  const std::lock_guard<std::mutex> guard(own_children().mutex);
  std::set<pid_t> all;
  for (int round = 0; round < kRoundsMax; ++round) {
    const Table table = all_processes();
    std::vector<pid_t> found = orphans_in(table, shims, since_us);
    add_descendants(table, found);
    const std::size_t before = all.size();
    for (const pid_t pid : found) {
      CHECK(pid > 1 && pid != ::getpid());
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, WNOHANG);  // if it has come to us
      all.insert(pid);
    }
    if (found.empty())
      return round == 0 ? 0 : all.size();
    if (all.size() == before)
      break;  // nobody new: they are dying
  }
  return all.size();
}

std::size_t reap_orphans(const std::set<pid_t>& shims) {
  const std::lock_guard<std::mutex> guard(own_children().mutex);
  std::size_t taken = 0;
  for (const pid_t pid : children_now())
    if (!shims.contains(pid) && !own_children().pids.contains(pid))
      taken += ::waitpid(pid, nullptr, WNOHANG) == pid;
  return taken;
}

OwnChild::OwnChild(const std::function<pid_t()>& make) {
  const std::lock_guard<std::mutex> guard(own_children().mutex);
  pid_ = make();
  if (pid_ > 0)
    own_children().pids.insert(pid_);
}

OwnChild::~OwnChild() {
  const std::lock_guard<std::mutex> guard(own_children().mutex);
  own_children().pids.erase(pid_);
}

}  // namespace lockstep
