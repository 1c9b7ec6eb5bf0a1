#include "io/web_caller.h"

#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/text.h"
#include "io/client/reply_reader.h"
#include "io/stream_bridge.h"

namespace lockstep {

namespace {

std::int64_t boot_ms() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}

template <auto Free>
struct Freed {
  void operator()(auto* what) const { Free(what); }
};

Error too_late() { return {Errc::kTimeout, "context deadline exceeded", {}}; }
Error unreachable(std::string message) { return {Errc::kUnavailable, std::move(message), {}}; }

class WebConnection {
 public:
  WebConnection(const WebCall& call, int socket)
      : call_(call), socket_(socket), deadline_(boot_ms() + call.timeout.millis()) {}
  ~WebConnection() {
    ssl_.reset();
    if (fd_ >= 0)
      ::close(fd_);
  }
  WebConnection(WebConnection&&) = delete;

  Result<void> open() {
    TRY(connect());
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (!context_)
      return Error{Errc::kExhausted, "no memory for a TLS connection", {}};
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    TRY(trust());
    ssl_.reset(SSL_new(context_.get()));
    if (!ssl_)
      return Error{Errc::kExhausted, "no memory for a TLS connection", {}};
    SSL_set_fd(ssl_.get(), fd_);
    SSL_set_tlsext_host_name(ssl_.get(), call_.server_name.c_str());
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), call_.server_name.c_str()) != 1) {
      ERR_clear_error();  // it is a name
      SSL_set1_host(ssl_.get(), call_.server_name.c_str());
    }
    return repeat([&] { return SSL_connect(ssl_.get()); });
  }

  Result<void> send(std::string_view bytes) {
    while (!bytes.empty()) {
      int wrote = 0;
      TRY(repeat([&] {
        return wrote =
                   SSL_write(ssl_.get(), bytes.data(), static_cast<int>(std::min<std::size_t>(bytes.size(), 1 << 20)));
      }));
      bytes.remove_prefix(static_cast<std::size_t>(wrote));
    }
    return {};
  }

  Result<std::string_view> receive() {  // empty = the peer closed
    int got = 0;
    const auto done = repeat([&] { return got = SSL_read(ssl_.get(), buffer_, sizeof buffer_); });
    if (!done.ok() && closed_)
      return std::string_view();
    if (!done.ok())
      return done.error();
    return std::string_view(buffer_, static_cast<std::size_t>(got));
  }

 private:
  Result<void> connect() {
    if (socket_ >= 0) {
      fd_ = ::fcntl(socket_, F_DUPFD_CLOEXEC, 0);
      if (fd_ < 0 || ::fcntl(fd_, F_SETFL, O_NONBLOCK) != 0)
        return unreachable(format("no descriptor for the connection: {}", std::strerror(errno)));
      return {};
    }
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int rc = ::getaddrinfo(call_.address.c_str(), std::to_string(call_.port).c_str(), &hints, &found);
        rc != 0)
      return unreachable(format("dial tcp: lookup {}: {}", call_.address, ::gai_strerror(rc)));
    const std::unique_ptr<addrinfo, Freed<::freeaddrinfo>> addresses(found);
    Error last = unreachable("it has no address");
    for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
      fd_ = ::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      int error = 0;
      if (fd_ < 0 || (::connect(fd_, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS))
        error = errno;
      if (error == 0) {
        TRY(wait(POLLOUT));
        socklen_t size = sizeof error;
        ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
      }
      if (error == 0)
        return {};
      last = unreachable(format("dial tcp {}:{}: connect: {}", call_.address, call_.port, std::strerror(error)));
      if (fd_ >= 0)
        ::close(std::exchange(fd_, -1));
    }
    return last;
  }

  Result<void> trust() {
    if (call_.ca_pem.empty()) {
      SSL_CTX_set_default_verify_paths(context_.get());
      return {};
    }
    const std::unique_ptr<BIO, Freed<BIO_free>> text(
        BIO_new_mem_buf(call_.ca_pem.data(), static_cast<int>(call_.ca_pem.size())));
    int count = 0;
    while (const auto certificate =
               std::unique_ptr<X509, Freed<X509_free>>(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)))
      count += X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), certificate.get());
    ERR_clear_error();
    if (count == 0)
      return denied("its caBundle has no certificate");
    return {};
  }

  // One step of TLS, as often as it wants to wait for the other side.
  template <class Step>
  Result<void> repeat(Step step) {
    while (true) {
      ERR_clear_error();
      const int rc = step();
      if (rc > 0)
        return {};
      switch (SSL_get_error(ssl_.get(), rc)) {
        case SSL_ERROR_WANT_READ: TRY(wait(POLLIN)); break;
        case SSL_ERROR_WANT_WRITE: TRY(wait(POLLOUT)); break;
        case SSL_ERROR_ZERO_RETURN: closed_ = true; return unreachable("EOF");
        default: {
          if (const long verified = SSL_get_verify_result(ssl_.get()); verified != X509_V_OK)
            return denied(
                format("tls: failed to verify certificate: x509: {}", X509_verify_cert_error_string(verified)));
          const unsigned long error = ERR_get_error();
          closed_ = SSL_is_init_finished(ssl_.get()) != 0;  // some servers end without a word
          const char* words = error ? ERR_reason_error_string(error) : nullptr;
          return unreachable(words ? std::string("tls: ") + words : "EOF");
        }
      }
    }
  }

  Result<void> wait(short events) {
    const std::int64_t left = deadline_ - boot_ms();
    if (left <= 0)
      return too_late();
    pollfd poll_fd{.fd = fd_, .events = events, .revents = 0};
    const int ready = ::poll(&poll_fd, 1, static_cast<int>(left));
    return ready == 0 ? Result<void>(too_late()) : Result<void>();
  }

  const WebCall& call_;
  const int socket_;
  std::int64_t deadline_;
  int fd_ = -1;
  bool closed_ = false;
  std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>> context_;
  std::unique_ptr<SSL, Freed<SSL_free>> ssl_;
  char buffer_[16 << 10];
};

}  // namespace

Result<WebAnswer> web_call(const WebCall& call, int socket) {
  WebConnection connection(call, socket);
  TRY(connection.open());
  TRY(connection.send(format(
      "POST {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: lockstepd\r\nConnection: close\r\nAccept: application/json\r\n"
      "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
      call.target, call.server_name, call.body.size(), call.body)));
  ReplyReader reader;
  std::size_t read = 0;
  while (true) {
    const std::string_view bytes = TRY(connection.receive());
    read += bytes.size();
    if (read > kWebAnswerMax)
      return Error{Errc::kUnavailable, "its answer is too long", {}};
    if (bytes.empty())
      TRY(reader.end());
    else if (!TRY(reader.feed(bytes)))
      continue;
    ApiClient::Reply reply = reader.take();
    return WebAnswer{reply.status, std::move(reply.body)};
  }
}

void WebCaller::call(WebCall call, std::function<void(Result<WebAnswer>)> done) {
  if (waiting_.size() >= kWaiting)
    return done(Error{Errc::kExhausted, "too many calls wait already", {}});
  std::shared_ptr<const Fd> socket;
  if (const auto through = std::move(call.through)) {
    const auto end = bridge_to(loop_, through);
    if (!end.ok())
      return done(end.error());
    socket = std::make_shared<const Fd>(*end);
  }
  waiting_.push_back({std::move(call), std::move(socket), std::move(done)});
  begin_next();
}

void WebCaller::begin_next() {
  while (!waiting_.empty()) {
    auto free = std::ranges::find_if(errands_, [](const auto& errand) { return !errand->is_out(); });
    if (free == errands_.end() && errands_.size() >= kAtOnce)
      return;
    if (free == errands_.end())
      free = errands_.insert(errands_.end(), std::make_unique<Errand>(loop_));
    Job job = std::move(waiting_.front());
    waiting_.pop_front();
    const auto answer = std::make_shared<Result<WebAnswer>>(Error{Errc::kUnavailable, "not asked", {}});
    const auto begun = (*free)->start(
        [answer, call = std::move(job.call), socket = std::move(job.socket)]() -> Result<void> {
          *answer = web_call(call, socket ? socket->get() : -1);
          return {};
        },
        [this, answer, done = job.done](Result<void>) {
          done(std::move(*answer));
          begin_next();
        });
    if (!begun.ok())
      job.done(begun.error());
  }
}

}  // namespace lockstep
