// What a custom resource's definition may not say, though its objects could be served: defaults that its own schema
// refuses, columns that no table can show. Words of k8s.io/apiextensions-apiserver.
#pragma once

#include "frontends/kube/cel/rules.h"
#include "frontends/kube/machinery/custom_definition.h"

namespace lockstep::kube {

// path: "spec.versions[0]"; patterns: of the definition.
void check_columns(const json::value& version, const std::string& path, FieldErrors& out);
void check_defaults(const CustomVersion& version, const Patterns& patterns, const cel::Rules& rules,
                    const std::string& path, FieldErrors& out);

}  // namespace lockstep::kube
