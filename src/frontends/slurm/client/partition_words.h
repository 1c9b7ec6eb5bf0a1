// The keys of a partition, as "scontrol update PartitionName=" and slurm.conf have them, written into its record.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"
#include "model/records.h"

namespace lockstep::slurm {

// The key in lower case, and its value. False: no partition has the key. An error: the value is wrong.
Result<bool> set_partition(Partition& partition, const std::pair<std::string, std::string>& pair);

}  // namespace lockstep::slurm
