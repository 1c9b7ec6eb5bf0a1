#include "shim/task_hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

namespace lockstep {
namespace {

constexpr std::size_t kOutputMax = 1 << 20;  // of a prolog: the rest is read and thrown away
constexpr std::size_t kProgramsMax = 64;

using Environment = std::map<std::string, std::string>;

void complain(const std::string& text) { ::fprintf(stderr, "lockstep: error: %s\n", text.c_str()); }

Environment own_environment() {
  Environment out;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text(*variable);
    const auto mark = text.find('=');
    if (mark != text.npos && mark > 0)
      out.emplace(text.substr(0, mark), text.substr(mark + 1));
  }
  return out;
}

// Pointers into memory that stays.
struct Words {
  explicit Words(std::vector<std::string> words) : texts(std::move(words)) {
    for (std::string& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
  }
  std::vector<std::string> texts;
  std::vector<char*> pointers;
};

Words lines_of(const Environment& environment) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : environment) lines.push_back(name + "=" + value);
  return Words(std::move(lines));
}

[[noreturn]] void become(Words argv, const Environment& environment) {
  if (environment.contains("PATH"))
    ::setenv("PATH", environment.at("PATH").c_str(), 1);  // by which execvpe looks
  else
    ::unsetenv("PATH");
  Words lines = lines_of(environment);
  ::execvpe(argv.pointers[0], argv.pointers.data(), lines.pointers.data());
  const int failed = errno;
  complain(format("execve(): {}: {}", argv.texts[0], ::strerror(failed)));
  ::_exit(failed < 256 ? failed : 255);
}

// As shells say it.
int code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      return 1 << 8;
  return status;
}

void end_with_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent)
    ::_exit(1);
}

std::string output_of_prolog(int fd) {
  std::string text;
  char chunk[4096];
  for (;;) {
    const ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return text;
    if (text.size() < kOutputMax)
      text.append(chunk, static_cast<std::size_t>(n));
  }
}

// Exit code of the prolog; what it said changes the environment.
int run_prolog(const std::string& program, Environment& environment) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return 1;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    end_with_parent(parent);
    ::dup2(ends[1], 1);
    become(Words({program}), environment);
  }
  ::close(ends[1]);
  const std::string output = child > 0 ? output_of_prolog(ends[0]) : std::string();
  ::close(ends[0]);
  if (child < 0)
    return 1;
  const int status = wait_for(child);
  const std::string printed = apply_task_prolog(output, environment);
  ::fputs(printed.c_str(), stdout);
  ::fflush(stdout);
  return code_of(status);
}

void run_epilog(const std::string& program, const Environment& environment) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
    end_with_parent(parent);
    become(Words({program}), environment);
  }
  if (const int code = child > 0 ? code_of(wait_for(child)) : 1; code != 0)
    complain(format("task epilog {}: exit code {}", program, code));
}

// The signals of the task are its own: who stays behind for its epilog hears none that can be left unheard.
int run_task_with(const std::vector<std::string>& epilogs, std::vector<std::string> task,
                  const Environment& environment) {
  for (int signal = 1; signal < NSIG; ++signal)
    if (signal != SIGCHLD)
      ::signal(signal, SIG_IGN);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
    end_with_parent(parent);
    become(Words(std::move(task)), environment);
  }
  if (child < 0) {
    complain(format("cannot make a process: {}", ::strerror(errno)));
    return 1;
  }
  const int status = wait_for(child);
  for (const std::string& epilog : epilogs) run_epilog(epilog, environment);
  if (!WIFSIGNALED(status))
    return WEXITSTATUS(status);
  // Ends as the task did, and leaves no core of its own.
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::signal(WTERMSIG(status), SIG_DFL);
  ::raise(WTERMSIG(status));
  return 128 + WTERMSIG(status);
}

bool is_name(std::string_view text) {
  return !text.empty() && text.find_first_of(std::string_view("= \t\0", 4)) == text.npos;
}

}  // namespace

std::vector<std::string> words_around_task(const std::vector<std::string>& prologs,
                                           const std::vector<std::string>& epilogs,
                                           const std::vector<std::string>& task) {
  std::vector<std::string> words = {"lockstep-shim", kAroundTaskOption, std::to_string(prologs.size())};
  words.insert(words.end(), prologs.begin(), prologs.end());
  words.push_back(std::to_string(epilogs.size()));
  words.insert(words.end(), epilogs.begin(), epilogs.end());
  words.insert(words.end(), task.begin(), task.end());
  return words;
}

std::string apply_task_prolog(std::string_view output, std::map<std::string, std::string>& environment) {
  std::string printed;
  for (const auto& line : split(output, '\n')) {
    const std::string_view text = line;
    if (text.starts_with("print ")) {
      printed.append(text.substr(6)).push_back('\n');
    } else if (text.starts_with("unset ")) {
      environment.erase(std::string(trim(text.substr(6))));
    } else if (text.starts_with("export ")) {
      const std::string_view said = text.substr(7);
      const auto mark = said.find('=');
      const std::string_view name = trim(said.substr(0, mark == said.npos ? 0 : mark));
      if (mark != said.npos && is_name(name) && said.find('\0') == said.npos)
        environment[std::string(name)] = said.substr(mark + 1);
    }
  }
  return printed;
}

int run_around_task(int count, char** words) {
  int at = 0;
  const auto programs = [&]() -> std::vector<std::string> {
    std::vector<std::string> out;
    const auto number = at < count ? parse_uint(words[at++]) : std::nullopt;
    for (std::uint64_t i = 0; number && *number <= kProgramsMax && i < *number && at < count; ++i)
      out.emplace_back(words[at++]);
    return out;
  };
  const std::vector<std::string> prologs = programs(), epilogs = programs();
  const std::vector<std::string> task(words + at, words + count);
  if (task.empty()) {
    complain("there is no task to run programs around");
    return 2;
  }
  Environment environment = own_environment();
  environment["SLURM_TASK_PID"] = std::to_string(::getpid());
  for (const std::string& prolog : prologs)
    if (const int code = run_prolog(prolog, environment); code != 0) {
      complain(format("task prolog {}: exit code {}", prolog, code));
      return code;
    }
  if (epilogs.empty())
    become(Words(task), environment);
  return run_task_with(epilogs, task, environment);
}

}  // namespace lockstep
