#include "image_servers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/log_line.h"
#include "base/text.h"
#include "io/fd_stream.h"
#include "shim/task_launch.h"

namespace lockstep {
namespace {

constexpr std::size_t kServersMax = 256, kServersOfUserMax = 64;
constexpr Duration kServesAtMost = hours(6);

TaskPlan plan_server(const std::string& program, const std::string& home, const std::string& node, std::uint32_t uid,
                     int fd) {
  TaskPlan plan;
  plan.argv = {program, "serve", home, node};
  plan.uid = uid;
  plan.gid = uid;  // to own the files is enough
  plan.work_dir = "/";
  plan.limits = default_task_limits();
  for (TaskStream& stream : plan.streams) stream.flags = O_RDWR;
  for (const int standard : {0, 1}) {
    plan.streams[standard].how = TaskStream::How::kDescriptor;
    plan.streams[standard].fd = fd;
  }
  return plan;
}

}  // namespace

ImageServers::ImageServers(EventLoop& loop, Splices& splices, std::string node, std::string folder, std::string program)
    : loop_(loop),
      splices_(splices),
      node_(std::move(node)),
      folder_(std::move(folder)),
      program_(std::move(program)) {}

// Nobody would hear them any more.
ImageServers::~ImageServers() {
  for (const auto& [pid, server] : servers_) ::kill(pid, SIGKILL);
}

void ImageServers::reap(Instant boot_now) {
  for (auto it = servers_.begin(); it != servers_.end();) {
    if (boot_now - it->second.began > kServesAtMost)
      ::kill(it->first, SIGKILL);
    it = ::waitpid(it->first, nullptr, WNOHANG) != 0 ? servers_.erase(it) : std::next(it);
  }
}

void ImageServers::serve(const StepTicket& ticket, std::unique_ptr<Stream> stream, Instant boot_now) {
  reap(boot_now);
  const auto of_user = std::count_if(servers_.begin(), servers_.end(),
                                     [&](const auto& entry) { return entry.second.uid == ticket.uid; });
  if (servers_.size() >= kServersMax || static_cast<std::size_t>(of_user) >= kServersOfUserMax)
    return;
  if (ticket.uid != ::geteuid() && ::geteuid() != 0)
    return;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return;
  TaskStart start(plan_server(program_, format("{}/{}", folder_, ticket.uid), node_, ticket.uid, ends[1]));
  auto child = std::make_unique<OwnChild>([&start] { return run_child(start); });
  ::close(ends[1]);
  const auto started = start.result();
  if (!started.ok() || !started->failure.empty()) {
    log_line(LogLevel::kWarning, format("lockstep-agent: no image is handed on: {}",
                                        started.ok() ? started->failure : started.error().message));
    ::close(ends[0]);
    return;
  }
  servers_[started->pid] = {ticket.uid, boot_now, std::move(child)};
  splices_.join(std::make_unique<FdStream>(loop_, ends[0], nullptr), std::move(stream));
}

}  // namespace lockstep
