#include "shim/step_client.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "shim/protocol.h"

namespace lockstep {
namespace {

constexpr std::size_t kLineMax = 64 << 10;
constexpr std::size_t kFrameBytesMax = 4 << 20;  // what a client has of a million ranks fits, input is cut far smaller
constexpr std::size_t kUnsentMax = 8 << 20;      // of one who does not read what it asks for

}  // namespace

StepClient::~StepClient() { ::close(fd_); }

void StepClient::receive(std::vector<std::string>& lines, std::vector<Frame>& frames) {
  char chunk[64 << 10];
  const ssize_t n = ::recv(fd_, chunk, sizeof chunk, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (n <= 0) {
    gone_ = true;
    return;
  }
  std::string_view bytes(chunk, static_cast<std::size_t>(n));
  if (kind_ == Kind::kUnknown) {
    // A frame begins with its length, whose first byte is far below a letter.
    kind_ = bytes[0] == kShimHello[0] ? Kind::kControl : Kind::kFrames;
  }
  if (kind_ == Kind::kFrames) {
    const std::size_t before = frames.size();
    unfinished_ += bytes.size();
    const auto fed = frames_.feed(bytes, [&](Frame frame) { frames.push_back(std::move(frame)); });
    if (frames.size() > before)
      unfinished_ = 0;
    gone_ = gone_ || !fed.ok() || unfinished_ > kFrameBytesMax;
    return;
  }
  CHECK(kind_ == Kind::kControl);
  head_.append(bytes);
  std::size_t from = 0;
  for (std::size_t end; (end = head_.find('\n', from)) != head_.npos; from = end + 1)
    lines.push_back(head_.substr(from, end - from));
  head_.erase(0, from);
  gone_ = gone_ || head_.size() > kLineMax;
}

void StepClient::send(std::string_view bytes) {
  out_.append(bytes);
  gone_ = gone_ || unsent() > kUnsentMax;
}

void StepClient::flush() {
  while (!gone_ && unsent() > 0) {
    const ssize_t n = ::send(fd_, out_.data() + out_done_, unsent(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && errno != EAGAIN)
      gone_ = true;
    if (n <= 0)
      return;
    out_done_ += static_cast<std::size_t>(n);
    CHECK(out_done_ <= out_.size());
  }
  out_.clear();
  out_done_ = 0;
}

}  // namespace lockstep
