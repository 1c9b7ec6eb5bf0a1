// What the cluster adds to new objects by what other objects say: a pod's RuntimeClass (overhead, where it may run), a
// claim's StorageClass, an Ingress' IngressClass.
// Sources: kubernetes.io/docs/concepts/containers/runtime-class, …/storage/storage-classes ("Default StorageClass").
#pragma once

#include <boost/json/object.hpp>
#include <optional>

#include "frontends/kube/machinery/status.h"
#include "model/tables.h"

namespace lockstep::kube {

// A Status (403): the class is not there, or says otherwise than the pod.
std::optional<Status> apply_runtime_class(const Tables& tables, json::object& pod);

// A claim, an Ingress that names no class gets the standard one; of several the newest.
void choose_storage_class(const Tables& tables, json::object& claim);
void choose_ingress_class(const Tables& tables, json::object& ingress);

// A Status (403): another class is every pod's already that names none, and there is but one such.
std::optional<Status> refuse_second_default(const Tables& tables, const json::object& priority_class, bool is_new);

// A Status (403): the claim asks for more than before, and its class does not say that its volumes grow.
std::optional<Status> check_claim_growth(const Tables& tables, const json::object& claim, const json::object& old);

}  // namespace lockstep::kube
