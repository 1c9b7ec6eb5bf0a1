// ClientChecker: what clients were promised. It remembers every answer and compares with what became durable.
#pragma once

#include <map>
#include <set>
#include <string>

#include "model/job_state.h"
#include "model/tables.h"
#include "sim/verdict.h"

namespace lockstep::sim {

class ClientChecker {
 public:
  explicit ClientChecker(Verdict& verdict) : verdict_(verdict) {}

  // An answer, at the moment it leaves: the change it tells of must be durable by then.
  void answered(const std::string& what, Seq seq, Seq durable, Instant now);
  void submitted(JobId job, const std::string& name, Instant now);
  void cancelled(JobId job) { cancelled_.insert(job); }
  void requeued(JobId job) { requeued_.insert(job); }  // a cancel before it may be undone by its owner

  // A committed version of a job.
  void saw(const Job& job);
  // At the end: everything acknowledged has been seen, everything cancelled is over.
  void finish();

 private:
  Verdict& verdict_;
  std::map<JobId, std::string> submitted_;
  std::set<JobId> cancelled_, requeued_;
  struct Seen {
    std::string name;
    Uid uid;
    JobState state = JobState::kPending;
  };
  std::map<JobId, Seen> seen_;
};

}  // namespace lockstep::sim
