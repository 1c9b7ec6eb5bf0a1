#include "io/disk_reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace lockstep {

DiskReserve::DiskReserve(std::string path, std::int64_t bytes, std::function<std::int64_t()> free_bytes)
    : path_(std::move(path)), bytes_(bytes), free_bytes_(std::move(free_bytes)) {
  if (!free_bytes_)
    free_bytes_ = [directory = path_.substr(0, path_.rfind('/') + 1)] {
      struct statvfs space {};
      if (::statvfs(directory.empty() ? "." : directory.c_str(), &space) != 0)
        return std::int64_t{0};
      return static_cast<std::int64_t>(space.f_bavail) * static_cast<std::int64_t>(space.f_frsize);
    };
  struct stat found {};
  held_ = ::stat(path_.c_str(), &found) == 0 && found.st_size >= bytes_ && found.st_blocks * 512 >= bytes_;
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
  const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0)
    return false;
  held_ = ::posix_fallocate(fd, 0, bytes_) == 0;
  ::close(fd);
  if (!held_)
    ::unlink(path_.c_str());
  return held_;
}

}  // namespace lockstep
