// What expressions ask about rights: authorizer.group("apps").resource("deployments").check("delete").allowed().
// Source: k8s.io/apiserver pkg/cel/library/authz.go.
#pragma once

#include <functional>
#include <string>

#include "frontends/kube/cel/value.h"

namespace lockstep::kube::cel {

inline constexpr std::size_t kCheckCost = 5'000;  // of one question: a walk over the roles of who asks

struct AccessQuestion {
  std::string account_ns, account;  // a service account; "" = whoever makes the request
  std::string verb;
  std::string path;  // of what is no resource; "" = a resource is asked about
  std::string group, resource, subresource, ns, name;
};
using AccessJudge = std::function<bool(const AccessQuestion&)>;

// A question on its way to an answer.
struct Access {
  enum class Kind : unsigned char { kAuthorizer, kPath, kGroup, kResource, kDecision } kind = Kind::kAuthorizer;
  AccessQuestion question;
  std::shared_ptr<const AccessJudge> judge;  // null: nobody knows, so nothing is allowed
  AccessQuestion own = {};                   // of the request itself: authorizer.requestResource
  bool allowed = false;                      // kDecision
};

// The value of `authorizer`. request: what is being done, without a verb.
Value authorizer(AccessJudge judge, AccessQuestion request);
// Its field, which begins with the request's own resource. Nothing: it has no such field.
std::optional<Value> access_field(const Access& access, std::string_view name);

}  // namespace lockstep::kube::cel
