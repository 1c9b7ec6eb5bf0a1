#include "io/local/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "io/local/restarts.h"
#include "io/local/standing.h"

extern char** environ;

namespace lockstep {

namespace {

constexpr const char* kPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
// Names that a daemon keeps; one that ends in _ stands for all that begin with it.
constexpr std::string_view kKept[] = {"LANG", "LC_", "TZ", "LOCKSTEP_", "ASAN_", "TSAN_", "UBSAN_", "LSAN_"};
// Which cluster the shell speaks to says nothing about the one that is started from it.
constexpr std::string_view kDropped[] = {"LOCKSTEP_SOCKET", "LOCKSTEP_DIR"};

bool kept(std::string_view name) {
  if (std::find(std::begin(kDropped), std::end(kDropped), name) != std::end(kDropped))
    return false;
  return std::any_of(std::begin(kKept), std::end(kKept),
                     [&](std::string_view one) { return one.ends_with('_') ? name.starts_with(one) : name == one; });
}

void new_keyring() { ::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr); }

std::vector<char*> words_of(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (auto& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

std::vector<std::string> daemon_environment(const std::vector<std::pair<std::string, std::string>>& more) {
  std::vector<std::string> out = {kPath};
  for (char** e = environ; e && *e; ++e) {
    const std::string_view name = std::string_view(*e).substr(0, std::string_view(*e).find('='));
    const bool given = std::any_of(more.begin(), more.end(), [&](const auto& pair) { return pair.first == name; });
    if (kept(name) && !given)
      out.emplace_back(*e);
  }
  for (const auto& [name, value] : more) out.push_back(name + "=" + value);
  return out;
}

namespace {

// Copies what lies behind `at`, and moves that on. False: not all of it.
bool copy_rest(int from, int to, off_t& at) {
  std::vector<char> chunk(256 << 10);
  ssize_t n = 0;
  while ((n = ::pread(from, chunk.data(), chunk.size(), at)) > 0 &&
         ::write(to, chunk.data(), static_cast<std::size_t>(n)) == n)
    at += n;
  return n == 0;
}

// What the log holds becomes PATH.1, and that PATH.2. False: nothing was lost, and nothing won.
bool copy_aside(int log, const std::string& path) {
  const std::string fresh = path + ".1.new";
  ::unlink(fresh.c_str());
  const int to = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (to < 0)
    return false;
  off_t at = 0;
  bool whole = copy_rest(log, to, at);
  if (whole) {
    ::rename((path + ".1").c_str(), (path + ".2").c_str());
    // Once more at the very end, for what was written meanwhile.
    whole = ::rename(fresh.c_str(), (path + ".1").c_str()) == 0 && copy_rest(log, to, at);
  }
  if (!whole)
    ::unlink(fresh.c_str());
  ::close(to);
  return whole;
}

}  // namespace

void rotate_log(const std::string& path, std::int64_t most) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode) || found.st_size <= most)
    return;
  const auto log = open_plain(path, O_RDWR);
  if (!log)
    return;
  // On a full disk the text goes when there is much too much of it.
  if (copy_aside(*log, path) || found.st_size > 4 * most)
    (void)!::ftruncate(*log, 0);
  ::close(*log);
}

Result<int> open_log(const std::string& path) {
  const int first = TRY(open_plain(path, O_WRONLY | O_CREAT | O_APPEND));
  const int fd = ::fcntl(first, F_DUPFD_CLOEXEC, 4);
  const Error error = os_error("cannot open the log " + path);
  ::close(first);
  if (fd < 0)
    return error;
  CHECK(fd >= 4, format("a log as descriptor {}, which a daemon's own would take", fd));
  return fd;
}

void leave_the_shell(int log, int kept) {
  ::setsid();
  new_keyring();
  ::umask(077);
  if (::chdir("/") != 0) {
    // It stays where it is: nothing of ours is looked for relative to a directory.
  }
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (kept >= 0 && kept != 3)
    ::dup2(kept, 3);
  else if (kept == 3)
    ::fcntl(3, F_SETFD, 0);
  if (null != 0)
    ::dup2(null, 0);
  ::dup2(log, 1);
  ::dup2(log, 2);
  ::close_range(kept >= 0 ? 4 : 3, ~0u, 0);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  take_own_standing();
}

void close_behind_us(mode_t mask) {
  ::close_range(3, ~0u, 0);
  new_keyring();
  ::umask(mask);
}

Result<ProcessId> start_daemon(const Daemon& daemon) {
  CHECK(!daemon.argv.empty());
  const int log = TRY(open_log(daemon.log_path));
  struct stat before {};
  (void)::fstat(log, &before);
  auto argv = daemon.argv;
  auto env = daemon_environment(daemon.env);
  const auto argv_words = words_of(argv), env_words = words_of(env);
  int low[2];
  if (::pipe2(low, O_CLOEXEC) != 0)
    return ::close(log), os_error("pipe");
  // The pipe ends in exec; what comes through it is why that failed. It is 3 there, close-on-exec once more.
  const pid_t pid = ::fork();
  if (pid == 0) {
    leave_the_shell(log, low[1]);
    ::fcntl(3, F_SETFD, FD_CLOEXEC);
    ::execve(argv_words[0], argv_words.data(), env_words.data());
    const int why = errno;
    (void)!::write(3, &why, sizeof why);
    ::_exit(127);
  }
  const Error failed = os_error("fork");
  ::close(log);
  ::close(low[1]);
  int why = 0;
  ssize_t n = 0;
  while (pid > 0 && (n = ::read(low[0], &why, sizeof why)) < 0 && errno == EINTR) {}
  ::close(low[0]);
  if (pid < 0)
    return failed;
  if (n > 0) {
    ::waitpid(pid, nullptr, 0);
    return Error{Errc::kIo, format("cannot start {}: {}", daemon.argv[0], ::strerror(why)), {}};
  }
  const auto process = identify(pid);
  if (!process) {
    int status = 0;
    const std::string how = ::waitpid(pid, &status, WNOHANG) == pid
                                ? ending_text(status, daemon.log_path, before.st_size)
                                : "see " + daemon.log_path;
    return Error{Errc::kIo, format("{} ended at once: {}", daemon.argv[0], how), {}};
  }
  return *process;
}

}  // namespace lockstep
