#include "shim/told_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <string_view>
#include <utility>

#include "base/text.h"

namespace lockstep {
namespace {

constexpr int kPiecesAtOnce = 16;  // whoever writes without end holds nothing up

void close_descriptor(int& fd) {
  if (fd >= 0)
    ::close(std::exchange(fd, -1));
}

}  // namespace

Result<ToldLines> ToldLines::make() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return os_error("pipe");
  ToldLines out;
  out.fd_ = ends[0];
  out.their_end_ = ends[1];
  ::fcntl(out.fd_, F_SETFL, O_NONBLOCK);
  return out;
}

ToldLines::ToldLines(ToldLines&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      their_end_(std::exchange(other.their_end_, -1)),
      line_(std::move(other.line_)),
      unended_(std::move(other.unended_)),
      too_long_(other.too_long_) {}

ToldLines::~ToldLines() {
  close_descriptor(fd_);
  close_descriptor(their_end_);
}

void ToldLines::handed_on() { close_descriptor(their_end_); }

void ToldLines::take(std::string_view bytes, bool& ended) {
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    too_long_ = too_long_ || unended_.size() + part.size() > kLineMost;
    if (!too_long_)
      unended_.append(part);
    if (end == bytes.npos)
      return;
    if (!too_long_) {
      line_ = std::exchange(unended_, {});
      ended = true;
    }
    unended_.clear();
    too_long_ = false;
    bytes.remove_prefix(end + 1);
  }
}

bool ToldLines::read() {
  bool ended = false;
  char piece[4096];
  for (int i = 0; fd_ >= 0 && i < kPiecesAtOnce; ++i) {
    const ssize_t n = ::read(fd_, piece, sizeof piece);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      break;
    if (n <= 0)
      close_descriptor(fd_);
    else
      take({piece, static_cast<std::size_t>(n)}, ended);
  }
  return ended;
}

}  // namespace lockstep
