#include "frontends/slurm/client/srun_hooks.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

namespace lockstep::slurm {

namespace {

int spawn(const std::vector<std::string>& argv, const std::vector<std::string>& env, pid_t& pid) {
  std::vector<char*> words, variables;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& line : env) variables.push_back(const_cast<char*>(line.c_str()));
  words.push_back(nullptr);
  variables.push_back(nullptr);
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int failed = ::posix_spawnp(&pid, words[0], nullptr, &attributes, words.data(), variables.data());
  ::posix_spawnattr_destroy(&attributes);
  return failed;
}

std::vector<std::string> environment_with(JobId job) {
  std::vector<std::string> out;
  for (char** line = environ; *line; ++line)
    if (const std::string_view text(*line); !text.starts_with("SLURM_JOB_ID=") && !text.starts_with("SLURM_JOBID="))
      out.emplace_back(text);
  out.push_back(format("SLURM_JOB_ID={}", job.value));
  out.push_back(format("SLURM_JOBID={}", job.value));
  return out;
}

}  // namespace

void run_beside_step(const OptionSet& options, std::string_view name, const std::vector<std::string>& words, JobId job,
                     const Voice& voice) {
  const std::string program = options.text(name);
  if (program.empty() || lower(program) == "none")
    return;
  std::vector<std::string> argv = {program};
  argv.insert(argv.end(), words.begin(), words.end());
  pid_t pid = 0;
  if (const int failed = spawn(argv, environment_with(job), pid); failed != 0)
    return voice.error(format("{} {}: {}", name, program, ::strerror(failed)));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  if (status != 0)
    voice.warning(format("{} {} ended with {} {}", name, program, WIFSIGNALED(status) ? "signal" : "exit code",
                         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)));
}

}  // namespace lockstep::slurm
