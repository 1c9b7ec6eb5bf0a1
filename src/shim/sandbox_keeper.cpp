#include "shim/sandbox_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/plain_file.h"
#include "base/text.h"
#include "model/work_id.h"
#include "shim/process_tree.h"
#include "shim/sandbox_logic.h"
#include "shim/sandbox_program.h"
#include "shim/task_inheritance.h"
#include "wire/sandbox_text.h"

namespace lockstep {
namespace {

constexpr std::int64_t kTellEveryUs = 20'000;
constexpr std::size_t kSpecMax = 4 << 20;
constexpr Duration kGraceOtherwise = seconds(30);

Instant now() { return Instant{boot_clock_us()}; }

std::string variable(const char* name) {
  const char* value = ::getenv(name);
  return value ? value : "";
}

int complain(const std::string& text) {
  ::fprintf(stderr, "lockstep: error: %s\n", text.c_str());
  return 1;
}

std::string read_spec() {
  std::string text;
  char chunk[64 << 10];
  for (ssize_t n; (n = ::read(kSandboxSpecFd, chunk, sizeof chunk)) > 0 && text.size() <= kSpecMax;)
    text.append(chunk, static_cast<std::size_t>(n));
  ::close(kSandboxSpecFd);
  return text;
}

ExitStatus exit_of(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return {0, WTERMSIG(wait_status), false};
  return {WEXITSTATUS(wait_status), 0, false};
}

class Keeper {
 public:
  Keeper(Sandbox sandbox, SandboxSurroundings around, Duration grace)
      : sandbox_(sandbox), around_(std::move(around)), logic_(std::move(sandbox), grace, now()) {}

  int run(int signals) {
    tell();
    while (!logic_.over()) {
      logic_.tick(now());
      for (const auto& order : logic_.take_orders()) carry_out(order);
      tell_if_due();
      if (logic_.over())
        break;
      wait_for_something(signals);
      hear(signals);
      reap();
    }
    tell();
    const ExitStatus result = logic_.result();
    return result.signal != 0 ? 128 + result.signal : result.code;
  }

 private:
  struct ProbeRun {
    std::size_t container = 0, probe = 0;
    std::uint32_t life = 0;
  };

  int time_to_wait() const {
    Instant due = logic_.next_timer();
    if (changed_)
      due = std::min(due, Instant{told_us_ + kTellEveryUs});
    if (due == kNever)
      return -1;
    return static_cast<int>(std::clamp<std::int64_t>((due - now()).millis() + 1, 0, 3'600'000));
  }

  void wait_for_something(int signals) {
    std::vector<pollfd> waits = {{signals, POLLIN, 0}};
    for (const auto& [fd, container] : beginning_) waits.push_back({fd, POLLIN, 0});
    if (::poll(waits.data(), waits.size(), time_to_wait()) <= 0)
      return;
    for (std::size_t i = 1; i < waits.size(); ++i)
      if (waits[i].revents != 0)
        begin(waits[i].fd);
  }

  void begin(int fd) {
    const auto it = beginning_.find(fd);
    const std::size_t container = it->second;
    beginning_.erase(it);
    char byte = 0;
    const bool runs = ::read(fd, &byte, 1) == 0;
    ::close(fd);
    if (runs)
      logic_.began(container, now());
    changed_ = true;
  }

  // Of one that has ended nothing begins any more.
  void forget_beginning(std::size_t container) {
    for (auto it = beginning_.begin(); it != beginning_.end();)
      if (it->second == container) {
        ::close(it->first);
        it = beginning_.erase(it);
      } else {
        ++it;
      }
  }

  void hear(int signals) {
    signalfd_siginfo info{};
    while (::read(signals, &info, sizeof info) == sizeof info)
      if (info.ssi_signo != SIGCHLD)
        logic_.told_to_end(now());
    changed_ = true;
  }

  void reap() {
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (const auto it = containers_.find(pid); it != containers_.end()) {
        const std::size_t container = it->second;
        containers_.erase(it);
        forget_beginning(container);
        logic_.ended(container, exit_of(status), now());
      } else if (const auto probe = probes_.find(pid); probe != probes_.end()) {
        const ProbeRun run = probe->second;
        probes_.erase(probe);
        if (logic_.life(run.container) == run.life)
          logic_.probed(run.container, run.probe, WIFEXITED(status) && WEXITSTATUS(status) == 0, now());
      }
      changed_ = true;
    }
  }

  void carry_out(const SandboxLogic::Order& order) {
    using enum SandboxLogic::Order::What;
    changed_ = true;
    switch (order.what) {
      case kStart: return start(order.container);
      case kTerm: return signal(order.container, SIGTERM);
      case kKill: return signal(order.container, SIGKILL);
      case kProbe: return probe(order.container, order.probe);
    }
  }

  void start(std::size_t i) {
    const StartedContainer started = start_container(sandbox_.containers[i], logic_.life(i), around_);
    if (started.began >= 0 && started.pid > 0)
      beginning_[started.began] = i;
    else if (started.began >= 0)
      ::close(started.began);
    if (started.pid > 0)
      containers_[started.pid] = i;
    else
      logic_.not_started(i, format("cannot make a process: {}", ::strerror(errno)), now());
  }

  // Its own parent ends when nothing of it is left, and is not meant.
  void signal(std::size_t i, int signal) {
    for (const auto& [pid, container] : containers_)
      if (container == i)
        signal_descendants(pid, signal);
  }

  void probe(std::size_t i, std::size_t p) {
    const pid_t pid = start_probe(sandbox_.containers[i], logic_.life(i), sandbox_.containers[i].probes[p], around_);
    if (pid > 0)
      probes_[pid] = {i, p, logic_.life(i)};
    else
      logic_.probed(i, p, false, now());
  }

  void tell_if_due() {
    if (changed_ && boot_clock_us() >= told_us_ + kTellEveryUs)
      tell();
  }

  // The shim always reads. Should it be gone, so are we in a moment.
  void tell() {
    changed_ = false;
    if (told_ == logic_.containers())
      return;
    told_ = logic_.containers();
    told_us_ = boot_clock_us();
    TaskContainers text;
    text.containers = told_;
    const std::string line = encode_containers(text) + "\n";
    for (std::size_t at = 0; at < line.size();) {
      const ssize_t n = ::write(kSandboxStatusFd, line.data() + at, line.size() - at);
      if (n <= 0 && errno != EINTR)
        return;
      at += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
  }

  Sandbox sandbox_;
  SandboxSurroundings around_;
  SandboxLogic logic_;
  std::map<pid_t, std::size_t> containers_;
  std::map<int, std::size_t> beginning_;  // by a descriptor: see StartedContainer
  std::map<pid_t, ProbeRun> probes_;
  std::vector<ContainerStatus> told_;
  std::int64_t told_us_ = 0;
  bool changed_ = false;
};

}  // namespace

int run_sandbox_keeper() {
  auto sandbox = decode_sandbox(read_spec());
  if (!sandbox.ok() || sandbox->containers.empty())
    return complain("the sandbox cannot be read: " + (sandbox.ok() ? "it has no container" : sandbox.error().message));
  ::fcntl(kSandboxStatusFd, F_SETFD, FD_CLOEXEC);
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t watched;
  ::sigemptyset(&watched);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) ::sigaddset(&watched, signal);
  ::sigprocmask(SIG_BLOCK, &watched, nullptr);
  const int signals = ::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0)
    return complain(std::string("signalfd: ") + ::strerror(errno));
  const auto grace = parse_uint(variable(kSandboxGraceVariable));
  auto around = take_surroundings(*sandbox);
  if (!around.ok())
    return complain("volumes of the sandbox: " + around.error().message);
  const int code =
      Keeper(std::move(*sandbox), *around,
             grace ? millis(static_cast<std::int64_t>(std::min<std::uint64_t>(*grace, 3'600'000))) : kGraceOtherwise)
          .run(signals);
  remove_volumes(*around);
  return code;
}

}  // namespace lockstep
