#include "services/culprits.h"

#include <iterator>

namespace lockstep {

void Culprits::begin(std::set<ServiceKey> doubtful) {
  groups_.clear();
  stage_ = doubtful.empty() ? Stage::kIdle : Stage::kNone;
  if (!doubtful.empty())
    groups_.push_back(std::move(doubtful));
}

void Culprits::tried(bool taken) {
  if (stage_ == Stage::kIdle)
    return;
  if (stage_ == Stage::kNone) {
    stage_ = taken ? Stage::kHalves : Stage::kIdle;
    if (!taken)
      groups_.clear();
    return;
  }
  std::set<ServiceKey> group = std::move(groups_.back());
  groups_.pop_back();
  if (!taken && group.size() == 1) {
    found_.merge(group);
  } else if (!taken) {
    const auto middle = std::next(group.begin(), static_cast<std::ptrdiff_t>(group.size() / 2));
    groups_.emplace_back(middle, group.end());
    groups_.emplace_back(group.begin(), middle);
  }
  if (groups_.empty())
    stage_ = Stage::kIdle;
}

void Culprits::forget(const ServiceKey& key) {
  found_.erase(key);
  for (auto& group : groups_) group.erase(key);
  std::erase_if(groups_, [](const auto& group) { return group.empty(); });
  if (groups_.empty())
    stage_ = Stage::kIdle;
}

std::set<ServiceKey> Culprits::left_out() const {
  std::set<ServiceKey> out = found_;
  for (std::size_t i = 0; i < groups_.size(); ++i)
    if (stage_ == Stage::kNone || i + 1 < groups_.size())
      out.insert(groups_[i].begin(), groups_[i].end());
  return out;
}

}  // namespace lockstep
