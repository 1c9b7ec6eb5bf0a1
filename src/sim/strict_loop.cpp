// One pick after another.
#include "sim/strict_loop.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace lockstep::sim {
namespace {

class StrictLoop {
 public:
  StrictLoop(std::span<const TraceJob> jobs, std::int64_t procs, bool backfill, StrictPolicy& policy)
      : jobs_(jobs), backfill_(backfill), policy_(policy), free_(procs), start_s_(jobs.size(), -1) {}

  std::vector<std::int64_t> run() && {
    while (next_ < jobs_.size() || !queue_.empty()) {
      while (queue_.empty()) advance();
      const std::size_t picked = pick();
      if (jobs_[picked].size > free_) {
        const std::int64_t shadow_s = backfill_ ? shadow_of(jobs_[picked].size) : 0;
        for (; jobs_[picked].size > free_; advance())
          if (backfill_)
            fill_before(shadow_s);
      }
      start(picked);
    }
    return std::move(start_s_);
  }

 private:
  struct Running {
    std::int64_t end_s = 0;
    std::int64_t size = 0;
  };

  // To the next arrival or end, arrivals first.
  void advance() {
    const auto first = std::min_element(running_.begin(), running_.end(),
                                        [](const Running& a, const Running& b) { return a.end_s < b.end_s; });
    if (next_ < jobs_.size() && (first == running_.end() || jobs_[next_].submit_s <= first->end_s)) {
      now_s_ = std::max(now_s_, jobs_[next_].submit_s);
      queue_.push_back(next_);
      policy_.joined(next_++);
      return;
    }
    CHECK(first != running_.end(), "something runs while a job waits");
    now_s_ = std::max(now_s_, first->end_s);
    free_ += first->size;
    running_.erase(first);
  }

  std::size_t pick() {
    auto best = queue_.begin();
    double score = policy_.score(*best);
    for (auto it = best + 1; it != queue_.end(); ++it)
      if (const double other = policy_.score(*it); other < score) {
        best = it;
        score = other;
      }
    const std::size_t picked = *best;
    queue_.erase(best);
    return picked;
  }

  std::int64_t shadow_of(std::int64_t size) const {
    std::vector<Running> ends = running_;
    std::sort(ends.begin(), ends.end(), [](const Running& a, const Running& b) { return a.end_s < b.end_s; });
    std::int64_t free = free_;
    for (const Running& running : ends)
      if ((free += running.size) >= size)
        return running.end_s;
    CHECK(false, "a job that fits an empty pool fits it when all have ended");
    return now_s_;
  }

  void fill_before(std::int64_t shadow_s) {
    std::erase_if(queue_, [&](std::size_t job) {
      const bool fits = jobs_[job].size <= free_ && now_s_ + jobs_[job].limit_s < shadow_s;
      if (fits)
        start(job);
      return fits;
    });
  }

  void start(std::size_t job) {
    start_s_[job] = now_s_;
    free_ -= jobs_[job].size;
    running_.push_back({now_s_ + jobs_[job].run_s, jobs_[job].size});
    policy_.left(job);
  }

  std::span<const TraceJob> jobs_;
  const bool backfill_;
  StrictPolicy& policy_;
  std::int64_t free_;
  std::int64_t now_s_ = 0;
  std::size_t next_ = 0;
  std::vector<std::size_t> queue_;  // by arrival
  std::vector<Running> running_;
  std::vector<std::int64_t> start_s_;
};

}  // namespace

Result<std::vector<std::int64_t>> run_strict_loop(std::span<const TraceJob> jobs, std::int64_t procs, bool backfill,
                                                  StrictPolicy& policy) {
  for (const TraceJob& job : jobs)
    if (job.size > procs)
      return Error{Errc::kImpossible, format("job {} asks for {} of {} processors", job.id, job.size, procs), {}};
  return StrictLoop(jobs, procs, backfill, policy).run();
}

}  // namespace lockstep::sim
