// Waiters: requests that are answered when something about a job becomes true (long polls). Each ends once: by its
// answer, by its timeout, or because the client went away. Whoever is woken looks in its caller's turn, so that a
// thousand waiters of one user hold up nobody else.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "controller/turns.h"
#include "model/ids.h"
#include "ports/http.h"

namespace lockstep {

class Waiters {
 public:
  // each_max: of one caller; administrators have no bound.
  Waiters(EventLoop& loop, FairTurns& turns, std::size_t each_max) : loop_(loop), turns_(turns), each_max_(each_max) {}

  // Whether the caller may have one more; kExhausted with field "waits".
  Result<void> room(const Payer& payer) const;
  // ready: the answer, once there is one; asked at once and after every change of the job. keep: dropped when the wait
  // ends. gone: called when it ends because its client has left. JobId{}: any change at all.
  using Ready = std::function<std::optional<HttpResponse>()>;
  void add(const Payer& payer, JobId job, std::shared_ptr<HttpExchange> exchange, Ready ready, Duration timeout,
           std::shared_ptr<void> keep = nullptr, std::function<void()> gone = nullptr);

  void changed(const std::set<JobId>& jobs);
  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiter {
    Payer payer;
    JobId job;
    std::shared_ptr<HttpExchange> exchange;
    Ready ready;
    TimerId timer = 0;
    std::shared_ptr<void> keep;
    std::function<void()> gone;
    bool woken = false;  // its look is queued
  };
  void wake(std::uint64_t id);
  void look(std::uint64_t id);
  Waiter remove(std::uint64_t id);

  EventLoop& loop_;
  FairTurns& turns_;
  std::size_t each_max_;
  std::map<std::uint64_t, Waiter> waiting_;
  std::map<JobId, std::set<std::uint64_t>> by_job_;
  std::map<std::string, std::size_t> by_payer_;  // how many; none is 0
  std::uint64_t next_ = 1;
};

}  // namespace lockstep
