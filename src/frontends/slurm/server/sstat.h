// GET /slurm/v1/sstat: what running steps and scripts have used up to now, as sstat names it.
#pragma once

#include "views/read_context.h"

namespace lockstep::slurm {

// columns=jobid,maxrss,…; jobs=12,13.0,14.batch: of these the caller's own, an administrator's all. A job without a
// step means its lowest step that runs; allsteps=1: its script and all steps.
PageReply sstat_page(const ReadContext& context, const PageRequest& request);

}  // namespace lockstep::slurm
