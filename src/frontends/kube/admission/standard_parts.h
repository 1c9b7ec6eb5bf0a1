// What the cluster adds to new objects by what other objects say: a pod's RuntimeClass (overhead, where it may run), a
// claim's StorageClass.
// Sources: kubernetes.io/docs/concepts/containers/runtime-class, …/storage/storage-classes ("Default StorageClass").
#pragma once

#include <boost/json/object.hpp>
#include <optional>

#include "frontends/kube/machinery/status.h"
#include "model/tables.h"

namespace lockstep::kube {

// A Status (403): the class is not there, or says otherwise than the pod.
std::optional<Status> apply_runtime_class(const Tables& tables, json::object& pod);

// A claim that names no class gets the standard one; of several the newest.
void choose_storage_class(const Tables& tables, json::object& claim);

// A Status (403): the claim asks for more than before, and its class does not say that its volumes grow.
std::optional<Status> check_claim_growth(const Tables& tables, const json::object& claim, const json::object& old);

}  // namespace lockstep::kube
