// RecordChecker: the promises that committed job, step and task records make, held against the simulated world.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>

#include "model/tables.h"
#include "sim/process_checker.h"
#include "sim/verdict.h"

namespace lockstep::sim {

struct RecordRules {
  Duration limit_slack = minutes(10);  // how far past its limit an attempt may be seen under faults
  std::uint32_t requeues_max = 5;
  bool no_node_fails = false;  // no node fails in this run: no attempt may end as if one had
};

class RecordChecker {
 public:
  RecordChecker(Verdict& verdict, ProcessChecker& processes, RecordRules rules)
      : verdict_(verdict), processes_(processes), rules_(rules) {}

  // Changes as readers see them.
  void saw(std::span<const Change> changes, Instant now);

  struct Counts {
    std::uint64_t jobs = 0, attempts = 0, requeues = 0, completed = 0, node_fails = 0, closings = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  void job_changed(const Job& job, bool removed, Instant now);
  void step_changed(const Step& step);
  void task_changed(const Task& task);
  void check_version(const Job* before, const Job& job);
  void check_attempt(const Job* before, const Job& job);
  void check_gang(const Job& job);
  void check_stopped(const Job& before, const Job* after);
  void check_paused(const Job* before, const Job& job);
  void check_end(const Job& job, Instant now);
  void check_exit(const Job& job);
  void check_throttle(const Job& before_or_now, bool has_allocation);
  void complain(const Job& job, const std::string& words);
  std::size_t machine_of(NodeId node) const;

  Verdict& verdict_;
  ProcessChecker& processes_;
  RecordRules rules_;
  std::map<JobId, Ref<Job>> jobs_;
  std::map<NodeId, std::size_t> machines_;
  std::map<JobId, std::set<JobId>> running_elements_;
  std::map<JobId, std::uint32_t> throttles_;
  Counts counts_;
};

}  // namespace lockstep::sim
