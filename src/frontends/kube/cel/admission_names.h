// What expressions of admission may name, with types: a policy is read with these when it is stored.
// Source: k8s.io/apiserver pkg/admission/plugin/cel/compile.go.
#pragma once

#include <map>

#include "frontends/kube/cel/program.h"

namespace lockstep::kube::cel {

struct AdmissionNames {
  bool params = false, authorizer = false;
  const std::map<std::string, TypeRef, std::less<>>* variables = nullptr;  // null: there are none
};
std::vector<Variable> admission_names(const AdmissionNames& wanted);

// `device`, of selectors of devices. Source: k8s.io/dynamic-resource-allocation cel.
std::vector<Variable> device_names();

}  // namespace lockstep::kube::cel
