// Events of a pod, as its records show what happened: scheduled or not, containers started, crashing, ended.
#pragma once

#include "frontends/kube/controllers/reconciler.h"
#include "frontends/kube/kinds/pod_view.h"

namespace lockstep::kube {

// Wishes those that are not there yet. What happened long ago is not told: its events have gone with their time.
void wish_pod_events(Wishes& out, const ObjectView& view, const Object& pod, const PodRecords& records, Instant now);

}  // namespace lockstep::kube
