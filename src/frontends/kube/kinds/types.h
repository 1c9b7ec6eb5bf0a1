// Types of records, as they stand in keys of objects, of the kinds that more than one part of the front end knows by
// name.
#pragma once

#include <string_view>

namespace lockstep::kube {

inline constexpr std::string_view kPods = "pods";
inline constexpr std::string_view kNodes = "nodes";
inline constexpr std::string_view kNamespaces = "namespaces";
inline constexpr std::string_view kServices = "services";
inline constexpr std::string_view kDefinitions = "customresourcedefinitions.apiextensions.k8s.io";

}  // namespace lockstep::kube
