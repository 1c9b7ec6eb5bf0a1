// The event loop and the three ways of filling holes.
#include "sim/queue_loop.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "base/check.h"
#include "base/text.h"

namespace lockstep::sim {
namespace {

struct Waiting {
  QueueKeys keys;
  std::size_t job = 0;
};
struct Running {
  std::int64_t limit_end_s = 0;
  std::size_t job = 0;
};
struct End {
  std::int64_t at_s = 0;
  std::uint64_t start_number = 0;
  std::size_t job = 0;
  friend auto operator<=>(const End&, const End&) = default;
};
struct FreeStep {  // of a profile: so many devices are free from then on
  std::int64_t at_s = 0;
  std::int64_t free = 0;
};

class QueueLoop {
 public:
  QueueLoop(std::span<const TraceJob> jobs, const QueueRules& rules, QueuePolicy& policy)
      : jobs_(jobs), rules_(rules), policy_(policy), pool_(rules.nodes, rules.devices_per_node) {
    run_.start_s.assign(jobs.size(), -1);
    run_.places.resize(jobs.size());
  }

  QueueRun run() && {
    std::size_t next = 0;
    while (next < jobs_.size() || !ends_.empty()) {
      const bool an_end = !ends_.empty() && (next == jobs_.size() || ends_.top().at_s <= jobs_[next].submit_s);
      now_s_ = an_end ? ends_.top().at_s : jobs_[next].submit_s;
      if (rules_.one_event_at_a_time) {
        an_end ? end_one() : submit(next++);
      } else {
        while (!ends_.empty() && ends_.top().at_s == now_s_) end_one();
        while (next < jobs_.size() && jobs_[next].submit_s == now_s_) submit(next++);
      }
      pass();
    }
    CHECK(queue_.empty());
    return std::move(run_);
  }

 private:
  const TraceJob& job(const Waiting& waiting) const { return jobs_[waiting.job]; }

  void submit(std::size_t job) {
    const Waiting waiting{policy_.keys(job), job};
    queue_.insert(std::upper_bound(queue_.begin(), queue_.end(), waiting, by_turn), waiting);
    policy_.joined(job);
  }

  void end_one() {
    const std::size_t ended = ends_.top().job;
    ends_.pop();
    pool_.give(run_.places[ended]);
    running_.erase(std::find_if(running_.begin(), running_.end(), [&](const Running& r) { return r.job == ended; }));
    policy_.ended(ended, now_s_);
    const std::uint64_t kin = policy_.kin(ended);
    if (kin == 0)
      return;
    std::vector<std::size_t> touched;
    std::erase_if(queue_, [&](const Waiting& waiting) {
      const bool same = policy_.kin(waiting.job) == kin;
      if (same)
        touched.push_back(waiting.job);
      return same;
    });
    for (const std::size_t job : touched) {
      policy_.left(job);
      submit(job);
    }
  }

  static bool by_turn(const Waiting& a, const Waiting& b) {
    return a.keys.turn != b.keys.turn ? a.keys.turn < b.keys.turn : a.job < b.job;
  }

  void start(std::size_t job, GangPool::Place place) {
    std::int64_t devices = 0;
    for (const GangPool::Part& part : place) devices += part.devices;
    CHECK(devices == jobs_[job].size, "a gang starts whole");
    pool_.take(place);
    run_.places[job] = std::move(place);
    run_.start_s[job] = now_s_;
    const Running running{now_s_ + jobs_[job].limit_s, job};
    running_.insert(std::upper_bound(running_.begin(), running_.end(), running,
                                     [](const Running& a, const Running& b) { return a.limit_end_s < b.limit_end_s; }),
                    running);
    ends_.push({now_s_ + jobs_[job].run_s, ++starts_, job});
    policy_.left(job);
    policy_.started(job, run_.places[job], now_s_);
  }
  GangPool::Place place(const Waiting& waiting) { return policy_.place(pool_, waiting.job, job(waiting).size, now_s_); }
  bool start_if_it_fits(const Waiting& waiting) {
    const bool fits = pool_.fits(job(waiting).size);
    if (fits)
      start(waiting.job, place(waiting));
    return fits;
  }

  void pass() {
    ++run_.passes;
    std::size_t started = 0;
    while (started < queue_.size() && start_if_it_fits(queue_[started])) ++started;
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(started));
    if (queue_.empty() || pool_.free() == 0)
      return;
    switch (rules_.filling) {
      case Filling::kNone: return;
      case Filling::kHead: fill_before_head(); break;
      case Filling::kConservative: fill_between_reservations(); break;
    }
    std::erase_if(queue_, [&](const Waiting& waiting) { return run_.start_s[waiting.job] >= 0; });
  }

  // The head's start, were every running job to use its whole limit, and the pool as it will be then.
  std::int64_t foresee(std::int64_t size, GangPool& then) const {
    for (std::size_t i = 0; i < running_.size(); ++i) {
      then.give(run_.places[running_[i].job]);
      const bool last_of_instant = i + 1 == running_.size() || running_[i + 1].limit_end_s != running_[i].limit_end_s;
      if (last_of_instant && then.fits(size))
        return std::max(running_[i].limit_end_s, now_s_);
    }
    CHECK(false, "a job that fits an empty pool fits it when all have ended");
    return now_s_;
  }

  void fill_before_head() {
    const std::int64_t head_size = job(queue_.front()).size;
    GangPool then = pool_;
    const std::int64_t shadow_s = foresee(head_size, then);
    const bool overdue = now_s_ >= queue_.front().keys.overdue_s;
    fillers_.assign(queue_.begin() + 1, queue_.end());
    std::stable_sort(fillers_.begin(), fillers_.end(),
                     [](const Waiting& a, const Waiting& b) { return a.keys.filler < b.keys.filler; });
    for (const Waiting& filler : fillers_) {
      if (!pool_.fits(job(filler).size))
        continue;
      GangPool::Place at = place(filler);
      if (now_s_ + (overdue ? job(filler).limit_s : filler.keys.estimate_s) > shadow_s) {
        then.take(at);
        if (!then.fits(head_size)) {
          then.give(at);
          continue;
        }
      }
      start(filler.job, std::move(at));
      if (pool_.free() == 0)
        return;
    }
  }

  void fill_between_reservations() {
    profile_.assign(1, {now_s_, pool_.free()});
    for (const Running& running : running_) {
      const std::int64_t end_s = std::max(running.limit_end_s, now_s_);
      const std::int64_t free = profile_.back().free + jobs_[running.job].size;
      if (end_s == profile_.back().at_s)
        profile_.back().free = free;
      else
        profile_.push_back({end_s, free});
    }
    for (const Waiting& waiting : queue_) {
      const std::size_t at = reserve(job(waiting).size, std::max<std::int64_t>(waiting.keys.estimate_s, 1));
      // What ends now by its limit may end later in this same instant: then the reservation is for now, but not yet.
      if (profile_[at].at_s == now_s_ && start_if_it_fits(waiting) && pool_.free() == 0)
        return;
    }
  }

  // The first step of the profile from which so many devices stay free for so long; takes them.
  std::size_t reserve(std::int64_t size, std::int64_t length_s) {
    std::size_t from = 0, to = 0;
    for (;; from = to) {
      while (profile_[from].free < size) ++from;
      const std::int64_t end_s = profile_[from].at_s + length_s;
      for (to = from; to < profile_.size() && profile_[to].at_s < end_s && profile_[to].free >= size;) ++to;
      if (to < profile_.size() && profile_[to].at_s < end_s)
        continue;
      if (to == profile_.size() || profile_[to].at_s != end_s)
        profile_.insert(profile_.begin() + static_cast<std::ptrdiff_t>(to), {end_s, profile_[to - 1].free});
      for (std::size_t i = from; i < to; ++i) profile_[i].free -= size;
      return from;
    }
  }

  std::span<const TraceJob> jobs_;
  const QueueRules rules_;
  QueuePolicy& policy_;
  GangPool pool_;
  QueueRun run_;
  std::int64_t now_s_ = 0;
  std::uint64_t starts_ = 0;
  std::vector<Waiting> queue_;     // by turn
  std::vector<Waiting> fillers_;   // of one pass
  std::vector<Running> running_;   // by the end of their limits
  std::vector<FreeStep> profile_;  // of one pass
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace

Result<QueueRun> run_queue(std::span<const TraceJob> jobs, const QueueRules& rules, QueuePolicy& policy) {
  if (rules.filling == Filling::kConservative && rules.nodes != 1)
    return Error{Errc::kUnsupported, "conservative filling is built for flat pools only", {}};
  const GangPool pool(rules.nodes, rules.devices_per_node);
  for (const TraceJob& job : jobs)
    if (!pool.could_ever_fit(job.size))
      return Error{
          Errc::kImpossible, format("job {} asks for {} of {} devices", job.id, job.size, pool.capacity()), {}};
  return QueueLoop(jobs, rules, policy).run();
}

}  // namespace lockstep::sim
