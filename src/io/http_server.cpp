#include "io/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unordered_map>

#include "base/text.h"
#include "io/asio_loop.h"
#include "io/fd_stream.h"
#include "io/http_session.h"
#include "io/tls.h"

namespace lockstep {

namespace asio = boost::asio;

namespace {

constexpr int kAcceptsPerTurn = 64;
constexpr int kNoticesPerTick = 10;             // a flood of bad connections must not flood the log
constexpr std::size_t kDescriptorsForUs = 256;  // files, links, shims: never all for strangers
constexpr Duration kAcceptPause = millis(100);  // after running out of descriptors

Error io_error(const std::string& what) { return {Errc::kIo, format("{}: {}", what, std::strerror(errno)), {}}; }

std::size_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return 1024;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? SIZE_MAX : limit.rlim_cur;
}

std::string address_text(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (storage.ss_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(storage).sin_addr, text, sizeof text);
  else
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr, text, sizeof text);
  return text;
}

std::string end_text(const sockaddr_storage& storage) {
  return storage.ss_family == AF_INET
             ? format("{}:{}", address_text(storage), ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port))
             : format("[{}]:{}", address_text(storage),
                      ntohs(reinterpret_cast<const sockaddr_in6&>(storage).sin6_port));
}

struct Listener {
  Listener(asio::io_context& context, int fd) : socket(context, fd) {}
  void close() {
    closed = true;
    boost::system::error_code ignored;
    socket.close(ignored);
    // Only our own file: somebody may have replaced it since.
    struct stat now {};
    if (!path.empty() && ::stat(path.c_str(), &now) == 0 && now.st_ino == inode)
      ::unlink(path.c_str());
  }
  asio::posix::stream_descriptor socket;
  std::unique_ptr<TlsContext> tls;  // null: a Unix socket
  std::string path;
  ino_t inode = 0;
  bool closed = false;
};

class Server final : public HttpServer {
 public:
  Server(EventLoop& loop, HttpHandler handler, HttpLimits limits, HttpNotice notice)
      : loop_(loop), notice_(std::move(notice)) {
    const std::size_t descriptors = raise_descriptor_limit();
    connections_max_ = std::min(
        limits.connections, descriptors > 2 * kDescriptorsForUs ? descriptors - kDescriptorsForUs : descriptors / 2);
    host_.handler = std::move(handler);
    host_.limits = limits;
    host_.remove = [this](HttpSession* session) { sessions_.erase(session); };
    host_.notice = [this](const std::string& line) { tell(line); };
    tick_ = Duration{std::clamp<std::int64_t>(std::min(limits.header_timeout, limits.idle_timeout).us / 4,
                                              millis(10).us, seconds(1).us)};
    schedule_tick();
  }

  ~Server() override {
    loop_.cancel(tick_timer_);
    for (const auto& listener : listeners_) listener->close();
    const auto sessions = std::move(sessions_);
    for (const auto& [raw, session] : sessions) session->detach();
  }

  Result<void> listen_unix(const std::string& path, unsigned mode) override {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
      return invalid(format("the socket path {} is longer than {} characters: use a shorter state directory", path,
                            sizeof address.sun_path - 1));
    path.copy(address.sun_path, path.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
      return io_error("socket");
    auto listener = std::make_shared<Listener>(context_of(loop_), fd);
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    if (::bind(fd, generic, sizeof address) != 0) {
      if (errno != EADDRINUSE)
        return io_error("cannot listen on " + path);
      if (someone_listens(address))
        return conflict(format("another controller is listening on {}", path));
      struct stat found {};
      if (::lstat(path.c_str(), &found) == 0 && !S_ISSOCK(found.st_mode))
        return conflict(format("{} is in the way and is not a socket", path));
      ::unlink(path.c_str());  // left behind by one that was killed
      if (::bind(fd, generic, sizeof address) != 0)
        return io_error("cannot listen on " + path);
    }
    struct stat made {};
    if (::chmod(path.c_str(), mode) != 0 || ::stat(path.c_str(), &made) != 0 || ::listen(fd, SOMAXCONN) != 0)
      return io_error("cannot listen on " + path);
    listener->path = path;
    listener->inode = made.st_ino;
    begin(std::move(listener));
    return {};
  }

  Result<std::uint16_t> listen_tls(const std::string& address, std::uint16_t port, const TlsFiles& files) override {
    auto tls = TRY(TlsContext::server(files));
    boost::system::error_code error;
    sockaddr_storage storage{};
    socklen_t size = 0;
    if (auto* in = reinterpret_cast<sockaddr_in*>(&storage); inet_pton(AF_INET, address.c_str(), &in->sin_addr) == 1) {
      in->sin_family = AF_INET;
      in->sin_port = htons(port);
      size = sizeof *in;
    } else if (auto* in6 = reinterpret_cast<sockaddr_in6*>(&storage);
               inet_pton(AF_INET6, address.c_str(), &in6->sin6_addr) == 1) {
      in6->sin6_family = AF_INET6;
      in6->sin6_port = htons(port);
      size = sizeof *in6;
    } else {
      return invalid(format("\"{}\" is not an IP address to listen on", address));
    }
    const int fd = ::socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
      return io_error("socket");
    auto listener = std::make_shared<Listener>(context_of(loop_), fd);
    const int one = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    auto* generic = reinterpret_cast<sockaddr*>(&storage);
    if (::bind(fd, generic, size) != 0 || ::listen(fd, SOMAXCONN) != 0) {
      if (errno == EADDRINUSE)
        return conflict(format("port {} on {} is taken: choose another one, or 0 for any", port, address));
      return io_error(format("cannot listen on {} port {}", address, port));
    }
    size = sizeof storage;
    ::getsockname(fd, generic, &size);
    listener->tls = std::move(tls);
    begin(std::move(listener));
    return ntohs(storage.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(storage).sin_port
                                              : reinterpret_cast<sockaddr_in6&>(storage).sin6_port);
  }

 private:
  static bool someone_listens(const sockaddr_un& address) {
    const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
      return true;
    const bool answered = ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    const bool full = !answered && errno == EAGAIN;  // alive, with a full backlog
    ::close(probe);
    return answered || full;
  }

  void begin(std::shared_ptr<Listener> listener) {
    listeners_.push_back(listener);
    arm(listener);
  }

  void arm(const std::shared_ptr<Listener>& listener) {
    listener->socket.async_wait(asio::posix::stream_descriptor::wait_read,
                                [this, listener](const boost::system::error_code& error) {
                                  if (!error && !listener->closed)
                                    accept_some(listener);
                                });
  }

  void accept_some(const std::shared_ptr<Listener>& listener) {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      sockaddr_storage from{};
      socklen_t size = sizeof from;
      const int fd = ::accept4(listener->socket.native_handle(), reinterpret_cast<sockaddr*>(&from), &size,
                               SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        accepted(*listener, fd, from);
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK)
        break;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        tell(format("cannot accept connections for now: {}", std::strerror(errno)));
        loop_.after(kAcceptPause, [this, weak = std::weak_ptr(listener)] {
          if (const auto again = weak.lock(); again && !again->closed)
            arm(again);
        });
        return;
      }
    }
    arm(listener);
  }

  void accepted(Listener& listener, int fd, const sockaddr_storage& from) {
    if (sessions_.size() >= connections_max_) {
      tell(format("{} connections are open: further ones are refused", sessions_.size()));
      ::close(fd);
      return;
    }
    Peer peer;
    std::string name = "a local process";
    std::unique_ptr<TlsEngine> engine;
    if (listener.tls) {
      name = end_text(from);
      peer.address = address_text(from);
      const int one = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
      engine = listener.tls->open();
    } else {
      ucred credentials{};
      socklen_t size = sizeof credentials;
      if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
        ::close(fd);
        return;
      }
      peer = {.how = Peer::How::kUnixSocket,
              .uid = credentials.uid,
              .gid = credentials.gid,
              .pid = credentials.pid,
              .realm = "local"};
    }
    auto stream = std::make_unique<FdStream>(loop_, fd, std::move(engine));
    const auto session = std::make_shared<HttpSession>(host_, std::move(stream), std::move(peer), std::move(name));
    sessions_.emplace(session.get(), session);
    session->start();
  }

  void schedule_tick() {
    tick_timer_ = loop_.after(tick_, [this] {
      ++host_.now_tick;
      notices_left_ = kNoticesPerTick;
      const std::int64_t header = host_.limits.header_timeout.us / tick_.us;
      const std::int64_t idle = host_.limits.idle_timeout.us / tick_.us;
      std::vector<std::shared_ptr<HttpSession>> all;  // a session that ends removes itself, and may end others
      all.reserve(sessions_.size());
      for (const auto& [raw, session] : sessions_) all.push_back(session);
      for (const auto& session : all) session->sweep(header, idle);
      schedule_tick();
    });
  }

  void tell(const std::string& line) {
    if (notices_left_ == 0)
      return;
    --notices_left_;
    if (notice_)
      notice_(line);
    else
      std::fprintf(stderr, "%s\n", line.c_str());
  }

  EventLoop& loop_;
  HttpNotice notice_;
  HttpSession::Host host_;
  std::size_t connections_max_ = 0;
  std::vector<std::shared_ptr<Listener>> listeners_;
  std::unordered_map<HttpSession*, std::shared_ptr<HttpSession>> sessions_;
  Duration tick_;
  TimerId tick_timer_ = 0;
  int notices_left_ = kNoticesPerTick;
};

}  // namespace

std::unique_ptr<HttpServer> make_http_server(EventLoop& loop, HttpHandler handler, HttpLimits limits,
                                             HttpNotice notice) {
  return std::make_unique<Server>(loop, std::move(handler), limits, std::move(notice));
}

}  // namespace lockstep
