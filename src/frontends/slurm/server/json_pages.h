// GET /slurm/v1/squeue.json and /slurm/v1/sinfo.json: what the commands print with --json.
#pragma once

#include "views/read_context.h"

namespace lockstep::slurm {

PageReply squeue_json_page(const ReadContext& context, const PageRequest& request);
PageReply sinfo_json_page(const ReadContext& context, const PageRequest& request);

}  // namespace lockstep::slurm
