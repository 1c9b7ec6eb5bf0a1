// LimitRanges of a namespace: what containers ask for and may use at most where they say nothing, and between which
// bounds pods, containers and claims must stay.
// Source: kubernetes.io/docs/concepts/policy/limit-range.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string_view>

#include "frontends/kube/machinery/status.h"
#include "model/tables.h"

namespace lockstep::kube {

// Of a new pod: fills in what its containers leave open, then checks it. Of a claim, new or changed: checks it. Others
// pass. A Status: it is refused (403).
std::optional<Status> apply_limit_ranges(const Tables& tables, std::string_view type, json::object& tree);

}  // namespace lockstep::kube
