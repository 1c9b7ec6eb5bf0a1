// GET /v1/jobs: the records of the jobs that a request chooses.
#pragma once

#include "views/read_context.h"

namespace lockstep {

// ?id=12,13_[1-4]&user=ann&state=pending,running&partition=debug&name=train: all that is given must fit.
PageReply jobs_page(const ReadContext& context, const PageRequest& request);

}  // namespace lockstep
