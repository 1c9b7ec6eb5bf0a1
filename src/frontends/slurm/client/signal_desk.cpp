#include "frontends/slurm/client/signal_desk.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "frontends/slurm/client/background.h"
#include "frontends/slurm/client/say.h"
#include "ports/step_signal.h"

namespace lockstep::slurm {

namespace {

constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
std::string* last_words = nullptr;  // of the MayBeEnded that lives: a handler has no other way to them

void end_with_words(int signal) {
  write_all(STDERR_FILENO, *last_words);
  ::raise(signal);  // its own meaning is back (SA_RESETHAND)
}

void end_by(int signal) {
  struct ::sigaction action {};
  action.sa_handler = end_with_words;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

MayBeEnded::MayBeEnded(std::string words) {
  last_words = new std::string(std::move(words));
  ::sigset_t ending;
  ::sigemptyset(&ending);
  for (std::size_t i = 0; i < std::size(kEnding); ++i) {
    ::sigaction(kEnding[i], nullptr, &actions_[i]);
    if (actions_[i].sa_handler != SIG_IGN)
      end_by(kEnding[i]);
    ::sigaddset(&ending, kEnding[i]);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &ending, &before_);
}

MayBeEnded::~MayBeEnded() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  for (std::size_t i = 0; i < std::size(kEnding); ++i) ::sigaction(kEnding[i], &actions_[i], nullptr);
  delete std::exchange(last_words, nullptr);
}

namespace {

// What MayBeEnded does, from within a handler: the mask that holds afterwards lies in the context.
void open_later(int, ::siginfo_t*, void* context) {
  ::sigset_t& mask = static_cast<::ucontext_t*>(context)->uc_sigmask;
  for (const int signal : kEnding) {
    struct ::sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN)
      end_by(signal);
    ::sigdelset(&mask, signal);
  }
}

}  // namespace

// A timer and not a thread, which would cost more than the telling.
void tell_the_end(SignalDesk& signals, std::string words, const std::function<void()>& work) {
  constexpr ::itimerval kSoon{{}, {1, 0}}, kNever{};
  signals.take();
  last_words = new std::string(std::move(words));
  struct ::sigaction before[std::size(kEnding)] = {}, alarm_before{}, open{};
  for (std::size_t i = 0; i < std::size(kEnding); ++i) ::sigaction(kEnding[i], nullptr, &before[i]);
  open.sa_sigaction = open_later;
  open.sa_flags = static_cast<int>(SA_SIGINFO);
  ::sigaction(SIGALRM, &open, &alarm_before);
  ::sigset_t alarm, mask;
  ::sigemptyset(&alarm);
  ::sigaddset(&alarm, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &alarm, &mask);
  ::setitimer(ITIMER_REAL, &kSoon, nullptr);
  work();
  ::setitimer(ITIMER_REAL, &kNever, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  ::sigaction(SIGALRM, &alarm_before, nullptr);
  for (std::size_t i = 0; i < std::size(kEnding); ++i) ::sigaction(kEnding[i], &before[i], nullptr);
  delete std::exchange(last_words, nullptr);
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

std::vector<ArrivedSignal> SignalDesk::arrivals() {
  std::vector<ArrivedSignal> out;
  ::signalfd_siginfo info{};
  while (::read(fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    out.push_back({static_cast<int>(info.ssi_signo), info.ssi_code == SI_QUEUE && info.ssi_int == kSentToStepsToo});
  return out;
}

std::vector<int> SignalDesk::take() {
  std::vector<int> out;
  for (const ArrivedSignal& arrived : arrivals()) out.push_back(arrived.signal);
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

}  // namespace lockstep::slurm
