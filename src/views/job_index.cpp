// A job is in one set of its owner, which is all that most of them cost.
#include "views/job_index.h"

#include <algorithm>

#include "model/job.h"

namespace lockstep {

namespace {

void add_all(const JobIndex::Ids& ids, std::vector<JobId>& out) {
  for (const auto& [id, nothing] : ids) out.push_back(id);
}

void in_order(std::vector<JobId>& ids) {
  if (!std::is_sorted(ids.begin(), ids.end()))
    std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

bool may_have_ended(const JobSelector& selector) {
  for (auto i = 0u; i <= static_cast<unsigned>(JobState::kBootFail); ++i)
    if (const auto state = static_cast<JobState>(i); is_final(state) && selector.states.has(state))
      return true;
  return false;
}

}  // namespace

void JobIndex::add(const Job& job) {
  OfOwner& own = by_owner_[job.spec->user];
  (is_final(job.state) ? own.ended : own.live)[job.id] = 1;
  live_ += !is_final(job.state);
  ++all_;
  if (job.allocation)
    placed_[job.id] = 1;
  if (job.array_job)
    elements_of_[job.array_job][job.id] = 1;
}

void JobIndex::remove(const Job& job) {
  const auto own = by_owner_.find(job.spec->user);
  (is_final(job.state) ? own->second.ended : own->second.live).erase(job.id);
  if (own->second.live.empty() && own->second.ended.empty())
    by_owner_.erase(own);
  live_ -= !is_final(job.state);
  --all_;
  placed_.erase(job.id);
  if (const auto array = elements_of_.find(job.array_job); array != elements_of_.end()) {
    array->second.erase(job.id);
    if (array->second.empty())
      elements_of_.erase(array);
  }
}

void JobIndex::changed(const Job* before, const Job* after) {
  const bool same_place = before && after && before->spec->user == after->spec->user &&
                          is_final(before->state) == is_final(after->state) &&
                          !before->allocation == !after->allocation && before->array_job == after->array_job;
  if (same_place)
    return;
  if (before)
    remove(*before);
  if (after)
    add(*after);
}

void JobIndex::add_targets(const TargetList& targets, std::vector<JobId>& out) const {
  for (const auto& [id, target] : targets.by_job()) {
    out.push_back(id);
    if (const auto array = elements_of_.find(id); array != elements_of_.end())
      add_all(array->second, out);
  }
}

std::optional<std::vector<JobId>> JobIndex::candidates(const JobSelector& selector) const {
  std::vector<JobId> out;
  const bool ended_too = may_have_ended(selector);
  const auto add_owner = [&](const OfOwner& own) {
    add_all(own.live, out);
    if (ended_too)
      add_all(own.ended, out);
  };
  if (selector.targets) {
    add_targets(*selector.targets, out);
  } else if (selector.users) {
    for (const UserId user : *selector.users)
      if (const auto own = by_owner_.find(user); own != by_owner_.end())
        add_owner(own->second);
  } else if (selector.nodes) {
    add_all(placed_, out);
  } else if (!ended_too && live_ < all_ / 2) {  // else going through all of them is as good
    out.reserve(live_);
    for (const auto& [user, own] : by_owner_) add_owner(own);
  } else {
    return std::nullopt;
  }
  in_order(out);
  return out;
}

}  // namespace lockstep
