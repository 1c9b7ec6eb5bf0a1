#include "shim/checkpoint_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <tuple>

#include "base/text.h"
#include "shim/line_sign.h"

namespace lockstep {
namespace {

constexpr unsigned kLookEvery_s = 2;
constexpr std::size_t kReadAtOnce = 64 << 10;
constexpr std::int64_t kReadAtOneLook = 16 << 20;  // of each output; what comes faster than that is passed over

// What a touch changes.
using Touched = std::tuple<dev_t, ino_t, std::int64_t, std::int64_t>;
std::optional<Touched> look_at_file(const std::string& path) {
  struct stat facts {};
  if (path.empty() || ::stat(path.c_str(), &facts) != 0)
    return std::nullopt;
  return Touched{facts.st_dev, facts.st_ino, std::int64_t{facts.st_mtim.tv_sec}, std::int64_t{facts.st_mtim.tv_nsec}};
}

// The growth of a file that somebody else writes.
class Growth {
 public:
  // from_end: what is in it already was there before the tasks.
  Growth(int fd, const std::string& sign, bool from_end) : fd_(fd), sign_(sign) {
    struct stat facts {};
    watched_ = ::fstat(fd_, &facts) == 0 && S_ISREG(facts.st_mode);
    at_ = watched_ && from_end ? facts.st_size : 0;
  }
  bool watched() const { return watched_; }

  bool look() {
    struct stat facts {};
    if (!watched_ || ::fstat(fd_, &facts) != 0)
      return false;
    if (facts.st_size < at_)
      at_ = 0;  // it was cut
    if (facts.st_size - at_ > kReadAtOneLook)
      at_ = facts.st_size - kReadAtOneLook;
    bool found = false;
    char piece[kReadAtOnce];
    for (;;) {
      const ssize_t n = ::pread(fd_, piece, sizeof piece, at_);
      if (n <= 0)
        return found;
      at_ += n;
      found = sign_.see({piece, static_cast<std::size_t>(n)}) || found;
      if (n < static_cast<ssize_t>(sizeof piece))
        return found;
    }
  }

 private:
  int fd_;
  LineSign sign_;
  bool watched_ = false;
  off_t at_ = 0;
};

}  // namespace

bool has_to_watch(const ShimStart& start, const WatchedFiles& files) {
  const bool lines = !start.checkpoint_line.empty() && (!files.outputs[0].empty() || !files.outputs[1].empty());
  return lines || !start.checkpoint_file.empty();
}

TaskPlan plan_checkpoint_watch(const ShimStart& start, const WatchedFiles& files, int tell_fd) {
  const ProcessSpec& process = start.launch.process;
  TaskPlan plan;
  plan.program = "/proc/self/exe";
  plan.argv = {"lockstep-shim", kWatchOption, start.checkpoint_file, start.checkpoint_line,
               process.append ? "append" : "truncate"};
  plan.work_dir = process.work_dir;
  plan.work_dir_inside = true;  // nothing is said where it is not there
  plan.blocks_signals = true;   // those of the job are none of its business; it is killed with what is left
  plan.uid = process.uid;
  plan.gid = process.gid;
  plan.groups = process.groups;
  plan.umask = process.umask;
  plan.enter = start.enter;
  plan.limits = default_task_limits();
  plan.inherited = {tell_fd};
  for (int i : {0, 1}) {
    plan.streams[i].flags = O_RDONLY | O_NONBLOCK;
    if (!files.outputs[i].empty() && !start.checkpoint_line.empty())
      plan.streams[i].path = files.outputs[i];
  }
  plan.streams[2].flags = O_WRONLY;
  return plan;
}

int run_checkpoint_watch(int count, char** words) {
  if (count != 3)
    return 2;
  const std::string file = words[0], line = words[1];
  const bool appends = std::string_view(words[2]) == "append";
  Growth outputs[] = {{0, line, appends}, {1, line, appends}};
  std::optional<Touched> last = look_at_file(file);
  for (;;) {
    if (file.empty() && !outputs[0].watched() && !outputs[1].watched())
      return 0;
    ::sleep(kLookEvery_s);
    bool seen = false;
    for (Growth& output : outputs) seen = output.look() || seen;
    const std::optional<Touched> now = look_at_file(file);
    seen = seen || (now && now != last);
    last = now;
    if (seen && ::write(kWatchTellFd, "checkpoint\n", 11) < 0 && errno == EPIPE)
      return 0;
  }
}

}  // namespace lockstep
