#include "container_sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "shim/task_launch.h"

namespace lockstep {
namespace {

constexpr Duration kLongest = minutes(10);
constexpr Duration kQuiet = seconds(30);  // without jobs: then nothing of the last one is fresh
constexpr std::size_t kAtOnce = 8;        // users whose files are removed side by side

TaskPlan plan_removal(const std::string& program, const std::string& home, std::uint32_t uid,
                      const std::vector<JobId>& jobs_here) {
  TaskPlan plan;
  plan.argv = {program, "sweep", home};
  for (const JobId job : jobs_here) plan.argv.push_back(std::to_string(job.value));
  plan.uid = uid;
  plan.gid = uid;  // to own the files is enough
  plan.work_dir = "/";
  plan.limits = default_task_limits();
  for (TaskStream& stream : plan.streams) stream.flags = O_RDWR;
  return plan;
}

}  // namespace

Result<void> write_store_limits(const std::string& folder, const StoreLimits& limits) {
  // Where the agent cannot become anybody else, nobody else has a store there.
  const bool serves_others = ::geteuid() == 0;
  const mode_t pass_through = serves_others ? 0711 : 0700, readable = serves_others ? 0644 : 0600;
  if (::mkdir(folder.c_str(), pass_through) == 0)
    ::chmod(folder.c_str(), pass_through);
  const std::string path = format("{}/{}", folder, kStoreLimitsFile), fresh = path + ".new", text = encode(limits);
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, readable);
  if (fd < 0)
    return os_error(fresh);
  const bool written = ::fchmod(fd, readable) == 0 &&
                       ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::rename(fresh.c_str(), path.c_str()) == 0;
  const Error error = os_error(path);
  ::close(fd);
  return written ? Result<void>() : Result<void>(error);
}

ContainerSweep::ContainerSweep(std::string folder, std::string program)
    : folder_(std::move(folder)), program_(std::move(program)) {
  DIR* const open = ::opendir(folder_.c_str());
  if (!open)
    return;
  while (const dirent* entry = ::readdir(open))
    if (const auto uid = parse_uint(entry->d_name); uid && *uid < UINT32_MAX)
      due_[static_cast<std::uint32_t>(*uid)] = {};
  ::closedir(open);
}

// Its user may have stopped it.
void ContainerSweep::reap(Instant boot_now) {
  for (auto it = removing_.begin(); it != removing_.end();) {
    if (boot_now - it->second.began > kLongest)
      ::kill(it->second.pid, SIGKILL);
    it = ::waitpid(it->second.pid, nullptr, WNOHANG) != 0 ? removing_.erase(it) : std::next(it);
  }
}

void ContainerSweep::look(const std::function<std::vector<JobId>(std::uint32_t uid)>& jobs_here, Instant boot_now) {
  reap(boot_now);
  for (auto it = due_.begin(); it != due_.end() && removing_.size() < kAtOnce;) {
    const std::uint32_t uid = it->first;
    if (removing_.contains(uid)) {
      ++it;
      continue;
    }
    const std::vector<JobId> jobs = jobs_here(uid);
    TaskStart start(plan_removal(program_, format("{}/{}", folder_, uid), uid, jobs));
    start.run();
    const auto started = start.result();
    if (started.ok() && started->failure.empty())
      removing_[uid] = {started->pid, boot_now};
    if (!jobs.empty() || !it->second)
      it->second = boot_now;
    it = started.ok() && boot_now - *it->second > kQuiet ? due_.erase(it) : std::next(it);
  }
}

}  // namespace lockstep
