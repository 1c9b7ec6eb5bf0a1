#include "job_places.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log_line.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "io/local/cgroups.h"
#include "io/local/folder.h"
#include "io/local/process.h"
#include "io/local/state_dir.h"
#include "io/local/text_check.h"
#include "model/own_tmp.h"
#include "shim/job_place.h"
#include "shim/orphans.h"
#include "shim/scratch_limit.h"
#include "shim/task_launch.h"

namespace lockstep {
namespace {

constexpr std::size_t kRemovalsAtOnce = 4;
constexpr int kRemovalTries = 1000, kRemovalPauseUs = 2'000;
constexpr std::int64_t kTmpfsMax = std::int64_t{1} << 30;  // megabytes

void warn_of_places(const std::string& text) { log_line(LogLevel::kWarning, "lockstep-agent: " + text); }

// A namespace is kept by a mount, and one that others share takes none.
Result<void> keep_to_ourselves(const std::string& folder) {
  const auto mounts = read_plain("/proc/self/mountinfo", Links::kFollowed);
  const std::string path = TRY(Folder::open(folder)).real_path();
  bool mounted = false;
  for (const std::string& line : mounts ? split(*mounts, '\n') : std::vector<std::string>())
    if (const auto words = split_words(line); words.size() > 4 && words[4] == path)
      mounted = true;
  if (!mounted && ::mount(path.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0)
    return os_error("cannot mount " + path);
  return ::mount(nullptr, path.c_str(), nullptr, MS_PRIVATE, nullptr) == 0 ? Result<void>()
                                                                           : os_error("cannot mount " + path);
}

void list_places(const std::string& folder, std::set<std::string>& names) {
  DIR* const open = ::opendir(folder.c_str());
  if (!open)
    return;
  while (const dirent* entry = ::readdir(open))
    if (parse_place_name(entry->d_name))
      names.insert(entry->d_name);
  ::closedir(open);
}

std::int64_t tmpfs_asked(const std::vector<std::string>& env) {
  const std::string prefix = std::string(kTmpfsVariable) + "=";
  for (const std::string& line : env)
    if (line.starts_with(prefix))
      if (const auto mb = parse_uint(std::string_view(line).substr(prefix.size())))
        return static_cast<std::int64_t>(std::min<std::uint64_t>(*mb, kTmpfsMax));
  return 0;
}

// Files of ours that tasks use, where somebody put us below /tmp: all of a cluster's, or these.
std::vector<std::string> ours_below_tmp(const AgentFile& settings) {
  if (!settings.cluster_dir.empty())
    return {settings.cluster_dir};
  const auto above = [](const std::string& path) { return path.substr(0, path.rfind('/')); };
  return {settings.run_dir, settings.state_dir, above(settings.shim), above(settings.socket)};
}

void tell_limits(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const auto limit = fd < 0 ? Result<ScratchLimit>(os_error(folder)) : try_scratch_limit(fd);
  if (fd >= 0)
    ::close(fd);
  if (limit.ok() && *limit == ScratchLimit::kNone)
    log_line(LogLevel::kInfo,
             format("lockstep-agent: the file system of {} holds no job to its --tmp: that takes btrfs with quotas "
                    "(btrfs quota enable), or XFS or ext4 mounted with prjquota",
                    folder));
  if (!limit.ok())
    warn_of_places(format("scratch of jobs in {}: {}", folder, limit.error().message));
}

}  // namespace

struct JobPlaces::Removal {
  Removal(const std::string& program, const std::string& place, const std::string& scratch)
      : child([&] {
          TaskPlan plan;
          plan.argv = {program, kRemovePlaceOption, place, scratch};
          plan.uid = ::geteuid();
          plan.gid = ::getegid();
          plan.work_dir = "/";
          plan.limits = default_task_limits();
          plan.streams[0].flags = O_RDONLY;
          plan.streams[1].flags = O_WRONLY;
          plan.streams[2].how = TaskStream::How::kDescriptor;  // our log
          plan.streams[2].fd = 2;
          TaskStart start(std::move(plan));
          start.run();
          const auto started = start.result();
          pid = started.ok() && started->failure.empty() ? started->pid : 0;
          return pid;
        }) {}
  pid_t pid = 0;
  OwnChild child;
};

std::string scratch_folder(const AgentFile& settings, const std::string& node) {
  if (settings.places.scratch.empty())
    return settings.state_dir + "/scratch";
  const char* cluster = ::getenv(kClusterIdVariable);
  const std::string id = cluster ? cluster : format("{:016x}", text_check(settings.state_dir));
  return format("{}/{}", settings.places.scratch, tree_name(id, node));
}

JobPlaces::JobPlaces(const AgentFile& settings, const std::string& node)
    : shim_(settings.shim),
      places_(absolute_path(format("{}/{}", settings.run_dir, kPlacesFolder))),
      scratch_(absolute_path(scratch_folder(settings, node))),
      shown_(ours_below_tmp(settings)),
      private_tmp_(settings.places.private_tmp.value_or(settings.cluster_dir.empty())) {
  if (const auto ready = prepare(); !ready.ok()) {
    warn_of_places("jobs have no places of their own on this node: " + ready.error().message);
    return;
  }
  ready_ = true;
  noted_ = names();
  tell_limits(scratch_);
  const auto kept = ::geteuid() == 0 ? keep_to_ourselves(places_) : denied("the agent is not root");
  apart_ = kept.ok();
  if (!apart_)
    warn_of_places("jobs share /tmp, /dev/shm and the sight of all processes on this node: " + kept.error().message);
}

Result<void> JobPlaces::prepare() const {
  TRY(Folder::make(places_, 0700));
  TRY(Folder::make(scratch_, pass_through_mode()));
  return {};
}

JobPlaces::~JobPlaces() = default;

Result<void> JobPlaces::note(const LaunchAttempt& launch) {
  if (!ready_)
    return {};
  const std::string name = place_name(launch.job, launch.attempt);
  await_removal(name);
  if (removing_.contains(name))
    return conflict("its places on this node are being removed");
  const ProcessSpec& process = launch.process;
  JobPlace place;
  place.uid = process.uid;
  place.gid = process.gid;
  place.groups = process.groups;
  place.scratch = format("{}/{}", scratch_, name);
  place.scratch_mb = launch.scratch_mb;
  place.apart = apart_;
  place.private_tmp = apart_ && private_tmp_;
  place.tmpfs_mb = apart_ ? tmpfs_asked(process.env) : 0;
  place.memory_mb = launch.memory_mb;
  place.work_dir = process.work_dir;
  place.shown = shown_;
  place.user_name = launch.user_name;
  place.user_home = launch.user_home;
  place.user_shell = launch.user_shell;
  if (const auto noted = note_job_place(format("{}/{}", places_, name), place); !noted.ok())
    return Error{noted.error().code, "the job's own places: " + noted.error().message, {}};
  noted_.insert(name);
  return {};
}

bool JobPlaces::is_due(const std::set<AttemptId>& here) const {
  return std::any_of(noted_.begin(), noted_.end(), [&here](const std::string& name) {
    const auto attempt = parse_place_name(name);
    return attempt && !here.contains(*attempt);
  });
}

void JobPlaces::reap() {
  for (auto it = removing_.begin(); it != removing_.end();)
    it =
        it->second->pid <= 0 || ::waitpid(it->second->pid, nullptr, WNOHANG) != 0 ? removing_.erase(it) : std::next(it);
}

// A grown job may come back to a node in the moment in which what it left there before a crash is removed: to wait for
// that is milliseconds, and to refuse the job would close the node.
void JobPlaces::await_removal(const std::string& name) {
  reap();
  for (int tries = 0; removing_.contains(name) && tries < kRemovalTries; ++tries) {
    ::usleep(kRemovalPauseUs);
    reap();
  }
}

std::set<std::string> JobPlaces::names() const {
  std::set<std::string> names;
  list_places(places_, names);
  list_places(scratch_, names);
  return names;
}

void JobPlaces::look(const std::set<AttemptId>& here) {
  if (!ready_)
    return;
  reap();
  ++looks_;
  const std::set<std::string> there = names();
  std::erase_if(tried_, [&there](const auto& one) { return !there.contains(one.first); });
  std::vector<std::string> due;
  for (const std::string& name : there)
    if (!here.contains(*parse_place_name(name)) && !removing_.contains(name))
      due.push_back(name);
  std::stable_sort(due.begin(), due.end(), [this](const std::string& a, const std::string& b) {
    const auto last = [this](const std::string& name) { return tried_.contains(name) ? tried_.at(name) : 0; };
    return last(a) < last(b);
  });
  for (const std::string& name : due) {
    if (removing_.size() >= kRemovalsAtOnce)
      break;
    tried_[name] = looks_;
    noted_.erase(name);
    removing_[name] = std::make_unique<Removal>(shim_, format("{}/{}", places_, name), format("{}/{}", scratch_, name));
  }
  std::erase_if(noted_, [&here](const std::string& name) { return !here.contains(*parse_place_name(name)); });
}

}  // namespace lockstep
