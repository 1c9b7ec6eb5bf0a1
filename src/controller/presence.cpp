#include "controller/presence.h"

namespace lockstep {

Presence::~Presence() {
  *alive_ = nullptr;
  for (auto& [work, entry] : work_)
    if (entry.timer)
      loop_.cancel(entry.timer);
}

void Presence::start_over(StepKey work, Entry& entry) {
  entry.slices = 0;
  entry.behind_node = {};
  start_slice(work, entry);
}

void Presence::start_slice(StepKey work, Entry& entry) {
  entry.timer = loop_.after(slice(), [this, work] { slice_over(work); });
}

void Presence::slice_over(StepKey work) {
  const auto it = work_.find(work);
  if (it == work_.end())
    return;
  Entry& entry = it->second;
  entry.timer = 0;
  const bool unknown = !entry.node.empty() && !connected_(entry.node) && entry.behind_node < patience_.silent_node;
  if (unknown) {
    entry.slices = 0;
    entry.behind_node = entry.behind_node + slice();
  } else if (++entry.slices >= kSlices) {
    lost_(work);
    // Should ending it fail now, it is reported again.
    if (const auto again = work_.find(work); again != work_.end() && again->second.here == 0)
      start_over(work, again->second);
    return;
  }
  start_slice(work, entry);
}

void Presence::expect(StepKey work) {
  const auto [it, fresh] = work_.try_emplace(work);
  if (!fresh)
    return;
  if (const auto early = early_.find(work); early != early_.end())
    it->second = early->second;
  early_.erase(work);
  if (it->second.here == 0)
    start_over(work, it->second);
}

void Presence::forget(StepKey work) {
  const auto it = work_.find(work);
  if (it == work_.end())
    return;
  if (it->second.timer)
    loop_.cancel(it->second.timer);
  it->second.timer = 0;
  if (it->second.here > 0)
    early_[work] = it->second;
  work_.erase(it);
}

std::shared_ptr<void> Presence::enter(StepKey work, const std::string& node) {
  const auto it = work_.find(work);
  Entry& entry = it != work_.end() ? it->second : early_[work];
  ++entry.here;
  entry.node = node;
  if (entry.timer)
    loop_.cancel(entry.timer);
  entry.timer = 0;
  return std::shared_ptr<void>(nullptr, [alive = alive_, work](void*) {
    if (*alive)
      (*alive)->leave(work);
  });
}

void Presence::leave(StepKey work) {
  if (const auto it = work_.find(work); it != work_.end()) {
    if (--it->second.here == 0)
      start_over(work, it->second);
  } else if (const auto early = early_.find(work); early != early_.end() && --early->second.here == 0) {
    early_.erase(early);
  }
}

}  // namespace lockstep
