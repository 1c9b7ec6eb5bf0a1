// Strategic merge patches: merge patches that know from the schema which lists are merged by a key.
//
// Directives: `$patch: replace|delete|merge`, `$retainKeys`, `$setElementOrder/FIELD`,
// `$deleteFromPrimitiveList/FIELD`. Semantics are those of k8s.io/apimachinery pkg/util/strategicpatch, as its API
// server applies patches.
#pragma once

#include <boost/json/value.hpp>

#include "frontends/kube/machinery/schema.h"
#include "frontends/kube/machinery/status.h"

namespace lockstep::kube {

// The patched object. 400: a directive of a wrong shape, or an element of a merged list without its key. 422: a list of
// lists that would have to be merged.
Answered<json::value> apply_strategic_patch(json::value object, json::value patch, const Schema& schema);

}  // namespace lockstep::kube
