#include "io/client/unix_api_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/text.h"
#include "io/client/reply_reader.h"

namespace lockstep {

namespace {

constexpr std::size_t kReadBytes = 64 << 10;

std::int64_t now_ms() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool exists(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0;
}

Error unavailable(std::string message) { return {Errc::kUnavailable, std::move(message), {}}; }

Result<int> open_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return invalid(
        format("\"{}\" cannot be a socket path: it has 1 to {} characters", path, sizeof address.sun_path - 1));
  path.copy(address.sun_path, path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return Error{Errc::kIo, format("socket: {}", std::strerror(errno)), {}};
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return fd;
  const int why = errno;
  ::close(fd);
  if (why == EACCES || why == EPERM)
    return denied(
        format("no permission to use {}: the cluster there was not started by root and serves only the user who "
               "started it",
               path));
  return unavailable(format("no cluster answers at {} ({}). Start a cluster with: lockstep up", path,
                            why == ENOENT         ? "there is no such socket"
                            : why == ECONNREFUSED ? "nobody listens"
                                                  : std::strerror(why)));
}

class UnixApiClient final : public ApiClient {
 public:
  UnixApiClient(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~UnixApiClient() override { drop(); }

  Result<Reply> call(std::string_view method, std::string_view target, std::string_view body,
                     Duration timeout) override {
    auto first = attempt(method, target, body, timeout);
    // A kept-alive connection may have been closed while it was idle; the request never reached anybody then.
    if (!first.ok() && stale_ && first.error().code == Errc::kUnavailable)
      return attempt(method, target, body, timeout);
    return first;
  }

  Result<int> upgrade(std::string_view target, std::string_view protocol, std::string_view body) override {
    const std::int64_t deadline = INT64_MAX;
    TRY(ensure_connected());
    reader_ = {};
    TRY(send_request(body.empty() ? "GET" : "POST", target, body, protocol, deadline));
    Reply reply = TRY(receive(deadline, 1));  // byte by byte: what follows the header belongs to the stream
    if (reply.status != 101)
      return Error{reply.status == 403 || reply.status == 401 ? Errc::kDenied
                   : reply.status == 404                      ? Errc::kNotFound
                   : reply.status >= 500                      ? Errc::kUnavailable
                                                              : Errc::kInvalid,
                   reply.body,
                   {}};
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  Result<Reply> attempt(std::string_view method, std::string_view target, std::string_view body, Duration timeout) {
    const std::int64_t deadline = timeout >= kForever ? INT64_MAX : now_ms() + timeout.millis();
    stale_ = false;
    const bool reused = fd_ >= 0 && used_;
    TRY(ensure_connected());
    reader_ = {};
    auto sent = send_request(method, target, body, {}, deadline);
    if (!sent.ok()) {
      stale_ = reused && sent.error().code == Errc::kUnavailable;
      drop();
      return std::move(sent).error();
    }
    auto reply = receive(deadline);
    if (!reply.ok()) {
      stale_ = reused && reply.error().code == Errc::kUnavailable && !reader_.started();
      drop();
      return reply;
    }
    used_ = true;
    if (!reader_.keep_alive())
      drop();
    return reply;
  }

  Result<void> ensure_connected() {
    if (fd_ < 0) {
      fd_ = TRY(open_socket(path_));
      used_ = false;
    }
    return {};
  }

  void drop() {
    if (fd_ >= 0)
      ::close(fd_);
    fd_ = -1;
  }

  Result<void> send_request(std::string_view method, std::string_view target, std::string_view body,
                            std::string_view protocol, std::int64_t deadline) {
    std::string head;
    head.reserve(128 + target.size());
    head.append(method).append(" ").append(target).append(" HTTP/1.1\r\nHost: lockstep\r\n");
    if (!protocol.empty())
      head.append("Connection: Upgrade\r\nUpgrade: ").append(protocol).append("\r\n");
    if (!body.empty() || method != "GET")
      head.append("Content-Type: application/json\r\nContent-Length: ")
          .append(std::to_string(body.size()))
          .append("\r\n");
    head.append("\r\n");
    const bool together = body.size() < 16 << 10;
    if (together)
      head.append(body);
    auto sent = send_all(head, deadline);
    if (sent.ok() && !together)
      sent = send_all(body, deadline);
    // A server that refuses a connection or a large body answers and closes before it has read everything: the answer
    // is still there.
    if (!sent.ok() && sent.error().code == Errc::kUnavailable)
      return {};
    return sent;
  }

  Result<void> send_all(std::string_view bytes, std::int64_t deadline) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n >= 0) {
        bytes.remove_prefix(static_cast<std::size_t>(n));
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK)
        TRY(wait(POLLOUT, deadline));
      else if (errno != EINTR)
        return unavailable(format("the connection to {} broke: {}", path_, std::strerror(errno)));
    }
    return {};
  }

  Result<Reply> receive(std::int64_t deadline, std::size_t at_once = kReadBytes) {
    if (!buffer_)
      buffer_.reset(new char[kReadBytes]);
    while (true) {
      // With a bound we must not sleep in recv; without one, sleeping there saves a system call.
      if (deadline != INT64_MAX)
        TRY(wait(POLLIN, deadline));
      const ssize_t n = ::recv(fd_, buffer_.get(), at_once, 0);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return unavailable(format("the connection to {} broke: {}", path_, std::strerror(errno)));
      if (n == 0) {
        auto ended = reader_.end();
        if (!ended.ok())
          return unavailable(format("{} closed the connection without an answer", path_));
        return reader_.take();
      }
      if (TRY(reader_.feed({buffer_.get(), static_cast<std::size_t>(n)})))
        return reader_.take();
    }
  }

  Result<void> wait(short events, std::int64_t deadline) {
    while (true) {
      const std::int64_t left = deadline == INT64_MAX ? -1 : deadline - now_ms();
      if (deadline != INT64_MAX && left <= 0)
        return Error{Errc::kTimeout, format("no answer from {} in time", path_), {}};
      pollfd poll_fd{.fd = fd_, .events = events, .revents = 0};
      const int n = ::poll(&poll_fd, 1, static_cast<int>(std::min<std::int64_t>(left, 1'000'000)));
      if (n > 0)
        return {};
      if (n < 0 && errno != EINTR)
        return Error{Errc::kIo, format("poll: {}", std::strerror(errno)), {}};
    }
  }

  std::string path_;
  int fd_;
  bool used_ = false;   // an answer has come over this connection
  bool stale_ = false;  // the last failure was an idle connection's end
  std::unique_ptr<char[]> buffer_;
  ReplyReader reader_;
};

}  // namespace

std::string find_socket() {
  if (const std::string socket = environment("LOCKSTEP_SOCKET"); !socket.empty())
    return socket;
  std::string last = "/run/lockstep/api.sock";
  if (exists(last))
    return last;
  if (const std::string dir = environment("LOCKSTEP_DIR"); !dir.empty()) {
    last = dir + "/api.sock";
    if (exists(last))
      return last;
  }
  if (const std::string home = environment("HOME"); !home.empty()) {
    const std::string path = home + "/.lockstep/default/api.sock";
    if (exists(path) || environment("LOCKSTEP_DIR").empty())
      last = path;
  }
  return last;
}

Result<std::unique_ptr<ApiClient>> connect_unix(const std::string& path) {
  const int fd = TRY(open_socket(path));
  return std::unique_ptr<ApiClient>(std::make_unique<UnixApiClient>(path, fd));
}

}  // namespace lockstep
