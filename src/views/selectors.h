// Which jobs a request is about: pure filters over the tables, in order of id.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/command.h"
#include "model/job.h"
#include "model/tables.h"

namespace lockstep {

// It was asked to pause, and not all of it does yet.
bool is_pausing(const Job& job);

class JobStates {
 public:
  static JobStates all() { return JobStates(~0u); }
  static JobStates unfinished();
  JobStates() = default;
  void add(JobState state) { bits_ |= 1u << static_cast<unsigned>(state); }
  bool has(JobState state) const { return bits_ >> static_cast<unsigned>(state) & 1; }
  void add_pausing() { bits_ |= kPausing; }  // suspended jobs, until all their nodes have answered
  bool has(const Job& job) const { return has(job.state) || ((bits_ & kPausing) != 0 && is_pausing(job)); }

 private:
  static constexpr std::uint32_t kPausing = 1u << 31;
  explicit JobStates(std::uint32_t bits) : bits_(bits) {}
  std::uint32_t bits_ = 0;
};

// What a request names, by job: one target each, so that neither ten thousand names nor ten thousand elements of one
// array, named one by one, are gone through for each job.
class TargetList {
 public:
  using ByJob = std::map<JobId, JobTarget>;
  TargetList() = default;
  explicit TargetList(std::vector<JobTarget> targets);
  TargetList(std::initializer_list<JobTarget> targets) : TargetList(std::vector<JobTarget>(targets)) {}
  void clear() { by_job_.clear(); }
  const ByJob& by_job() const { return by_job_; }
  // Null: nothing of it is named.
  const JobTarget* of(JobId job) const {
    const auto at = by_job_.find(job);
    return at == by_job_.end() ? nullptr : &at->second;
  }

 private:
  ByJob by_job_;
};

// Unset = any. Set and empty = none (a user nobody has heard of owns no job).
struct JobSelector {
  using Words = std::set<std::string, std::less<>>;
  std::optional<TargetList> targets;
  std::optional<std::set<UserId>> users;
  JobStates states = JobStates::all();
  std::optional<Words> partitions;  // where it runs, else any it may run in
  std::optional<Words> names;
  std::optional<Words> accounts;  // the job's own, else its user's
  std::optional<Words> qos, reservations, licenses, wckeys;
  std::optional<std::set<NodeId>> nodes;  // where it holds something
};
bool matches(const JobSelector& selector, const Tables& tables, const Job& job);
// An array's record stands for its waiting elements: those of "12_[3-9]" that are still in it.
bool is_target(const JobTarget& target, const Job& job);
// Every target is a plain job that is there: no need to look at all the others.
bool names_plain_jobs(const JobSelector& selector, const Tables& tables);

// Calls f(const Ref<Job>&) for each job that matches, once, by id.
template <class F>
void for_each_job(const Tables& tables, const JobSelector& selector, F&& f) {
  if (names_plain_jobs(selector, tables)) {
    for (const auto& [id, targets] : selector.targets->by_job())
      if (const Ref<Job>& job = tables.jobs.at(id); matches(selector, tables, *job))
        f(job);
    return;
  }
  for (const auto& [id, job] : tables.jobs)
    if (matches(selector, tables, *job))
      f(job);
}

// What one request may change in bulk: a target for each job that matches and has not ended. Of an array its record
// stands for what waits of it, as far as the selector names it; elements that have started match by themselves.
std::vector<JobTarget> select_targets(const Tables& tables, const JobSelector& selector);
// The same in pieces: looks at the next `most` jobs from `from` on, moves it behind them, and adds what it finds.
// False: those were the last. among: look at these only, which are in order; null = at all.
bool select_more(const Tables& tables, const JobSelector& selector, JobId& from, std::size_t most,
                 std::vector<JobTarget>& out, const std::vector<JobId>* among = nullptr);
// Elements of one array that are named one by one and wait become one target, since each change of a single one
// rewrites the array's record. What else is named stays as it is. counts: how many of the given ones each stands for.
std::vector<JobTarget> together(const Tables& tables, std::vector<JobTarget> named, std::vector<std::uint32_t>& counts);

// Login names or uids -> users; unknown ones are left out.
std::set<UserId> users_named(const Tables& tables, const std::vector<std::string>& words);
// The first word that is neither a uid nor a login name which the cluster has met. An unknown uid is none: whoever
// bears it may have asked for nothing yet.
std::optional<std::string> unknown_user(const Tables& tables, const std::vector<std::string>& words);
// Host list -> nodes; an unknown one is an error.
Result<std::set<NodeId>> nodes_named(const Tables& tables, std::string_view host_list);

IntervalSet intersection(const IntervalSet& a, const IntervalSet& b);
bool intersects(const IntervalSet& a, const IntervalSet& b);
// The smallest number of at least `from` in all sets that are given; null = any number. Costs a search for each
// interval it passes over, nothing for what lies inside one.
std::optional<std::uint32_t> next_in(const IntervalSet& set, const IntervalSet* other, std::uint64_t from);

}  // namespace lockstep
