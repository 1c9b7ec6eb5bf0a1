// For tests: a whole controller on a loop that the test turns by hand, with requests and links made of plain strings.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "base/text.h"
#include "controller/server.h"
#include "controller/test_log.h"

namespace lockstep {

class TestLoop : public EventLoop {
 public:
  void post(std::function<void()> task) override {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
  }
  TimerId after(Duration delay, std::function<void()> task) override {
    timers_[++next_] = {delay, std::move(task)};
    return next_;
  }
  void cancel(TimerId timer) override { timers_.erase(timer); }
  void watch(int, std::function<void()>) override {}
  void unwatch(int) override {}
  void run() override {}
  void stop() override {}

  // Drops what is posted: its poster is gone.
  void forget() {
    std::deque<std::function<void()>> gone;
    const std::lock_guard lock(mutex_);
    gone.swap(tasks_);
    timers_.clear();
  }

  // Runs what is posted until the condition holds; gives up (and fails the test) after ten seconds.
  template <class F>
  bool until(F&& holds) {
    while (!holds()) {
      std::function<void()> task;
      {
        std::unique_lock lock(mutex_);
        if (!wake_.wait_for(lock, std::chrono::seconds(10), [this] { return !tasks_.empty(); })) {
          ADD_FAILURE() << "nothing happens any more";
          return false;
        }
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
    return true;
  }
  // Fires every timer of exactly this length.
  void fire(Duration delay) {
    std::vector<std::function<void()>> due;
    for (auto it = timers_.begin(); it != timers_.end();)
      if (it->second.first == delay) {
        due.push_back(std::move(it->second.second));
        it = timers_.erase(it);
      } else {
        ++it;
      }
    for (auto& task : due) task();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  std::map<TimerId, std::pair<Duration, std::function<void()>>> timers_;
  TimerId next_ = 0;
};

// One end of a connection; the test holds the other.
struct TestWire {
  std::string sent;        // by the controller
  bool reads = true;       // false: what is sent is unread from then on
  std::size_t unread = 0;  // bytes
  std::function<void()> drained;
  std::function<void(std::string_view)> data;
  std::function<void()> closed;
  bool gone = false;
  bool cut = false;  // it ended before it was closed
};
class TestStream : public Stream {
 public:
  explicit TestStream(std::shared_ptr<TestWire> wire) : wire_(std::move(wire)) {}
  ~TestStream() override {
    wire_->data = nullptr;
    wire_->closed = wire_->drained = nullptr;
    end(true);
  }
  void on_data(std::function<void(std::string_view)> callback) override { wire_->data = std::move(callback); }
  void on_close(std::function<void()> callback) override { wire_->closed = std::move(callback); }
  void write(std::string bytes) override {
    EXPECT_FALSE(wire_->gone);
    wire_->sent += bytes;
    wire_->unread += wire_->reads ? 0 : bytes.size();
  }
  std::size_t unsent() const override { return wire_->unread; }
  void on_drained(std::function<void()> callback) override { wire_->drained = std::move(callback); }
  void pause(bool) override {}
  void close() override { end(false); }
  void cut() override { end(true); }

 private:
  void end(bool cut) {
    if (!std::exchange(wire_->gone, true))
      wire_->cut = cut;
  }
  std::shared_ptr<TestWire> wire_;
};

struct TestCall {
  std::optional<HttpResponse> response;
  std::shared_ptr<TestWire> wire;  // after an upgrade, or of a streamed answer
  HttpResponse head;               // of a streamed answer
  std::function<void()> gone;
  bool done() const { return response || wire; }
};
class TestExchange : public HttpExchange {
 public:
  TestExchange(HttpRequest request, std::shared_ptr<TestCall> call)
      : request_(std::move(request)), call_(std::move(call)) {}
  ~TestExchange() override {
    if (!call_->done())
      call_->response = HttpResponse{500, "application/json", "dropped", {}};
  }
  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override {
    EXPECT_FALSE(call_->done());
    call_->response = std::move(response);
  }
  std::unique_ptr<Stream> stream(HttpResponse head) override {
    if (request_.method == "HEAD") {
      respond(std::move(head));
      return nullptr;
    }
    call_->head = std::move(head);
    return upgrade({});
  }
  std::unique_ptr<Stream> upgrade(const std::string&) override {
    EXPECT_FALSE(call_->done());
    call_->wire = std::make_shared<TestWire>();
    return std::make_unique<TestStream>(call_->wire);
  }
  void on_gone(std::function<void()> callback) override { call_->gone = std::move(callback); }

 private:
  HttpRequest request_;
  std::shared_ptr<TestCall> call_;
};

class TestHistory : public HistoryStore {
 public:
  Result<std::uint64_t> cursor() override { return cursor_; }
  Result<void> take(std::uint64_t index, std::span<const Change>, const Tables&) override {
    cursor_ = index;
    return {};
  }
  Result<std::vector<JobRow>> query(const HistoryQuery&) override { return rows; }
  Result<std::vector<EndedRun>> latest_runs(std::size_t) override { return runs; }

  std::vector<EndedRun> runs;
  std::vector<JobRow> rows{JobRow{}};

 private:
  std::uint64_t cursor_ = 0;
};

class TestClock : public Clock {
 public:
  Instant boot() const override { return Instant{1'000'000 + passed_us_}; }
  WallTime wall() const override { return WallTime{1'700'000'000'000'000 + passed_us_}; }
  void advance(Duration span) { passed_us_ += span.us; }

 private:
  std::atomic<std::int64_t> passed_us_ = 0;  // other threads look
};

// One request, as a connection of that peer would hand it over.
template <class Controller>
std::shared_ptr<TestCall> send_request(Controller& controller, const std::string& method, const std::string& target,
                                       const std::string& body, const Peer& peer, const std::string& upgrade) {
  HttpRequest request;
  request.method = method;
  const auto mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != std::string::npos)
    for (const auto& part : split(target.substr(mark + 1), '&'))
      request.query[part.substr(0, part.find('='))] = part.substr(part.find('=') + 1);
  if (!upgrade.empty())
    request.headers["upgrade"] = upgrade;
  request.body = body;
  request.peer = peer;
  auto call = std::make_shared<TestCall>();
  controller.handle(std::make_shared<TestExchange>(std::move(request), call));
  return call;
}

}  // namespace lockstep
