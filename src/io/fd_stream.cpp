#include "io/fd_stream.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <deque>

#include "base/text.h"
#include "io/asio_loop.h"

namespace lockstep {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;

namespace {

constexpr std::size_t kReadBudget = 512 << 10;  // per wake-up, so that one loud peer does not starve the others
constexpr std::size_t kWriteBudget = 1 << 20;   // likewise, of one turn of the loop
constexpr std::size_t kSealBytes = 256 << 10;  // of plain text under one encryption: a large answer takes several turns
constexpr std::size_t kSealedMax = 512 << 10;  // ciphertext that waits for the socket
constexpr std::size_t kCoalesceBytes = 64 << 10;
constexpr int kIovMax = 16;
constexpr Duration kLinger = seconds(2);   // after close() and everything was sent: for the peer's end
constexpr Duration kUnread = seconds(30);  // after close(): while nothing at all is read of what is left

}  // namespace

struct FdStream::Inner : std::enable_shared_from_this<FdStream::Inner> {
  Inner(EventLoop& event_loop, int fd_arg, std::unique_ptr<TlsEngine> tls_arg)
      : loop(event_loop), fd(context_of(event_loop), fd_arg), tls(std::move(tls_arg)) {}

  // --- reading ---

  bool wants_read() const {
    if (!fd.is_open() || read_armed || ended)
      return false;
    if (closing)
      return true;  // to see the peer's end, and so that its unread bytes do not reset the connection
    return (data && !paused && returned.empty()) || (tls && !tls->ready());
  }

  void arm_read() {
    if (!wants_read())
      return;
    read_armed = true;
    fd.async_wait(stream_descriptor::wait_read, [self = shared_from_this()](const boost::system::error_code& error) {
      self->read_armed = false;
      if (!error && self->fd.is_open())
        self->read_some();
    });
  }

  void read_some() {
    const auto keep = shared_from_this();
    std::size_t budget = kReadBudget;
    while (wants_read() && budget > 0) {
      auto buffer = read_buffer_of(loop);
      buffer = buffer.first(std::min(buffer.size(), at_once));
      const ssize_t n = ::recv(fd.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        break;
      if (n <= 0) {
        peer_ended(n == 0 ? std::string() : std::string(std::strerror(errno)));
        return;
      }
      budget -= std::min(budget, static_cast<std::size_t>(n));
      if (!received({buffer.data(), static_cast<std::size_t>(n)}))
        return;
      if (static_cast<std::size_t>(n) < buffer.size())
        break;  // a short read emptied the socket
    }
    arm_read();
  }

  bool received(std::string_view bytes) {
    if (closing)
      return true;  // discarded
    if (!tls) {
      deliver(bytes);
      return true;
    }
    const auto fed = tls->feed(bytes, [this](std::string_view plain) { deliver(plain); });
    schedule_flush();  // handshake answers, alerts, and what waited for the handshake
    if (fed.ok())
      return true;
    flush();  // the alert tells the peer why
    peer_ended(fed.error().message);
    return false;
  }

  void deliver(std::string_view bytes) {
    if (closing || ended || bytes.empty())
      return;
    if (!data || paused || !returned.empty()) {
      returned.append(bytes);
      return;
    }
    const auto callback = data;  // it may replace itself, or destroy the stream
    (*callback)(bytes);
  }

  void schedule_returned() {
    if (returned.empty() || !data || paused || return_posted)
      return;
    return_posted = true;
    asio::post(fd.get_executor(), [self = shared_from_this()] {
      self->return_posted = false;
      if (self->data && !self->paused && !self->closing && !self->returned.empty()) {
        const std::string bytes = std::move(self->returned);
        self->returned.clear();
        self->deliver(bytes);
      }
      self->arm_read();
    });
  }

  void peer_ended(std::string why) {
    if (ended)
      return;
    ended = true;
    reason = std::move(why);
    if (closing) {
      if (shut_down || unsent == 0)  // a peer that only stopped sending still gets what is queued
        shut();
      return;
    }
    const auto callback = std::move(close_callback);
    close_callback = nullptr;
    if (callback)
      callback();
  }

  // --- writing ---

  void schedule_flush() {
    if (flush_posted || write_armed || !fd.is_open())
      return;
    flush_posted = true;
    asio::post(fd.get_executor(), [self = shared_from_this()] {
      self->flush_posted = false;
      self->flush();
    });
  }

  void flush() {
    if (!fd.is_open() || write_armed)
      return;
    if (tls)
      seal();
    std::size_t budget = kWriteBudget;
    while (!wire().empty()) {
      if (budget == 0)
        return schedule_flush();  // a peer that reads as fast as we write does not keep us here
      const ssize_t n = send_some();
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        arm_write();
        return;
      }
      if (n < 0) {
        nobody_reads(std::strerror(errno));
        return;
      }
      budget -= std::min(budget, static_cast<std::size_t>(n));
      sent(static_cast<std::size_t>(n));
      if (tls)
        seal();
    }
    if (unsent == 0)
      all_sent();
  }

  void nobody_reads(const std::string& why) {
    out.clear();
    sealed.clear();
    out_offset = sealed_offset = unsent = unsent_sealed = 0;
    if (closing || !hears_out || !data)
      return peer_ended(why);
    deaf = true;
    if (drained)
      (*std::shared_ptr(drained))();  // whoever reads no more until we have sent reads on
    arm_read();
  }

  // What goes to the socket next: ciphertext with TLS.
  std::deque<std::string>& wire() { return tls ? sealed : out; }

  void seal() {
    while (tls->ready() && !out.empty() && sealed_bytes() < kSealedMax) {
      const std::string_view piece = std::string_view(out.front()).substr(out_offset, kSealBytes);
      if (!tls->seal(piece).ok())
        break;  // an engine that failed has already ended the stream
      unsent_sealed += piece.size();
      out_offset += piece.size();
      if (out_offset == out.front().size()) {
        out_offset = 0;
        out.pop_front();
      }
      take_sealed();
    }
    take_sealed();
  }

  void take_sealed() {
    if (std::string records = tls->take_output(); !records.empty())
      sealed.push_back(std::move(records));
  }

  std::size_t sealed_bytes() const {
    std::size_t bytes = 0;
    for (const auto& piece : sealed) bytes += piece.size();
    return bytes;
  }

  ssize_t send_some() {
    auto& queue = wire();
    iovec parts[kIovMax];
    msghdr message{};
    message.msg_iov = parts;
    for (const auto& piece : queue) {
      const std::size_t skip = message.msg_iovlen == 0 ? wire_offset() : 0;
      parts[message.msg_iovlen++] = {const_cast<char*>(piece.data()) + skip, piece.size() - skip};
      if (message.msg_iovlen == kIovMax)
        break;
    }
    return ::sendmsg(fd.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  std::size_t& wire_offset() { return tls ? sealed_offset : out_offset; }

  void sent(std::size_t n) {
    if (!tls)
      unsent -= n;
    auto& queue = wire();
    auto& offset = wire_offset();
    while (n > 0) {
      const std::size_t left = queue.front().size() - offset;
      if (n < left) {
        offset += n;
        return;
      }
      n -= left;
      offset = 0;
      queue.pop_front();
    }
    if (tls && queue.empty()) {
      unsent -= unsent_sealed;
      unsent_sealed = 0;
    }
  }

  void arm_write() {
    write_armed = true;
    fd.async_wait(stream_descriptor::wait_write, [self = shared_from_this()](const boost::system::error_code& error) {
      self->write_armed = false;
      if (!error)
        self->flush();
    });
  }

  void all_sent() {
    if (closing && !shut_down) {
      if (tls && !notified) {
        notified = true;
        tls->finish();
        seal();
        flush();
        return;
      }
      shut_down = true;
      if (ended) {
        shut();
        return;
      }
      if (linger_timer != 0)
        loop.cancel(linger_timer);
      linger();
      ::shutdown(fd.native_handle(), SHUT_WR);
      return;
    }
    if (drain_due && drained) {
      drain_due = false;
      const auto callback = drained;
      (*callback)();
    }
  }

  // --- the end ---

  void close_gently() {
    if (closing || !fd.is_open())
      return;
    closing = true;
    data = nullptr;
    drained = nullptr;
    close_callback = nullptr;
    returned.clear();
    linger();
    schedule_flush();
    arm_read();
  }

  // A peer that reads is waited for, however long that takes; one that does not, and one that has all, is not.
  void linger() {
    linger_timer = loop.after(unsent > 0 ? kUnread : kLinger, [self = shared_from_this(), before = unsent] {
      self->linger_timer = 0;
      if (before > 0 && self->unsent < before)
        self->linger();
      else
        self->shut();
    });
  }

  void shut() {
    if (linger_timer != 0)
      loop.cancel(linger_timer);
    linger_timer = 0;
    ended = true;
    data = nullptr;
    drained = nullptr;
    close_callback = nullptr;
    boost::system::error_code ignored;
    if (fd.is_open())
      fd.close(ignored);
    kept.clear();
  }

  EventLoop& loop;
  stream_descriptor fd;
  std::unique_ptr<TlsEngine> tls;
  std::shared_ptr<std::function<void(std::string_view)>> data;  // shared: it may be replaced while it runs
  std::shared_ptr<std::function<void()>> drained;
  std::function<void()> close_callback;
  std::vector<std::shared_ptr<void>> kept;  // what lasts as long as the descriptor
  std::string reason;
  std::string returned;  // read, but nobody took it yet

  std::deque<std::string> out;     // plain bytes
  std::deque<std::string> sealed;  // TLS records
  std::size_t out_offset = 0, sealed_offset = 0;
  std::size_t unsent = 0;         // plain bytes not known to have left
  std::size_t unsent_sealed = 0;  // those of them inside sealed

  std::size_t at_once = SIZE_MAX;  // of one read
  TimerId linger_timer = 0;
  bool read_armed = false, write_armed = false, flush_posted = false, return_posted = false;
  bool paused = false, drain_due = false;
  bool closing = false;    // close() was called: send, then end
  bool shut_down = false;  // everything was sent after close()
  bool notified = false;   // TLS close_notify is queued
  bool hears_out = false;  // see hear_out()
  bool deaf = false;       // the peer reads nothing any more
  bool ended = false;      // the peer's end, or an error
};

FdStream::FdStream(EventLoop& loop, int fd, std::unique_ptr<TlsEngine> tls) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  inner_ = std::make_shared<Inner>(loop, fd, std::move(tls));
  if (inner_->tls) {
    inner_->schedule_flush();  // a client speaks first
    inner_->arm_read();
  }
}

FdStream::~FdStream() {
  if (!inner_->closing)
    inner_->shut();
}

void FdStream::on_data(std::function<void(std::string_view)> callback) {
  if (inner_->closing || !callback) {
    inner_->data = nullptr;
    return;
  }
  inner_->data = std::make_shared<std::function<void(std::string_view)>>(std::move(callback));
  inner_->schedule_returned();
  inner_->arm_read();
}

void FdStream::on_close(std::function<void()> callback) {
  if (!inner_->closing)
    inner_->close_callback = std::move(callback);
}

void FdStream::write(std::string bytes) {
  Inner& s = *inner_;
  if (bytes.empty() || s.closing || s.ended || s.deaf)
    return;
  s.unsent += bytes.size();
  s.drain_due = true;
  if (!s.out.empty() && s.out.back().size() + bytes.size() <= kCoalesceBytes)
    s.out.back() += bytes;
  else
    s.out.push_back(std::move(bytes));
  s.schedule_flush();
}

std::size_t FdStream::unsent() const { return inner_->unsent; }

void FdStream::on_drained(std::function<void()> callback) {
  inner_->drained = callback ? std::make_shared<std::function<void()>>(std::move(callback)) : nullptr;
}

void FdStream::pause(bool reading_paused) {
  inner_->paused = reading_paused;
  inner_->schedule_returned();
  inner_->arm_read();
}

void FdStream::close() { inner_->close_gently(); }

void FdStream::read_at_most(std::size_t bytes) { inner_->at_once = bytes; }

void FdStream::hear_out() { inner_->hears_out = true; }

void FdStream::keep(std::shared_ptr<void> until_closed) {
  if (inner_->fd.is_open())
    inner_->kept.push_back(std::move(until_closed));
}

void FdStream::put_back(std::string bytes) {
  inner_->returned.insert(0, bytes);
  inner_->schedule_returned();
}

const std::string& FdStream::close_reason() const { return inner_->reason; }
const TlsEngine* FdStream::tls() const { return inner_->tls.get(); }

}  // namespace lockstep
