#include "io/health_looks.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include <algorithm>
#include <optional>

#include "base/plain_file.h"
#include "base/text.h"
#include "io/hook_programs.h"

namespace lockstep {
namespace {

constexpr Duration kMountPatience = seconds(5);

using Findings = std::vector<MachineFinding>;

bool is_made(const HealthPlaces& places, const char* check) {
  return std::find(places.off.begin(), places.off.end(), check) == places.off.end();
}

// In hundredths, rounded down: 100 only when nothing is left.
std::uint64_t percent_used(std::uint64_t all, std::uint64_t free) {
  return all == 0 ? 0 : (all - std::min(free, all)) * 100 / all;
}

void look_at_disk(const std::string& path, std::uint32_t full_percent, Findings& out) {
  struct statvfs disk {};
  if (::statvfs(path.c_str(), &disk) != 0) {
    out.push_back({kHealthDisk, true, format("{}: {}", path, ::strerror(errno)), false});
    return;
  }
  if ((disk.f_flag & ST_RDONLY) != 0)
    out.push_back({kHealthDisk, true, path + " is read-only"});
  const std::uint64_t used = percent_used(disk.f_blocks, disk.f_bavail);
  const std::uint64_t files = percent_used(disk.f_files, disk.f_favail);
  if (used >= full_percent)
    out.push_back({kHealthDisk, true, format("{} is {} % full", path, used)});
  else if (files >= full_percent)
    out.push_back({kHealthDisk, true, format("{}: {} % of its inodes are in use", path, files)});
}

// The kernel writes what parts words of a path as \\ and three octal digits.
std::string as_in_mountinfo(const std::string& path) {
  std::string out;
  for (const char c : path) {
    if (c == ' ')
      out += "\\040";
    else if (c == '\t')
      out += "\\011";
    else if (c == '\\')
      out += "\\134";
    else
      out.push_back(c);
  }
  return out;
}

bool is_mounted(const std::string& mountinfo, const std::string& path) {
  const std::string word = as_in_mountinfo(path);
  for (const auto& line : split(mountinfo, '\n'))
    if (const auto words = split_words(line); words.size() > 4 && words[4] == word)
      return true;
  return false;
}

// By a process of its own: whoever asks a file system that does not answer waits for ever, and cannot even be killed.
void look_at_mount(const std::string& path, const std::string& mountinfo, const std::atomic<bool>* over,
                   Findings& out) {
  if (!is_mounted(mountinfo, path)) {
    out.push_back({kHealthMount, true, path + " is not mounted", false});
    return;
  }
  const auto answer = run_program_within({"/usr/bin/stat", "-f", "-c", "", path}, {}, kMountPatience, over);
  if (!answer.ok() || answer->late)
    out.push_back(
        {kHealthMount, true, format("{} does not answer within {} s", path, kMountPatience.seconds()), false});
  else if (!answer->ok())
    out.push_back({kHealthMount, true, format("{}: {}", path, answer->said), false});
}

// Whose environment names this node's socket and a job that is not here. Its user may have taken that out of it.
std::optional<std::uint64_t> job_of_process(const std::string& environment, const std::string& socket) {
  constexpr std::string_view kJob = "SLURM_JOB_ID=";
  std::optional<std::uint64_t> job;
  bool is_ours = false;
  for (const std::string& line : split(environment, '\0')) {
    is_ours = is_ours || line == "LOCKSTEP_SOCKET=" + socket;
    if (line.starts_with(kJob))
      job = parse_uint(std::string_view(line).substr(kJob.size()));
  }
  return is_ours ? job : std::nullopt;
}

void look_for_leftovers(const std::string& socket, const std::set<std::uint64_t>& jobs, Findings& out) {
  constexpr std::int64_t kYoungSeconds = 60;
  DIR* dir = ::opendir("/proc");
  if (!dir)
    return;
  while (const dirent* entry = ::readdir(dir)) {
    const std::string folder = format("/proc/{}", entry->d_name);
    struct stat stat {};
    if (!parse_uint(entry->d_name) || ::stat(folder.c_str(), &stat) != 0 ||
        ::time(nullptr) - stat.st_mtim.tv_sec < kYoungSeconds)
      continue;
    const auto environment = read_plain(folder + "/environ", Links::kFollowed, 1 << 20);
    const auto job = environment ? job_of_process(*environment, socket) : std::nullopt;
    if (!job || jobs.contains(*job))
      continue;
    const auto name = read_plain(folder + "/comm", Links::kFollowed, 64);
    out.push_back({kHealthLeftover, false,
                   format("process {} ({}) of job {}, which has ended here", entry->d_name,
                          name ? trim(*name) : std::string_view("?"), *job)});
    break;  // one is enough to look
  }
  ::closedir(dir);
}

std::uint64_t count_in(const std::string& path) {
  const auto text = read_plain(path, Links::kFollowed, 64);
  return text ? parse_uint(trim(*text)).value_or(0) : 0;
}

}  // namespace

MemoryErrors memory_errors(const std::string& edac) {
  MemoryErrors errors;
  DIR* dir = ::opendir(edac.c_str());
  if (!dir)
    return errors;  // this machine does not count them
  while (const dirent* entry = ::readdir(dir)) {
    const std::string name = entry->d_name;
    if (!name.starts_with("mc"))
      continue;
    errors.corrected += count_in(format("{}/{}/ce_count", edac, name));
    errors.uncorrected += count_in(format("{}/{}/ue_count", edac, name));
  }
  ::closedir(dir);
  return errors;
}

std::vector<std::string> machine_checks(const HealthPlaces& places) {
  std::vector<std::string> checks;
  for (const char* check : {kHealthDisk, kHealthMount, kHealthMemory, kHealthLeftover})
    if (is_made(places, check))
      checks.emplace_back(check);
  return checks;
}

std::vector<MachineFinding> look_at_machine(const HealthPlaces& places, MemoryErrors& before,
                                            const std::set<std::uint64_t>& jobs) {
  Findings out;
  if (is_made(places, kHealthDisk))
    for (const std::string& disk : places.disks) look_at_disk(disk, places.full_percent, out);
  if (is_made(places, kHealthMount) && !places.mounts.empty()) {
    const auto mounted = read_plain("/proc/self/mountinfo", Links::kFollowed);
    for (const std::string& mount : places.mounts)
      look_at_mount(mount, mounted ? *mounted : std::string(), places.over.get(), out);
  }
  if (is_made(places, kHealthMemory)) {
    const MemoryErrors now = memory_errors(places.edac);
    if (now.uncorrected > 0)
      out.push_back({kHealthMemory, true, "errors that could not be corrected since the machine started"});
    else if (now.corrected > before.corrected)
      out.push_back({kHealthMemory, false, format("{} errors were corrected", now.corrected - before.corrected)});
    before = now;
  }
  if (is_made(places, kHealthLeftover) && !places.socket.empty())
    look_for_leftovers(places.socket, jobs, out);
  return out;
}

}  // namespace lockstep
