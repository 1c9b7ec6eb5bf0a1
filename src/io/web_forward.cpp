#include "io/web_forward.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "io/fd_stream.h"
#include "io/stream_bridge.h"

namespace lockstep {

namespace {

Error not_reached(std::string why) { return {Errc::kUnavailable, std::move(why), {}}; }

// A socket that is connecting; bytes that are written wait until it is.
Result<int> dial(const WebForward& ask) {
  sockaddr_storage storage{};
  socklen_t size = 0;
  if (auto* in = reinterpret_cast<sockaddr_in*>(&storage);
      inet_pton(AF_INET, ask.address.c_str(), &in->sin_addr) == 1) {
    in->sin_family = AF_INET;
    in->sin_port = htons(ask.port);
    size = sizeof *in;
  } else if (auto* in6 = reinterpret_cast<sockaddr_in6*>(&storage);
             inet_pton(AF_INET6, ask.address.c_str(), &in6->sin6_addr) == 1) {
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(ask.port);
    size = sizeof *in6;
  } else {
    return not_reached(format("dial tcp: lookup {}: it is no address", ask.address));
  }
  const int fd = ::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return not_reached(format("dial tcp {}:{}: {}", ask.address, ask.port, std::strerror(errno)));
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&storage), size) != 0 && errno != EINPROGRESS) {
    const int why = errno;
    ::close(fd);
    return not_reached(format("dial tcp {}:{}: connect: {}", ask.address, ask.port, std::strerror(why)));
  }
  return fd;
}

class Forwarding final : public WebForwarding, public std::enable_shared_from_this<Forwarding> {
 public:
  Forwarding(EventLoop& loop, WebForward ask, ForwardTold told)
      : loop_(loop),
        ask_(std::move(ask)),
        told_(std::move(told)),
        flow_(
            ask_.method != "HEAD", [this](ReplyHead head) { take_head(std::move(head)); },
            [this](std::string_view bytes) {
              if (told_.body)
                told_.body(bytes);
            }) {}
  ~Forwarding() override {
    if (timer_ != 0)
      loop_.cancel(timer_);
  }

  void begin() {
    // What cannot even begin is told like the rest: later.
    if (const auto begun = open(); !begun.ok())
      loop_.post([weak = weak_from_this(), why = begun.error()] {
        if (const auto self = weak.lock())
          self->end(why);
      });
  }

  void pause(bool paused) override {
    if (stream_)
      stream_->pause(paused);
  }

 private:
  Result<void> open() {
    const auto context = TRY(TlsContext::web_client(ask_.trust));
    const int fd = TRY(ask_.through ? bridge_to(loop_, std::exchange(ask_.through, nullptr)) : dial(ask_));
    auto engine = context->open();
    if (!engine) {
      ::close(fd);
      return Error{Errc::kExhausted, "no memory for a TLS connection", {}};
    }
    stream_ = std::make_unique<FdStream>(loop_, fd, std::move(engine));
    stream_->on_data([this](std::string_view bytes) { take(bytes); });
    stream_->on_close([this] { closed(); });
    stream_->write(std::move(ask_.head) + std::exchange(ask_.body, {}));
    timer_ = loop_.after(ask_.patience, [this] {
      timer_ = 0;
      end(Error{Errc::kTimeout, "context deadline exceeded", {}});
    });
    return {};
  }

  void take_head(ReplyHead head) {
    if (timer_ != 0)
      loop_.cancel(std::exchange(timer_, 0));
    if (told_.head)
      told_.head(std::move(head));
  }

  void take(std::string_view bytes) {
    const auto keep = shared_from_this();  // who is told may let us go
    const auto fed = flow_.feed(bytes);
    if (!fed.ok())
      end(fed.error());
    else if (*fed)
      end({});
  }

  void closed() {
    const auto keep = shared_from_this();
    const std::string why = stream_->close_reason();
    const TlsEngine* tls = stream_->tls();
    if (tls && !tls->ready() && !why.empty())
      return end(denied("tls: " + why));
    end(why.empty() ? flow_.end() : Result<void>(not_reached(why)));
  }

  void end(Result<void> how) {
    if (std::exchange(over_, true))
      return;
    if (timer_ != 0)
      loop_.cancel(std::exchange(timer_, 0));
    // The stream is calling us, and may have more to say in this very turn (the answer's end, then the connection's):
    // nobody hears it any more, and it goes in another turn.
    if (stream_) {
      stream_->on_data(nullptr);
      stream_->on_close(nullptr);
    }
    loop_.post([stream = std::shared_ptr<FdStream>(std::move(stream_))] {});
    const auto told = std::move(told_);
    told_ = {};
    if (told.end)
      told.end(std::move(how));
  }

  EventLoop& loop_;
  WebForward ask_;
  ForwardTold told_;
  ReplyFlow flow_;
  std::unique_ptr<FdStream> stream_;
  TimerId timer_ = 0;
  bool over_ = false;
};

}  // namespace

std::shared_ptr<WebForwarding> web_forward(EventLoop& loop, WebForward ask, ForwardTold told) {
  auto made = std::make_shared<Forwarding>(loop, std::move(ask), std::move(told));
  made->begin();
  return made;
}

}  // namespace lockstep
