#include "io/dialer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/text.h"
#include "io/asio_loop.h"
#include "io/fd_stream.h"
#include "io/pki.h"
#include "io/tls.h"

namespace lockstep {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr std::size_t kHeaderMax = 16 << 10;

// resolving ──▶ connecting ──▶ TLS and upgrade ──▶ done. Kept alive by what it waits for.
class Dial : public std::enable_shared_from_this<Dial> {
 public:
  Dial(EventLoop& loop, DialAsk ask, DialDone done)
      : loop_(loop),
        ask_(std::move(ask)),
        done_(std::move(done)),
        resolver_(context_of(loop)),
        socket_(context_of(loop)) {}

  void start() {
    timer_ = loop_.after(ask_.timeout, [self = shared_from_this()] {
      self->timer_ = 0;
      self->finish(Error{Errc::kTimeout, format("no answer from {}", self->where()), {}});
    });
    auto tls = TlsContext::client(ask_.tls);
    if (!tls.ok()) {
      loop_.post([self = shared_from_this(), error = std::move(tls).error()] { self->finish(error); });
      return;
    }
    tls_ = std::move(*tls);
    resolver_.async_resolve(
        ask_.host, std::to_string(ask_.port),
        [self = shared_from_this()](const boost::system::error_code& error, const tcp::resolver::results_type& found) {
          self->resolved(error, found);
        });
  }

 private:
  std::string where() const { return format("{} port {}", ask_.host, ask_.port); }

  void resolved(const boost::system::error_code& error, const tcp::resolver::results_type& found) {
    if (!done_)
      return;
    if (error) {
      finish(Error{Errc::kUnavailable, format("cannot find the address of {}: {}", ask_.host, error.message()), {}});
      return;
    }
    asio::async_connect(socket_, found,
                        [self = shared_from_this()](const boost::system::error_code& failed, const tcp::endpoint&) {
                          self->connected(failed);
                        });
  }

  void connected(const boost::system::error_code& error) {
    if (!done_)
      return;
    if (error) {
      const bool is_refused = error == asio::error::connection_refused;
      finish(Error{is_refused ? Errc::kNotFound : Errc::kUnavailable,
                   format("cannot reach {}: {}", where(), error.message()),
                   {}});
      return;
    }
    boost::system::error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    socket_.set_option(asio::socket_base::keep_alive(true), ignored);
    // A machine that lost its power says nothing: notice within a quarter of a minute.
    for (const auto& [option, value] : {std::pair{TCP_KEEPIDLE, 5}, {TCP_KEEPINTVL, 3}, {TCP_KEEPCNT, 3}})
      ::setsockopt(socket_.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
    constexpr unsigned kUnheardMs = 15'000;
    ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnheardMs, sizeof kUnheardMs);
    auto engine = tls_->open();
    if (!engine)
      return finish(Error{Errc::kExhausted, "no memory for a TLS connection", {}});
    stream_ = std::make_unique<FdStream>(loop_, socket_.release(), std::move(engine));
    // The stream's callbacks go with the stream, which this object owns; the timer keeps the object.
    stream_->on_data([this](std::string_view bytes) { received(bytes); });
    stream_->on_close([this] {
      const std::string& why = stream_->close_reason();
      finish(Error{why.empty() ? Errc::kUnavailable : Errc::kDenied,
                   why.empty() ? format("{} closed the connection", where())
                               : format("no secure connection to {}: {}", where(), why),
                   {}});
    });
    stream_->write(format("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: {}\r\n\r\n", ask_.target,
                          ask_.host, ask_.protocol));
  }

  void received(std::string_view bytes) {
    const auto keep = shared_from_this();
    const CertificateName server = stream_->tls()->peer();
    if (ask_.node.empty() ? server.role != kControllerRole : server.name != "node:" + ask_.node) {
      finish(denied(ask_.node.empty()
                        ? format("{} is not a controller: its certificate says \"{}\"", where(), server.role)
                        : format("{} is not node {}: its certificate says \"{}\"", where(), ask_.node, server.name)));
      return;
    }
    if (!ask_.certificate.empty() && server.serial != ask_.certificate) {
      finish(denied(format("{} shows a certificate of node {} that counts no more", where(), ask_.node)));
      return;
    }
    head_.append(bytes);
    const std::size_t end = head_.find("\r\n\r\n");
    if (end == std::string::npos) {
      if (head_.size() > kHeaderMax)
        finish(Error{Errc::kCorrupt, format("{} does not speak HTTP", where()), {}});
      return;
    }
    if (!head_.starts_with("HTTP/1.1 101 ")) {
      const std::string status = head_.substr(0, head_.find("\r\n"));
      finish(Error{head_.starts_with("HTTP/1.1 40") ? Errc::kDenied : Errc::kUnavailable,
                   format("{} refused the connection: {} {}", where(), status, trim(head_.substr(end))),
                   {}});
      return;
    }
    stream_->on_data(nullptr);
    stream_->on_close(nullptr);
    stream_->put_back(head_.substr(end + 4));
    finish(std::unique_ptr<Stream>(std::move(stream_)));
  }

  void finish(Result<std::unique_ptr<Stream>> result) {
    if (!done_)
      return;
    const auto keep = shared_from_this();
    const auto done = std::move(done_);
    done_ = nullptr;
    if (timer_ != 0)
      loop_.cancel(timer_);
    timer_ = 0;
    resolver_.cancel();
    boost::system::error_code ignored;
    socket_.close(ignored);
    stream_.reset();
    done(std::move(result));
  }

  EventLoop& loop_;
  DialAsk ask_;
  DialDone done_;
  std::unique_ptr<TlsContext> tls_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  std::unique_ptr<FdStream> stream_;
  std::string head_;
  TimerId timer_ = 0;
};

}  // namespace

void dial_tls(EventLoop& loop, DialAsk ask, DialDone done) {
  std::make_shared<Dial>(loop, std::move(ask), std::move(done))->start();
}

}  // namespace lockstep
