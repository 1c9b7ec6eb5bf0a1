#include "io/local/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/text.h"
#include "io/local/daemon.h"
#include "io/local/restarts.h"

namespace lockstep {

namespace {

constexpr int kLookEveryMs = 10'000;            // at the size of the log
constexpr Duration kEndPatience = seconds(10);  // between SIGTERM and SIGKILL

class Supervisor {
 public:
  Supervisor(const Supervised& what, RunNoteFile file, int signals)
      : what_(what), file_(std::move(file)), signals_(signals) {
    note_.supervisor = identify(getpid());
  }
  ~Supervisor() { close(signals_); }

  int run() {
    take_over();
    while (!ending_) {
      if (!process_ && boot_now() >= next_start_)
        start();
      rotate_log(what_.log_path);
      turn();
    }
    if (process_ && !process_->end(kEndPatience))
      return 1;
    leave_note();
    return 0;
  }

 private:
  // Of a process that did not run any more, why it ended stays written down: nobody starts it again.
  void leave_note() {
    if (process_)
      note_ = {};
    note_.supervisor.reset();
    note_.next_at_s = 0;
    file_.write(note_);
  }

  // One that an earlier supervisor started and could not see to its end. How that comes nobody will tell us.
  void take_over() {
    const auto before = read_run_note(what_.note_path);
    if (before && before->process)
      if (auto running = OwnProcess::prove(*before->process, what_.cluster_id)) {
        log_from_ = size_of_file(what_.log_path);
        began(std::move(*running));
      }
    file_.write(note_);
  }

  void began(OwnProcess process) {
    CHECK(!process_, "a process would run beside another one");
    process_.emplace(std::move(process));
    started_at_ = boot_now();
    note_.process = process_->id();
    note_.next_at_s = 0;
    file_.write(note_);
  }

  void start() {
    log_from_ = size_of_file(what_.log_path);
    const auto started = start_daemon({what_.argv, {{kClusterIdVariable, what_.cluster_id}}, what_.log_path});
    started_at_ = boot_now();
    if (!started)
      return ended(started.error().message, true);
    auto process = OwnProcess::prove(*started, what_.cluster_id);
    if (process)
      return began(std::move(*process));
    kill(started->pid, SIGKILL);  // as a rule it ended before we looked
    int status = 0;
    const bool known = waitpid(started->pid, &status, 0) == started->pid;
    ended(known ? ending_text(status, what_.log_path, log_from_) : process.error().message, known && WIFEXITED(status));
  }

  void ended(const std::string& how, bool by_itself) {
    CHECK(!how.empty());
    const Duration pause = backoff_.after(boot_now() - started_at_);
    next_start_ = boot_now() + pause;
    process_.reset();
    note_.process.reset();
    ++note_.ends;
    note_.ended = how;
    note_.ended_by_itself = by_itself;
    note_.ended_at_s = time(nullptr);
    note_.next_at_s = note_.ended_at_s + std::max<std::int64_t>(1, pause.seconds());
    file_.write(note_);
    fprintf(stderr, "lockstep: %s ended (%s); it is started again in %lld ms\n", what_.argv[0].c_str(), how.c_str(),
            static_cast<long long>(pause.millis()));
  }

  void look_at_process() {
    CHECK(process_);
    int status = 0;
    const pid_t pid = waitpid(process_->id().pid, &status, WNOHANG);
    if (pid > 0)
      return ended(ending_text(status, what_.log_path, log_from_), WIFEXITED(status));
    if (pid < 0)  // not our child: it was taken over
      ended("it ended while it had no supervisor of its own", false);
  }

  void turn() {
    pollfd fds[2] = {{signals_, POLLIN, 0}, {process_ ? process_->fd() : -1, POLLIN, 0}};
    const std::int64_t wait_us = std::max<std::int64_t>(0, (next_start_ - boot_now()).us);
    if (poll(fds, 2, process_ ? kLookEveryMs : static_cast<int>((wait_us + 999) / 1000)) <= 0)
      return;
    if (fds[1].revents != 0)
      look_at_process();
    signalfd_siginfo info{};
    if (fds[0].revents == 0 || read(signals_, &info, sizeof info) != static_cast<ssize_t>(sizeof info))
      return;
    ending_ = info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT;
    if (info.ssi_signo == SIGHUP) {
      backoff_.forgive();
      next_start_ = boot_now();
    }
  }

  const Supervised& what_;
  RunNoteFile file_;
  int signals_;
  RunNote note_;
  Backoff backoff_;
  std::optional<OwnProcess> process_;
  Instant started_at_, next_start_;
  std::int64_t log_from_ = 0;
  bool ending_ = false;
};

}  // namespace

std::vector<std::string> supervise_arguments(const Supervised& what) {
  std::vector<std::string> words = {"supervise", what.cluster_id, what.note_path, what.log_path};
  words.insert(words.end(), what.argv.begin(), what.argv.end());
  return words;
}

Result<Supervised> parse_supervise(const std::vector<std::string>& words) {
  if (words.size() < 5 || words[1].empty())
    return invalid("supervise is started by lockstep up, not by hand");
  return Supervised{words[1], words[2], words[3], {words.begin() + 4, words.end()}};
}

int run_supervisor(const Supervised& what) {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&watched, number);
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  signal(SIGXFSZ, SIG_IGN);  // a note that cannot be written is not worth an end
  prctl(PR_SET_NAME, "lockstep-keeper");
  const int signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  auto file = RunNoteFile::open(what.note_path);
  const auto alone = file ? file->lock() : Result<void>(file.error());
  if (signals < 0 || !alone) {
    fprintf(stderr, "lockstep: %s\n", alone ? "cannot wait for signals" : alone.error().message.c_str());
    return 1;
  }
  return Supervisor(what, std::move(*file), signals).run();
}

}  // namespace lockstep
