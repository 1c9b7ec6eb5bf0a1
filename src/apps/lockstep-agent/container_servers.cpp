#include "container_servers.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/log_line.h"
#include "base/text.h"
#include "io/fd_stream.h"
#include "shim/container_frames.h"
#include "shim/container_reach.h"
#include "shim/task_launch.h"
#include "wire/container_ask_text.h"

namespace lockstep {
namespace {

constexpr std::size_t kReachersMax = 4096;
// Beside the containers of a task: each keeps a process of the node for as long as it runs.
constexpr std::ptrdiff_t kProgramsOfTaskMax = 64;

int text_file(const std::string& text) {
  const int fd = ::memfd_create("ask", MFD_CLOEXEC);
  if (fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::lseek(fd, 0, SEEK_SET) == 0)
    return fd;
  if (fd >= 0)
    ::close(fd);
  return -1;
}

void refuse(Stream& stream, std::string_view why) {
  std::string frame;
  append_container_frame(frame, ContainerChannel::kEnd, format("error {}", why));
  stream.write(std::move(frame));
  stream.close();
}

}  // namespace

ContainerServers::ContainerServers(EventLoop& loop, Splices& splices, std::string folder, std::string shim)
    : loop_(loop), splices_(splices), folder_(std::move(folder)), shim_(std::move(shim)) {}

void ContainerServers::reap() {
  for (auto it = servers_.begin(); it != servers_.end();)
    it = ::waitpid(it->first, nullptr, WNOHANG) != 0 ? servers_.erase(it) : std::next(it);
}

void ContainerServers::serve(const StepOpen& what, std::unique_ptr<Stream> stream) {
  reap();
  const std::uint32_t uid = what.ticket.uid;
  const auto asked = decode_container_ask(what.ask);
  const bool is_program = asked.ok() && asked->ask.what == ContainerAsk::What::kExec;
  const std::string task = is_program ? asked->work : std::string();
  if (is_program && std::count_if(servers_.begin(), servers_.end(),
                                  [&](const auto& one) { return one.second.task == task; }) >= kProgramsOfTaskMax)
    return refuse(*stream, format("{} programs run beside the pod's containers already: no more may, until one ends",
                                  kProgramsOfTaskMax));
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
  auto child = std::make_unique<OwnChild>([&] { return ask < 0 ? pid_t{-1} : run_child(start); });
  ::close(ends[1]);
  if (ask >= 0)
    ::close(ask);
  const auto started = ask < 0 ? Result<StartedTask>(Error{Errc::kExhausted, "no memory", {}}) : start.result();
  if (!started.ok() || !started->failure.empty()) {
    log_line(LogLevel::kWarning, format("lockstep-agent: a container is not reached: {}",
                                        started.ok() ? started->failure : started.error().message));
    ::close(ends[0]);
    return;
  }
  servers_[started->pid] = {task, std::move(child)};
  auto reached = std::make_unique<FdStream>(loop_, ends[0], nullptr);
  reached->hear_out();  // a program may end without reading what it was sent
  splices_.join(std::move(reached), std::move(stream));
}

}  // namespace lockstep
