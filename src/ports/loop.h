// EventLoop and Stream: one thread that turns the world into calls. All callbacks run on the loop's thread; post() is
// the only member that other threads may call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace lockstep {

using TimerId = std::uint64_t;

class EventLoop {
 public:
  virtual ~EventLoop() = default;
  virtual void post(std::function<void()> task) = 0;
  virtual TimerId after(Duration delay, std::function<void()> task) = 0;
  virtual void cancel(TimerId timer) = 0;
  // Calls on_readable whenever fd has something to read, until unwatch. The caller keeps owning the fd.
  virtual void watch(int fd, std::function<void()> on_readable) = 0;
  virtual void unwatch(int fd) = 0;
  virtual void run() = 0;   // until stop()
  virtual void stop() = 0;  // from any thread
  // Called after every turn, which is one callback; before run() only. A loop that nobody watches need not call it.
  virtual void on_turn(std::function<void()>) {}
};

// An ordered byte stream both ways: a Unix socket, or TLS, or an HTTP connection after an upgrade.
class Stream {
 public:
  virtual ~Stream() = default;  // closes without a callback
  virtual void on_data(std::function<void(std::string_view)> callback) = 0;
  virtual void on_close(std::function<void()> callback) = 0;    // once, from the other side or by error
  virtual void write(std::string bytes) = 0;                    // queued; order kept
  virtual std::size_t unsent() const = 0;                       // bytes queued: slow down above kStreamHighWater
  virtual void on_drained(std::function<void()> callback) = 0;  // when unsent() falls back to 0
  virtual void pause(bool reading_paused) = 0;                  // backpressure towards the peer
  virtual void close() = 0;                                     // after what is queued has been sent
  // As close(); where the other end can be told, it learns that more was to come. Dropping a stream says so too.
  virtual void cut() { close(); }
  // In on_close() and after it: more was to come, as far as the other end could tell.
  virtual bool was_cut() const { return false; }
};
inline constexpr std::size_t kStreamHighWater = 1 << 20;

}  // namespace lockstep
