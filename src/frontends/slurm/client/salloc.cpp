// salloc: holds an allocation while a command (or a shell) runs, then gives it back.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "frontends/slurm/client/allocate.h"
#include "frontends/slurm/client/container_ask.h"
#include "frontends/slurm/client/context.h"
#include "frontends/slurm/client/environment.h"
#include "frontends/slurm/client/invocation.h"
#include "frontends/slurm/client/resource_ask.h"
#include "frontends/slurm/client/values.h"
#include "model/job.h"

namespace lockstep::slurm {

namespace {

constexpr std::int64_t kBellMs = 10'000;  // a wait longer than this ends with the bell

std::vector<int> handled_signals() {
  return {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCHLD, SIGTSTP, SIGUSR1, SIGUSR2, SIGPIPE};
}

// What the command finds in its environment: the client's own, and what the server says about the job.
Variables command_variables(Api& api, JobId id, const OptionSet& options, const Surroundings& around) {
  auto own = exported(own_variables(), "ALL", true);
  Variables out = own ? std::move(*own) : own_variables();
  put(out, "SLURM_JOB_ID", format("{}", id.value));
  put(out, "SLURM_JOBID", format("{}", id.value));
  put_container_variables(options, out);
  put(out, "SLURM_SUBMIT_DIR", around.work_dir);
  put(out, "SLURM_SUBMIT_HOST", around.host_name);
  if (const auto reply = api.call("GET", format("/slurm/v1/environment?job={}", id.value)))
    if (const auto told = parse_variables(reply->body))
      for (const auto& [name, value] : *told) put(out, name, value);
  return out;
}

// The command as a child that gets the terminal and the signals' ordinary meaning. -1: it could not be started.
::pid_t start_command(const std::vector<std::string>& words, const Variables& variables, const std::string& work_dir,
                      const SignalDesk& signals, const Voice& voice) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  std::vector<char*> argv, envp;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  for (const auto& entry : entries) envp.push_back(const_cast<char*>(entry.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0)
    return -1;
  const ::pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGTTOU, SIG_DFL);
    signals.restore_in_child();
    int why = 0;
    if (!work_dir.empty() && ::chdir(work_dir.c_str()) != 0)
      why = errno;
    if (why == 0) {
      ::execvpe(argv[0], argv.data(), envp.data());
      why = errno;
    }
    (void)!::write(report[1], &why, sizeof why);
    ::_exit(why == ENOENT ? 127 : 126);
  }
  ::close(report[1]);
  int why = child < 0 ? errno : 0;
  if (child > 0 && ::read(report[0], &why, sizeof why) != static_cast<ssize_t>(sizeof why))
    why = 0;
  ::close(report[0]);
  if (why == 0)
    return child;
  voice.error(format("Unable to exec command \"{}\": {}", words[0], ::strerror(why)));
  if (child > 0)
    ::waitpid(child, nullptr, 0);
  return -1;
}

class Salloc {
 public:
  Salloc(const ClientContext& context, Voice& voice) : context_(context), voice_(voice), api_(context) {}
  int run(int argc, char** argv);

 private:
  int fail(const Error& error) { return say_option_error(voice_, error); }
  struct Wish;
  Result<void> read_kill_command(const OptionSet& options);
  Result<Wish> read_wish(const Invocation& invocation);
  int hold(const Wish& wish);
  ExitStatus run_command(const Wish& wish, JobId id, SignalDesk& signals);
  void relinquish(JobId id, const ExitStatus& exit, SignalDesk& signals);
  ExitStatus attend(JobId id, JobEnd& end, ::pid_t child, bool is_shell, SignalDesk& signals);
  void revoked(const Result<Ref<Job>>& job, JobId id, ::pid_t child, bool is_shell);
  void ring(const OptionSet& options, std::int64_t waited_ms);

  const ClientContext& context_;
  Voice& voice_;
  Api api_;
  std::optional<int> kill_signal_;  // --kill-command
  bool revoked_ = false;
};

struct Salloc::Wish {
  OptionSet options;
  Surroundings around;
  SubmitRequest request;
  std::vector<std::string> words;  // the command, or a shell; none with --no-shell
  bool is_shell = false;
  std::optional<Duration> immediate;
};

void Salloc::ring(const OptionSet& options, std::int64_t waited_ms) {
  const bool wanted = options.has("bell") || (waited_ms >= kBellMs && ::isatty(STDERR_FILENO));
  if (wanted && !options.has("no-bell"))
    say("\a");
}

void Salloc::revoked(const Result<Ref<Job>>& job, JobId id, ::pid_t child, bool is_shell) {
  revoked_ = true;
  if (!job) {
    voice_.error(format("Lost sight of job {}: {}", id.value, job.error().message));
    revoked_ = false;
    return;
  }
  if ((*job)->state == JobState::kTimeout)
    voice_.info(format("Job {} has exceeded its time limit and its allocation has been revoked.", id.value));
  else
    voice_.info(format("Job allocation {} has been revoked.", id.value));
  if (kill_signal_)
    ::kill(child, *kill_signal_);
  else if (is_shell)
    ::kill(child, SIGHUP);
}

// Until the command ends; how it did.
ExitStatus Salloc::attend(JobId id, JobEnd& end, ::pid_t child, bool is_shell, SignalDesk& signals) {
  for (;;) {
    ::pollfd waits[] = {{signals.fd(), POLLIN, 0}, {end.fd(), POLLIN, 0}};
    ::poll(waits, 2, -1);
    if (auto job = end.take())
      revoked(*job, id, child, is_shell);
    for (const int signal : signals.take()) {
      if (signal == SIGTERM || signal == SIGHUP || signal == SIGUSR1 || signal == SIGUSR2)
        ::kill(child, signal);  // the terminal's own signals reach the command without us
    }
    int status = 0;
    const ::pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child)
      return WIFEXITED(status) ? ExitStatus{WEXITSTATUS(status), 0, false} : ExitStatus{0, WTERMSIG(status), false};
  }
}

Result<void> Salloc::read_kill_command(const OptionSet& options) {
  const Given* given = options.find("kill-command");
  if (!given)
    return {};
  kill_signal_ = given->text.empty() ? std::optional<int>(SIGTERM) : parse_signal(given->text);
  return kill_signal_ ? Result<void>() : bad_value(options, "kill-command");
}

Result<Salloc::Wish> Salloc::read_wish(const Invocation& invocation) {
  Wish wish{invocation.components.front(), read_surroundings(), {}, invocation.words.back()};
  std::vector<OptionSet> components = invocation.components;
  TRY(place_by_hostfile(components.front(), wish.around, ::getenv));
  const bool no_shell = wish.options.has("no-shell");
  if (no_shell && !wish.words.empty())
    return invalid("--no-shell and a command cannot be given together");
  wish.is_shell = wish.words.empty() && !no_shell;
  TRY(read_kill_command(wish.options));
  std::vector<std::string> notes;
  auto request = job_request(components, wish.around, notes);
  for (const auto& note : notes) voice_.warning(note);
  if (!request)
    return request.error();
  wish.request = std::move(*request);
  JobSpec& job = wish.request.spec;
  if (job.name.empty())
    job.name = no_shell ? "no-shell" : "interactive";  // whatever the command is: libraries tell a step of srun by it
  job.command = wish.words.empty() ? "" : wish.words[0];
  job.interactive = !no_shell;
  job.requeue = false;
  for (auto& group : job.groups) group.launch = Launch::kNothing;
  if (wish.is_shell) {
    const char* shell = ::getenv("SHELL");
    wish.words = {shell && *shell ? shell : "/bin/sh"};
  }
  auto variables = TRY(exported(own_variables(), "ALL", true));
  TRY(put_own_tmp(wish.options, variables));
  wish.request.environment = nul_separated(variables);
  TRY(check_cluster_name(api_, wish.options.text("clusters")));
  wish.immediate = TRY(immediate_of(wish.options));
  return wish;
}

int Salloc::run(int argc, char** argv) {
  auto begun = begin(SlurmCommand::kSalloc, argc, argv, voice_);
  if (begun.exit_code)
    return *begun.exit_code;
  const OptionSet& options = begun.invocation.components.front();
  voice_.set_quiet(options.has("quiet"));
  voice_.set_verbose(options.has("verbose"));
  const auto wish = read_wish(begun.invocation);
  return wish ? hold(*wish) : fail(wish.error());
}

ExitStatus Salloc::run_command(const Wish& wish, JobId id, SignalDesk& signals) {
  constexpr ExitStatus kNotRun{1, 0, false};
  const std::string work_dir = wish.options.has("chdir") ? wish.request.spec.work_dir.get() : std::string();
  JobEnd end = watch_end(context_, id);
  if (end.refused()) {
    voice_.error(end.refused()->message);
    return kNotRun;
  }
  const ::pid_t child =
      start_command(wish.words, command_variables(api_, id, wish.options, wish.around), work_dir, signals, voice_);
  return child < 0 ? kNotRun : attend(id, end, child, wish.is_shell, signals);
}

void Salloc::relinquish(JobId id, const ExitStatus& exit, SignalDesk& signals) {
  voice_.info(format("Relinquishing job allocation {}", id.value));
  tell_the_end(signals, "salloc: ended before the cluster had the allocation back: it finds out by itself\n", [&] {
    if (const auto ended = api_.end(id, exit, false); !ended)
      voice_.error(format("Unable to end job {}: {}", id.value, ended.error().message));
  });
}

int Salloc::hold(const Wish& wish) {
  ::signal(SIGTTOU, SIG_IGN);
  SignalDesk signals(handled_signals());
  const std::int64_t asked_ms = monotonic_ms();
  const auto granted = allocate(context_, api_, wish.request, wish.immediate, voice_, signals);
  if (!granted)
    return error_exit_code();
  voice_.info(format("Granted job allocation {}", granted->id.value));
  ring(wish.options, monotonic_ms() - asked_ms);
  if (wish.words.empty())
    return 0;
  const ExitStatus exit = run_command(wish, granted->id, signals);
  if (!revoked_)
    relinquish(granted->id, exit, signals);
  const int code = exit.signal ? 128 + exit.signal : exit.code;
  return await_stage_out(context_, granted->id, wish.request.spec, code, voice_, signals);
}

}  // namespace

int salloc_main(const ClientContext& context, int argc, char** argv) {
  Voice voice("salloc");
  return Salloc(context, voice).run(argc, argv);
}

}  // namespace lockstep::slurm
