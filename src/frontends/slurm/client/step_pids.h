// The processes of a step's tasks, which only its nodes know: asked of them over the step's own stream, as one who
// looks on (wire/io_attach.h).
#pragma once

#include <cstdint>
#include <map>

#include "base/result.h"
#include "frontends/slurm/client/context.h"
#include "model/step.h"

namespace lockstep::slurm {

// The first process of each task that runs, by rank, as its node numbers them. What no node has said within `patience`
// is missing.
Result<std::map<std::uint32_t, std::uint64_t>> pids_of(const ClientContext& context, const Step& step,
                                                       Duration patience);

}  // namespace lockstep::slurm
