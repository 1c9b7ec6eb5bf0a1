// Presence: which interactive jobs, and which steps that end with their client, have it at hand. A client is there
// while one of its requests is open. A job or step whose client has been away for the grace period is reported once;
// the period starts anew with the controller.
//
// The period is counted in slices, so a pause of this process costs one slice at most. While the node that the client
// spoke through is silent itself, nobody knows about the client: it does not count before the node's own patience ends.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "model/tables.h"
#include "ports/loop.h"

namespace lockstep {

class Presence {
 public:
  struct Patience {
    Duration client;       // away for this long: lost
    Duration silent_node;  // and for at most this long while its node is not connected
  };
  static constexpr int kSlices = 10;  // of the client's patience

  Presence(EventLoop& loop, Patience patience, std::function<bool(const std::string& node)> connected,
           std::function<void(StepKey)> lost)
      : loop_(loop),
        patience_(patience),
        connected_(std::move(connected)),
        lost_(std::move(lost)),
        alive_(std::make_shared<Presence*>(this)) {}
  ~Presence();
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  // The key of a whole job.
  static StepKey whole(JobId job) { return {job, INT32_MIN}; }

  void expect(StepKey work);  // it has not ended
  void forget(StepKey work);  // it has
  bool expected(StepKey work) const { return work_.contains(work); }

  // The client is there until the result is dropped. node: whose agent forwards it; "" = it speaks to us directly.
  std::shared_ptr<void> enter(StepKey work, const std::string& node);

 private:
  struct Entry {
    std::uint32_t here = 0;
    TimerId timer = 0;
    std::string node;      // through which its client spoke last
    int slices = 0;        // of its patience that have passed
    Duration behind_node;  // how long its client has been away behind a silent node
  };
  void leave(StepKey work);
  void start_over(StepKey work, Entry& entry);
  void start_slice(StepKey work, Entry& entry);
  void slice_over(StepKey work);
  Duration slice() const { return Duration{patience_.client.us / kSlices}; }

  EventLoop& loop_;
  Patience patience_;
  std::function<bool(const std::string&)> connected_;
  std::function<void(StepKey)> lost_;
  std::map<StepKey, Entry> work_;
  std::map<StepKey, Entry> early_;    // entered before the work was expected
  std::shared_ptr<Presence*> alive_;  // emptied with this object: guards may outlive it
};

}  // namespace lockstep
