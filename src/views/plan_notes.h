// What the planner says of pending jobs, as readers keep it. Most jobs wait for the same reason, so what is said is
// kept once however many share it.
#pragma once

#include <optional>
#include <set>

#include "base/id_map.h"
#include "model/meta.h"
#include "model/plan.h"

namespace lockstep {

class PlanNotes {
 public:
  void put(const PlanNote& note);  // instead of the job's last one
  void erase(JobId job);
  const PlanNote* of(JobId job) const;  // null: nothing was said. Its `job` is not set, and not its expected_start
  Instant expected_start(JobId job) const;
  std::optional<PlanNote> whole(JobId job) const;  // with both
  std::size_t size() const { return notes_.size(); }

  // Calls f(JobId, const PlanNote& without job and start, expected start) for each, by job id.
  template <class F>
  void for_each(F&& f) const {
    for (const auto& [job, said] : notes_) f(job, *said.words, said.expected_start);
  }

 private:
  struct Said {
    Instant expected_start;
    Ref<PlanNote> words;  // without job and start
  };
  struct Less {
    bool operator()(const Ref<PlanNote>& a, const Ref<PlanNote>& b) const;
  };

  IdMap<JobId, Said> notes_;
  std::set<Ref<PlanNote>, Less> words_;  // in use
};

}  // namespace lockstep
