// For tests of links and agents: a loop without a thread whose time is moved by hand, and pairs of streams in memory.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "ports/loop.h"

namespace lockstep {

class HandLoop final : public EventLoop {
 public:
  void post(std::function<void()> task) override { tasks_.push_back(std::move(task)); }
  TimerId after(Duration delay, std::function<void()> task) override {
    timers_.emplace(std::pair(now_ + delay, ++last_), std::move(task));
    return last_;
  }
  void cancel(TimerId timer) override {
    std::erase_if(timers_, [timer](const auto& entry) { return entry.first.second == timer; });
  }
  void watch(int, std::function<void()>) override {}
  void unwatch(int) override {}
  void run() override {
    while (!tasks_.empty()) {
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
  }
  void stop() override {}
  void pass(Duration time) {
    now_ = now_ + time;
    run();
    while (!timers_.empty() && timers_.begin()->first.first <= now_) {
      const auto task = std::move(timers_.begin()->second);
      timers_.erase(timers_.begin());
      task();
      run();
    }
  }

 private:
  Instant now_;
  TimerId last_ = 0;
  std::deque<std::function<void()>> tasks_;
  std::map<std::pair<Instant, TimerId>, std::function<void()>> timers_;
};

// One end of a pair. Bytes arrive at the other end at once, or wait there while it is paused or nobody listens.
class MemoryStream final : public Stream {
 public:
  static std::pair<std::unique_ptr<MemoryStream>, std::unique_ptr<MemoryStream>> pair() {
    auto a = std::make_unique<MemoryStream>(), b = std::make_unique<MemoryStream>();
    a->peer_ = b.get();
    b->peer_ = a.get();
    return {std::move(a), std::move(b)};
  }
  ~MemoryStream() override { cut(); }

  void on_data(std::function<void(std::string_view)> callback) override {
    on_data_ = std::move(callback);
    deliver();
  }
  void on_close(std::function<void()> callback) override { on_close_ = std::move(callback); }
  void write(std::string bytes) override {
    if (!peer_)
      return;
    peer_->arrived_ += bytes;
    peer_->deliver();
  }
  // As of a socket: what was not read when it was closed is never told as drained.
  std::size_t unsent() const override { return peer_ ? peer_->arrived_.size() : unsent_at_end_; }
  void cut() override {
    if (peer_)
      peer_->was_cut_ = true;
    close();
  }
  bool was_cut() const override { return was_cut_; }
  void on_drained(std::function<void()> callback) override { on_drained_ = std::move(callback); }
  void pause(bool paused) override {
    paused_ = paused;
    deliver();
  }
  void close() override {
    MemoryStream* peer = std::exchange(peer_, nullptr);
    if (!peer)
      return;
    unsent_at_end_ = peer->arrived_.size();
    peer->peer_ = nullptr;
    if (const auto callback = peer->on_close_)
      callback();
  }
  bool open() const { return peer_ != nullptr; }

 private:
  void deliver() {
    if (paused_ || !on_data_ || arrived_.empty())
      return;
    const std::string bytes = std::exchange(arrived_, {});
    const auto callback = on_data_;
    callback(bytes);
    if (peer_ && peer_->on_drained_ && arrived_.empty()) {
      const auto drained = peer_->on_drained_;
      drained();
    }
  }

  MemoryStream* peer_ = nullptr;
  bool paused_ = false, was_cut_ = false;
  std::size_t unsent_at_end_ = 0;
  std::string arrived_;
  std::function<void(std::string_view)> on_data_;
  std::function<void()> on_close_, on_drained_;
};

}  // namespace lockstep
