// ValidatingAdmissionPolicies: rules in CEL about requests, bound to parameters and to what they are for.
// Source: kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy.
#pragma once

#include <memory>

#include "frontends/kube/admission/attempt.h"
#include "frontends/kube/cel/access.h"

namespace lockstep::kube {

inline constexpr std::int64_t kPolicyCostMax = 3'000'000;  // of all expressions of one request: a second at worst

// The type of records and the scope of a kind that policies take parameters from. Nothing: it is not served.
struct ParameterKind {
  std::string type, plural;
  bool namespaced = false;
};
using KindOf = std::function<std::optional<ParameterKind>(std::string_view group, std::string_view version,
                                                          std::string_view kind)>;

// Keeps the programs of the policies that it has seen, which follow from their objects.
class PolicyBook {
 public:
  // Whether that user may do that: what expressions ask `authorizer`. user: as an attempt has it; of a question about a
  // service account that account's.
  using MayUser = std::function<bool(const json::object& user, const cel::AccessQuestion&)>;
  explicit PolicyBook(MayUser may = {});  // empty: nobody may anything
  ~PolicyBook();

  // A Status: it is denied. Warnings are added.
  std::optional<Status> check(const Tables& tables, const AdmissionAttempt& attempt, const KindOf& kind_of,
                              std::vector<std::string>& warnings);

 private:
  struct Compiled;
  cel::Value authorizer_of(const AdmissionAttempt& attempt) const;
  const Compiled& compiled(const Object& policy);

  MayUser may_;
  std::map<ObjectKey, std::shared_ptr<const Compiled>> compiled_;
};

}  // namespace lockstep::kube
