// An open file descriptor that closes itself, and the words for what a system call said.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "base/result.h"
#include "base/text.h"

namespace lockstep {

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0)
      ::close(release());
  }

 private:
  int fd_;
};

// Away from the numbers a new shim gets its descriptors under.
inline Fd lifted(int fd) {
  if (fd < 0 || fd > 9)
    return Fd(fd);
  Fd high(::fcntl(fd, F_DUPFD_CLOEXEC, 10));
  ::close(fd);
  return high;
}

inline Error failed_call(const std::string& what, int error = errno) {
  return {Errc::kIo, format("{}: {}", what, ::strerror(error)), {}};
}

}  // namespace lockstep
