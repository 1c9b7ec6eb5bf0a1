#include "frontends/slurm/client/signal_desk.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "frontends/slurm/client/background.h"

namespace lockstep {

SignalDesk::SignalDesk(const std::vector<int>& signals) {
  ::sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  fd_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd_ < 0)
    end_without_descriptors();
}

SignalDesk::~SignalDesk() {
  ::close(fd_);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::vector<int> SignalDesk::take() {
  std::vector<int> out;
  ::signalfd_siginfo info{};
  while (::read(fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    out.push_back(static_cast<int>(info.ssi_signo));
  return out;
}

void SignalDesk::restore_in_child() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

std::vector<int> SignalDesk::all_of_srun() {
  return {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT, SIGPIPE, SIGWINCH};
}

std::int64_t monotonic_ms() {
  ::timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace lockstep
