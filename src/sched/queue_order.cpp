#include "sched/queue_order.h"

#include "model/job.h"
#include "sched/view.h"

namespace lockstep {

std::vector<Ahead> jobs_ahead(std::span<const Change> snapshot, Instant now, JobId job) {
  PlannerView view;
  for (const Change& change : snapshot) view.observe(change);
  view.advance(now);
  view.rank_again(now);
  std::vector<Ahead> out;
  const SlotNo own = view.find(job);
  if (own == kNoSlot || !view.slot(own).queued)
    return out;
  const OrderKey& key = view.slot(own).key;
  constexpr int kTierShift = 48;  // see OrderKey::band
  view.queue().each_after(OrderKey{}, true, [&](SlotNo s) {
    if (s == own)
      return false;
    const JobSlot& slot = view.slot(s);
    const auto why = slot.key.band >> kTierShift != key.band >> kTierShift ? Ahead::Why::kTier
                     : slot.key.band != key.band                           ? Ahead::Why::kPriority
                                                                           : Ahead::Why::kTurn;
    out.push_back({why, slot.job->id});
    return true;
  });
  return out;
}

}  // namespace lockstep
