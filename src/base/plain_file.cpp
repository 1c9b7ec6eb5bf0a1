#include "base/plain_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

namespace lockstep {

namespace {

Error not_plain(const std::string& path) {
  errno = EINVAL;
  return denied(path + " is in the way: it is no regular file but a link, FIFO, device or directory. Remove it");
}

}  // namespace

Result<int> open_plain(const std::string& path, int flags, unsigned mode, Links links) {
  const int refuse = links == Links::kRefused ? O_NOFOLLOW : 0;
  // A device must not become our terminal. Opening a FIFO to write fails at once where nobody reads.
  const int fd = ::open(path.c_str(), flags | refuse | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);
  if (fd < 0 && (errno == ELOOP || errno == ENXIO || errno == EISDIR))
    return not_plain(path);
  if (fd < 0)
    return Error{errno == ENOENT ? Errc::kNotFound : Errc::kIo, os_error(path).message, {}};
  struct stat found {};
  if (::fstat(fd, &found) == 0 && S_ISREG(found.st_mode))
    return fd;
  ::close(fd);
  return not_plain(path);
}

Result<std::string> read_plain(const std::string& path, Links links, std::size_t most) {
  const int fd = TRY(open_plain(path, O_RDONLY, 0, links));
  std::string text;
  char buffer[8192];
  ssize_t n = 0;
  while (text.size() <= most && ((n = ::read(fd, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR)))
    text.append(buffer, static_cast<std::size_t>(n > 0 ? n : 0));
  const Error error = os_error(path);
  ::close(fd);
  if (n < 0)
    return error;
  if (text.size() > most)
    return Error{Errc::kExhausted, format("{} is longer than {} bytes", path, most), {}};
  return text;
}

}  // namespace lockstep
