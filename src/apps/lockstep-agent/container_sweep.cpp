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
constexpr Duration kLastingEvery = seconds(30);
constexpr std::size_t kAtOnce = 8;  // users whose files are removed side by side

TaskPlan plan_removal(std::vector<std::string> words, std::uint32_t uid, const std::string& socket) {
  TaskPlan plan;
  plan.argv = std::move(words);
  plan.env = {"LOCKSTEP_SOCKET=" + socket};
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

ContainerSweep::ContainerSweep(std::string folder, std::string program, std::string socket)
    : folder_(std::move(folder)), program_(std::move(program)), socket_(std::move(socket)) {
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

bool ContainerSweep::run(std::uint32_t uid, std::vector<std::string> words, Instant boot_now) {
  TaskStart start(plan_removal(std::move(words), uid, socket_));
  auto child = std::make_unique<OwnChild>([&start] { return run_child(start); });
  const auto started = start.result();
  if (!started.ok())
    return false;
  if (started->failure.empty())
    removing_[uid] = {started->pid, boot_now, std::move(child)};
  return true;
}

void ContainerSweep::look_at_lasting(Instant boot_now) {
  if (boot_now < lasting_due_)
    return;
  reap(boot_now);
  const std::string home = folder_ + "/0";
  if (::access((home + "/lasting").c_str(), F_OK) != 0)
    return;
  lasting_due_ = boot_now + kLastingEvery;
  if (removing_.contains(0) || !run(0, {program_, "lasting", home}, boot_now))
    lasting_due_ = boot_now;
}

void ContainerSweep::drop_images(std::uint64_t bytes, Instant boot_now) {
  reap(boot_now);
  DIR* const open = ::opendir(folder_.c_str());
  if (!open)
    return;
  while (const dirent* entry = ::readdir(open))
    if (const auto uid = parse_uint(entry->d_name); uid && *uid < UINT32_MAX && removing_.size() < kAtOnce) {
      const auto user = static_cast<std::uint32_t>(*uid);
      if (!removing_.contains(user))
        run(user, {program_, "room", format("{}/{}", folder_, user), std::to_string(bytes)}, boot_now);
    }
  ::closedir(open);
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
    std::vector<std::string> words{program_, "sweep", format("{}/{}", folder_, uid)};
    for (const JobId job : jobs) words.push_back(std::to_string(job.value));
    const bool started = run(uid, std::move(words), boot_now);
    if (!jobs.empty() || !it->second)
      it->second = boot_now;
    it = started && boot_now - *it->second > kQuiet ? due_.erase(it) : std::next(it);
  }
}

}  // namespace lockstep
