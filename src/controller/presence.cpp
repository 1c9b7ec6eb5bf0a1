#include "controller/presence.h"

namespace lockstep {

Presence::~Presence() {
  *alive_ = nullptr;
  for (auto& [job, entry] : jobs_)
    if (entry.timer)
      loop_.cancel(entry.timer);
}

void Presence::start_over(JobId job, Entry& entry) {
  entry.slices = 0;
  entry.behind_node = {};
  start_slice(job, entry);
}

void Presence::start_slice(JobId job, Entry& entry) {
  entry.timer = loop_.after(slice(), [this, job] { slice_over(job); });
}

void Presence::slice_over(JobId job) {
  const auto it = jobs_.find(job);
  if (it == jobs_.end())
    return;
  Entry& entry = it->second;
  entry.timer = 0;
  const bool unknown = !entry.node.empty() && !connected_(entry.node) && entry.behind_node < patience_.silent_node;
  if (unknown) {
    entry.slices = 0;
    entry.behind_node = entry.behind_node + slice();
  } else if (++entry.slices >= kSlices) {
    lost_(job);
    // Should ending it fail now, it is reported again.
    if (const auto again = jobs_.find(job); again != jobs_.end() && again->second.here == 0)
      start_over(job, again->second);
    return;
  }
  start_slice(job, entry);
}

void Presence::expect(JobId job) {
  const auto [it, fresh] = jobs_.try_emplace(job);
  if (!fresh)
    return;
  if (const auto early = early_.find(job); early != early_.end())
    it->second = early->second;
  early_.erase(job);
  if (it->second.here == 0)
    start_over(job, it->second);
}

void Presence::forget(JobId job) {
  const auto it = jobs_.find(job);
  if (it == jobs_.end())
    return;
  if (it->second.timer)
    loop_.cancel(it->second.timer);
  it->second.timer = 0;
  if (it->second.here > 0)
    early_[job] = it->second;
  jobs_.erase(it);
}

std::shared_ptr<void> Presence::enter(JobId job, const std::string& node) {
  const auto it = jobs_.find(job);
  Entry& entry = it != jobs_.end() ? it->second : early_[job];
  ++entry.here;
  entry.node = node;
  if (entry.timer)
    loop_.cancel(entry.timer);
  entry.timer = 0;
  return std::shared_ptr<void>(nullptr, [alive = alive_, job](void*) {
    if (*alive)
      (*alive)->leave(job);
  });
}

void Presence::leave(JobId job) {
  if (const auto it = jobs_.find(job); it != jobs_.end()) {
    if (--it->second.here == 0)
      start_over(job, it->second);
  } else if (const auto early = early_.find(job); early != early_.end() && --early->second.here == 0) {
    early_.erase(early);
  }
}

}  // namespace lockstep
