// What a request says of how it is to be carried out: dryRun, fieldValidation, limit, resourceVersionMatch …
#pragma once

#include <optional>

#include "frontends/kube/machinery/status.h"
#include "frontends/kube/server/request.h"

namespace lockstep::kube {

// Why the request's options, or the type of its body, are not taken. Nothing: they are.
// Rules and messages are those of k8s.io/apimachinery pkg/apis/meta/v1/validation.
std::optional<Status> options_refusal(const Request& request);

}  // namespace lockstep::kube
