// Counting arrivals by class.
#include "sched/pack_mix.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace lockstep {

PackMix::PackMix(double half_life, std::size_t classes_max)
    : growth_(half_life > 0 ? std::exp2(1 / half_life) : 1), classes_max_(classes_max) {
  CHECK(classes_max > 0);
}

std::size_t PackMix::add(const PackShape& shape, double count) {
  PackShape key = shape;
  key.memory_mib = 0;
  auto found = places_.find(key);
  if (found == places_.end()) {
    std::size_t place = classes_.size();
    if (place < classes_max_) {
      classes_.push_back({key, 0});
    } else {
      place = static_cast<std::size_t>(
          std::min_element(classes_.begin(), classes_.end(), [](auto& a, auto& b) { return a.weight < b.weight; }) -
          classes_.begin());
      places_.erase(classes_[place].shape);
      total_ -= classes_[place].weight;
      classes_[place] = {key, 0};
    }
    found = places_.emplace(key, place).first;
  }
  classes_[found->second].weight += next_ * count;
  total_ += next_ * count;
  next_ *= growth_;
  if (next_ > 1e6) {
    for (Class& c : classes_) c.weight /= next_;
    total_ /= next_;
    next_ = 1;
  }
  return found->second;
}

}  // namespace lockstep
