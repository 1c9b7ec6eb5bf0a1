// What slices say of an Endpoints object that somebody wrote by hand. Pure.
// Source: k8s.io/kubernetes pkg/controller/endpointslicemirroring, pkg/api/v1/endpoints (RepackSubsets).
#pragma once

#include <boost/json/array.hpp>
#include <string>
#include <vector>

namespace lockstep::kube {

namespace json = boost::json;

inline constexpr std::size_t kMirroredOfSubset = 1000;  // addresses

// Addresses of one family that are reached by the same ports: a slice cannot say more.
struct MirroredSlice {
  std::string address_type;  // "IPv4", "IPv6"
  json::array ports, endpoints;
  std::string key() const;  // the same for the same ports and family
};

// IPv4 first. Addresses that are none are left out; what has no address is no slice.
std::vector<MirroredSlice> slices_of_endpoints(const json::value& endpoints);

}  // namespace lockstep::kube
