// The mix of a workload: which requests come, and how often. Told, or learnt from the arrivals so far with older ones
// counting less.
#pragma once

#include <map>
#include <vector>

#include "sched/pack_room.h"

namespace lockstep {

class PackMix {
 public:
  struct Class {
    PackShape shape;    // memory left out: 0
    double weight = 0;  // arrivals, older ones counting less
  };

  // An arrival loses half of its weight within `half_life` further arrivals; 0: never. At most `classes_max` classes
  // are told apart; when they are used up, the lightest one makes room.
  explicit PackMix(double half_life = 0, std::size_t classes_max = 512);

  // Notes an arrival; returns the place of its class in classes().
  std::size_t add(const PackShape& shape, double count = 1);

  const std::vector<Class>& classes() const { return classes_; }
  double total() const { return total_; }  // sum of the weights

 private:
  double growth_;  // each arrival counts this much more than the one before: the same as the older ones fading
  double next_ = 1;
  std::size_t classes_max_;
  std::vector<Class> classes_;
  std::map<PackShape, std::size_t> places_;
  double total_ = 0;
};

}  // namespace lockstep
