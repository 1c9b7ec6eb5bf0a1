// Pods that controllers make pass what those of users pass at the door.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string_view>

#include "frontends/kube/machinery/status.h"
#include "model/tables.h"

namespace lockstep::kube {

// Fills in what RuntimeClass and LimitRanges say of a new pod, which has the defaults of its fields. A Status: it is
// refused.
std::optional<Status> complete_pod(const Tables& tables, json::object& pod);

// Pod Security and policies, of a pod that is complete. user: who makes it.
std::optional<Status> judge_made_pod(const Tables& tables, const json::object& pod, std::string_view user);

}  // namespace lockstep::kube
