// Built-in objects as Kubernetes' own server holds them: values of the right type, in canonical form, nothing that says
// nothing.
//
// The real server reads an object into a structure and writes it from there; clients, managed fields and comparisons
// rest on what that does: nulls and empty values of most fields go, "0.5" of a CPU becomes "500m", times become UTC.
#pragma once

#include <boost/json/object.hpp>

#include "base/result.h"
#include "frontends/kube/machinery/schema.h"

namespace lockstep::kube {

// Does a value of this kind count as absent: null, 0, "", false, [], {}?
bool says_nothing(const json::value& value);

// Error: a value of another type, in the words of the real server (`json: cannot unmarshal string into Go struct field
// DeploymentSpec.spec.replicas of type int32`), with its path as the field. Unknown fields stay: prune() before.
Result<void> settle(json::object& object, const Schema& schema);

}  // namespace lockstep::kube
