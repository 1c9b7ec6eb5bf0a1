#include "container_servers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log_line.h"
#include "base/text.h"
#include "io/fd_stream.h"
#include "shim/container_reach.h"
#include "shim/task_launch.h"

namespace lockstep {
namespace {

constexpr std::size_t kReachersMax = 512;

int text_file(const std::string& text) {
  const int fd = ::memfd_create("ask", MFD_CLOEXEC);
  if (fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::lseek(fd, 0, SEEK_SET) == 0)
    return fd;
  if (fd >= 0)
    ::close(fd);
  return -1;
}

}  // namespace

ContainerServers::ContainerServers(EventLoop& loop, Splices& splices, std::string folder, std::string shim)
    : loop_(loop), splices_(splices), folder_(std::move(folder)), shim_(std::move(shim)) {}

// Nobody would hear them any more.
ContainerServers::~ContainerServers() {
  for (const auto& [pid, uid] : servers_) ::kill(pid, SIGKILL);
}

void ContainerServers::reap() {
  for (auto it = servers_.begin(); it != servers_.end();)
    it = ::waitpid(it->first, nullptr, WNOHANG) != 0 ? servers_.erase(it) : std::next(it);
}

void ContainerServers::serve(const StepOpen& what, std::unique_ptr<Stream> stream) {
  reap();
  const std::uint32_t uid = what.ticket.uid;
  int ends[2];
  if (servers_.size() >= kReachersMax || (uid != ::geteuid() && ::geteuid() != 0) ||
      ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return;
  const int ask = text_file(what.ask);
  TaskPlan plan;
  plan.argv = {shim_, kReachOption, format("{}/{}", folder_, uid)};
  plan.uid = uid;
  plan.gid = uid;
  plan.work_dir = "/";
  plan.limits = default_task_limits();
  plan.inherited = {ask};
  for (TaskStream& one : plan.streams) one.flags = O_RDWR;
  for (const int standard : {0, 1}) {
    plan.streams[standard].how = TaskStream::How::kDescriptor;
    plan.streams[standard].fd = ends[1];
  }
  TaskStart start(std::move(plan));
  if (ask >= 0)
    start.run();
  ::close(ends[1]);
  if (ask >= 0)
    ::close(ask);
  const auto started = start.result();
  if (ask < 0 || !started.ok() || !started->failure.empty()) {
    log_line(LogLevel::kWarning,
             format("lockstep-agent: a container is not reached: {}", ask < 0        ? "no memory"
                                                                      : started.ok() ? started->failure
                                                                                     : started.error().message));
    ::close(ends[0]);
    return;
  }
  servers_[started->pid] = uid;
  splices_.join(std::make_unique<FdStream>(loop_, ends[0], nullptr), std::move(stream));
}

}  // namespace lockstep
