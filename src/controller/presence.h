// Presence: which interactive jobs have their client at hand. A client is there while one of its requests is open. A
// job whose client has been away for the grace period is reported once; the period starts anew with the controller.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "model/ids.h"
#include "ports/loop.h"

namespace lockstep {

class Presence {
 public:
  Presence(EventLoop& loop, Duration grace, std::function<void(JobId)> lost)
      : loop_(loop), grace_(grace), lost_(std::move(lost)), alive_(std::make_shared<Presence*>(this)) {}
  ~Presence();
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  void expect(JobId job);  // an interactive job that has not ended
  void forget(JobId job);  // it has
  bool expected(JobId job) const { return jobs_.contains(job); }

  // The client is there until the result is dropped.
  std::shared_ptr<void> enter(JobId job);

 private:
  struct Entry {
    std::uint32_t here = 0;
    TimerId timer = 0;
  };
  void leave(JobId job);
  void start_timer(JobId job, Entry& entry);

  EventLoop& loop_;
  Duration grace_;
  std::function<void(JobId)> lost_;
  std::map<JobId, Entry> jobs_;
  std::map<JobId, std::uint32_t> early_;  // entered before the job was expected
  std::shared_ptr<Presence*> alive_;      // emptied with this object: guards may outlive it
};

}  // namespace lockstep
