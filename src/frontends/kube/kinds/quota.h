// What objects count for in the quotas of their namespace.
// Source: kubernetes.io/docs/concepts/policy/resource-quotas.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <string>
#include <string_view>

#include "frontends/kube/machinery/quantity.h"

namespace lockstep::kube {

namespace json = boost::json;

using Amounts = std::map<std::string, Quantity, std::less<>>;

// {"configmaps": 1, "count/configmaps": 1}, {"requests.cpu": 500m, "pods": 1, …}. type: as objects are stored.
Amounts amounts_of(std::string_view type, const json::object& tree);

// What of these a quota bounds, by its spec's `hard`.
Amounts bounds_of(const json::object& quota);
// status.used; a name that is not there was not counted yet.
Amounts used_of(const json::object& quota);
json::object amounts_object(const Amounts& amounts);

// Whether the quota's scopes (Terminating, BestEffort, a priority class …) take the object in. Scopes are of pods, and
// one is of claims.
bool quota_takes(const json::object& quota, std::string_view type, const json::object& tree);

// A resource's sum over a pod's containers, as the scheduler counts it: requests or limits.
Amounts pod_sums(const json::object& pod, std::string_view which);

}  // namespace lockstep::kube
