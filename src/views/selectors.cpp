// Filters: each job is looked at without allocating.
#include "views/selectors.h"

#include <algorithm>

#include "base/hostlist.h"
#include "base/text.h"
#include "views/job_names.h"

namespace lockstep {

namespace {

template <class T, class K>
bool allows(const std::optional<std::set<T>>& wanted, const K& value) {
  return !wanted || wanted->contains(value);
}

bool in_partition(const JobSelector& selector, const Tables& tables, const Job& job) {
  if (!selector.partitions)
    return true;
  if (job.allocation)
    return selector.partitions->contains(job.allocation->partition);
  if (job.spec->partitions.empty()) {
    const Partition* fallback = tables.default_partition();
    return fallback && selector.partitions->contains(fallback->meta.name);
  }
  return std::any_of(job.spec->partitions.begin(), job.spec->partitions.end(),
                     [&](const std::string& name) { return selector.partitions->contains(name); });
}

bool of_account(const JobSelector& selector, const Tables& tables, const Job& job) {
  if (!selector.accounts)
    return true;
  if (!job.spec->account.empty())
    return selector.accounts->contains(job.spec->account);
  const User* user = tables.user(job.spec->user);
  return user && selector.accounts->contains(user->account);
}

bool holds_node(const JobSelector& selector, const Job& job) {
  if (!selector.nodes)
    return true;
  return job.allocation && std::any_of(job.allocation->grants.begin(), job.allocation->grants.end(),
                                       [&](const Grant& grant) { return selector.nodes->contains(grant.node); });
}

bool is_target(const JobTarget& target, const Job& job) {
  if (job.id == target.job) {
    if (!target.elements)
      return true;
    return job.array && !intersection(job.array->waiting, *target.elements).empty();
  }
  return job.array_job == target.job && (!target.elements || target.elements->contains(job.array_index));
}

bool is_target(const JobSelector& selector, const Job& job) {
  return !selector.targets || std::any_of(selector.targets->begin(), selector.targets->end(),
                                          [&](const JobTarget& target) { return is_target(target, job); });
}

}  // namespace

bool matches(const JobSelector& selector, const Tables& tables, const Job& job) {
  return allows(selector.states, job.state) && allows(selector.users, job.spec->user) &&
         allows(selector.names, job.spec->name) && in_partition(selector, tables, job) &&
         of_account(selector, tables, job) && holds_node(selector, job) && is_target(selector, job);
}

std::vector<Ref<Job>> select_jobs(const Tables& tables, const JobSelector& selector) {
  std::vector<Ref<Job>> found;
  const auto add = [&](const Ref<Job>& job) {
    if (matches(selector, tables, *job))
      found.push_back(job);
  };
  // Plain jobs are found by their id; only an array's elements are spread over the table, and they may outlive its
  // record.
  const bool direct =
      selector.targets && std::all_of(selector.targets->begin(), selector.targets->end(), [&](const JobTarget& target) {
        const Job* job = tables.job(target.job);
        return job && !job->array;
      });
  if (!direct) {
    for (const auto& [id, job] : tables.jobs) add(job);
    return found;
  }
  std::set<JobId> ids;
  for (const JobTarget& target : *selector.targets) ids.insert(target.job);
  for (const JobId id : ids)
    if (const auto at = tables.jobs.find(id); at != tables.jobs.end())
      add(at->second);
  return found;
}

std::vector<Ref<Step>> select_steps(const Tables& tables, const JobSelector& selector) {
  std::vector<Ref<Step>> found;
  for (const Ref<Job>& job : select_jobs(tables, selector))
    for (Ref<Step>& step : tables.steps_of(job->id)) found.push_back(std::move(step));
  return found;
}

std::set<UserId> users_named(const Tables& tables, const std::vector<std::string>& words) {
  std::set<UserId> found;
  for (const std::string& word : words) {
    const auto uid = parse_uint(word);
    for (const auto& [id, user] : tables.users)
      if (user->meta.name == word || (uid && user->uid == *uid))
        found.insert(id);
  }
  return found;
}

Result<std::set<NodeId>> nodes_named(const Tables& tables, std::string_view host_list) {
  std::set<NodeId> found;
  for (const std::string& name : TRY(expand_hostlist(host_list))) {
    const Node* node = tables.node(name);
    if (!node)
      return not_found(format("no node is called {}", name));
    found.insert(node->id);
  }
  return found;
}

IntervalSet intersection(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet out;
  auto x = a.intervals().begin(), y = b.intervals().begin();
  while (x != a.intervals().end() && y != b.intervals().end()) {
    const std::uint32_t low = std::max(x->low, y->low), high = std::min(x->high, y->high);
    if (low <= high)
      out.insert(low, high);
    if (x->high < y->high)
      ++x;
    else
      ++y;
  }
  return out;
}

Result<NamedJobs> find_named(const Tables& tables, const JobTarget& target) {
  const auto at = tables.jobs.find(target.job);
  NamedJobs named;
  if (at != tables.jobs.end() && !at->second->array) {
    // An element also answers to its own id.
    if (!target.elements)
      named.jobs.push_back(at->second);
  } else {
    for (const auto& job : elements_of(tables, target.job))
      if (!target.elements || target.elements->contains(job->array_index))
        named.jobs.push_back(job);
    if (at != tables.jobs.end()) {
      const IntervalSet& waiting = at->second->array->waiting;
      named.waiting = target.elements ? intersection(waiting, *target.elements) : waiting;
      if (!target.elements || !named.waiting.empty())
        named.array = at->second;
    }
  }
  if (named.empty())
    return not_found(format("there is no job {}", text_of(target)));
  return named;
}

std::vector<Ref<Job>> elements_of(const Tables& tables, JobId array) {
  std::vector<Ref<Job>> found;
  // Elements get their ids after the array's.
  for (auto at = tables.jobs.upper_bound(array); at != tables.jobs.end(); ++at)
    if (at->second->array_job == array)
      found.push_back(at->second);
  std::sort(found.begin(), found.end(),
            [](const Ref<Job>& a, const Ref<Job>& b) { return a->array_index < b->array_index; });
  return found;
}

Ref<Job> element_of(const Tables& tables, JobId array, std::uint32_t index) {
  for (auto at = tables.jobs.upper_bound(array); at != tables.jobs.end(); ++at)
    if (at->second->array_job == array && at->second->array_index == index)
      return at->second;
  return nullptr;
}

}  // namespace lockstep
