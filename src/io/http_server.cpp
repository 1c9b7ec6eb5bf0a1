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
#include <map>
#include <unordered_map>

#include "base/fair_queue.h"
#include "base/text.h"
#include "io/asio_loop.h"
#include "io/fd_stream.h"
#include "io/http_session.h"
#include "io/tls.h"

namespace lockstep {

namespace asio = boost::asio;

namespace {

constexpr int kAcceptsPerTurn = 64;
constexpr std::size_t kLookedAt = 64;  // of one caller's connections, for one that is idle
constexpr Duration kHandshakesEvery = millis(10);
constexpr std::string_view kRefusal =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 110\r\nRetry-After: 1\r\n"
    "Connection: close\r\n\r\n"
    R"({"error":{"code":"unavailable","message":"you have too many connections here: close some of them","field":""}})";
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

// Puts a listening socket at a path. Nobody meets it there before it has its mode and listens: it is made beside and
// moved, and bound through its folder's descriptor, since the name beside may be longer than an address can be.
Result<ino_t> put_socket(int fd, const std::string& path, unsigned mode) {
  const auto slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "." : path.substr(0, slash + 1);
  const std::string name = slash == path.npos ? path : path.substr(slash + 1), fresh = name + ".new";
  const int parent = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent < 0)
    return io_error("cannot listen on " + path);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string beside = format("/proc/self/fd/{}/{}", parent, fresh);
  beside.copy(address.sun_path, sizeof address.sun_path - 1);
  ::unlinkat(parent, fresh.c_str(), 0);  // of one that was killed
  struct stat made {};
  const bool done = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                    ::fchmodat(parent, fresh.c_str(), mode, 0) == 0 &&
                    ::fstatat(parent, fresh.c_str(), &made, AT_SYMLINK_NOFOLLOW) == 0 && ::listen(fd, SOMAXCONN) == 0 &&
                    ::renameat(parent, fresh.c_str(), parent, name.c_str()) == 0;
  const Error error = io_error("cannot listen on " + path);
  if (!done)
    ::unlinkat(parent, fresh.c_str(), 0);
  ::close(parent);
  return done ? Result<ino_t>(made.st_ino) : error;
}

// HTTP/2 for those who name it: agents and our own commands name nothing, and speak HTTP/1.1.
Result<std::shared_ptr<const TlsContext>> server_tls(const TlsFiles& files) {
  std::shared_ptr<TlsContext> made = TRY(TlsContext::server(files));
  made->offer({"h2", "http/1.1"});
  return std::shared_ptr<const TlsContext>(std::move(made));
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
  std::shared_ptr<const TlsContext> tls;  // null: a Unix socket
  std::string path;
  unsigned mode = 0;  // of path
  ino_t inode = 0;
  bool closed = false;
};

// A TLS connection that waits for its handshake.
struct Waiting {
  Waiting(int fd_arg, std::string name_arg, Peer peer_arg, HttpHold place_arg,
          std::shared_ptr<const TlsContext> tls_arg)
      : fd(fd_arg),
        name(std::move(name_arg)),
        peer(std::move(peer_arg)),
        place(std::make_shared<HttpHold>(std::move(place_arg))),
        tls(std::move(tls_arg)) {}
  Waiting(Waiting&& from) noexcept
      : fd(std::exchange(from.fd, -1)),
        name(std::move(from.name)),
        peer(std::move(from.peer)),
        place(std::move(from.place)),
        tls(std::move(from.tls)) {}
  ~Waiting() {
    if (fd >= 0)
      ::close(fd);
  }
  int fd;
  std::string name;
  Peer peer;
  std::shared_ptr<HttpHold> place;
  std::shared_ptr<const TlsContext> tls;  // its listener's
};

std::size_t connections_of(const HttpLimits& limits) {
  const std::size_t descriptors = raise_descriptor_limit();
  return std::min(limits.connections,
                  descriptors > 2 * kDescriptorsForUs ? descriptors - kDescriptorsForUs : descriptors / 2);
}

class Server final : public HttpServer {
 public:
  Server(EventLoop& loop, HttpHandler handler, const HttpLimits& limits, HttpNotice notice)
      : loop_(loop),
        notice_(std::move(notice)),
        lanes_(std::make_shared<HttpLanes>(connections_of(limits), limits.memory_bytes)),
        host_{.loop = loop, .handler = std::move(handler), .limits = limits, .lanes = lanes_} {
    host_.remove = [this](HttpSession* session) { remove(session); };
    host_.introduce = [this](HttpSession* session, const HttpCaller& caller) { return introduce(session, caller); };
    host_.wait_for_room = [this](HttpSession* session) { waiting_.push_back(session->weak_from_this()); };
    host_.notice = [this](const std::string& line) { tell(line); };
    host_.own_uid = ::geteuid();
    host_.tick = Duration{
        std::clamp<std::int64_t>(std::min({limits.header_timeout, limits.idle_timeout, limits.drain_timeout}).us / 4,
                                 millis(10).us, seconds(1).us)};
    lanes_->on_memory_freed = [this] { look_for_room_soon(); };
    handshakes_left_ = limits.handshakes_per_second / 2;
    schedule_tick();
  }

  ~Server() override {
    loop_.cancel(tick_timer_);
    if (handshake_timer_ != 0)
      loop_.cancel(handshake_timer_);
    lanes_->on_memory_freed = nullptr;
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
    if (someone_listens(address))
      return conflict(format("another controller is listening on {}", path));
    struct stat found {};
    if (::lstat(path.c_str(), &found) == 0 && !S_ISSOCK(found.st_mode))
      return conflict(format("{} is in the way and is not a socket", path));
    listener->inode = TRY(put_socket(fd, path, mode));  // in the place of one that was left behind, if there is one
    listener->path = path;
    listener->mode = mode;
    begin(std::move(listener));
    return {};
  }

  Result<std::uint16_t> listen_tls(const std::string& address, std::uint16_t port, const TlsFiles& files) override {
    std::shared_ptr<const TlsContext> tls = TRY(server_tls(files));
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

  Result<void> renew_tls(const TlsFiles& files) override {
    const std::shared_ptr<const TlsContext> tls = TRY(server_tls(files));
    for (const auto& listener : listeners_)
      if (listener->tls)
        listener->tls = tls;
    return {};
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

  // Somebody removed the file: nobody finds the socket any more, so there is another one.
  void put_sockets_back() {
    for (std::shared_ptr<Listener>& listener : listeners_) {
      struct stat found {};
      if (listener->path.empty() || ::lstat(listener->path.c_str(), &found) == 0 || errno != ENOENT)
        continue;
      const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      const auto inode = fd < 0 ? Result<ino_t>(io_error("socket")) : put_socket(fd, listener->path, listener->mode);
      if (!inode) {
        if (fd >= 0)
          ::close(fd);
        continue;
      }
      const auto fresh = std::make_shared<Listener>(context_of(loop_), fd);
      fresh->path = std::exchange(listener->path, {});
      fresh->mode = listener->mode;
      fresh->inode = *inode;
      listener->close();
      listener = fresh;
      tell("the socket " + fresh->path + " was removed; it is there again");
      arm(fresh);
    }
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
    Peer peer;
    if (listener.tls) {
      peer.address = address_text(from);
      const int one = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
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
    HttpHold place = lanes_->hold(caller_of(peer, host_.own_uid), HttpHold::Of::kConnections);
    if (!enter(place)) {
      tell(format("{} connections are open, and {} may have no more", lanes_->connections(), place.caller().name));
      if (!listener.tls)
        (void)!::send(fd, kRefusal.data(), kRefusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      ::close(fd);
      return;
    }
    if (!listener.tls)
      return begin(fd, nullptr, std::move(peer), "a local process", std::make_shared<HttpHold>(std::move(place)));
    const std::string network = place.caller().name;
    handshakes_.push(network, Waiting(fd, end_text(from), std::move(peer), std::move(place), listener.tls));
    begin_handshakes();
  }

  // One more connection for the place's caller; somebody else's may have to go for it.
  bool enter(HttpHold& place) {
    if (place.resize(1))
      return true;
    const std::string who = lanes_->who_makes_room_for(place.caller());
    const auto found = by_caller_.find(who);
    if (who.empty() || found == by_caller_.end())
      return false;
    HttpSession* leaving = nullptr;
    std::size_t looked = 0;
    for (const auto& [number, session] : found->second) {
      if (session->is_idle())
        leaving = session;
      if (leaving || ++looked == kLookedAt)
        break;
    }
    if (!leaving && who != place.caller().name)
      leaving = found->second.begin()->second;  // another one's, even if it waits for an answer
    if (!leaving)
      return false;
    leaving->make_way();
    return place.resize(1);
  }

  // Everybody's first handshake before anybody's second, and no more than the loop can bear.
  void begin_handshakes() {
    while (handshakes_left_ > 0) {
      auto next = handshakes_.pop();
      if (!next)
        break;
      --handshakes_left_;
      if (auto engine = next->tls->open())
        begin(std::exchange(next->fd, -1), std::move(engine), std::move(next->peer), std::move(next->name),
              std::move(next->place));
    }
    const std::size_t burst = host_.limits.handshakes_per_second / 2;
    if (handshake_timer_ != 0 || (handshakes_.empty() && handshakes_left_ >= burst))
      return;
    handshake_timer_ = loop_.after(kHandshakesEvery, [this, burst] {
      handshake_timer_ = 0;
      const std::size_t more = host_.limits.handshakes_per_second / (seconds(1).us / kHandshakesEvery.us);
      handshakes_left_ = std::min(burst, handshakes_left_ + std::max<std::size_t>(1, more));
      begin_handshakes();
    });
  }

  void begin(int fd, std::unique_ptr<TlsEngine> engine, Peer peer, std::string name, std::shared_ptr<HttpHold> place) {
    auto stream = std::make_unique<FdStream>(loop_, fd, std::move(engine));
    const auto session =
        std::make_shared<HttpSession>(host_, std::move(stream), std::move(peer), std::move(name), std::move(place));
    session->number = ++last_session_;
    sessions_.emplace(session.get(), session);
    by_caller_[session->caller().name].emplace(session->number, session.get());
    session->start();
  }

  void remove(HttpSession* session) {
    forget_caller(session);
    sessions_.erase(session);
  }

  void forget_caller(HttpSession* session) {
    const auto of = by_caller_.find(session->caller().name);
    of->second.erase(session->number);
    if (of->second.empty())
      by_caller_.erase(of);
  }

  bool introduce(HttpSession* session, const HttpCaller& caller) {
    HttpHold place = lanes_->hold(caller, HttpHold::Of::kConnections);
    if (!enter(place) || !sessions_.contains(session))  // room may have been made of this very session
      return false;
    forget_caller(session);
    session->place() = std::move(place);
    by_caller_[caller.name].emplace(session->number, session);
    return true;
  }

  void look_for_room_soon() {
    if (waiting_.empty() || std::exchange(looking_, true))
      return;
    loop_.post([this, alive = std::weak_ptr(alive_)] {
      if (alive.expired())
        return;
      looking_ = false;
      for (const auto& weak : std::exchange(waiting_, {}))
        if (const auto session = weak.lock())
          session->look_for_room();
    });
  }

  void schedule_tick() {
    tick_timer_ = loop_.after(host_.tick, [this] {
      ++host_.now_tick;
      notices_left_ = kNoticesPerTick;
      std::vector<std::shared_ptr<HttpSession>> all;  // a session that ends removes itself, and may end others
      all.reserve(sessions_.size());
      for (const auto& [raw, session] : sessions_) all.push_back(session);
      for (const auto& session : all) session->sweep();
      put_sockets_back();
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
  std::shared_ptr<HttpLanes> lanes_;  // shared with what outlives us: upgraded streams, requests under way
  HttpSession::Host host_;
  std::vector<std::shared_ptr<Listener>> listeners_;
  std::unordered_map<HttpSession*, std::shared_ptr<HttpSession>> sessions_;
  std::map<std::string, std::map<std::uint64_t, HttpSession*>> by_caller_;  // the oldest first
  std::vector<std::weak_ptr<HttpSession>> waiting_;                         // for memory
  FairQueue<std::string, Waiting> handshakes_;
  std::size_t handshakes_left_ = 0;
  std::uint64_t last_session_ = 0;
  TimerId tick_timer_ = 0, handshake_timer_ = 0;
  int notices_left_ = kNoticesPerTick;
  bool looking_ = false;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // posted tasks must not touch us afterwards
};

}  // namespace

std::unique_ptr<HttpServer> make_http_server(EventLoop& loop, HttpHandler handler, HttpLimits limits,
                                             HttpNotice notice) {
  return std::make_unique<Server>(loop, std::move(handler), limits, std::move(notice));
}

}  // namespace lockstep
