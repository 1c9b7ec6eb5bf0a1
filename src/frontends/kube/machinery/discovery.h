// Discovery: which groups, versions and resources the API serves. Made from a list of resources, whose order it keeps:
// a group's first version is the preferred one.
#pragma once

#include <boost/json/object.hpp>
#include <span>
#include <string>
#include <string_view>

#include "frontends/kube/machinery/resource.h"

namespace lockstep::kube {

using Resources = std::span<const Resource* const>;

json::object api_versions(std::string_view server_address);           // GET /api
json::object api_group_list(Resources resources);                     // GET /apis
json::object api_group(Resources resources, std::string_view group);  // GET /apis/GROUP; empty: there is none
// Empty: nothing of that version is served.
json::object api_resource_list(Resources resources, std::string_view group,
                               std::string_view version);  // GET /apis/GROUP/VERSION

// All at once: Accept "application/json;g=apidiscovery.k8s.io;v=V;as=APIGroupDiscoveryList". `version` is "v2" or
// "v2beta1", exactly as asked; `core`: what lies under /api, else what lies under /apis.
json::object aggregated_discovery(Resources resources, bool core, std::string_view version);

}  // namespace lockstep::kube
