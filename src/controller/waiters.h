// Waiters: requests that are answered when something about a job becomes true (long polls). Each ends once: by its
// answer, by its timeout, or because the client went away.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "model/ids.h"
#include "ports/http.h"

namespace lockstep {

class Waiters {
 public:
  explicit Waiters(EventLoop& loop) : loop_(loop) {}

  // ready: the answer, once there is one; asked at once and after every change of the job. keep: dropped when the wait
  // ends. gone: called when it ends because its client has left. JobId{}: any change at all.
  using Ready = std::function<std::optional<HttpResponse>()>;
  void add(JobId job, std::shared_ptr<HttpExchange> exchange, Ready ready, Duration timeout,
           std::shared_ptr<void> keep = nullptr, std::function<void()> gone = nullptr);

  void changed(const std::set<JobId>& jobs);
  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiter {
    JobId job;
    std::shared_ptr<HttpExchange> exchange;
    Ready ready;
    TimerId timer = 0;
    std::shared_ptr<void> keep;
    std::function<void()> gone;
  };
  void look(std::uint64_t id);
  Waiter remove(std::uint64_t id);

  EventLoop& loop_;
  std::map<std::uint64_t, Waiter> waiting_;
  std::map<JobId, std::set<std::uint64_t>> by_job_;
  std::uint64_t next_ = 1;
};

}  // namespace lockstep
