#include "io/local/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"

extern char** environ;

namespace lockstep {

namespace {

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (auto& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

std::optional<ProcessId> identify(pid_t pid) {
  const auto stat = read_file(format("/proc/{}/stat", pid));
  if (!stat)
    return std::nullopt;
  const auto close = stat->rfind(')');  // the command name may hold anything, blanks and brackets too
  if (close == std::string::npos)
    return std::nullopt;
  const auto fields = split_words(std::string_view(*stat).substr(close + 1));
  if (fields.size() < 20 || fields[0] == "Z" || fields[0] == "X")
    return std::nullopt;
  const auto ticks = parse_uint(fields[19]);
  if (!ticks)
    return std::nullopt;
  return ProcessId{pid, *ticks};
}

bool alive(const ProcessId& process) {
  const auto now = identify(process.pid);
  return now && *now == process;
}

std::optional<ProcessId> read_pid_file(const std::string& path) {
  const auto text = read_file(path);
  if (!text)
    return std::nullopt;
  const auto words = split_words(*text);
  if (words.size() != 2)
    return std::nullopt;
  const auto pid = parse_uint(words[0]);
  const auto ticks = parse_uint(words[1]);
  if (!pid || !ticks || *pid == 0)
    return std::nullopt;
  const ProcessId process{static_cast<pid_t>(*pid), *ticks};
  if (!alive(process))
    return std::nullopt;
  return process;
}

Result<void> write_pid_file(const std::string& path, const ProcessId& process) {
  return write_file(path, format("{} {}\n", process.pid, process.start_ticks));
}

Result<ProcessId> spawn_detached(const Spawn& spawn) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, spawn.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigfillset(&defaults);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  auto argv = spawn.argv;
  std::vector<std::string> env;
  for (char** e = environ; *e; ++e) {
    const std::string_view entry(*e);
    const bool replaced = std::any_of(spawn.env.begin(), spawn.env.end(),
                                      [&](const auto& pair) { return entry.substr(0, entry.find('=')) == pair.first; });
    if (!replaced)
      env.emplace_back(entry);
  }
  for (const auto& [name, value] : spawn.env) env.push_back(name + "=" + value);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, argv[0].c_str(), &files, &attributes, pointers(argv).data(), pointers(env).data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    errno = error;
    return os_error("cannot start " + spawn.argv[0]);
  }
  const auto process = identify(pid);
  if (!process)
    return Error{Errc::kIo, format("{} ended at once; see {}", spawn.argv[0], spawn.log_path), {}};
  return *process;
}

Result<void> run_program(const std::vector<std::string>& words, const std::string& input) {
  int in[2], err[2];
  if (pipe2(in, O_CLOEXEC) != 0)
    return os_error("pipe");
  if (pipe2(err, O_CLOEXEC) != 0) {
    const auto error = os_error("pipe");
    close(in[0]);
    close(in[1]);
    return error;
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in[0], 0);
  posix_spawn_file_actions_adddup2(&files, err[1], 2);
  auto argv = words;
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0].c_str(), &files, nullptr, pointers(argv).data(), environ);
  posix_spawn_file_actions_destroy(&files);
  close(in[0]);
  close(err[1]);
  if (error != 0) {
    close(in[1]);
    close(err[0]);
    errno = error;
    return os_error("cannot run " + words[0]);
  }
  std::size_t sent = 0;
  while (sent < input.size()) {
    const ssize_t n = write(in[1], input.data() + sent, input.size() - sent);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      break;
    sent += static_cast<std::size_t>(n);
  }
  close(in[1]);
  std::string complaint;
  char buffer[4096];
  for (ssize_t n; (n = read(err[0], buffer, sizeof buffer)) > 0;) complaint.append(buffer, static_cast<std::size_t>(n));
  close(err[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return {};
  return Error{Errc::kIo, format("{} failed: {}", join(words, " "), trim(complaint)), {}};
}

bool end_process(const ProcessId& process, int signal, Duration timeout) {
  if (!alive(process))
    return true;
  kill(process.pid, signal);
  for (std::int64_t waited_us = 0; waited_us < timeout.us; waited_us += 5'000) {
    waitpid(process.pid, nullptr, WNOHANG);
    if (!alive(process))
      return true;
    usleep(5'000);
  }
  return !alive(process);
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> out;
  const auto text = read_file(format("/proc/{}/task/{}/children", pid, pid));
  if (!text)
    return out;
  for (const auto& word : split_words(*text))
    if (const auto child = parse_uint(word))
      out.push_back(static_cast<pid_t>(*child));
  return out;
}

std::string command_name(pid_t pid) {
  const auto text = read_file(format("/proc/{}/comm", pid));
  return text ? std::string(trim(*text)) : std::string();
}

Result<std::string> read_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return os_error("cannot read " + path);
  std::string text;
  char buffer[8192];
  ssize_t n;
  while ((n = read(fd, buffer, sizeof buffer)) > 0) text.append(buffer, static_cast<std::size_t>(n));
  const bool failed = n < 0;
  const auto error = os_error("cannot read " + path);
  close(fd);
  if (failed)
    return error;
  return text;
}

Result<void> write_file(const std::string& path, std::string_view text, unsigned mode) {
  const std::string fresh = path + ".new";
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (fd < 0)
    return os_error("cannot write " + fresh);
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = write(fd, text.data() + written, text.size() - written);
    if (n < 0) {
      const auto error = os_error("cannot write " + fresh);
      close(fd);
      return error;
    }
    written += static_cast<std::size_t>(n);
  }
  close(fd);
  if (rename(fresh.c_str(), path.c_str()) != 0)
    return os_error("cannot replace " + path);
  return {};
}

Result<void> make_dirs(const std::string& path, unsigned mode) {
  for (std::size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at);
    const std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), mode) != 0 && errno != EEXIST)
      return os_error("cannot make directory " + part);
    if (at != std::string::npos)
      ++at;
  }
  return {};
}

}  // namespace lockstep
