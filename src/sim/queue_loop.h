// QueueLoop: a log of jobs through a pool of devices, event by event. What a policy decides is in three numbers a job
// gets when it is submitted; how holes are filled while the first of the queue waits is one of three published rules.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/result.h"
#include "sim/gang_pool.h"
#include "sim/queue_trace.h"

namespace lockstep::sim {

struct QueueKeys {
  std::int64_t turn = 0;        // order of the queue, smaller first; equal ones by their place in the log
  std::int64_t filler = 0;      // order in which holes are filled, likewise
  std::int64_t estimate_s = 1;  // run time when it is tested for a hole; at most the limit
  std::int64_t overdue_s = std::numeric_limits<std::int64_t>::max();  // once it waits, first, at that time, holes are
                                                                      // tested with limits, not estimates
};

// Jobs are named by their place in the log. A policy looks at a run time only once the job has ended, unless it is
// meant to be an oracle.
class QueuePolicy {
 public:
  virtual ~QueuePolicy() = default;
  virtual QueueKeys keys(std::size_t job) = 0;  // at its submission, and again when it is touched by an end
  virtual void joined(std::size_t) {}           // the queue, with its latest keys
  virtual void left(std::size_t) {}             // the queue: it starts, or its keys are asked for again
  virtual void started(std::size_t, const GangPool::Place&, std::int64_t /*now_s*/) {}
  virtual void ended(std::size_t, std::int64_t /*now_s*/) {}
  // Jobs that wait are asked for new keys when one of the same kin ends. 0: never.
  virtual std::uint64_t kin(std::size_t) const { return 0; }
  // A place for a job that fits.
  virtual GangPool::Place place(const GangPool& pool, std::size_t, std::int64_t size, std::int64_t /*now_s*/) {
    return pool.find(size);
  }
};

enum class Filling : unsigned char {
  kNone,          // nothing starts before the first of the queue
  kHead,          // EASY: what does not delay the first of the queue, running jobs ending at their limits
  kConservative,  // what delays no reservation, all made anew in order after every event; flat pools only
};

struct QueueRules {
  std::int32_t nodes = 1;
  std::int32_t devices_per_node = 1;
  Filling filling = Filling::kHead;
  bool one_event_at_a_time = false;  // ends, in the order of their starts, then submissions; else all of an instant
};

struct QueueRun {
  std::vector<std::int64_t> start_s;  // by place in the log
  std::vector<GangPool::Place> places;
  std::uint64_t passes = 0;
};

// Errors (kImpossible): a job larger than the pool; kUnsupported: conservative filling of more than one node.
Result<QueueRun> run_queue(std::span<const TraceJob> jobs, const QueueRules& rules, QueuePolicy& policy);

}  // namespace lockstep::sim
