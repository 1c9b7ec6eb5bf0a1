#include "simulate/apart.h"

#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/text.h"

namespace lockstep::sim {

namespace {

void run_child(int out, const std::function<std::string()>& work, void (*on_abort)(int), long cpu_seconds) {
  dup2(out, STDERR_FILENO);
  std::signal(SIGABRT, on_abort);
  const itimerval limit{{}, {cpu_seconds, 0}};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
  const std::string text = work();
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = write(out, text.data() + at, text.size() - at);
    if (n <= 0)
      _exit(1);
    at += static_cast<std::size_t>(n);
  }
  _exit(0);
}

}  // namespace

Apart run_apart(const std::function<std::string()>& work, void (*on_abort)(int), long cpu_seconds) {
  Apart result;
  int ends[2];
  if (pipe(ends) != 0) {
    result.lines = {"no pipe"};
    return result;
  }
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    run_child(ends[1], work, on_abort, cpu_seconds);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  result.lines = split(text, '\n');
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    result.end = Apart::End::kWell;
  else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGVTALRM)
    result.end = Apart::End::kOutOfTime;
  return result;
}

}  // namespace lockstep::sim
