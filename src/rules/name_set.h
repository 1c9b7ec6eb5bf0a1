// Names of a list, to be asked for often: a long list is not gone through for every node of the cluster.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace lockstep {

// Borrows the list. The first few questions go through it: only who asks on pays for the set.
class NameSet {
 public:
  explicit NameSet(const std::vector<std::string>& list) : list_(list) {}
  bool has(std::string_view name) const {
    if (list_.size() <= kFew || ++asked_ <= kFew)
      return std::find(list_.begin(), list_.end(), name) != list_.end();
    if (names_.empty())
      names_.insert(list_.begin(), list_.end());
    return names_.contains(name);
  }

 private:
  static constexpr std::size_t kFew = 8;
  const std::vector<std::string>& list_;
  mutable std::size_t asked_ = 0;
  mutable std::unordered_set<std::string_view> names_;
};

}  // namespace lockstep
