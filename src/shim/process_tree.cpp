#include "shim/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "base/check.h"

namespace lockstep {
namespace {

std::string read_small(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return {};
  std::string text;
  char chunk[4096];
  for (;;) {
    const ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n <= 0)
      break;
    text.append(chunk, static_cast<std::size_t>(n));
  }
  ::close(fd);
  return text;
}

// f(pid) for every numeric entry.
template <class F>
void for_each_number(const char* path, F&& f) {
  DIR* dir = ::opendir(path);
  if (!dir)
    return;
  while (const dirent* entry = ::readdir(dir)) {
    const long number = ::strtol(entry->d_name, nullptr, 10);
    if (number > 0)
      f(static_cast<pid_t>(number));
  }
  ::closedir(dir);
}

void append_children(pid_t pid, std::vector<pid_t>& out) {
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for_each_number(tasks.c_str(), [&](pid_t thread) {
    const std::string text = read_small((tasks + "/" + std::to_string(thread) + "/children").c_str());
    const char* at = text.c_str();
    for (char* end = nullptr;; at = end) {
      const long child = ::strtol(at, &end, 10);
      if (end == at)
        break;
      if (child > 0)  // one that this namespace has no number for is beyond our reach
        out.push_back(static_cast<pid_t>(child));
    }
  });
}

// Letters of /proc/PID/stat. What waits in the kernel (D) does not run, and stops before it would again, once it is
// told.
constexpr const char *kDead = "ZXx", *kHalted = "TtZXx", *kCannotRun = "TtZXxD";

bool some_thread_is_not(pid_t pid, const char* letters) {
  bool found = false;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for_each_number(tasks.c_str(), [&](pid_t thread) {
    const std::string text = read_small((tasks + "/" + std::to_string(thread) + "/stat").c_str());
    const auto close = text.rfind(')');
    if (close != text.npos && close + 2 < text.size())
      found = found || std::strchr(letters, text[close + 2]) == nullptr;
  });
  return found;
}

bool read_stat(pid_t pid, ProcessFacts& stat) {
  const std::string text = read_small(("/proc/" + std::to_string(pid) + "/stat").c_str());
  const auto close = text.rfind(')');  // the name before it may hold anything
  if (close == text.npos)
    return false;
  char state = 0;
  int parent = 0, session = 0;
  unsigned long long start_ticks = 0;
  // Fields 3 (state) to 22 (starttime).
  const int got = ::sscanf(text.c_str() + close + 1,
                           " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state,
                           &parent, &session, &start_ticks);
  if (got != 4)
    return false;
  stat.parent = parent;
  stat.session = session;
  stat.zombie = (state == 'Z' || state == 'X') && !some_thread_is_not(pid, kDead);
  stat.started_us = static_cast<std::int64_t>(start_ticks) * (1'000'000 / ::sysconf(_SC_CLK_TCK));
  return true;
}

}  // namespace

std::vector<pid_t> descendants_of(pid_t root) {
  CHECK(root > 0);
  std::vector<pid_t> found;
  append_children(root, found);
  for (std::size_t i = 0; i < found.size(); ++i) append_children(found[i], found);
  return found;
}

std::size_t signal_descendants(pid_t root, int signal) {
  std::size_t reached = 0;
  for (pid_t pid : descendants_of(root)) {
    CHECK(pid > 0 && pid != root);
    reached += ::kill(pid, signal) == 0;
  }
  return reached;
}

void wake_stopped(pid_t root) {
  for (const pid_t pid : descendants_of(root))
    if (!some_thread_is_not(pid, kHalted))
      ::kill(pid, SIGCONT);
}

bool any_lives_below(pid_t root) {
  const std::vector<pid_t> found = descendants_of(root);
  return !std::all_of(found.begin(), found.end(), is_dead);
}

bool stop_descendants(pid_t root, std::vector<pid_t>& seen) {
  std::vector<pid_t> found = descendants_of(root);
  bool all = true;
  for (pid_t pid : found)
    if (some_thread_is_not(pid, kHalted)) {
      all = all && !some_thread_is_not(pid, kCannotRun);
      ::kill(pid, SIGSTOP);
    }
  // Whoever was forked while its parent was being stopped shows up at the next look only.
  all = all && found == seen;
  seen = std::move(found);
  return all;
}

namespace {
std::optional<std::uint64_t> number_behind(const std::string& status, std::string_view field) {
  const auto at = status.find(field);
  const auto words = at == status.npos ? std::vector<std::string>() : split_words(status.substr(at + field.size(), 32));
  return words.empty() ? std::nullopt : parse_uint(words.front());
}
}  // namespace

void end_tracers(pid_t root, uid_t uid) {
  for (const pid_t pid : descendants_of(root)) {
    const auto tracer = number_behind(read_small(format("/proc/{}/status", pid).c_str()), "\nTracerPid:");
    if (!tracer || *tracer == 0)
      continue;
    const auto owner = number_behind(read_small(format("/proc/{}/status", *tracer).c_str()), "\nUid:");
    if (owner && *owner == uid)
      ::kill(static_cast<pid_t>(*tracer), SIGKILL);
  }
}

bool none_can_run(pid_t root) {
  const std::vector<pid_t> found = descendants_of(root);
  return std::none_of(found.begin(), found.end(), [](pid_t pid) { return some_thread_is_not(pid, kCannotRun); });
}

std::size_t kill_sessions(const std::vector<ShimPid>& leaders) {
  constexpr std::int64_t kSlackUs = 30'000;  // /proc counts in hundredths of a second
  std::vector<pid_t> sessions;
  for (const auto& leader : leaders) {
    if (leader.pid == 0)
      continue;  // of a damaged record
    ProcessFacts stat;
    const bool there = read_stat(static_cast<pid_t>(leader.pid), stat);
    if (!there || std::abs(stat.started_us - leader.started_us) <= kSlackUs)
      sessions.push_back(static_cast<pid_t>(leader.pid));
  }
  std::size_t found = 0;
  if (sessions.empty())
    return found;
  for_each_number("/proc", [&](pid_t pid) {
    ProcessFacts stat;
    if (!read_stat(pid, stat) || stat.zombie)
      return;
    for (pid_t session : sessions)
      if (stat.session == session) {
        ++found;
        ::kill(pid, SIGKILL);
      }
  });
  return found;
}

std::map<pid_t, ProcessFacts> all_processes() {
  std::map<pid_t, ProcessFacts> found;
  for_each_number("/proc", [&found](pid_t pid) {
    ProcessFacts facts;
    if (read_stat(pid, facts))
      found.emplace(pid, facts);
  });
  return found;
}

bool is_dead(pid_t pid) {
  ProcessFacts facts;
  return !read_stat(pid, facts) || facts.zombie;
}

std::string read_proc_text(const std::string& path) { return read_small(path.c_str()); }

std::int64_t boot_clock_us() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace lockstep
