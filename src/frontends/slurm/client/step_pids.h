// The processes of a step's tasks, which only its nodes know: asked of them over the step's own stream, as one who
// looks on (wire/io_attach.h).
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "base/result.h"
#include "frontends/slurm/client/context.h"
#include "model/step.h"

namespace lockstep::slurm {

struct StepPids {
  std::map<std::uint32_t, std::uint64_t> pids;  // by rank, as its node numbers them; of tasks that run
  std::set<std::uint32_t> unanswered;           // ranks of which no node has said anything within `patience`
};
// The first process of each task.
Result<StepPids> pids_of(const ClientContext& context, const Step& step, Duration patience);

}  // namespace lockstep::slurm
