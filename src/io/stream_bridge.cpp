#include "io/stream_bridge.h"

#include <sys/socket.h>

#include "io/fd_stream.h"

namespace lockstep {

namespace {

// A stream and our end of a pair of sockets, each with what the other gets. Lives until both ends have closed.
struct Bridge : std::enable_shared_from_this<Bridge> {
  EventLoop& loop;
  std::shared_ptr<Stream> stream;
  std::unique_ptr<FdStream> socket;

  Bridge(EventLoop& on, std::shared_ptr<Stream> far, int fd)
      : loop(on), stream(std::move(far)), socket(std::make_unique<FdStream>(on, fd, nullptr)) {}

  void begin() {
    const auto self = shared_from_this();
    stream->on_data([self](std::string_view bytes) {
      if (!self->socket)
        return;
      self->socket->write(std::string(bytes));
      if (self->socket->unsent() > kStreamHighWater)  // who answers may send for ever
        self->stream->pause(true);
    });
    socket->on_drained([self] {
      if (self->stream)
        self->stream->pause(false);
    });
    stream->on_close([self] {
      if (self->socket)
        self->socket->close();
      self->end();
    });
    socket->on_data([self](std::string_view bytes) {
      if (self->stream)
        self->stream->write(std::string(bytes));
    });
    socket->on_close([self] {
      if (self->stream)
        self->stream->close();
      self->end();
    });
  }

  // Not from within a callback of what is dropped.
  void end() {
    loop.post([self = shared_from_this()] {
      const auto far = std::move(self->stream);
      const auto near = std::move(self->socket);
    });
  }
};

}  // namespace

Result<int> bridge_to(EventLoop& loop, std::shared_ptr<Stream> stream) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Error{Errc::kExhausted, "no descriptors for the connection", {}};
  std::make_shared<Bridge>(loop, std::move(stream), ends[1])->begin();
  return ends[0];
}

}  // namespace lockstep
