#include "io/event_loop.h"

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>

#include "base/check.h"
#include "io/asio_loop.h"

namespace lockstep {

namespace asio = boost::asio;

namespace {

// A watched descriptor. The caller owns the fd, so it is released, never closed.
struct Watch {
  Watch(asio::io_context& context, int fd, std::function<void()> callback)
      : descriptor(context, fd), on_readable(std::move(callback)) {}
  ~Watch() { descriptor.release(); }

  static void arm(const std::shared_ptr<Watch>& watch) {
    watch->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                 [watch](const boost::system::error_code& error) {
                                   if (error || watch->gone)
                                     return;
                                   watch->on_readable();
                                   if (!watch->gone)
                                     arm(watch);
                                 });
  }

  asio::posix::stream_descriptor descriptor;
  std::function<void()> on_readable;
  bool gone = false;
};

class AsioLoop final : public EventLoop {
 public:
  void post(std::function<void()> task) override { asio::post(context_, std::move(task)); }

  TimerId after(Duration delay, std::function<void()> task) override {
    const TimerId id = ++last_timer_;
    auto& timer = timers_.emplace(id, context_).first->second;
    // Asio counts in nanoseconds of 64 bits; kForever would overflow.
    const auto us = std::clamp<std::int64_t>(delay.us, 0, hours(24 * 365).us);
    timer.expires_after(std::chrono::microseconds(us));
    timer.async_wait([this, id, task = std::move(task)](const boost::system::error_code&) {
      if (timers_.erase(id) != 0)  // a cancelled timer has left already, even when its expiry was in flight
        task();
    });
    return id;
  }
  void cancel(TimerId timer) override { timers_.erase(timer); }

  void watch(int fd, std::function<void()> on_readable) override {
    unwatch(fd);
    auto watch = std::make_shared<Watch>(context_, fd, std::move(on_readable));
    watches_[fd] = watch;
    Watch::arm(watch);
  }
  void unwatch(int fd) override {
    const auto it = watches_.find(fd);
    if (it == watches_.end())
      return;
    it->second->gone = true;
    it->second->descriptor.release();  // at once: the caller may close the fd now
    watches_.erase(it);
  }

  void run() override {
    const auto work = asio::make_work_guard(context_);
    context_.restart();
    if (stopped_.exchange(false))
      return;
    if (!on_turn_)
      context_.run();
    else
      while (context_.run_one() != 0) on_turn_();
    stopped_ = false;
  }
  void on_turn(std::function<void()> callback) override { on_turn_ = std::move(callback); }
  void stop() override {
    stopped_ = true;
    context_.stop();
  }

  ~AsioLoop() override {
    for (auto& [fd, watch] : watches_) {
      watch->gone = true;
      watch->descriptor.release();
    }
  }

  asio::io_context& context() { return context_; }
  std::span<char> read_buffer() { return {buffer_.get(), kReadBytes}; }

 private:
  static constexpr std::size_t kReadBytes = 128 << 10;

  std::unique_ptr<char[]> buffer_{new char[kReadBytes]};
  std::atomic<bool> stopped_ = false;  // a stop() that came before run() still counts
  asio::io_context context_{1};
  std::function<void()> on_turn_;
  TimerId last_timer_ = 0;
  std::map<TimerId, asio::steady_timer> timers_;
  std::map<int, std::shared_ptr<Watch>> watches_;
};

AsioLoop& ours(EventLoop& loop) {
  auto* asio_loop = dynamic_cast<AsioLoop*>(&loop);
  CHECK(asio_loop != nullptr, "real streams need the real loop");
  return *asio_loop;
}

}  // namespace

std::unique_ptr<EventLoop> make_event_loop() { return std::make_unique<AsioLoop>(); }
asio::io_context& context_of(EventLoop& loop) { return ours(loop).context(); }
std::span<char> read_buffer_of(EventLoop& loop) { return ours(loop).read_buffer(); }

}  // namespace lockstep
