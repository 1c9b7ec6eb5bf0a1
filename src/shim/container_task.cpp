#include "shim/container_task.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/plain_file.h"
#include "base/text.h"
#include "shim/scratch_limit.h"
#include "wire/container_text.h"
#include "wire/store_limits.h"

namespace lockstep {
namespace {

constexpr mode_t kPassThrough = 0711, kOwn = 0700;

// The folder, which nobody else can have put there: the one above it is ours alone.
Result<int> folder_in(int above, const std::string& name, mode_t mode) {
  const bool made = ::mkdirat(above, name.c_str(), mode) == 0;
  if (!made && errno != EEXIST)
    return os_error(name);
  const int fd = ::openat(above, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return os_error(name);
  if (made && ::fchmod(fd, mode) != 0) {
    const Error error = os_error(name);
    ::close(fd);
    return error;
  }
  return fd;
}

// That of a user, new: held to what he may have, where the file system can do that. Where it cannot, it is his own
// programs that keep to it.
Result<int> users_folder(int base, const std::string& base_path, const std::string& name) {
  struct stat stat {};
  struct statvfs room {};
  if (::fstatat(base, name.c_str(), &stat, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT && ::geteuid() == 0 &&
      ::fstatvfs(base, &room) == 0) {
    const auto text = read_plain(format("{}/{}", base_path, kStoreLimitsFile));
    const StoreLimits limits = text.ok() ? decode_store_limits(*text) : StoreLimits{};
    const auto made =
        make_scratch(base, name, user_bytes(limits, static_cast<std::int64_t>(room.f_blocks * room.f_frsize)) >> 20);
    if (!made.ok() && made.error().code != Errc::kConflict)  // another step's shim was faster
      return made.error();
  }
  return folder_in(base, name, kOwn);
}

Result<void> give_to(int fd, const ProcessSpec& process, const std::string& name) {
  struct stat stat {};
  if (::fstat(fd, &stat) != 0)
    return os_error(name);
  if (stat.st_uid != process.uid && ::fchown(fd, process.uid, process.gid) != 0)
    return os_error(format("cannot give {} to uid {}", name, process.uid));
  return {};
}

std::string own_folder() {
  char path[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
  const std::string_view program(path, size > 0 ? static_cast<std::size_t>(size) : 0);
  return std::string(program.substr(0, program.rfind('/')));
}

void put_place(const ContainerPlace& place, const Container& container, TaskPlan& plan) {
  plan.env.push_back("LOCKSTEP_CONTAINER=" + encode_container(container));
  plan.env.push_back("LOCKSTEP_CONTAINER_HOME=" + place.folder);
  plan.env.push_back("LOCKSTEP_CONTAINER_WORK=" + place.work);
}

}  // namespace

bool runs_in_container(const ProcessSpec& process) {
  const Container& container = process.container;
  return !container.image.empty() || !container.bundle.empty() || !container.name.empty();
}

Result<void> make_users_store(const std::string& base, const ProcessSpec& process) {
  const int base_fd = TRY(folder_in(AT_FDCWD, base, kPassThrough));
  const std::string user = std::to_string(process.uid);
  const auto fd = users_folder(base_fd, base, user);
  ::close(base_fd);
  if (!fd.ok())
    return fd.error();
  const auto given = give_to(*fd, process, user);
  ::close(*fd);
  return given;
}

Result<ContainerPlace> make_container_place(const std::string& base, const ProcessSpec& process) {
  ContainerPlace place;
  place.program = own_folder() + "/lockstep-container";
  if (::access(place.program.c_str(), X_OK) != 0)
    return Error{
        Errc::kIo,
        format("{} is not there: install the package of the agent again, or run without a container", place.program),
        {}};
  TRY(make_users_store(base, process));
  char folder[PATH_MAX];
  if (!::realpath(format("{}/{}", base, process.uid).c_str(), folder))
    return os_error(base);
  place.folder = folder;
  if (::getcwd(folder, sizeof folder))
    place.work = std::string_view(folder).substr(std::string_view(folder).rfind('/') + 1);
  return place;
}

void put_in_container(const ContainerPlace& place, const Container& container, TaskPlan& plan) {
  std::vector<std::string> words = {place.program, "enter"};
  if (!plan.script.empty())
    words.insert(words.end(), {"--script", std::exchange(plan.script, {})});
  words.emplace_back("--");
  words.insert(words.end(), plan.argv.begin(), plan.argv.end());
  plan.argv = std::move(words);
  plan.script_fd = -1;
  plan.work_dir_inside = true;
  put_place(place, container, plan);
}

TaskPlan plan_container_end(const ContainerPlace& place, const ProcessSpec& process, int error_fd,
                            const std::string& log) {
  TaskPlan plan;
  plan.argv = {place.program, "finish"};
  if (!log.empty())
    plan.argv.insert(plan.argv.end(), {"--log", log});
  plan.env = process.env;
  put_place(place, process.container, plan);
  plan.work_dir = process.work_dir;
  plan.work_dir_inside = true;
  plan.blocks_signals = true;
  plan.uid = process.uid;
  plan.gid = process.gid;
  plan.groups = process.groups;
  plan.umask = process.umask;
  plan.limits = default_task_limits();
  take_shell_limits(plan.env, plan.limits);
  for (TaskStream& stream : plan.streams) stream.flags = O_RDWR;
  if (error_fd >= 0) {
    plan.streams[2].how = TaskStream::How::kDescriptor;
    plan.streams[2].fd = error_fd;
  }
  return plan;
}

}  // namespace lockstep
