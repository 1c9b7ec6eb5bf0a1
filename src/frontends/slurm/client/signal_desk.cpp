#include "frontends/slurm/client/signal_desk.h"

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "frontends/slurm/client/background.h"
#include "frontends/slurm/client/say.h"

namespace lockstep {

namespace {

constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
std::string* last_words = nullptr;  // of the MayBeEnded that lives: a handler has no other way to them

void end_with_words(int signal) {
  write_all(STDERR_FILENO, *last_words);
  ::raise(signal);  // its own meaning is back (SA_RESETHAND)
}

}  // namespace

MayBeEnded::MayBeEnded(std::string words) {
  last_words = new std::string(std::move(words));
  ::sigset_t ending;
  ::sigemptyset(&ending);
  for (std::size_t i = 0; i < std::size(kEnding); ++i) {
    struct ::sigaction action {};
    action.sa_handler = end_with_words;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    ::sigaction(kEnding[i], nullptr, &actions_[i]);
    if (actions_[i].sa_handler != SIG_IGN)
      ::sigaction(kEnding[i], &action, nullptr);
    ::sigaddset(&ending, kEnding[i]);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &ending, &before_);
}

MayBeEnded::~MayBeEnded() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  for (std::size_t i = 0; i < std::size(kEnding); ++i) ::sigaction(kEnding[i], &actions_[i], nullptr);
  delete std::exchange(last_words, nullptr);
}

void tell_the_end(SignalDesk& signals, std::string words, const std::function<void()>& work) {
  constexpr int kSoonMs = 1000;
  signals.take();
  Pending<Result<void>> told([&work]() -> Result<void> {
    work();
    return {};
  });
  if (told.refused()) {  // no thread can be made
    const MayBeEnded open(std::move(words));
    return work();
  }
  ::pollfd wait{told.fd(), POLLIN, 0};
  ::poll(&wait, 1, kSoonMs);
  if (told.take())
    return;
  const MayBeEnded open(std::move(words));
  while (!told.take()) ::poll(&wait, 1, -1);
}

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
