#include "io/hook_programs.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/characters.h"
#include "base/text.h"
#include "io/descriptor.h"
#include "shim/orphans.h"

namespace lockstep {
namespace {

constexpr std::size_t kProgramsMax = 256;
constexpr const char* kNotRun = "!";  // in front of why: what does not run among what does
constexpr std::size_t kSaidMax = 200;
constexpr std::size_t kLineMax = 500;   // of a line that goes into the log
constexpr std::size_t kTailMax = 4096;  // of the output, in which its last line is looked for
constexpr std::int64_t kLookMs = 200;   // between two looks whether somebody calls it off
constexpr int kKilledWithin = 2000;     // milliseconds: one that waits for a disk is left to itself then

Error not_trusted(const std::string& path, const std::string& what) {
  return {
      Errc::kDenied,
      format("{} {}: programs that run with the agent's rights, and the directories they lie in, belong to root, and "
             "nobody else may write there",
             path, what),
      {}};
}

Result<void> check_component(const std::string& path, bool on_the_way) {
  struct stat stat {};
  if (::lstat(path.c_str(), &stat) != 0)
    return errno == ENOENT ? not_found(path + ": there is no such file") : failed_call(path);
  if (stat.st_uid != 0 && stat.st_uid != ::geteuid())
    return not_trusted(path, format("belongs to user {}", stat.st_uid));
  const bool sticky = on_the_way && S_ISDIR(stat.st_mode) && (stat.st_mode & S_ISVTX) != 0;
  if (!S_ISLNK(stat.st_mode) && !sticky && (stat.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return not_trusted(path, "can be written by others");
  return {};
}

// The directory of a file and those that lead there. A sticky one may be one of the latter.
Result<void> check_ways(const std::string& path) {
  TRY(check_component("/", true));
  for (std::size_t at = path.find('/', 1); at != path.npos; at = path.find('/', at + 1)) {
    const bool last = path.find('/', at + 1) == path.npos;
    TRY(check_component(path.substr(0, at), !last));
  }
  return {};
}

bool is_pattern(const std::string& text) { return text.find_first_of("*?[") != text.npos; }

Result<std::vector<std::string>> matches_of(const std::string& pattern) {
  if (!is_pattern(pattern))
    return std::vector<std::string>{pattern};
  glob_t found{};
  const int failed = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::string> paths;
  for (std::size_t i = 0; failed == 0 && i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  if (failed != 0 && failed != GLOB_NOMATCH)
    return Error{Errc::kIo, pattern + ": cannot be read", {}};
  return paths;
}

// Of a script, that the shell would call "not found" without saying what.
Result<void> check_interpreter(const std::string& path, const char* real) {
  char text[256];
  const Fd file(::open(real, O_RDONLY | O_CLOEXEC));
  const ssize_t size = file.valid() ? ::read(file.get(), text, sizeof text) : 0;
  std::string_view line(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  if (!line.starts_with("#!"))
    return {};
  line = line.substr(2, std::min(line.find('\n'), line.size()) - 2);
  const std::size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
  const std::string interpreter(line.substr(begin, line.find_first_of(" \t", begin) - begin));
  if (::access(interpreter.c_str(), X_OK) == 0)
    return {};
  const bool from_dos = interpreter.ends_with('\r');
  return Error{Errc::kDenied,
               format("{}: its first line names {}, {}", path, without_control_characters(interpreter, kSaidMax),
                      from_dos ? "with a carriage return behind it: write its lines as Unix does (dos2unix)"
                               : "which is no program here"),
               {}};
}

// Both by the kernel alone: the loop's thread may be doing the same.
int open_pidfd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

Instant now() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return {std::int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000};
}

struct Spawned {
  std::unique_ptr<OwnChild> child;
  pid_t pid = 0;
  Fd output, end;
};

Result<Spawned> spawn_in_session(const std::vector<std::string>& argv, const std::vector<std::string>& env) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return failed_call("pipe");
  Spawned out;
  out.output = Fd(ends[0]);
  const Fd theirs(ends[1]);
  std::vector<char*> words, variables;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& variable : env) variables.push_back(const_cast<char*>(variable.c_str()));
  words.push_back(nullptr);
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), 2);
  ::posix_spawn_file_actions_addchdir_np(&actions, "/");
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  int failed = 0;
  out.child = std::make_unique<OwnChild>([&] {
    failed = ::posix_spawn(&out.pid, words[0], &actions, &attributes, words.data(), variables.data());
    return failed == 0 ? out.pid : 0;
  });
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0)
    return failed_call(argv[0], failed);
  out.end = Fd(open_pidfd(out.pid));
  return out;
}

// What it says is read until it has ended or its time has; the last of it is kept.
void listen(const Spawned& process, Instant until, const std::atomic<bool>* over, std::string& tail) {
  bool silent = false;
  for (;;) {
    const std::int64_t left = (until - now()).millis();
    if (left <= 0 || (over && *over))
      return;
    pollfd watched[2] = {{process.end.get(), POLLIN, 0}, {silent ? -1 : process.output.get(), POLLIN, 0}};
    const int ready = ::poll(watched, 2, static_cast<int>(std::min(left, kLookMs)));
    if (ready < 0 && errno != EINTR)
      return;
    if (ready > 0 && watched[1].revents != 0) {
      char chunk[4096];
      const ssize_t n = ::read(process.output.get(), chunk, sizeof chunk);
      silent = n <= 0;
      if (n > 0)
        tail.append(chunk, static_cast<std::size_t>(n));
      if (tail.size() > 2 * kTailMax)
        tail.erase(0, tail.size() - kTailMax);
    } else if (ready > 0 && watched[0].revents != 0) {
      return;
    }
  }
}

// Both by number and by descriptor: it is not reaped before the session is killed, so the number is still its own.
bool reap(const Spawned& process, int patience_ms, int& status) {
  pollfd watched{process.end.get(), POLLIN, 0};
  for (const Instant until = now() + millis(patience_ms);;) {
    const pid_t reaped = ::waitpid(process.pid, &status, WNOHANG);
    if (reaped == process.pid)
      return true;
    const std::int64_t left = (until - now()).millis();
    if (reaped < 0 || left <= 0)
      return false;
    ::poll(&watched, 1, static_cast<int>(left));
  }
}

}  // namespace

Result<void> check_trusted_program(const std::string& path) {
  if (!path.starts_with('/'))
    return invalid(format("\"{}\" is no path from / on", path));
  TRY(check_ways(path));
  TRY(check_component(path, false));
  char real[PATH_MAX];
  if (!::realpath(path.c_str(), real))
    return failed_call(path);
  if (path != real) {
    TRY(check_ways(real));
    TRY(check_component(real, false));
  }
  struct stat stat {};
  if (::stat(real, &stat) != 0 || !S_ISREG(stat.st_mode))
    return Error{
        Errc::kDenied, format("{} is no file: a program, or a pattern that names programs, is wanted", path), {}};
  if ((stat.st_mode & S_IXUSR) == 0)
    return Error{Errc::kDenied, format("{} is not executable: chmod 755 {}", path, path), {}};
  return check_interpreter(path, real);
}

Result<std::vector<std::string>> find_hook_programs(const std::vector<std::string>& patterns, AtFailure at_failure) {
  std::vector<std::string> programs;
  for (const std::string& pattern : patterns) {
    const auto found = TRY(matches_of(pattern));
    programs.insert(programs.end(), found.begin(), found.end());
    if (programs.size() > kProgramsMax)
      return invalid(format("{} names more than {} programs", pattern, kProgramsMax));
  }
  for (std::string& program : programs) {
    const auto trusted = check_trusted_program(program);
    if (!trusted && at_failure == AtFailure::kStop)
      return trusted.error();
    if (!trusted)
      program = std::string(kNotRun) + without_control_characters(trusted.error().message, kLineMax);
  }
  return programs;
}

std::vector<std::string> words_to_run(const std::vector<std::string>& programs, AtFailure at_failure) {
  constexpr const char* kEach =
      "first=0\n"
      "for program; do\n"
      "  why=${program#!}\n"
      "  printf '\\n\\001%s\\n' \"$why\"\n"
      "  if [ \"$why\" != \"$program\" ]; then\n"
      "    code=1 end='not run'\n"
      "  else\n"
      "    \"$program\"\n"
      "    code=$? end=\"exit code $?\"\n"
      "  fi\n"
      "  if [ $code -ne 0 ] && [ $first -eq 0 ]; then\n"
      "    first=$code\n"
      "    failed=$why how=$end\n"
      "    $stop\n"
      "  fi\n"
      "done\n"
      "[ $first -eq 0 ] || printf '\\n\\002%s\\n\\002%s\\n' \"$failed\" \"$how\"\n"
      "exit $first\n";
  std::vector<std::string> words = {
      "/bin/sh", "-c", format("stop={}\n{}", at_failure == AtFailure::kStop ? "break" : ":", kEach), "lockstep-hooks"};
  words.insert(words.end(), programs.begin(), programs.end());
  return words;
}

HookOutput read_hook_output(std::string_view text) {
  HookOutput out;
  std::map<std::string, std::string> last;  // line of each program that said anything
  std::vector<std::string> verdict;
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with('\1')) {
      out.program = line.substr(1);
    } else if (line.starts_with('\2')) {
      verdict.push_back(line.substr(1));
    } else if (!trim(line).empty()) {
      out.lines.push_back(without_control_characters(trim(line), kLineMax));
      last[out.program] = out.lines.back();
    }
  }
  if (verdict.size() == 2) {
    out.program = verdict[0];
    out.verdict = verdict[1];
  }
  out.said = without_control_characters(last[out.program], kSaidMax);
  out.program = without_control_characters(out.program, kLineMax);
  return out;
}

std::string last_line_of(std::string_view text) {
  std::string_view line = text;
  while (!line.empty() && trim(line.substr(line.rfind('\n') == line.npos ? 0 : line.rfind('\n') + 1)).empty())
    line = line.substr(0, line.rfind('\n') == line.npos ? 0 : line.rfind('\n'));
  line = trim(line.substr(line.rfind('\n') == line.npos ? 0 : line.rfind('\n') + 1));
  return without_control_characters(std::string(line), kSaidMax);
}

Result<ProgramEnd> run_program_within(const std::vector<std::string>& argv, const std::vector<std::string>& env,
                                      Duration limit, const std::atomic<bool>* over) {
  const Spawned process = TRY(spawn_in_session(argv, env));
  std::string tail;
  listen(process, now() + limit, over, tail);
  ProgramEnd end;
  siginfo_t ended{};
  const bool ended_by_itself =
      ::waitid(P_PID, static_cast<id_t>(process.pid), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      ended.si_pid == process.pid;
  end.late = !ended_by_itself;
  ::kill(-process.pid, SIGKILL);
  int status = 0;
  if (!reap(process, kKilledWithin, status))
    return Error{Errc::kTimeout,
                 format("{} does not end, though it was killed: it waits for a disk or a device", argv.back()),
                 {}};
  if (WIFSIGNALED(status))
    end.signal = WTERMSIG(status);
  else
    end.code = WEXITSTATUS(status);
  end.said = last_line_of(tail);
  return end;
}

}  // namespace lockstep
