#include "sched/tally.h"

#include <utility>

#include "rules/limits.h"

namespace lockstep {

Tally& Tallies::of(const JobSpec& spec, PartitionNo partition) {
  return tallies_[{spec.account, spec.qos, spec.user, partition}];
}

void look_again(Tally& tally, const Admission& admission, const JobSpec& spec, const Partition& partition) {
  if (tally.counted == admission.counted())
    return;
  tally.counted = admission.counted();
  std::vector<std::int64_t> amounts;
  tally.minutes = !amounts_that_bind(admission.directory(), admission.ledger(), spec, &partition, amounts);
  if (tally.version != 0 && amounts == tally.amounts)
    return;
  tally.amounts = std::move(amounts);
  ++tally.version;
}

}  // namespace lockstep
