#include "controller/presence.h"

namespace lockstep {

Presence::~Presence() {
  *alive_ = nullptr;
  for (auto& [job, entry] : jobs_)
    if (entry.timer)
      loop_.cancel(entry.timer);
}

void Presence::start_timer(JobId job, Entry& entry) {
  entry.timer = loop_.after(grace_, [this, job] {
    const auto it = jobs_.find(job);
    if (it == jobs_.end())
      return;
    it->second.timer = 0;
    lost_(job);
    // Should ending it fail now, it is reported again.
    if (const auto again = jobs_.find(job); again != jobs_.end() && again->second.here == 0)
      start_timer(job, again->second);
  });
}

void Presence::expect(JobId job) {
  const auto [it, fresh] = jobs_.try_emplace(job);
  if (!fresh)
    return;
  if (const auto early = early_.find(job); early != early_.end())
    it->second.here = early->second;
  early_.erase(job);
  if (it->second.here == 0)
    start_timer(job, it->second);
}

void Presence::forget(JobId job) {
  const auto it = jobs_.find(job);
  if (it == jobs_.end())
    return;
  if (it->second.timer)
    loop_.cancel(it->second.timer);
  if (it->second.here > 0)
    early_[job] = it->second.here;
  jobs_.erase(it);
}

std::shared_ptr<void> Presence::enter(JobId job) {
  if (const auto it = jobs_.find(job); it != jobs_.end()) {
    ++it->second.here;
    if (it->second.timer)
      loop_.cancel(it->second.timer);
    it->second.timer = 0;
  } else {
    ++early_[job];
  }
  return std::shared_ptr<void>(nullptr, [alive = alive_, job](void*) {
    if (*alive)
      (*alive)->leave(job);
  });
}

void Presence::leave(JobId job) {
  if (const auto it = jobs_.find(job); it != jobs_.end()) {
    if (--it->second.here == 0)
      start_timer(job, it->second);
  } else if (const auto early = early_.find(job); early != early_.end() && --early->second == 0) {
    early_.erase(early);
  }
}

}  // namespace lockstep
