// Pods that controllers make pass what those of users pass at the door.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string_view>

#include "frontends/kube/admission/attempt.h"
#include "frontends/kube/machinery/status.h"
#include "model/tables.h"

namespace lockstep::kube {

// Fills in what RuntimeClass and LimitRanges say of a new pod, which has the defaults of its fields. A Status: it is
// refused.
std::optional<Status> complete_pod(const Tables& tables, json::object& pod);

// As webhooks and policies see it. The pod stays where it is as long as the attempt is used. user: who makes it.
AdmissionAttempt attempt_of_made_pod(const json::object& pod, std::string_view user);
// Whether any webhook is to be asked about it.
bool is_asked_about(const Tables& tables, const AdmissionAttempt& attempt);

// Pod Security and policies, of a pod that is complete. user: who makes it.
std::optional<Status> judge_made_pod(const Tables& tables, const json::object& pod, std::string_view user);

}  // namespace lockstep::kube
