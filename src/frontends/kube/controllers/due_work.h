// DueWork: what is to be looked at next. Namespaces take turns by what their looks cost, so that one with a hundred
// thousand pods does not keep the others waiting.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "model/tables.h"

namespace lockstep::kube {

using Work = std::pair<std::size_t, ObjectKey>;  // which reconciler, and what it looks at

class DueWork {
 public:
  void add(Work work);  // once, however often it is added
  bool empty() const { return turns_.empty(); }
  Work take();  // not when empty
  // What the look at it cost.
  void charge(const Work& work, std::uint64_t cost);
  void clear();

 private:
  struct Lane {
    std::set<Work> due;
    std::uint64_t paid = 0;
  };
  std::map<std::string, Lane> lanes_;  // by namespace; those that have paid more than others stay for that
  std::set<std::pair<std::uint64_t, std::string>> turns_;  // lanes with something due, by what they have paid
  std::uint64_t now_ = 0;                                  // what the one whose turn was last had paid
};

}  // namespace lockstep::kube
