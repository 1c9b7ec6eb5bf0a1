#include "controller/live_view.h"

#include <algorithm>

#include "model/job.h"

namespace lockstep {

namespace {

constexpr Duration kLastWords = minutes(1);  // beyond the time that ending may take

}  // namespace

LiveView::LiveView(const std::vector<Change>& snapshot, Instant now) : now_(now) {
  for (const auto& change : snapshot) bring_forward(change);
  holdings_.loaded();
  window_ = ChangeWindow(tables_.seq);
}

// Of an array, every waiting element counts.
void LiveView::count(const Job& job, int sign) {
  const std::uint64_t one = job.array ? job.array->waiting.size() : 1;
  counts_.by_state[static_cast<std::size_t>(job.state)] += sign > 0 ? one : -one;
}

void LiveView::count_work(const Job* before, const Job* after) {
  if (!before && !after)
    return;
  const bool had = before && !is_final(before->state), has = after && !is_final(after->state);
  const UserId owner = (before ? before : after)->spec->user;
  if (has && !had)
    ++work_[owner];
  else if (had && !has && --work_[owner] == 0)
    work_.erase(owner);
}

void LiveView::bring_forward(const Change& change) {
  const auto* record = std::get_if<Ref<Job>>(&change.record);
  if (record) {
    // Kept until it is counted out: the tables may hold the last reference.
    const Ref<Job>* known = tables_.jobs.get((*record)->id);
    const Ref<Job> before = known ? *known : nullptr;
    if (before)
      count(*before, -1);
    if (!change.removed)
      count(**record, +1);
    holdings_.changed(before.get(), change.removed ? nullptr : record->get());
    count_work(before.get(), change.removed ? nullptr : record->get());
    if (!before && !change.removed)
      requests_.note(**record, now_);
    index_.changed(before.get(), change.removed ? nullptr : record->get());
  }
  if (const auto* step = std::get_if<Ref<Step>>(&change.record)) {
    const Step* before = tables_.step((*step)->job, (*step)->number);
    holdings_.changed(before, change.removed ? nullptr : step->get());
    if (!before && !change.removed)
      requests_.note(**step, now_);
  }
  tables_.apply(change);
  if (!record)
    return;
  const Job& job = **record;
  if (change.removed || !job.allocation)
    release(job.id);
  else
    hold(*record);
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

void LiveView::add_reader(std::shared_ptr<FrontReader> reader) {
  reader->begin(tables_);
  readers_.push_back(std::move(reader));
}

void LiveView::take(const Node& node, Telemetry told, Instant now) {
  live_.take(tables_, node, std::move(told), now);
  for (const auto& reader : readers_) reader->measured(tables_, live_, node);
}

std::set<JobId> LiveView::apply(const std::vector<Change>& changes, Instant at) {
  now_ = std::max(now_, at);
  std::set<JobId> touched;
  live_.apply(changes);
  for (const auto& change : changes) {
    for (const auto& reader : readers_) reader->change(tables_, change);
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
    window_.add(change);
  }
  put_notes();
  return touched;
}

namespace {
bool holds_grant(const Job& job, std::size_t grant) {
  return grant >= job.members.size() || job.members[grant] != MemberState::kStopped;
}
}  // namespace

// A report of one node changes a letter of the job's record: the other grants are not looked at.
void LiveView::hold(const Ref<Job>& job) {
  const auto known = held_.find(job->id);
  const Instant ending_since = known != held_.end() ? known->second.ending_since : Instant{};
  if (known != held_.end() && known->second.job->allocation != job->allocation)
    release(job->id);
  Held& held = held_[job->id];
  const Ref<Job> before = std::exchange(held.job, job);
  held.ending_since = job->state != JobState::kCompleting ? Instant{} : ending_since ? ending_since : now_;
  for (std::size_t i = 0; i < job->allocation->grants.size(); ++i) {
    const bool was = before && holds_grant(*before, i), is = holds_grant(*job, i);
    if (is && !was)
      take(job->id, job->allocation->grants[i]);
    else if (was && !is)
      give_back(job->id, job->allocation->grants[i]);
  }
}

void LiveView::take(JobId job, const Grant& grant) {
  NodeUse& use = use_[grant.node];
  use.cores = use.cores | grant.cores;
  use.devices = use.devices | grant.devices;
  use.memory_mb += grant.memory_mb;
  ++use.grants;
  ++jobs_on_[grant.node][job];
}

void LiveView::give_back(JobId job, const Grant& grant) {
  NodeUse& use = use_[grant.node];
  use.cores = use.cores.minus(grant.cores);
  use.devices = use.devices.minus(grant.devices);
  use.memory_mb -= grant.memory_mb;
  --use.grants;
  auto& there = jobs_on_[grant.node];
  if (--there[job] == 0)
    there.erase(job);
}

void LiveView::release(JobId id) {
  const auto it = held_.find(id);
  if (it == held_.end())
    return;
  const Job& job = *it->second.job;
  for (std::size_t i = 0; i < job.allocation->grants.size(); ++i)
    if (holds_grant(job, i))
      give_back(id, job.allocation->grants[i]);
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

const User* LiveView::owner_on(NodeId node, std::uint32_t uid, Instant now) const {
  const auto it = jobs_on_.find(node);
  if (it == jobs_on_.end())
    return nullptr;
  for (const auto& [id, count] : it->second) {
    const JobSpec& spec = *tables_.job(id)->spec;
    const Instant ending_since = held_.at(id).ending_since;
    const User* user = tables_.user(spec.user);
    if (user && user->uid == uid && (!ending_since || now < ending_since + spec.kill_wait + kLastWords))
      return user;
  }
  return nullptr;
}

bool LiveView::holds(JobId job, NodeId node) const {
  const auto it = jobs_on_.find(node);
  return it != jobs_on_.end() && it->second.contains(job);
}

std::vector<UserId> LiveView::users_with_work() const {
  std::vector<UserId> out;
  out.reserve(work_.size());
  for (const auto& [user, jobs] : work_) out.push_back(user);
  return out;
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

}  // namespace lockstep
