#include "io/local/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern "C" {  // glibc 2.36 forgot to say so itself
#include <sys/pidfd.h>
}

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "base/plain_file.h"
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

bool runs_as(pid_t pid, uid_t user) {
  const auto text = read_file(format("/proc/{}/status", pid));
  const auto at = text ? text->find("\nUid:") : std::string::npos;
  if (at == std::string::npos)
    return false;
  const auto words = split_words(text->substr(at + 5, text->find('\n', at + 1) - at - 5));
  const std::string own = std::to_string(user);
  return words.size() == 4 && std::all_of(words.begin(), words.end(), [&own](const auto& word) { return word == own; });
}

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

bool is_stopped(pid_t pid) {
  const auto stat = read_file(format("/proc/{}/stat", pid));
  const auto close = stat ? stat->rfind(')') : std::string::npos;
  return close != std::string::npos && close + 2 < stat->size() &&
         ((*stat)[close + 2] == 'T' || (*stat)[close + 2] == 't');
}

Instant boot_now() {
  timespec t{};
  clock_gettime(CLOCK_BOOTTIME, &t);
  return Instant{t.tv_sec * 1'000'000 + t.tv_nsec / 1'000};
}

std::string process_text(const ProcessId& process) { return format("{} {}", process.pid, process.start_ticks); }

std::optional<ProcessId> parse_process(std::string_view text) {
  const auto words = split_words(text);
  if (words.size() != 2)
    return std::nullopt;
  const auto pid = parse_uint(words[0]);
  const auto ticks = parse_uint(words[1]);
  if (!pid || !ticks || *pid == 0 || *pid > INT_MAX)
    return std::nullopt;
  return ProcessId{static_cast<pid_t>(*pid), *ticks};
}

std::optional<ProcessId> read_pid_file(const std::string& path) {
  const auto text = read_file(path);
  return text ? parse_process(*text) : std::nullopt;
}

Result<void> write_pid_file(const std::string& path, const ProcessId& process) {
  CHECK(process.pid > 0, path);
  return write_file(path, process_text(process) + "\n");
}

namespace {

// One that just ends, or has not yet begun with its program, shows nothing of these.
enum class Whose : unsigned char { kOurs, kAnothers, kNotShown };

// PF_EXITING of include/linux/sched.h, in the flags of /proc/PID/stat: it has left its program, and is not a zombie
// yet.
bool is_exiting(pid_t pid) {
  constexpr std::uint64_t kExiting = 4;
  const auto stat = read_file(format("/proc/{}/stat", pid));
  const auto close = stat ? stat->rfind(')') : std::string::npos;
  if (close == std::string::npos)
    return false;
  const auto fields = split_words(std::string_view(*stat).substr(close + 1));
  return fields.size() > 6 && (parse_uint(fields[6]).value_or(0) & kExiting) != 0;
}

// SIGKILL was sent, and the process has not run since: as yet it looks as if it lived.
bool is_killed(pid_t pid) {
  constexpr std::uint64_t kKill = std::uint64_t{1} << (SIGKILL - 1);
  const auto status = read_file(format("/proc/{}/status", pid));
  for (const std::string_view field : {"\nSigPnd:\t", "\nShdPnd:\t"})
    if (const auto at = status ? status->find(field) : std::string::npos; at != std::string::npos)
      if ((std::strtoull(status->c_str() + at + field.size(), nullptr, 16) & kKill) != 0)
        return true;
  return false;
}

// Ours runs one of our programs, as us, and was told this id by whoever started it.
Whose whose(pid_t pid, const std::string& cluster_id) {
  if (is_killed(pid))
    return Whose::kNotShown;
  struct stat owner {};
  char program[PATH_MAX];
  const ssize_t n = readlink(format("/proc/{}/exe", pid).c_str(), program, sizeof program);
  if (n > 0 && stat(format("/proc/{}", pid).c_str(), &owner) == 0 && owner.st_uid != geteuid())
    return Whose::kAnothers;
  if (n <= 0)
    return errno == ENOENT || errno == ESRCH ? Whose::kNotShown : Whose::kAnothers;
  std::string_view name(program, static_cast<std::size_t>(n));
  if (constexpr std::string_view kReplaced = " (deleted)"; name.ends_with(kReplaced))
    name.remove_suffix(kReplaced.size());  // by an upgrade
  name.remove_prefix(name.rfind('/') + 1);
  if (name != "lockstep" && name != "lockstepd" && name != "lockstep-agent")
    return Whose::kAnothers;
  const auto environment = read_file(format("/proc/{}/environ", pid));
  if (!environment || environment->empty())
    return Whose::kNotShown;
  const auto variables = split(*environment, '\0');
  const std::string told = format("{}={}", kClusterIdVariable, cluster_id);
  return std::find(variables.begin(), variables.end(), told) != variables.end() ? Whose::kOurs : Whose::kAnothers;
}

}  // namespace

Result<OwnProcess> OwnProcess::prove(const ProcessId& noted, const std::string& cluster_id) {
  CHECK(!cluster_id.empty());
  // The descriptor first: what is read after it and agrees with the note is about the process that it holds.
  const int fd = pidfd_open(noted.pid, 0);
  if (fd < 0)
    return errno == ESRCH ? not_found(format("process {} is gone", noted.pid)) : os_error("pidfd_open");
  OwnProcess process(noted, fd);
  constexpr int kLooks = 200;  // of 10 ms
  Whose found = Whose::kNotShown;
  for (int look = 0; look < kLooks && found == Whose::kNotShown; ++look) {
    if ((look > 0 && process.ended(millis(10))) || !alive(noted))
      return not_found(format("process {} is gone", noted.pid));
    found = whose(noted.pid, cluster_id);
  }
  // It may have ended while we looked.
  if (found != Whose::kOurs && !alive(noted))
    return not_found(format("process {} is gone", noted.pid));
  if (found == Whose::kNotShown && (is_exiting(noted.pid) || is_killed(noted.pid)))
    return Error{Errc::kTimeout,
                 format("process {} ends, and does not come to its end: something of it waits for a disk or a device",
                        noted.pid),
                 {}};
  if (found != Whose::kOurs)
    return denied(format("process {} is none of this cluster's: it is left alone", noted.pid));
  return process;
}

OwnProcess::OwnProcess(const ProcessId& id, int fd) : id_(id), fd_(fd) {
  CHECK(id_.pid > 0 && fd_ >= 0, format("process {}", id_.pid));
}

OwnProcess& OwnProcess::operator=(OwnProcess&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(fd_, other.fd_);
  return *this;
}

OwnProcess::~OwnProcess() {
  if (fd_ >= 0)
    close(fd_);
}

void OwnProcess::signal(int signal) const {
  CHECK(fd_ >= 0, "a process that was given away is signalled");
  (void)!pidfd_send_signal(fd_, signal, nullptr, 0);
}

bool OwnProcess::ended(Duration wait) const {
  CHECK(fd_ >= 0 && wait >= Duration{});
  pollfd poll_fd{fd_, POLLIN, 0};
  return poll(&poll_fd, 1, static_cast<int>(wait.millis())) == 1;
}

bool OwnProcess::end(Duration patience) const {
  signal(SIGTERM);
  signal(SIGCONT);
  if (ended(patience))
    return true;
  signal(SIGKILL);
  return ended(seconds(5));
}

namespace {

// One end of a pipe.
class PipeEnd {
 public:
  explicit PipeEnd(int fd) : fd_(fd) {}
  PipeEnd(PipeEnd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  PipeEnd& operator=(PipeEnd&&) = delete;
  ~PipeEnd() { reset(); }
  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0)
      close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

struct Pipe {
  PipeEnd reading, writing;
};
Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return os_error("pipe");
  return Pipe{PipeEnd(ends[0]), PipeEnd(ends[1])};
}

void send_all(int fd, const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = write(fd, text.data() + sent, text.size() - sent);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return;
    sent += static_cast<std::size_t>(n);
  }
}

// Until both have come to their end. A descriptor of -1 has.
void read_all(int out, int err, Ran& ran) {
  pollfd fds[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  std::string* const texts[2] = {&ran.out, &ran.err};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (poll(fds, 2, -1) < 0 && errno != EINTR)
      return;
    for (int i = 0; i < 2; ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0)
        continue;
      char buffer[4096];
      const ssize_t n = read(fds[i].fd, buffer, sizeof buffer);
      if (n > 0)
        texts[i]->append(buffer, static_cast<std::size_t>(n));
      else if (n == 0 || errno != EINTR)
        fds[i].fd = -1;
    }
  }
}

Result<Ran> run(const std::vector<std::string>& words, const std::string& input, bool keeps_output) {
  CHECK(!words.empty());
  Pipe in = TRY(make_pipe()), out = TRY(make_pipe()), err = TRY(make_pipe());
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in.reading.get(), 0);
  if (keeps_output)
    posix_spawn_file_actions_adddup2(&files, out.writing.get(), 1);
  posix_spawn_file_actions_adddup2(&files, err.writing.get(), 2);
  auto argv = words;
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0].c_str(), &files, nullptr, pointers(argv).data(), environ);
  posix_spawn_file_actions_destroy(&files);
  for (PipeEnd* ours : {&in.reading, &out.writing, &err.writing}) ours->reset();
  if (error != 0) {
    errno = error;
    return os_error("cannot run " + words[0]);
  }
  send_all(in.writing.get(), input);
  in.writing.reset();
  Ran ran;
  read_all(out.reading.get(), err.reading.get(), ran);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

}  // namespace

Result<Ran> run_and_hear(const std::vector<std::string>& words, const std::string& input) {
  return run(words, input, true);
}

Result<void> run_program(const std::vector<std::string>& words, const std::string& input) {
  const Ran ran = TRY(run(words, input, false));
  if (ran.code == 0)
    return {};
  return Error{Errc::kIo, format("{} failed: {}", join(words, " "), trim(ran.err)), {}};
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> out;
  const std::string threads = format("/proc/{}/task", pid);
  DIR* dir = opendir(threads.c_str());
  while (const dirent* thread = dir ? readdir(dir) : nullptr) {
    const auto text = read_file(format("{}/{}/children", threads, thread->d_name));
    for (const auto& word : text ? split_words(*text) : std::vector<std::string>())
      if (const auto child = parse_uint(word); child && *child > 0)  // 0: beyond our namespace
        out.push_back(static_cast<pid_t>(*child));
  }
  if (dir)
    closedir(dir);
  return out;
}

std::string command_name(pid_t pid) {
  const auto text = read_file(format("/proc/{}/comm", pid));
  return text ? std::string(trim(*text)) : std::string();
}

Result<std::string> read_file(const std::string& path) {
  auto text = read_plain(path);
  if (!text && text.error().code != Errc::kDenied)
    return Error{Errc::kIo, "cannot read " + text.error().message, {}};
  return text;
}

Result<void> write_file(const std::string& path, std::string_view text, unsigned mode) {
  const std::string fresh = path + ".new";
  unlink(fresh.c_str());  // of one that was interrupted
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return os_error("cannot write " + fresh);
  bool good = fchmod(fd, mode) == 0;
  while (good && !text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    good = n >= 0 || errno == EINTR;
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  }
  good = good && rename(fresh.c_str(), path.c_str()) == 0;
  const Error error = os_error("cannot write " + path);
  close(fd);
  if (good)
    return {};
  unlink(fresh.c_str());
  return error;
}

Result<void> make_dirs(const std::string& path, unsigned mode) {
  // The first part of an absolute path is "/", which is there.
  for (std::size_t at = path.find_first_not_of('/'); at < path.size();) {
    at = path.find('/', at);
    const std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0700) == 0 ? chmod(part.c_str(), mode) != 0 : errno != EEXIST)
      return os_error("cannot make directory " + part);
    if (at != std::string::npos)
      ++at;
  }
  return {};
}

}  // namespace lockstep
