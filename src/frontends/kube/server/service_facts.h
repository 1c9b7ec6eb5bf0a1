// What Services and EndpointSlices say, in the words that nodes are told (wire/service_table.h). Pure.
// Source: kubernetes.io/docs/concepts/services-networking/service, …/endpoint-slices, …/virtual-ips.
#pragma once

#include <optional>

#include "model/records.h"
#include "wire/service_table.h"

namespace lockstep::kube {

inline constexpr const char* kServicesType = "services";
inline constexpr const char* kSlicesType = "endpointslices.discovery.k8s.io";

ServiceFact fact_of_service(const Object& service);
// Nothing: the slice is of no Service, or its addresses are none that nodes lead to.
std::optional<ServiceEnds> ends_of_slice(const Object& slice);

}  // namespace lockstep::kube
