#include "io/https_client.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/text.h"
#include "io/client/reply_reader.h"
#include "io/pki.h"
#include "io/tls.h"

namespace lockstep {

namespace {

std::int64_t now_ms() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}

class Connection {
 public:
  Connection(const HttpsServer& server, Duration timeout)
      : where_(format("{} port {}", server.host, server.port)), deadline_(now_ms() + timeout.millis()) {}
  ~Connection() { drop(); }

  Result<void> open(const HttpsServer& server) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int rc = ::getaddrinfo(server.host.c_str(), std::to_string(server.port).c_str(), &hints, &found); rc != 0)
      return unavailable(format("cannot find the address of {}: {}", server.host, ::gai_strerror(rc)));
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
    Error last = unavailable("no address");
    for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
      auto tried = connect(*a);
      if (tried.ok())
        return {};
      last = std::move(tried).error();
      drop();
    }
    return last;
  }

  Result<void> send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n >= 0)
        bytes.remove_prefix(static_cast<std::size_t>(n));
      else if (errno == EAGAIN)
        TRY(wait(POLLOUT));
      else if (errno != EINTR)
        return unavailable(format("the connection to {} broke: {}", where_, std::strerror(errno)));
    }
    return {};
  }

  Result<std::string_view> receive() {  // empty = the peer closed
    while (true) {
      const ssize_t n = ::recv(fd_, buffer_, sizeof buffer_, 0);
      if (n >= 0)
        return std::string_view(buffer_, static_cast<std::size_t>(n));
      if (errno == EAGAIN)
        TRY(wait(POLLIN));
      else if (errno != EINTR)
        return unavailable(format("the connection to {} broke: {}", where_, std::strerror(errno)));
    }
  }

  const std::string& where() const { return where_; }
  static Error unavailable(std::string message) { return {Errc::kUnavailable, std::move(message), {}}; }

 private:
  Result<void> connect(const addrinfo& address) {
    fd_ = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = 0;
    if (fd_ < 0 || (::connect(fd_, address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS))
      error = errno;
    if (error == 0) {
      TRY(wait(POLLOUT));
      socklen_t size = sizeof error;
      ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error != 0)
      return unavailable(format("cannot reach {}: {}", where_, std::strerror(error)));
    return {};
  }

  Result<void> wait(short events) {
    while (true) {
      const std::int64_t left = deadline_ - now_ms();
      if (left <= 0)
        return Error{Errc::kTimeout, format("no answer from {} in time", where_), {}};
      pollfd poll_fd{.fd = fd_, .events = events, .revents = 0};
      if (::poll(&poll_fd, 1, static_cast<int>(std::min<std::int64_t>(left, 1'000'000))) > 0)
        return {};
    }
  }

  void drop() {
    if (fd_ >= 0)
      ::close(fd_);
    fd_ = -1;
  }

  std::string where_;
  std::int64_t deadline_;
  int fd_ = -1;
  char buffer_[16 << 10];
};

}  // namespace

namespace {

std::string request_text(const HttpsServer& server, const std::string& target, const std::string& body) {
  const std::string type = body.empty() ? "" : "Content-Type: application/json\r\n";
  return format("{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{}Content-Length: {}\r\n\r\n{}",
                body.empty() ? "GET" : "POST", target, server.host, type, body.size(), body);
}

}  // namespace

Result<ApiClient::Reply> https_call(const HttpsServer& server, const std::string& target, const std::string& body,
                                    Duration timeout) {
  if (server.ca_file.empty() == server.ca_sha256.empty())
    return invalid("say how to know the server: by a CA file or by a fingerprint");
  const auto context = server.ca_file.empty()
                           ? TRY(TlsContext::pinned_client(server.ca_sha256, server.ignores_time))
                           : TRY(TlsContext::client({server.ca_file, server.certificate, server.key}));
  Connection connection(server, timeout);
  TRY(connection.open(server));
  const auto tls = context->open();
  if (!tls)
    return Error{Errc::kExhausted, "no memory for a TLS connection", {}};
  TRY(connection.send(tls->take_output()));
  ReplyReader reader;
  bool asked = false, complete = false;
  while (true) {
    const std::string_view bytes = TRY(connection.receive());
    Result<void> broken;
    auto fed =
        bytes.empty() ? Result<void>(Error{Errc::kUnavailable, "", {}}) : tls->feed(bytes, [&](std::string_view plain) {
          auto took = complete || !broken.ok() ? Result<bool>(complete) : reader.feed(plain);
          if (took.ok())
            complete = *took;
          else
            broken = std::move(took).error();
        });
    if (!broken.ok())
      return std::move(broken).error();
    if (complete)
      return reader.take();
    TRY(connection.send(tls->take_output()));
    if (!fed.ok()) {
      if (!fed.error().message.empty())
        return Error{
            Errc::kDenied, format("no secure connection to {}: {}", connection.where(), fed.error().message), {}};
      TRY(reader.end());
      return reader.take();
    }
    if (!asked && tls->ready()) {
      if (tls->peer().role != kControllerRole)
        return denied(
            format("{} is not a controller: its certificate says \"{}\"", connection.where(), tls->peer().role));
      asked = true;
      TRY(tls->seal(request_text(server, target, body)));
      TRY(connection.send(tls->take_output()));
    }
  }
}

}  // namespace lockstep
