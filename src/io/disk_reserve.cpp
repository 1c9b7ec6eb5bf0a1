#include "io/disk_reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace lockstep {

namespace {

constexpr std::int64_t kEnoughToStart = 1 << 20;

std::int64_t free_beside(const std::string& path) {
  const std::string directory = path.substr(0, path.rfind('/') + 1);
  struct statvfs space {};
  if (::statvfs(directory.empty() ? "." : directory.c_str(), &space) != 0)
    return 0;
  return static_cast<std::int64_t>(space.f_bavail) * static_cast<std::int64_t>(space.f_frsize);
}

}  // namespace

std::optional<std::string> give_back_reserve(const std::string& path) {
  if (free_beside(path) >= kEnoughToStart || ::unlink(path.c_str()) != 0)
    return std::nullopt;
  return path;
}

DiskReserve::DiskReserve(std::string path, std::int64_t bytes, std::function<std::int64_t()> free_bytes)
    : path_(std::move(path)), bytes_(bytes), free_bytes_(std::move(free_bytes)) {
  if (!free_bytes_)
    free_bytes_ = [path = path_] { return free_beside(path); };
  struct stat found {};
  held_ = ::lstat(path_.c_str(), &found) == 0 && S_ISREG(found.st_mode) && found.st_size >= bytes_ &&
          found.st_blocks * 512 >= bytes_;
}

void DiskReserve::release() {
  ::unlink(path_.c_str());
  held_ = false;
}

bool DiskReserve::restore() {
  if (held_)
    return true;
  if (free_bytes_() < 2 * bytes_)
    return false;
  // Whatever else lies there is not followed, not waited for and not written to.
  ::unlink(path_.c_str());
  const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0)
    return false;
  held_ = ::posix_fallocate(fd, 0, bytes_) == 0;
  ::close(fd);
  if (!held_)
    ::unlink(path_.c_str());
  return held_;
}

}  // namespace lockstep
