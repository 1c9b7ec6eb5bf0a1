// Whether the schema of a custom resource is structural: says the type of every part once and in its place, so that
// objects can be pruned, given defaults and merged by it. Rules and words of k8s.io/apiextensions-apiserver.
#pragma once

#include <boost/json/value.hpp>
#include <string>

#include "frontends/kube/machinery/field_error.h"

namespace lockstep::kube {

// `path` leads to the schema: "spec.versions[0].schema.openAPIV3Schema". At most 100 faults; none: it is structural.
FieldErrors structural_faults(const json::value& definition, const std::string& path);

}  // namespace lockstep::kube
