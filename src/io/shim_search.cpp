#include "io/shim_search.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/plain_file.h"
#include "base/text.h"
#include "io/local/process.h"
#include "shim/orphans.h"
#include "shim/process_tree.h"
#include "shim/protocol.h"

namespace lockstep {
namespace {

constexpr std::string_view kShimName = "lockstep-shim\n";  // /proc/PID/comm
constexpr std::string_view kRemoved = " (deleted)";        // behind a link to a file that is gone
constexpr std::size_t kRecordMost = 64 << 20;
constexpr int kKillRounds = 500;
constexpr std::int64_t kSocketPatienceUs = 10'000'000;  // of a new shim, until it has made its socket
constexpr timespec kKillAgain{0, 4'000'000};

void take_record(FoundShim& shim, const Result<std::string>& bytes) {
  auto records = bytes ? decode_shim_records(*bytes) : Result<ShimRecords>(bytes.error());
  if (!records.ok() || !records->launch)
    return;
  shim.start = std::move(*records->launch);
  shim.known = true;
  shim.launched = !records->pids.empty();
}

std::string link_of(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t n = ::readlink(path.c_str(), target, sizeof target);
  return {target, n > 0 ? static_cast<std::size_t>(n) : 0};
}

bool same_file(const std::string& one, const std::string& other) {
  struct stat a {};
  struct stat b {};
  return ::stat(one.c_str(), &a) == 0 && ::stat(other.c_str(), &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// The folder of this shim's process if it lies, or lay, in `shims`; "" otherwise.
std::string folder_of(pid_t pid, const std::string& shims) {
  const std::string proc = format("/proc/{}/", pid);
  if (read_proc_text(proc + "comm") != kShimName || !runs_as(pid, ::geteuid()))
    return {};
  std::string folder = link_of(proc + "cwd");
  if (folder.ends_with(kRemoved))
    folder.resize(folder.size() - kRemoved.size());
  const auto slash = folder.rfind('/');
  return slash != folder.npos && folder.substr(0, slash) == shims ? folder : std::string();
}

void add_process(std::map<WorkId, FoundShim>& found, pid_t pid, const ProcessFacts& facts, const std::string& folder) {
  const auto key = parse_work_id(std::string_view(folder).substr(folder.rfind('/') + 1));
  if (!key)
    return;
  const std::string record = format("/proc/{}/fd/{}", pid, kShimRecordFd);
  const std::string at = folder + "/" + std::string(kShimRecordFile);
  FoundShim& shim = found[*key];
  shim.key = *key;
  shim.live = pid;
  shim.began = Instant{facts.started_us};
  const bool listens = ::access((folder + "/" + std::string(kShimSocketFile)).c_str(), F_OK) == 0;
  shim.reachable = same_file(record, at) && (listens || boot_clock_us() - facts.started_us < kSocketPatienceUs);
  if (!shim.known)
    take_record(shim, read_plain(record, Links::kFollowed, kRecordMost));
}

}  // namespace

std::vector<FoundShim> find_shims(const std::string& dir) {
  std::map<WorkId, FoundShim> found;
  char path[PATH_MAX];
  const std::string shims = ::realpath((dir + "/shims").c_str(), path) ? path : dir + "/shims";
  if (DIR* open = ::opendir(shims.c_str())) {
    while (const dirent* entry = ::readdir(open))
      if (const auto key = parse_work_id(entry->d_name)) {
        FoundShim& shim = found[*key];
        shim.key = *key;
        take_record(
            shim, read_plain(format("{}/{}/{}", shims, entry->d_name, kShimRecordFile), Links::kRefused, kRecordMost));
      }
    ::closedir(open);
  }
  for (const auto& [pid, facts] : all_processes())
    if (const std::string folder = facts.zombie ? std::string() : folder_of(pid, shims); !folder.empty())
      add_process(found, pid, facts, folder);
  std::vector<FoundShim> list;
  for (auto& [key, shim] : found) list.push_back(std::move(shim));
  return list;
}

// First it stands still, so that it tells nobody and starts nothing; its tasks are its descendants as long as it is
// there.
void end_unreachable(const FoundShim& shim) {
  if (shim.live <= 0)
    return;
  ::kill(shim.live, SIGSTOP);
  std::vector<pid_t> tasks = descendants_of(shim.live);
  for (int round = 0; round < kKillRounds && !tasks.empty(); ++round) {
    for (const pid_t pid : tasks) ::kill(pid, SIGKILL);
    ::nanosleep(&kKillAgain, nullptr);
    tasks = descendants_of(shim.live);
    std::erase_if(tasks, is_dead);  // its parent stands still, and does not take its end
  }
  ::kill(shim.live, SIGKILL);
  for (int round = 0; round < kKillRounds && !is_dead(shim.live); ++round) ::nanosleep(&kKillAgain, nullptr);
}

bool end_orphans(const std::vector<FoundShim>& shims) {
  std::set<pid_t> live;
  for (const FoundShim& shim : shims)
    if (shim.live > 0)
      live.insert(shim.live);
  bool found = false;
  for (int round = 0; round < kKillRounds && kill_orphans(live, 0) > 0; ++round) {
    found = true;
    ::nanosleep(&kKillAgain, nullptr);
  }
  return found;
}

}  // namespace lockstep
