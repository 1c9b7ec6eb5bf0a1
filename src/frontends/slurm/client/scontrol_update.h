// What the Key=Value words of scontrol update ask for. The first pair names the job or the nodes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/command.h"

namespace lockstep::slurm {

struct JobFactsForUpdate {
  WallTime now;
  Duration time_limit;  // of the job as it is, for TimeLimit=+30
};
Result<UpdateJob> job_change(const std::vector<std::pair<std::string, std::string>>& pairs,
                             const JobFactsForUpdate& facts);

struct NodeChange {
  UpdateNode update;       // without the name
  bool ends_jobs = false;  // state=down: what runs there is requeued, or cancelled where it may not be
};
Result<NodeChange> node_change(const std::vector<std::pair<std::string, std::string>>& pairs);

}  // namespace lockstep::slurm
