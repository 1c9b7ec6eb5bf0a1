// JobIndex: which jobs a request could be about, found without a look at all of them. The live view brings it forward
// with each change; pages that run beside it have none and look at everything.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/id_map.h"
#include "model/tables.h"
#include "views/selectors.h"

namespace lockstep {

class JobIndex {
 public:
  using Ids = IdMap<JobId, unsigned char>;  // a set: the value says nothing

  // The record of one job as it was and as it is; null = there was, or is, none.
  void changed(const Job* before, const Job* after);

  // Every job that the selector can match, by id, and perhaps some that it does not. Nothing: it names too little, and
  // whoever asks looks at all of them.
  std::optional<std::vector<JobId>> candidates(const JobSelector& selector) const;
  const Ids& placed() const { return placed_; }  // those with an allocation

 private:
  struct OfOwner {
    Ids live, ended;
  };
  void add(const Job& job);
  void remove(const Job& job);
  void add_targets(const TargetList& targets, std::vector<JobId>& out) const;

  std::map<UserId, OfOwner> by_owner_;          // Invariant: none is empty
  std::unordered_map<JobId, Ids> elements_of_;  // records of an array's elements. Invariant: none is empty
  Ids placed_;
  std::size_t live_ = 0, all_ = 0;
};

}  // namespace lockstep
