// Admission: what the cluster adds to objects at the door, and by which rules it refuses requests.
#pragma once

#include "frontends/kube/admission/policies.h"
#include "frontends/kube/server/kinds.h"
#include "frontends/kube/server/request.h"
#include "frontends/kube/server/role_book.h"

namespace lockstep::kube {

// What the request attempts. object: as it is to be, old: as it is; null where there is none. Both must outlive it.
AdmissionAttempt attempt_of(const Request& request, const json::object* object, const json::object* old);

// A connection to a pod: exec, attach, port-forward, proxy. The object is its options then.
bool is_connection(const Request& request);
json::object connection_options(const Request& request);

// Fills in what other objects say of a new one: classes, limits. With its defaults, before it is validated. A Status:
// it is refused.
std::optional<Status> complete_new(const Request& request, json::object& tree);

// Whom expressions of policies ask about rights.
PolicyBook::MayUser policy_rights(std::shared_ptr<const RoleBook> roles);

// The rules of namespaces and policies, when nothing of the object is to change any more. Warnings go to the request.
std::optional<Status> judge(Request& request, const Kinds& kinds, PolicyBook& policies, const json::object* object,
                            const json::object* old);

}  // namespace lockstep::kube
