// Which records a request is about: pure filters over the tables, in order of id.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/command.h"
#include "model/tables.h"

namespace lockstep {

// Unset = any. Set and empty = none (a user nobody has heard of owns no job).
struct JobSelector {
  std::optional<std::vector<JobTarget>> targets;
  std::optional<std::set<UserId>> users;
  std::optional<std::set<JobState>> states;
  std::optional<std::set<std::string>> partitions;  // where it runs, else any it may run in
  std::optional<std::set<std::string>> names;
  std::optional<std::set<std::string>> accounts;
  std::optional<std::set<NodeId>> nodes;  // where it holds something
};
bool matches(const JobSelector& selector, const Tables& tables, const Job& job);
std::vector<Ref<Job>> select_jobs(const Tables& tables, const JobSelector& selector);
std::vector<Ref<Step>> select_steps(const Tables& tables, const JobSelector& selector);  // of the jobs it selects

// Login names or uids -> users; unknown ones are left out.
std::set<UserId> users_named(const Tables& tables, const std::vector<std::string>& words);
// Host list -> nodes; an unknown one is an error.
Result<std::set<NodeId>> nodes_named(const Tables& tables, std::string_view host_list);

// --- arrays: waiting elements live in the array's record, the others have records of their own ---

IntervalSet intersection(const IntervalSet& a, const IntervalSet& b);

// What a name stands for at this moment.
struct NamedJobs {
  std::vector<Ref<Job>> jobs;  // a plain job; or the elements with a record of their own, by index
  Ref<Job> array;              // the array's record, if a whole array or any waiting element is meant
  IntervalSet waiting;         // those elements
  bool empty() const { return jobs.empty() && !array; }
};
// kNotFound when the job, or every element, is unknown.
Result<NamedJobs> find_named(const Tables& tables, const JobTarget& target);

std::vector<Ref<Job>> elements_of(const Tables& tables, JobId array);         // with a record of their own, by index
Ref<Job> element_of(const Tables& tables, JobId array, std::uint32_t index);  // null: waiting, or unknown

}  // namespace lockstep
