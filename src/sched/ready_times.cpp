#include "sched/ready_times.h"

#include <algorithm>

namespace lockstep {

namespace {

constexpr std::size_t kKnownMost = 4;  // of one partition: reservations narrow ways down, and they take turns

using Needs = std::vector<std::pair<ClassNo, FreeAmounts>>;

// Whether nodes of classes that `known` says nothing of have all changed since.
bool covers(const PlannerView& view, const ReadyTimes& known, const Needs& needs) {
  return std::all_of(needs.begin(), needs.end(), [&](const auto& need) {
    return std::find(known.needs.begin(), known.needs.end(), need) != known.needs.end() ||
           view.classes()[need.first].born > known.layout;
  });
}

}  // namespace

ReadyTimes& ready_times(PlannerView& view, const Way& way, std::vector<ReadyTimes>& known) {
  Needs needs;
  for (const ClassNeed& need : way.groups[0].needs) needs.emplace_back(need.cls, need.amounts);
  std::erase_if(known, [&](const ReadyTimes& times) { return times.layout < view.laid_out(); });
  auto at = std::find_if(known.begin(), known.end(), [&](const ReadyTimes& times) { return times.needs == needs; });
  if (at == known.end()) {
    const auto like =
        std::find_if(known.begin(), known.end(), [&](const ReadyTimes& times) { return covers(view, times, needs); });
    ReadyTimes times;
    if (like != known.end()) {
      times = *like;
      std::vector<bool> dropped(view.classes().size());
      bool any = false;
      for (const auto& need : times.needs)
        if (std::find(needs.begin(), needs.end(), need) == needs.end())
          any = dropped[need.first] = true;
      for (std::size_t i = 0; any && i < times.at.size(); ++i)
        if (const NodeSlot& slot = view.nodes()[i]; slot.node && dropped[slot.cls])
          times.at[i] = kNotEver;
      times.needs = std::move(needs);
    }
    if (known.size() == kKnownMost)
      known.pop_back();
    at = known.insert(known.begin(), std::move(times));
  }
  std::rotate(known.begin(), at, at + 1);
  if (known.front().clock != 0)
    known.front().layout = view.layout;
  return known.front();
}

}  // namespace lockstep
