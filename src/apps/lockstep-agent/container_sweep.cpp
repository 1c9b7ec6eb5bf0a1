#include "container_sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "base/text.h"
#include "shim/task_launch.h"

namespace lockstep {
namespace {

constexpr std::size_t kAtOnce = 32;  // jobs that are removed side by side

std::vector<std::string> names_in(int fd) {
  std::vector<std::string> names;
  DIR* const open = fd >= 0 ? ::fdopendir(fd) : nullptr;
  if (!open)
    return names;
  while (const dirent* entry = ::readdir(open))
    if (parse_uint(entry->d_name))
      names.emplace_back(entry->d_name);
  ::closedir(open);
  return names;
}

TaskPlan plan_removal(const std::string& program, const std::string& home, const std::string& what,
                      const struct stat& owner) {
  TaskPlan plan;
  plan.argv = {program, "forget", home, what};
  plan.uid = owner.st_uid;
  plan.gid = owner.st_gid;
  plan.work_dir = "/";
  plan.limits = default_task_limits();
  for (TaskStream& stream : plan.streams) stream.flags = O_RDWR;
  return plan;
}

}  // namespace

void ContainerSweep::reap() {
  for (auto it = removing_.begin(); it != removing_.end();)
    it = ::waitpid(it->second, nullptr, WNOHANG) != 0 ? removing_.erase(it) : std::next(it);
}

void ContainerSweep::look(const std::function<bool(JobId)>& is_here) {
  reap();
  for (const std::string& user : names_in(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)))
    look_at_user(user, is_here);
}

// The folder above is the agent's own; what is in this one the user has made.
void ContainerSweep::look_at_user(const std::string& user, const std::function<bool(JobId)>& is_here) {
  const std::string home = folder_ + "/" + user;
  const int fd = ::open(home.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat owner {};
  if (fd < 0)
    return;
  const bool known = ::fstat(fd, &owner) == 0 && std::to_string(owner.st_uid) == user;
  const int jobs = known ? ::openat(fd, "jobs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
  // Two links of its own, and one for each folder in it; where a file system does not count them, it is looked at
  // always.
  struct stat trash {};
  const bool has_trash = known && ::fstatat(fd, "trash", &trash, AT_SYMLINK_NOFOLLOW) == 0 && trash.st_nlink != 2;
  ::close(fd);
  for (const std::string& name : names_in(jobs))
    if (!is_here(JobId(*parse_uint(name))))
      remove(user, name, owner);
  if (has_trash)
    remove(user, "trash", owner);
}

void ContainerSweep::remove(const std::string& user, const std::string& what, const struct stat& owner) {
  if (removing_.contains({user, what}) || removing_.size() >= kAtOnce)
    return;
  TaskStart start(plan_removal(program_, folder_ + "/" + user, what, owner));
  start.run();
  if (const auto started = start.result(); started.ok() && started->pid > 0 && started->failure.empty())
    removing_[{user, what}] = started->pid;
}

}  // namespace lockstep
