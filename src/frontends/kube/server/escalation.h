// Who writes roles and bindings gives rights away, and may give only those that he has himself; who approves
// certificate requests, or signs them, needs a right to it.
// Source: kubernetes.io/docs/reference/access-authn-authz/rbac ("Privilege escalation prevention and bootstrapping").
#pragma once

#include "frontends/kube/server/request.h"
#include "frontends/kube/server/role_book.h"

namespace lockstep::kube {

// A Status: the object would give rights that the caller does not have. Of other kinds: nothing.
std::optional<Status> check_escalation(const Request& request, const json::object& tree, const RoleBook& roles);

}  // namespace lockstep::kube
