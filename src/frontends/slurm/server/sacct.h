// GET /slurm/v1/sacct and /slurm/v1/sacct.json: accounting rows as sacct names them.
#pragma once

#include "views/read_context.h"

namespace lockstep::slurm {

// columns=jobid,state,…; jobs, user, account, partition, name, qos, nodes, states: filters; from and to: Unix seconds;
// allocations=1 leaves steps out (-X), duplicates=1 shows earlier runs too (-D). Times are Unix seconds, spans seconds
// (-1 = unlimited, -2 = not set).
PageReply sacct_page(const ReadContext& context, const PageRequest& request);
PageReply sacct_json_page(const ReadContext& context, const PageRequest& request);

}  // namespace lockstep::slurm
