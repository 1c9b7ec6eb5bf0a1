// Turns: which place among equals a new job gets (rules/order.h), from the work that waits and from what was learned of
// jobs that ended (rules/predict.h). Only what came of it is a record (Job::turn, Job::predicted); the memory is
// rebuilt from the listed jobs after a restart, so that nothing but the quality of guesses hangs on it.
#pragma once

#include "model/records.h"
#include "rules/order.h"
#include "rules/predict.h"

namespace lockstep {

class Turns {
 public:
  void index(const Job* before, const Job* after);
  void index(const Node* before, const Node* after);
  void clear();

  // Fills in predicted and turn of a job that waits: at its submission, or when its limit or size was changed.
  // limit: kForever = none.
  void place(Job& job, Duration limit) const;
  // The attempt came to its own end or to that of its limit.
  void learn(const JobSpec& ended, Duration limit, Duration ran);

 private:
  std::int64_t capacity(bool devices) const;

  OrderPolicy policy_;
  RunPredictor predictor_;
  Backlog by_devices_, by_cores_;  // of jobs that ask for devices, and of the others
  std::int64_t devices_ = 0, cores_ = 0;
};

}  // namespace lockstep
