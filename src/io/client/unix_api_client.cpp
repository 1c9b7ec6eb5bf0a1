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

// Also a link to a socket of a controller that is away just now.
bool is_there(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0;
}

Error unavailable(std::string message) { return {Errc::kUnavailable, std::move(message), {}}; }

constexpr Duration kCrowdPatience = seconds(10);  // with a listener whose queue of callers is full
constexpr Duration kAbsentPatience = seconds(1);  // a controller that was ended in good order leaves no socket
constexpr Duration kEager = seconds(1);           // as long one looks often

void sleep_ms(long ms) {
  timespec left{ms / 1000, ms % 1000 * 1'000'000};
  ::nanosleep(&left, nullptr);
}

// The descriptor, or the errno why there is none as `why`.
int try_socket(const sockaddr_un& address, int& why) {
  // Not blocking while it connects: a stopped controller's queue of callers fills, and one would wait there, deaf.
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
  }
  why = errno;
  if (fd >= 0)
    ::close(fd);
  return -1;
}

std::string words_of(int why) {
  return why == ENOENT         ? "there is no such socket"
         : why == ECONNREFUSED ? "nobody listens"
         : why == EAGAIN       ? "too many callers wait there already"
                               : std::strerror(why);
}

// What makes a cluster, as far as its programs are on this machine, beside this one.
std::string advice() {
  char self[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self);
  const std::string_view path(self, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  const std::string dir(path.substr(0, path.rfind('/') + 1));
  if (::access((dir + "lockstepd").c_str(), X_OK) == 0)
    return "Start a cluster with: lockstep up";
  if (::access((dir + "lockstep-agent").c_str(), X_OK) == 0)
    return "This machine becomes a node of one by `lockstep node join` (root), if it is none yet; else its agent "
           "does not run: lockstep up";
  return "This machine has the client alone: LOCKSTEP_SOCKET names the socket of a cluster, of this machine or "
         "forwarded from another one (ssh -fNL)";
}

Error connect_error(const std::string& path, int why, Duration waited) {
  if (why == EACCES || why == EPERM)
    return denied(
        format("no permission to use {}: the cluster there was not started by root and serves only the user who "
               "started it, or a directory on the way is closed to you",
               path));
  if (why == EMFILE || why == ENFILE)
    return {
        Errc::kExhausted, format("no file descriptor is left to reach {} with: raise the limit (ulimit -n)", path), {}};
  if (why != ENOENT && waited >= seconds(1))
    return unavailable(
        format("no cluster answers at {} ({}), nor did within {} s. On its machine, `lockstep status` "
               "says how the controller is and why it ended, `lockstep up` starts it",
               path, words_of(why), waited.seconds()));
  return unavailable(format("no cluster answers at {} ({}). {}", path, words_of(why), advice()));
}

// How long it is worth waiting after a connection was refused for this reason.
Duration worth(int why, const std::string& path, const Patience& patience) {
  if (why == EAGAIN)
    return std::max(kCrowdPatience, patience.away);
  if (why == ECONNREFUSED)
    return patience.away;
  const bool was_there = why == ENOENT && exists(path.substr(0, path.rfind('/') + 1));
  return was_there ? std::min(patience.away, kAbsentPatience) : Duration{};
}

struct Opened {
  std::string path;
  int fd;
};

// The first of the paths where somebody listens. What is said of failures is said of the first path.
Result<Opened> open_socket(const std::vector<std::string>& paths, const Patience& patience) {
  std::vector<sockaddr_un> addresses;
  for (const auto& path : paths) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path)
      return invalid(
          format("\"{}\" cannot be a socket path: it has 1 to {} characters", path, sizeof address.sun_path - 1));
    path.copy(address.sun_path, path.size());
    addresses.push_back(address);
  }
  const std::int64_t began = now_ms();
  bool told = false;
  for (;;) {
    int first_why = 0;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      int why = 0;
      if (const int fd = try_socket(addresses[i], why); fd >= 0)
        return Opened{paths[i], fd};
      if (i == 0)
        first_why = why;
    }
    const Duration waited = millis(now_ms() - began);
    if (waited >= worth(first_why, paths[0], patience))
      return connect_error(paths[0], first_why, waited);
    if (!told && patience.tell && waited >= patience.quiet) {
      patience.tell(format("waiting for the controller at {} ({})", paths[0], words_of(first_why)));
      told = true;
    }
    sleep_ms(waited < kEager ? 20 : 200);
  }
}

class UnixApiClient final : public ApiClient {
 public:
  UnixApiClient(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~UnixApiClient() override { drop(); }

  Result<Reply> call(std::string_view method, std::string_view target, std::string_view body,
                     Duration timeout) override {
    auto first = attempt(method, target, body, timeout);
    // A kept-alive connection may have been closed while it was idle. Or its controller died over this very request,
    // after it was done: only what changes nothing is sent again.
    if (!first.ok() && stale_ && method == "GET" && first.error().code == Errc::kUnavailable)
      return attempt(method, target, body, timeout);
    return first;
  }

  void on_silence(Duration after, std::function<void()> tell) override {
    silence_ = after;
    tell_ = std::move(tell);
  }

  Result<int> upgrade(std::string_view target, std::string_view protocol, std::string_view body) override {
    TRY(ensure_connected());
    reader_ = {};
    patience_ms_ = INT64_MAX;
    TRY(send_request(body.empty() ? "GET" : "POST", target, body, protocol));
    Reply reply = TRY(receive(Behind::kStream));
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
    patience_ms_ = timeout >= kForever ? INT64_MAX : timeout.millis();
    tell_at_ms_ = tell_ ? now_ms() + silence_.millis() : INT64_MAX;
    stale_ = false;
    if (fd_ >= 0 && is_closed())
      drop();
    const bool reused = fd_ >= 0 && used_;
    TRY(ensure_connected());
    reader_ = {};
    auto sent = send_request(method, target, body, {});
    if (!sent.ok()) {
      stale_ = reused && sent.error().code == Errc::kUnavailable;
      drop();
      return std::move(sent).error();
    }
    auto reply = receive();
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
      fd_ = TRY(open_socket({path_}, {})).fd;
      used_ = false;
    }
    return {};
  }

  // The other end left while the connection was idle, so that nothing sent now would reach anybody.
  bool is_closed() const {
    char byte = 0;
    return ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }

  void drop() {
    if (fd_ >= 0)
      ::close(fd_);
    fd_ = -1;
  }

  Result<void> send_request(std::string_view method, std::string_view target, std::string_view body,
                            std::string_view protocol) {
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
    auto sent = send_all(head);
    if (sent.ok() && !together)
      sent = send_all(body);
    // A server that refuses a connection or a large body answers and closes before it has read everything: the answer
    // is still there.
    if (!sent.ok() && sent.error().code == Errc::kUnavailable)
      return {};
    return sent;
  }

  Result<void> send_all(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n >= 0) {
        bytes.remove_prefix(static_cast<std::size_t>(n));
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK)
        TRY(wait(POLLOUT));
      else if (errno != EINTR)
        return unavailable(format("the connection to {} broke: {}", path_, std::strerror(errno)));
    }
    return {};
  }

  // Whose the bytes behind the reply are: nobody sends any, or they are the stream's and stay in the socket.
  enum class Behind : unsigned char { kNothing, kStream };

  Result<Reply> receive(Behind behind = Behind::kNothing) {
    if (!buffer_)
      buffer_.reset(new char[kReadBytes]);
    while (true) {
      // With a bound we must not sleep in recv; without one, sleeping there saves a system call.
      if (patience_ms_ != INT64_MAX || tell_at_ms_ != INT64_MAX)
        TRY(wait(POLLIN));
      const ssize_t n = ::recv(fd_, buffer_.get(), kReadBytes, behind == Behind::kStream ? MSG_PEEK : 0);
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
      const std::string_view bytes(buffer_.get(), static_cast<std::size_t>(n));
      if (behind == Behind::kStream ? TRY(feed_and_leave_rest(bytes)) : TRY(reader_.feed(bytes)))
        return reader_.take();
    }
  }

  // Takes out of the socket, where the bytes are still, those of the reply.
  Result<bool> feed_and_leave_rest(std::string_view bytes) {
    std::size_t fed = 0;
    bool whole = false;
    while (!whole && fed < bytes.size()) whole = TRY(reader_.feed(bytes.substr(fed++, 1)));
    if (::recv(fd_, buffer_.get(), fed, 0) != static_cast<ssize_t>(fed))
      return unavailable(format("the connection to {} broke: {}", path_, std::strerror(errno)));
    return whole;
  }

  // Until there is something to do; fails when nothing was for as long as the call may be silent.
  Result<void> wait(short events) {
    const std::int64_t began = now_ms();
    while (true) {
      const std::int64_t now = now_ms();
      const std::int64_t left = patience_ms_ == INT64_MAX ? INT64_MAX : began + patience_ms_ - now;
      if (left <= 0)
        return Error{Errc::kTimeout,
                     format("{} took the request and has not answered for {} s: the controller is overloaded or "
                            "stopped. Try again later; `lockstep status` on its machine says how it is",
                            path_, millis(patience_ms_).seconds()),
                     {}};
      if (now >= tell_at_ms_) {
        tell_at_ms_ = INT64_MAX;
        tell_();
      }
      const std::int64_t until_told = tell_at_ms_ == INT64_MAX ? INT64_MAX : tell_at_ms_ - now;
      const std::int64_t until = std::min(left, until_told);
      pollfd poll_fd{.fd = fd_, .events = events, .revents = 0};
      const int n =
          ::poll(&poll_fd, 1, until == INT64_MAX ? -1 : static_cast<int>(std::min<std::int64_t>(until, 1'000'000)));
      if (n > 0)
        return {};
      if (n < 0 && errno != EINTR)
        return Error{Errc::kIo, format("poll: {}", std::strerror(errno)), {}};
    }
  }

  std::string path_;
  int fd_;
  bool used_ = false;                     // an answer has come over this connection
  bool stale_ = false;                    // the last failure was an idle connection's end
  std::int64_t patience_ms_ = INT64_MAX;  // of the call at hand: how long nothing may come
  std::int64_t tell_at_ms_ = INT64_MAX;   // of the call at hand: when tell_ is due
  Duration silence_;
  std::function<void()> tell_;
  std::unique_ptr<char[]> buffer_;
  ReplyReader reader_;
};

}  // namespace

std::string find_socket() {
  if (const std::string socket = environment("LOCKSTEP_SOCKET"); !socket.empty())
    return socket;
  if (const std::string dir = environment("LOCKSTEP_DIR"); !dir.empty())
    return dir + "/api.sock";
  for (const char* path : kSocketsOfTheMachine)
    if (is_there(path))
      return path;
  const std::string home = environment("HOME");
  return home.empty() ? kSocketsOfTheMachine[0] : home + "/.lockstep/default/api.sock";
}

Result<std::unique_ptr<ApiClient>> connect_unix(const std::string& path) { return connect_patiently({path}, {}); }

Result<std::unique_ptr<ApiClient>> connect_patiently(const std::vector<std::string>& paths, const Patience& patience) {
  Opened opened = TRY(open_socket(paths, patience));
  return std::unique_ptr<ApiClient>(std::make_unique<UnixApiClient>(std::move(opened.path), opened.fd));
}

}  // namespace lockstep
