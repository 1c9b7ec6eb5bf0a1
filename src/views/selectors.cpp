// Filters: each job is looked at without allocating.
#include "views/selectors.h"

#include "base/hostlist.h"
#include "base/text.h"
#include "model/bounds.h"
#include "rules/preempt.h"

namespace lockstep {

namespace {

template <class Set, class K>
bool allows(const std::optional<Set>& wanted, const K& value) {
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
    return selector.accounts->contains(job.spec->account.get());
  const User* user = tables.user(job.spec->user);
  return user && selector.accounts->contains(user->account);
}

bool holds_node(const JobSelector& selector, const Job& job) {
  if (!selector.nodes)
    return true;
  return job.allocation && std::any_of(job.allocation->grants.begin(), job.allocation->grants.end(),
                                       [&](const Grant& grant) { return selector.nodes->contains(grant.node); });
}

bool is_target(const JobSelector& selector, const Job& job) {
  if (!selector.targets)
    return true;
  const auto is_named = [&](JobId id) {
    const JobTarget* target = selector.targets->of(id);
    return target && is_target(*target, job);
  };
  return is_named(job.id) || (job.array_job && is_named(job.array_job));
}

// The waiting elements that are meant.
IntervalSet waiting_of(const JobSelector& selector, const Job& array) {
  const IntervalSet& waiting = array.array->waiting;
  if (!selector.targets)
    return waiting;
  const JobTarget* target = selector.targets->of(array.id);
  if (!target)
    return {};
  return target->elements ? intersection(waiting, *target->elements) : waiting;
}

// As many targets as one may name ranges.
void add_elements(JobId array, const IntervalSet& elements, std::vector<JobTarget>& out) {
  const auto& ranges = elements.intervals();
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (i % kPiecesMax == 0)
      out.push_back({array, IntervalSet()});
    out.back().elements->insert(ranges[i].low, ranges[i].high);
  }
}

// What stands for it in a bulk change, if anything is left of it.
void add_target(const JobSelector& selector, const Job& job, std::vector<JobTarget>& out) {
  if (is_final(job.state))
    return;
  if (!job.array) {
    out.push_back({job.id, std::nullopt});
    return;
  }
  add_elements(job.id, waiting_of(selector, job), out);
}

// Of many, in any order: sorted first, since each insertion in the middle of a set moves what is behind it.
IntervalSet set_of(std::vector<Interval> parts) {
  std::sort(parts.begin(), parts.end(), [](const Interval& a, const Interval& b) { return a.low < b.low; });
  IntervalSet out;
  for (const Interval& part : parts) out.insert(part.low, part.high);
  return out;
}

const Interval* interval_reaching(const IntervalSet& set, std::uint64_t value) {
  const auto& parts = set.intervals();
  const auto at = std::lower_bound(parts.begin(), parts.end(), value,
                                   [](const Interval& part, std::uint64_t v) { return part.high < v; });
  return at == parts.end() ? nullptr : &*at;
}

}  // namespace

JobStates JobStates::unfinished() {
  JobStates out;
  for (auto i = 0u; i <= static_cast<unsigned>(JobState::kBootFail); ++i)
    if (!is_final(static_cast<JobState>(i)))
      out.add(static_cast<JobState>(i));
  return out;
}

TargetList::TargetList(std::vector<JobTarget> targets) {
  std::map<JobId, std::vector<Interval>> elements;
  for (JobTarget& target : targets) {
    const auto known = by_job_.find(target.job);
    if (known == by_job_.end()) {
      by_job_.emplace(target.job, std::move(target));
    } else if (!target.elements) {
      known->second.elements.reset();  // all of it
    } else if (known->second.elements) {
      const auto& parts = target.elements->intervals();
      auto& more = elements[target.job];
      more.insert(more.end(), parts.begin(), parts.end());
    }
  }
  for (auto& [job, parts] : elements)
    if (auto& named = by_job_.at(job).elements) {
      parts.insert(parts.end(), named->intervals().begin(), named->intervals().end());
      named = set_of(std::move(parts));
    }
}

bool is_target(const JobTarget& target, const Job& job) {
  if (job.id == target.job) {
    if (!target.elements)
      return true;
    return job.array && intersects(job.array->waiting, *target.elements);
  }
  return job.array_job == target.job && (!target.elements || target.elements->contains(job.array_index));
}

bool names_plain_jobs(const JobSelector& selector, const Tables& tables) {
  return selector.targets &&
         std::all_of(selector.targets->by_job().begin(), selector.targets->by_job().end(), [&](const auto& entry) {
           const Job* job = tables.job(entry.first);
           return job && !job->array;
         });
}

bool is_pausing(const Job& job) { return job.state == JobState::kSuspended && !all_gave_up(job); }

bool matches(const JobSelector& selector, const Tables& tables, const Job& job) {
  const JobSpec& spec = *job.spec;
  return selector.states.has(job) && allows(selector.users, spec.user) && allows(selector.names, spec.name) &&
         allows(selector.qos, spec.qos.get()) && allows(selector.reservations, spec.reservation.get()) &&
         allows(selector.licenses, spec.licenses.get()) && allows(selector.wckeys, spec.wckey.get()) &&
         in_partition(selector, tables, job) && of_account(selector, tables, job) && holds_node(selector, job) &&
         is_target(selector, job);
}

std::vector<JobTarget> select_targets(const Tables& tables, const JobSelector& selector) {
  std::vector<JobTarget> out;
  for_each_job(tables, selector, [&](const Ref<Job>& job) { add_target(selector, *job, out); });
  return out;
}

bool select_more(const Tables& tables, const JobSelector& selector, JobId& from, std::size_t most,
                 std::vector<JobTarget>& out, const std::vector<JobId>* among) {
  if (among) {
    auto next = std::lower_bound(among->begin(), among->end(), from);
    for (; next != among->end() && most > 0; ++next, --most) {
      if (const Job* job = tables.job(*next); job && matches(selector, tables, *job))
        add_target(selector, *job, out);
      from = JobId(next->value + 1);
    }
    return next != among->end();
  }
  auto at = tables.jobs.lower_bound(from);
  for (; at != tables.jobs.end() && most > 0; ++at, --most) {
    const auto& [id, job] = *at;
    if (matches(selector, tables, *job))
      add_target(selector, *job, out);
    from = JobId(id.value + 1);
  }
  return at != tables.jobs.end();
}

std::vector<JobTarget> together(const Tables& tables, std::vector<JobTarget> named,
                                std::vector<std::uint32_t>& counts) {
  struct Waiting {
    std::vector<Interval> parts;
    std::uint32_t names = 0;
  };
  std::map<JobId, Waiting> waiting;
  std::vector<JobTarget> out;
  for (JobTarget& target : named) {
    const Job* job = target.elements ? tables.job(target.job) : nullptr;
    // One that runs, has ended or never was keeps its own answer.
    if (!job || !job->array || target.elements->size() != 1 ||
        !job->array->waiting.contains(target.elements->front())) {
      out.push_back(std::move(target));
      continue;
    }
    Waiting& same = waiting[target.job];
    same.parts.push_back(target.elements->intervals().front());
    ++same.names;
  }
  counts.assign(out.size(), 1);
  for (auto& [array, same] : waiting) {
    const IntervalSet elements = set_of(std::move(same.parts));
    add_elements(array, elements, out);
    for (; counts.size() < out.size(); counts.push_back(0))
      ;
    // A name that came twice counts twice, with the first part.
    std::size_t at = counts.size();
    for (std::size_t i = out.size(); i-- > 0 && out[i].job == array && counts[i] == 0;) {
      counts[i] = static_cast<std::uint32_t>(out[i].elements->size());
      at = i;
    }
    counts[at] += same.names - static_cast<std::uint32_t>(elements.size());
  }
  return out;
}

std::set<UserId> users_named(const Tables& tables, const std::vector<std::string>& words) {
  std::set<UserId> found;
  const std::set<std::string_view> wanted(words.begin(), words.end());
  for (const auto& [id, user] : tables.users)
    if (wanted.contains(user->meta.name) || wanted.contains(std::to_string(user->uid)))
      found.insert(id);
  return found;
}

std::optional<std::string> unknown_user(const Tables& tables, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    if (!word.empty() && !parse_uint(word) && !tables.user_named(word))
      return word;
  return std::nullopt;
}

Result<std::set<NodeId>> nodes_named(const Tables& tables, std::string_view host_list) {
  std::set<NodeId> found;
  for (const std::string& name : TRY(expand_hostlist(host_list, kHostsAskedMax))) {
    const Node* node = tables.node(name);
    if (!node)
      return not_found(format("Invalid node name {}", name));
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

bool intersects(const IntervalSet& a, const IntervalSet& b) {
  return !a.empty() && !b.empty() && next_in(a, &b, 0).has_value();
}

std::optional<std::uint32_t> next_in(const IntervalSet& set, const IntervalSet* other, std::uint64_t from) {
  for (;;) {
    const Interval* part = interval_reaching(set, from);
    if (!part)
      return std::nullopt;
    from = std::max<std::uint64_t>(from, part->low);
    if (!other)
      return static_cast<std::uint32_t>(from);
    const Interval* both = interval_reaching(*other, from);
    if (!both)
      return std::nullopt;
    if (both->low <= from)
      return static_cast<std::uint32_t>(from);
    from = both->low;
  }
}

}  // namespace lockstep
