#include "frontends/kube/admission/made_pods.h"

#include <boost/json/array.hpp>

#include "frontends/kube/admission/limit_ranges.h"
#include "frontends/kube/admission/pod_security.h"
#include "frontends/kube/admission/policies.h"
#include "frontends/kube/admission/standard_parts.h"
#include "frontends/kube/admission/webhooks.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

std::optional<Status> complete_pod(const Tables& tables, json::object& pod) {
  if (auto refused = apply_runtime_class(tables, pod))
    return refused;
  return apply_limit_ranges(tables, "pods", pod);
}

AdmissionAttempt attempt_of_made_pod(const json::object& pod, std::string_view user) {
  AdmissionAttempt attempt;
  attempt.operation = "CREATE";
  attempt.version = "v1";
  attempt.kind = "Pod";
  attempt.resource = "pods";
  attempt.ns = text_in(part(pod, "metadata"), "namespace");
  attempt.name = text_in(part(pod, "metadata"), "name");
  attempt.user = {{"username", user}, {"groups", json::array{json::string_view("system:authenticated")}}};
  attempt.options = {{"kind", "CreateOptions"}, {"apiVersion", "meta.k8s.io/v1"}};
  attempt.object = &pod;
  return attempt;
}

bool is_asked_about(const Tables& tables, const AdmissionAttempt& attempt) {
  return has_webhooks(tables) && (!webhooks_for(tables, Webhook::Sort::kMutating, attempt).empty() ||
                                  !webhooks_for(tables, Webhook::Sort::kValidating, attempt).empty());
}

std::optional<Status> judge_made_pod(const Tables& tables, const json::object& pod, std::string_view user) {
  std::vector<std::string> unheard;  // nobody is there to be warned
  if (auto refused = check_pod_security(tables, "pods", pod, unheard))
    return refused;
  const AdmissionAttempt attempt = attempt_of_made_pod(pod, user);
  // Parameters are of kinds that every server has: controllers know no others.
  const KindOf kind_of = [](std::string_view group, std::string_view version,
                            std::string_view kind) -> std::optional<ParameterKind> {
    if (group.empty() && version == "v1" && kind == "ConfigMap")
      return ParameterKind{"configmaps", "configmaps", true};
    return std::nullopt;
  };
  return PolicyBook().check(tables, attempt, kind_of, unheard);
}

}  // namespace lockstep::kube
