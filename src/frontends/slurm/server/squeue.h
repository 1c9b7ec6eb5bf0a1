// GET /slurm/v1/squeue and /slurm/v1/steps: rows of the columns that the command's format needs.
#pragma once

#include "views/read_context.h"

namespace lockstep::slurm {

// columns=jobid,partition,…  and the filters of job_filter.h. Times are Unix seconds (0 = not known), spans are seconds
// (-1 = unlimited, -2 = not set). An unknown column is an error that names it.
PageReply squeue_page(const ReadContext& context, const PageRequest& request);
PageReply steps_page(const ReadContext& context, const PageRequest& request);

}  // namespace lockstep::slurm
