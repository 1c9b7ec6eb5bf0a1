#include "shim/job_place_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/plain_file.h"
#include "base/text.h"

namespace lockstep {
namespace {

constexpr unsigned long kPlain = MS_NOSUID | MS_NODEV;
constexpr const char* kTmp = "/tmp";
constexpr const char* kVarTmp = "/var/tmp";
constexpr const char* kRunLock = "/run/lock";
constexpr std::int64_t kRunLockMb = 5;  // as systemd makes it

std::string link_to(int fd) { return format("/proc/self/fd/{}", fd); }

std::string real_path_of(int fd) {
  char path[PATH_MAX];
  const ssize_t n = ::readlink(link_to(fd).c_str(), path, sizeof path);
  return n > 0 && static_cast<std::size_t>(n) < sizeof path ? std::string(path, static_cast<std::size_t>(n))
                                                            : std::string();
}

std::string real_path_of(const char* path) {
  char real[PATH_MAX];
  return ::realpath(path, real) ? std::string(real) : std::string(path);
}

Result<void> mounted(int result, const std::string& where) {
  return result == 0 ? Result<void>() : os_error(format("cannot mount the job's own {}", where));
}

Result<void> show_at(const std::string& source, const std::string& target, unsigned long flags) {
  TRY(mounted(::mount(source.c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr), target));
  return flags == 0 ? Result<void>()
                    : mounted(::mount(nullptr, target.c_str(), nullptr, MS_REMOUNT | MS_BIND | flags, nullptr), target);
}

bool is_open_to_all(const char* folder) {
  struct stat stat {};
  return ::lstat(folder, &stat) == 0 && S_ISDIR(stat.st_mode) && (stat.st_mode & S_IWOTH) != 0;
}

Result<void> mount_memory(const char* target, std::int64_t mb) {
  const std::string options = mb > 0 ? format("mode=1777,size={}m", mb) : std::string("mode=1777");
  return mounted(::mount("tmpfs", target, "tmpfs", kPlain, options.c_str()), target);
}

// Opened with the rights of who named it.
class AsUser {
 public:
  explicit AsUser(const JobPlace& place) {
    if (::syscall(SYS_setgroups, place.groups.size(), place.groups.data()) != 0 ||
        ::syscall(SYS_setresgid, -1, place.gid, -1) != 0 || ::syscall(SYS_setresuid, -1, place.uid, -1) != 0)
      ::_exit(1);  // whose rights are meant, those have to hold
  }
  ~AsUser() {
    if (::syscall(SYS_setresuid, -1, 0, -1) != 0 || ::syscall(SYS_setresgid, -1, 0, -1) != 0 ||
        ::syscall(SYS_setgroups, 0, nullptr) != 0)
      ::_exit(1);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // whoever becomes another user loses it
  }
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
};

// Of the new namespace, and before anything is mounted over it. -1: there is to be none.
Result<int> open_source(const std::string& path) {
  const int fd = path.empty() ? -1 : ::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
  return fd < 0 && !path.empty() ? Result<int>(os_error(path)) : Result<int>(fd);
}

struct OpenSources {
  int tmp = -1, var_tmp = -1, passwd = -1, group = -1;
};

struct ShownFolder {
  int fd = -1;
  std::string path;  // as the kernel calls it
};

bool lies_below(const std::string& path, const std::string& above) {
  return path.size() > above.size() + 1 && path.starts_with(above) && path[above.size()] == '/';
}

// What is seen below a directory of the job's own as it lies below the node's.
std::vector<ShownFolder> shown_below(const JobPlace& place, const std::string& above) {
  std::vector<ShownFolder> out;
  const auto add = [&](const std::string& path) {
    const int fd = path.empty() ? -1 : ::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    const std::string real = fd < 0 ? std::string() : real_path_of(fd);
    const bool is_new =
        lies_below(real, above) && std::none_of(out.begin(), out.end(), [&real](const ShownFolder& other) {
          return real == other.path || lies_below(real, other.path);
        });
    if (is_new)
      out.push_back({fd, real});
    else if (fd >= 0)
      ::close(fd);
  };
  for (const std::string& path : place.shown) add(path);
  add(place.scratch);
  if (lies_below(place.work_dir, above)) {  // else it may lie where a file server does not answer
    const AsUser user(place);
    add(place.work_dir);
  }
  return out;
}

// Directories of ours on the way to where something is shown. Nobody else has been here yet.
Result<int> make_way(const std::string& above, const std::string& path) {
  int at = ::open(above.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  for (const std::string& part : split(path.substr(above.size() + 1), '/')) {
    const bool made = at >= 0 && (::mkdirat(at, part.c_str(), 0755) == 0 || errno == EEXIST);
    const int next = made ? ::openat(at, part.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    const int why = errno;
    if (at >= 0)
      ::close(at);
    errno = why;
    at = next;
    if (at < 0)
      return os_error(format("cannot show {} to the job", path));
  }
  return at;
}

// tmpfs_mb: > 0: in memory, of this size. Else it is the directory `own`.
Result<void> mount_tmp(const JobPlace& place, const char* target, int own, std::int64_t tmpfs_mb) {
  const std::string real = real_path_of(target);
  const std::vector<ShownFolder> shown = shown_below(place, real);
  if (tmpfs_mb > 0)
    TRY(mount_memory(real.c_str(), tmpfs_mb));
  else
    TRY(show_at(link_to(own), real, kPlain));
  for (const ShownFolder& one : shown) {
    const int at = TRY(make_way(real, one.path));
    TRY(mounted(::mount(link_to(one.fd).c_str(), link_to(at).c_str(), nullptr, MS_BIND | MS_REC, nullptr), one.path));
    ::close(at);
    ::close(one.fd);
  }
  return {};
}

// What lies below /proc as mounts of their own: masks of a container that this machine is, or lxcfs.
std::vector<std::string> mounts_below_proc() {
  std::vector<std::string> out;
  const auto text = read_plain("/proc/self/mountinfo", Links::kFollowed);
  for (const std::string& line : text ? split(*text, '\n') : std::vector<std::string>())
    if (const auto words = split_words(line); words.size() > 4 && words[4].starts_with("/proc/"))
      out.push_back(words[4]);
  return out;
}

// Processes of others are not seen. Whoever may trace all, as root may, sees all.
Result<void> mount_processes() {
  std::vector<ShownFolder> kept;
  for (const std::string& path : mounts_below_proc())
    if (const int fd = ::open(path.c_str(), O_PATH | O_CLOEXEC); fd >= 0)
      kept.push_back({fd, path});
  const unsigned long flags = kPlain | MS_NOEXEC;
  if (::mount("proc", "/proc", "proc", flags, "hidepid=invisible") != 0)
    TRY(mounted(::mount("proc", "/proc", "proc", flags, "hidepid=2"), "/proc"));
  for (const ShownFolder& one : kept) {
    ::mount(link_to(one.fd).c_str(), one.path.c_str(), nullptr, MS_BIND | MS_REC, nullptr);
    ::close(one.fd);
  }
  return {};
}

Result<void> mount_names(const OpenSources& sources) {
  constexpr unsigned long kRead = kPlain | MS_NOEXEC | MS_RDONLY;
  if (sources.passwd >= 0)
    TRY(show_at(link_to(sources.passwd), "/etc/passwd", kRead));
  if (sources.group >= 0)
    TRY(show_at(link_to(sources.group), "/etc/group", kRead));
  // Its cache knows what the node knows, and is asked first.
  if ((sources.passwd >= 0 || sources.group >= 0) && ::access("/run/nscd", F_OK) == 0)
    TRY(mounted(::mount("tmpfs", "/run/nscd", "tmpfs", kRead, "mode=755,size=4k"), "/run/nscd"));
  return {};
}

void tell_maker(int fd, const std::string& text) {
  [[maybe_unused]] const ssize_t n = ::write(fd, text.data(), text.size());
}

bool wait_for_byte(int fd) {
  char byte;
  ssize_t n;
  do n = ::read(fd, &byte, 1);
  while (n < 0 && errno == EINTR);
  return n == 1;
}

// A process in a mount namespace of its own, until we let it go.
class FirstInside {
 public:
  static Result<FirstInside> make(int processor, const JobPlace& place, const PlaceSources& sources);
  ~FirstInside() {
    for (const int fd : {told_, hold_})
      if (fd >= 0)
        ::close(fd);
    while (pid_ > 0 && ::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
  }
  FirstInside(FirstInside&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)),
        told_(std::exchange(other.told_, -1)),
        hold_(std::exchange(other.hold_, -1)) {}

  std::string namespace_file(const char* kind) const { return format("/proc/{}/ns/{}", pid_, kind); }
  Result<void> mount();

 private:
  FirstInside() = default;
  std::string hear() const;

  pid_t pid_ = 0;
  int told_ = -1, hold_ = -1;
};

constexpr const char* kDone = "!";

[[noreturn]] void be_first_inside(int processor, const JobPlace& place, const PlaceSources& sources, int tell,
                                  int wait) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::umask(022);
  if (processor >= 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }
  if (::unshare(CLONE_NEWNS | CLONE_NEWIPC) != 0)
    ::_exit(1);
  tell_maker(tell, kDone);
  if (!wait_for_byte(wait))
    ::_exit(0);
  const auto made = mount_job_place(place, sources);
  tell_maker(tell, made.ok() ? kDone : made.error().message);
  ::close(tell);
  wait_for_byte(wait);
  ::_exit(0);
}

Result<FirstInside> FirstInside::make(int processor, const JobPlace& place, const PlaceSources& sources) {
  FirstInside first;
  int told[2] = {-1, -1}, hold[2] = {-1, -1};
  if (::pipe2(told, O_CLOEXEC) != 0)
    return os_error("pipe");
  first.told_ = told[0];
  if (::pipe2(hold, O_CLOEXEC) == 0)
    first.pid_ = ::fork();
  if (hold[0] >= 0 && first.pid_ == 0) {
    ::close(told[0]);
    ::close(hold[1]);
    be_first_inside(processor, place, sources, told[1], hold[0]);
  }
  const Error error = os_error("cannot make a process for the job's mounts");
  first.hold_ = hold[1];
  ::close(told[1]);
  if (hold[0] >= 0)
    ::close(hold[0]);
  if (first.pid_ <= 0)
    return error;
  if (!wait_for_byte(told[0]))
    return Error{Errc::kIo,
                 "cannot make a mount namespace for the job: the kernel refuses, or a limit is reached "
                 "(sysctl user.max_mnt_namespaces)",
                 {}};
  return first;
}

std::string FirstInside::hear() const {
  std::string text;
  char chunk[1024];
  for (;;) {
    const ssize_t n = ::read(told_, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return text;
    text.append(chunk, static_cast<std::size_t>(n));
  }
}

Result<void> FirstInside::mount() {
  tell_maker(hold_, kDone);
  const std::string said = hear();
  if (said == kDone)
    return {};
  return Error{Errc::kIo, said.empty() ? "the process that makes the job's mounts was killed" : said, {}};
}

// Of a namespace the kernel takes a mount only where that is younger than ours, by numbers that some kernels (6.18)
// give out for each processor by itself. On the one that ours was made on there is a higher one.
Result<FirstInside> make_held(const JobPlace& place, const PlaceSources& sources, const PlaceFiles& files) {
  constexpr int kWherever = -1;
  cpu_set_t processors;
  CPU_ZERO(&processors);
  ::sched_getaffinity(0, sizeof processors, &processors);
  for (int processor = kWherever; processor < CPU_SETSIZE; ++processor) {
    if (processor != kWherever && !CPU_ISSET(processor, &processors))
      continue;
    FirstInside first = TRY(FirstInside::make(processor, place, sources));
    const std::string mounts = first.namespace_file("mnt"), ipc = first.namespace_file("ipc");
    if (::mount(mounts.c_str(), files.mounts.c_str(), nullptr, MS_BIND, nullptr) == 0) {
      if (::mount(ipc.c_str(), files.ipc.c_str(), nullptr, MS_BIND, nullptr) == 0)
        return first;
      break;
    }
    if (errno != EINVAL)
      break;
  }
  return os_error("cannot keep the mounts of the job");
}

}  // namespace

Result<void> mount_job_place(const JobPlace& place, const PlaceSources& paths) {
  // What is mounted on the node later shows in the job, and nothing of the job shows on the node.
  TRY(mounted(::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr), "/"));
  OpenSources sources;
  sources.tmp = TRY(open_source(paths.tmp));
  sources.var_tmp = TRY(open_source(paths.var_tmp));
  sources.passwd = TRY(open_source(paths.passwd));
  sources.group = TRY(open_source(paths.group));
  if (sources.tmp >= 0 || place.tmpfs_mb > 0)
    TRY(mount_tmp(place, kTmp, sources.tmp, place.tmpfs_mb));
  if (sources.var_tmp >= 0)
    TRY(mount_tmp(place, kVarTmp, sources.var_tmp, 0));
  if (::access("/dev/shm", F_OK) == 0)
    TRY(mount_memory("/dev/shm", place.memory_mb));
  // Everybody may write there, and who fills it keeps the others from it.
  if (is_open_to_all(kRunLock))
    TRY(mount_memory(kRunLock, kRunLockMb));
  TRY(mount_names(sources));
  return mount_processes();
}

Result<void> make_place_namespace(const JobPlace& place, const PlaceSources& sources, const PlaceFiles& files) {
  FirstInside first = TRY(make_held(place, sources, files));
  return first.mount();
}

}  // namespace lockstep
