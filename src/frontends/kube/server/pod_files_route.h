// GET /v1/front-end-files?job=J&group=G&task=T[&version=V]: what a pod's sandbox needs from the API, asked by its node.
#pragma once

#include "frontends/kube/server/pod_files.h"
#include "routes/front_end.h"

namespace lockstep::kube {

// Answers 304 where nothing has changed since `version`. Only the node that the task runs on is told, by root or by
// the user of the job there.
void answer_pod_files(FrontVisit& visit, const PodFilesTools& tools);

// GET /v1/lasting-volumes?names=A,B: what becomes of folders that claims have on the node that asks, in the order of
// the names: {"volumes":["kept","passing","gone"]}. A folder that was "passing" and is "gone" may be removed.
void answer_lasting(FrontVisit& visit);

}  // namespace lockstep::kube
