#include "frontends/kube/controllers/due_work.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kLanesIdle = 1024;  // that are kept although nothing is due there

const std::string& lane_of(const Work& work) { return std::get<1>(work.second); }

}  // namespace

void DueWork::add(Work work) {
  Lane& lane = lanes_[lane_of(work)];
  if (lane.due.empty()) {
    lane.paid = std::max(lane.paid, now_);  // nobody saves up turns
    turns_.emplace(lane.paid, lane_of(work));
  }
  lane.due.insert(std::move(work));
}

Work DueWork::take() {
  CHECK(!turns_.empty());
  const auto [paid, name] = *turns_.begin();
  now_ = paid;
  Lane& lane = lanes_.at(name);
  Work work = lane.due.extract(lane.due.begin()).value();
  if (lane.due.empty())
    turns_.erase(turns_.begin());
  return work;
}

void DueWork::charge(const Work& work, std::uint64_t cost) {
  const auto at = lanes_.find(lane_of(work));
  if (at == lanes_.end())
    return;
  Lane& lane = at->second;
  if (!lane.due.empty())
    turns_.erase({lane.paid, at->first});
  lane.paid += cost;
  if (!lane.due.empty())
    turns_.emplace(lane.paid, at->first);
  else if (lanes_.size() > kLanesIdle)
    std::erase_if(lanes_, [this](const auto& one) { return one.second.due.empty() && one.second.paid <= now_; });
}

void DueWork::clear() { *this = DueWork(); }

}  // namespace lockstep::kube
