#include "frontends/kube/server/escalation.h"

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr const char* kRbac = "rbac.authorization.k8s.io";

Status refused(const Request& request, const json::object& tree) {
  const json::value* metadata = tree.if_contains("metadata");
  const json::value* name = metadata ? member(*metadata, "name") : nullptr;
  std::string groups;
  for (const std::string& group : request.user.groups) groups += format("{}\"{}\"", groups.empty() ? "" : " ", group);
  return Status::forbidden(
      request.resource(), name ? text_of(*name) : "",
      format("user \"{}\" (groups=[{}]) is attempting to grant RBAC permissions not currently held", request.user.name,
             groups));
}

bool may(const Request& request, const RoleBook& roles, const char* verb, const char* resource,
         const std::string& name) {
  return roles.allows(request.user, {verb, kRbac, "v1", resource, "", request.target.ns, name, ""});
}

// Who decides on certificate requests, or signs them, has a right to that for their signer.
// Source: kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests, "Authorization".
std::optional<Status> check_signing(const Request& request, const json::object& tree, const RoleBook& roles) {
  const std::string& sub = request.target.subresource;
  if (request.kind->type != "certificatesigningrequests.certificates.k8s.io" || sub.empty())
    return std::nullopt;
  const char* verb = sub == "approval" ? "approve" : "sign";
  const std::string signer = text_in(part(tree, "spec"), "signerName");
  const std::string domain = signer.substr(0, signer.find('/')) + "/*";
  for (const std::string& name : {signer, domain})
    if (roles.allows(request.user, {verb, "certificates.k8s.io", "v1", "signers", "", "", name, ""}))
      return std::nullopt;
  return Status::forbidden(request.resource(), request.target.name,
                           format("user not permitted to {} requests with signerName \"{}\"", verb, signer));
}

}  // namespace

std::optional<Status> check_escalation(const Request& request, const json::object& tree, const RoleBook& roles) {
  if (auto refused = check_signing(request, tree, roles))
    return refused;
  if (request.kind->group != kRbac)
    return std::nullopt;
  const std::string& plural = request.kind->plural;
  const std::string& ns = request.target.ns;
  if (plural == "roles" || plural == "clusterroles") {
    if (may(request, roles, "escalate", plural.c_str(), request.target.name))
      return std::nullopt;
    std::vector<PolicyRule> wanted = rules_in(tree);
    if (tree.contains("aggregationRule"))  // it may come to hold anything
      wanted = {{{"*"}, {"*"}, {"*"}, {}, {}}, {{"*"}, {}, {}, {}, {"*"}}};
    return roles.covers(request.user, ns, wanted) ? std::nullopt : std::optional(refused(request, tree));
  }
  const json::value* ref = tree.if_contains("roleRef");
  const json::value* kind = ref ? member(*ref, "kind") : nullptr;
  const json::value* named = ref ? member(*ref, "name") : nullptr;
  if (!kind || !named)
    return std::nullopt;  // validation refuses it
  const bool of_cluster = text_of(*kind) == "ClusterRole";
  const std::string name(text_of(*named));
  if (may(request, roles, "bind", of_cluster ? "clusterroles" : "roles", name))
    return std::nullopt;
  const auto wanted = roles.role(of_cluster ? "" : ns, name);
  if (!wanted)
    return Status::not_found({kRbac, of_cluster ? "clusterroles" : "roles"}, name);
  return roles.covers(request.user, ns, *wanted) ? std::nullopt : std::optional(refused(request, tree));
}

}  // namespace lockstep::kube
