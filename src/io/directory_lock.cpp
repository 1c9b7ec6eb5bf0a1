#include "io/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/plain_file.h"
#include "base/text.h"

namespace lockstep {

namespace {
constexpr int kTries = 50;
constexpr useconds_t kTryAgainUs = 20'000;
}  // namespace

Result<std::unique_ptr<DirectoryLock>> DirectoryLock::take(const std::string& directory) {
  const std::string path = directory + "/lock";
  const int fd = TRY(open_plain(path, O_RDWR | O_CREAT));
  std::unique_ptr<DirectoryLock> lock(new DirectoryLock(fd));
  if (::fchmod(fd, 0600) != 0)  // who can open it can hold it
    return Error{Errc::kIo, format("{}: {}", path, std::strerror(errno)), {}};
  // A killed process keeps its lock until its last thread is gone, which may be a moment after it stopped answering.
  bool locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  for (int tries = 0; !locked && tries < kTries; ++tries) {
    ::usleep(kTryAgainUs);
    locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  }
  if (!locked) {
    char pid[32] = "";
    const ssize_t n = ::pread(fd, pid, sizeof pid - 1, 0);
    return conflict(format("another controller (pid {}) is using {}",
                           n > 0 ? trim(std::string_view(pid, static_cast<std::size_t>(n))) : "unknown", directory));
  }
  const std::string pid = format("{}\n", ::getpid());
  // The pid is for people only: a full disk must not keep the controller from starting.
  if (::ftruncate(fd, 0) == 0)
    (void)!::pwrite(fd, pid.data(), pid.size(), 0);
  return lock;
}

DirectoryLock::~DirectoryLock() { ::close(fd_); }

}  // namespace lockstep
