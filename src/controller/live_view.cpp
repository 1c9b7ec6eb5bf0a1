#include "controller/live_view.h"

#include <algorithm>

namespace lockstep {

namespace {

constexpr std::size_t kRecentMax = 10'000;

}  // namespace

LiveView::LiveView(const std::vector<Change>& snapshot) {
  for (const auto& change : snapshot) bring_forward(change);
  recent_from_ = tables_.seq;
}

void LiveView::bring_forward(const Change& change) {
  tables_.apply(change);
  const auto* record = std::get_if<Ref<Job>>(&change.record);
  if (!record)
    return;
  const Job& job = **record;
  release(job.id);
  if (!change.removed && job.allocation)
    take(job);
  if (change.removed || job.state != JobState::kPending)
    notes_.erase(job.id);
  if (!job.array_job)
    return;
  const std::pair key{job.array_job, job.array_index};
  if (!change.removed)
    elements_[key] = job.id;
  else if (const auto it = elements_.find(key); it != elements_.end() && it->second == job.id)
    elements_.erase(it);
}

std::set<JobId> LiveView::apply(const std::vector<Change>& changes) {
  std::set<JobId> touched;
  for (const auto& change : changes) {
    bring_forward(change);
    if (const auto* job = std::get_if<Ref<Job>>(&change.record)) {
      touched.insert((*job)->id);
      if ((*job)->array_job)
        touched.insert((*job)->array_job);
    } else if (const auto* step = std::get_if<Ref<Step>>(&change.record)) {
      touched.insert((*step)->job);
    } else if (const auto* task = std::get_if<Ref<Task>>(&change.record)) {
      touched.insert((*task)->job);
    }
    recent_.push_back(change);
  }
  put_notes();
  while (recent_.size() > kRecentMax) {
    recent_from_ = recent_.front().seq;
    recent_.pop_front();
  }
  return touched;
}

void LiveView::take(const Job& job) {
  Held& held = held_[job.id];
  held.user = job.spec->user;
  for (std::size_t i = 0; i < job.allocation->grants.size(); ++i) {
    if (i < job.members.size() && job.members[i] == MemberState::kStopped)
      continue;  // given back already
    const Grant& g = job.allocation->grants[i];
    NodeUse& use = use_[g.node];
    use.cores = use.cores | g.cores;
    use.devices = use.devices | g.devices;
    use.memory_mb += g.memory_mb;
    ++use.grants;
    held.grants.push_back(g);
    ++owners_[g.node][held.user];
  }
}

void LiveView::release(JobId job) {
  const auto it = held_.find(job);
  if (it == held_.end())
    return;
  for (const Grant& g : it->second.grants) {
    NodeUse& use = use_[g.node];
    auto& owners = owners_[g.node];
    if (--owners[it->second.user] == 0)
      owners.erase(it->second.user);
    use.cores = use.cores.minus(g.cores);
    use.devices = use.devices.minus(g.devices);
    use.memory_mb -= g.memory_mb;
    --use.grants;
  }
  held_.erase(it);
}

void LiveView::note(std::vector<PlanNote> notes, Seq as_of) {
  early_.emplace_back(as_of, std::move(notes));
  put_notes();
}

void LiveView::put_notes() {
  for (; !early_.empty() && early_.front().first <= tables_.seq; early_.pop_front())
    for (const auto& note : early_.front().second)
      if (const Job* job = tables_.job(note.job); job && job->state == JobState::kPending)
        notes_.put(note);
}

NodeUse LiveView::use(NodeId node) const {
  const auto it = use_.find(node);
  return it == use_.end() ? NodeUse{} : it->second;
}

const User* LiveView::owner_on(NodeId node, std::uint32_t uid) const {
  const auto it = owners_.find(node);
  if (it == owners_.end())
    return nullptr;
  for (const auto& [id, count] : it->second)
    if (const User* user = tables_.user(id); user && user->uid == uid)
      return user;
  return nullptr;
}

const Job* LiveView::find(const JobTarget& target) const {
  if (target.elements && target.elements->size() == 1)
    if (const auto it = elements_.find({target.job, target.elements->front()}); it != elements_.end())
      return tables_.job(it->second);
  const Job* job = tables_.job(target.job);
  if (job && target.elements &&
      !(job->array && target.elements->size() > 0 && job->array->asked.contains(target.elements->front())))
    return nullptr;
  return job;
}

bool LiveView::changes_after(Seq seq, std::vector<Change>& out) const {
  if (seq < recent_from_)
    return false;
  for (auto it = recent_.rbegin(); it != recent_.rend() && it->seq > seq; ++it) out.push_back(*it);
  std::reverse(out.begin(), out.end());
  return true;
}

}  // namespace lockstep
