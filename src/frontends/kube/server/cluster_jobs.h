// jobs.lockstep.io: every job of the cluster, from whatever front end, as a resource that can be read, watched and
// deleted, which cancels the job. Nothing is stored for it: each object is made from the job's record when it is asked
// for. Its name is the job's id.
#pragma once

#include "frontends/kube/server/request.h"

namespace lockstep::kube {

Kind cluster_jobs_kind();
bool is_cluster_jobs(const Kind& kind);

// For the verbs that the kind has.
void answer_cluster_jobs(const Asked& request);

}  // namespace lockstep::kube
