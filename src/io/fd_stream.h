// FdStream: a Stream over a connected socket, plain or TLS. Reading begins when somebody listens (on_data) and goes
// through the loop's one buffer; writes of one turn of the loop leave together in one system call.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "io/tls.h"
#include "ports/loop.h"

namespace lockstep {

class FdStream final : public Stream {
 public:
  // Owns fd from now on (made non-blocking here). tls may be null: plain bytes.
  FdStream(EventLoop& loop, int fd, std::unique_ptr<TlsEngine> tls);
  ~FdStream() override;

  void on_data(std::function<void(std::string_view)> callback) override;
  void on_close(std::function<void()> callback) override;
  void write(std::string bytes) override;
  std::size_t unsent() const override;
  void on_drained(std::function<void()> callback) override;
  void pause(bool reading_paused) override;
  void close() override;

  // At most so much is read before the listener is asked again: little, while nobody has said what it may keep.
  void read_at_most(std::size_t bytes);
  // A peer that reads nothing any more has ended when what it had said before was heard, not when a write fails.
  void hear_out();
  // Kept until the descriptor is closed, which may be after this object is gone: what counts it against its caller.
  void keep(std::shared_ptr<void> until_closed);
  // Bytes that were read too far; the next listener gets them first.
  void put_back(std::string bytes);
  // Why the stream closed, for people; empty for an orderly end.
  const std::string& close_reason() const;
  const TlsEngine* tls() const;

  struct Inner;  // lives on while queued bytes leave after close()

 private:
  std::shared_ptr<Inner> inner_;
};

}  // namespace lockstep
