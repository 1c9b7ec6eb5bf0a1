// What if: the same queue in the cluster as it is and in one with changes, side by side. Changes are the core's own
// commands, so whatever it would refuse is refused here, and says where it stands in the request.
#pragma once

#include <span>

#include "base/result.h"
#include "foresight/cluster_copy.h"

namespace lockstep {

// Lets the changes come true in the copy, in order. The Error's field is the change's. Jobs that were made go to
// `added`, those that were taken away to `removed`.
struct ChangedJobs {
  std::vector<JobId> added, removed;
};
Result<ChangedJobs> apply_changes(ClusterCopy& copy, std::span<const ChangeAsk> changes);

Result<WhatIfAnswer> what_if(const Tables& tables, const ClusterCopy::Clock& clock, std::span<const ChangeAsk> changes,
                             const CoreSettings& core = {});

// A submission that is not made: what would become of it. Errors are those of the submission itself.
struct Tried {
  JobId job;
  Foreseen foreseen;
};
Result<Tried> try_submit(const Tables& tables, const ClusterCopy::Clock& clock, const SubmitJob& ask,
                         const Caller& caller, const CoreSettings& core = {});

}  // namespace lockstep
