// Turns: which place among equals a new job gets (rules/order.h), from the work that waits and from what was learned of
// jobs that ended (rules/predict.h). Only what came of it is a record (Job::turn, Job::predicted); the memory is
// taught from history after a restart (ClusterState::teach), and nothing but the quality of guesses hangs on it.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "model/records.h"
#include "model/spec.h"
#include "rules/order.h"
#include "rules/predict.h"

namespace lockstep {

struct Job;
struct JobSpec;

struct PastRun;  // core/cluster.h

class Turns {
 public:
  void index(const Job* before, const Job* after);
  void index(const Node* before, const Node* after);
  void clear();

  // Fills in predicted and turn of a job that waits: at its submission, or when its limit or size was changed.
  // limit: kForever = none.
  void place(Job& job, Duration limit);
  // The attempt came to its own end or to that of its limit. Returns waiting jobs of the same kin: those are worth
  // another prediction.
  std::vector<JobId> learn(const JobSpec& ended, Duration limit, Duration ran,
                           const std::function<bool(JobId)>& still_waits);
  // The same of a job that is known from history alone.
  void teach(const PastRun& run);
  void inherit(const Turns& before) { predictor_ = before.predictor_; }
  // Predicts again: the turn moves within the spread it got at first. False: much the same, and nothing was changed.
  bool place_again(Job& job, Duration limit) const;

 private:
  struct Kin {
    JobId job;
    Duration spread;
  };
  std::int64_t capacity(bool devices) const;
  void set_turn(Job& job, Duration spread) const;

  OrderPolicy policy_;
  RunPredictor predictor_;
  Backlog by_devices_, by_cores_;  // of jobs that ask for devices, and of the others
  std::int64_t devices_ = 0, cores_ = 0;
  std::unordered_map<std::uint64_t, std::vector<Kin>> kin_;  // waiting jobs, the first few of each kind
};

}  // namespace lockstep
