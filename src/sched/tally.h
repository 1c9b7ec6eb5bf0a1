// Tallies: what limits count for the jobs of one account, user and QOS in one partition. As long as it is the same,
// what they said of a shape stands.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sched/admission.h"
#include "sched/node_class.h"

namespace lockstep {

struct Tally {
  std::vector<std::int64_t> amounts;  // amounts_that_bind()
  std::uint64_t version = 0;          // counts changes of amounts
  std::uint64_t counted = 0;          // Admission::counted() as of the last look
  bool minutes = false;               // limits of minutes bind: nothing stands
};

class Tallies {
 public:
  // Valid until clear().
  Tally& of(const JobSpec& spec, PartitionNo partition);
  void clear() { tallies_.clear(); }

 private:
  std::map<std::tuple<std::string, std::string, UserId, PartitionNo>, Tally> tallies_;
};

// Brings it up to date for a job of the tally.
void look_again(Tally& tally, const Admission& admission, const JobSpec& spec, const Partition& partition);

}  // namespace lockstep
