// SimHistory: an accounting store on a simulated disk, and the checker of what readers are told: every committed change
// exactly once, in order, and nothing else.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "ports/history.h"
#include "sim/log.h"
#include "sim/verdict.h"

namespace lockstep::sim {

class SimHistory : public HistoryStore {
 public:
  SimHistory(Verdict& verdict, const SimLog& log) : verdict_(verdict), log_(log) {}

  std::function<CommitFault()> draw_fault;

  Result<std::uint64_t> cursor() override { return cursor_; }
  Result<void> take(std::uint64_t index, std::span<const Change> changes, const Tables& tables) override;
  Result<std::vector<JobRow>> query(const HistoryQuery& query) override;
  Result<std::vector<EndedRun>> latest_runs(std::size_t) override { return std::vector<EndedRun>(); }

  // At the end: the changes of all durable closed batches, in order.
  void finish(const std::vector<Seq>& committed);

 private:
  Verdict& verdict_;
  const SimLog& log_;
  std::uint64_t cursor_ = 0;
  std::vector<Seq> seen_;
  std::map<JobId, JobRow> rows_;
};

}  // namespace lockstep::sim
