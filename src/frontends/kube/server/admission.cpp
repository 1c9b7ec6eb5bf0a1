#include "frontends/kube/server/admission.h"

#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/admission/limit_ranges.h"
#include "frontends/kube/admission/pod_security.h"
#include "frontends/kube/admission/standard_parts.h"
#include "frontends/kube/admission/webhooks.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

json::array array_of(const std::vector<std::string>& texts) {
  json::array out;
  for (const std::string& text : texts) out.emplace_back(text);
  return out;
}

json::object user_info(const KubeUser& user) {
  json::object out{{"username", user.name}, {"groups", array_of(user.groups)}};
  if (!user.uid.empty())
    out["uid"] = user.uid;
  if (!user.extra.empty()) {
    json::object extra;
    for (const auto& [key, values] : user.extra) extra[key] = array_of(values);
    out["extra"] = std::move(extra);
  }
  return out;
}

std::string connection_kind(std::string_view subresource) {
  return subresource == "exec"          ? "PodExecOptions"
         : subresource == "attach"      ? "PodAttachOptions"
         : subresource == "portforward" ? "PodPortForwardOptions"
                                        : "";
}

std::string proxy_kind(std::string_view type) {
  return type == "pods"       ? "PodProxyOptions"
         : type == "services" ? "ServiceProxyOptions"
         : type == "nodes"    ? "NodeProxyOptions"
                              : "";
}

std::string kind_of_connection(const Request& request) {
  if (request.target.subresource == "proxy")
    return proxy_kind(request.kind->type);
  return request.kind->type == "pods" ? connection_kind(request.target.subresource) : std::string();
}

const char* options_kind(std::string_view operation) {
  return operation == "CREATE" ? "CreateOptions" : operation == "DELETE" ? "DeleteOptions" : "UpdateOptions";
}

}  // namespace

bool is_connection(const Request& request) { return !kind_of_connection(request).empty(); }

json::object connection_options(const Request& request) {
  json::object out{{"kind", kind_of_connection(request)}, {"apiVersion", "v1"}};
  for (const char* flag : {"stdin", "stdout", "stderr", "tty"})
    if (query_flag(request.http(), flag))
      out[flag] = true;
  if (const std::string container = query_of(request.http(), "container"); !container.empty())
    out["container"] = container;
  return out;
}

AdmissionAttempt attempt_of(const Request& request, const json::object* object, const json::object* old) {
  AdmissionAttempt out;
  out.operation = !object ? "DELETE" : old ? "UPDATE" : "CREATE";
  out.group = request.kind->group;
  out.version = request.kind->version;
  out.kind = request.kind->kind;
  out.resource = request.kind->plural;
  out.subresource = request.target.subresource;
  out.ns = request.kind->namespaced ? request.target.ns : "";
  out.name = text_in(part(object ? *object : *old, "metadata"), "name");
  if (out.group.empty() && out.resource == "namespaces")
    out.ns = out.name;  // a namespace is inside itself
  if (is_connection(request)) {
    out.operation = "CONNECT";
    out.kind = text_in(*object, "kind");
    out.name = request.target.name;
  }
  out.user = user_info(request.user);
  out.options = {{"kind", options_kind(out.operation)}, {"apiVersion", "meta.k8s.io/v1"}};
  out.dry_run = request.dry_run;
  out.object = object;
  out.old = old;
  return out;
}

std::optional<Status> complete_new(const Request& request, json::object& tree) {
  const auto read = request.visit->read();
  if (request.kind->type == "pods")
    if (auto refused = apply_runtime_class(read->tables, tree))
      return refused;
  if (request.kind->type == "persistentvolumeclaims")
    choose_storage_class(read->tables, tree);
  if (request.kind->type == "ingresses.networking.k8s.io")
    choose_ingress_class(read->tables, tree);
  return apply_limit_ranges(read->tables, request.kind->type, tree);
}

PolicyBook::MayUser policy_rights(std::shared_ptr<const RoleBook> roles) {
  return [roles = std::move(roles)](const json::object& said, const cel::AccessQuestion& asked) {
    KubeUser user;
    if (asked.account.empty()) {
      user.name = text_in(said, "username");
      for (const json::value& group : list_in(said, "groups")) user.groups.emplace_back(text_of(group));
    } else {
      user.name = format("{}{}:{}", kAccountUser, asked.account_ns, asked.account);
      user.groups = {std::string(kAccountGroup), format("{}:{}", kAccountGroup, asked.account_ns),
                     std::string(kAuthenticated)};
    }
    return roles->allows(user, {.verb = asked.verb,
                                .group = asked.group,
                                .version = "*",
                                .resource = asked.resource,
                                .subresource = asked.subresource,
                                .ns = asked.ns,
                                .name = asked.name,
                                .path = asked.path});
  };
}

std::optional<Status> judge(Request& request, const Kinds& kinds, PolicyBook& policies, const json::object* object,
                            const json::object* old) {
  const auto read = request.visit->read();
  if (object)
    if (auto faults = expression_faults(request.kind->type, *object); !faults.empty())
      return Status::invalid({request.kind->group, request.kind->kind}, text_in(part(*object, "metadata"), "name"),
                             std::move(faults));
  if (object && old && request.kind->type == "persistentvolumeclaims" && request.target.subresource.empty())
    if (auto refused = check_claim_growth(read->tables, *object, *old))
      return refused;
  const bool shapes_pod = !old || request.target.subresource == "ephemeralcontainers" || request.kind->type != "pods";
  if (object && shapes_pod && !is_connection(request) && request.target.subresource != "status")
    if (auto refused = check_pod_security(read->tables, request.kind->type, *object, request.warnings))
      return refused;
  if (request.kind->type == "priorityclasses.scheduling.k8s.io" && object)
    if (auto refused = refuse_second_default(read->tables, *object, !old))
      return refused;
  if (request.kind->type == "namespaces" && object && old)
    add_warnings(request,
                 warnings_of_level(read->tables, object_of("namespaces", *object), object_of("namespaces", *old)));
  const KindOf kind_of = [&](std::string_view group, std::string_view version,
                             std::string_view kind) -> std::optional<ParameterKind> {
    for (const Kinds::Ref& one : kinds.all())
      if (one->group == group && one->version == version && one->kind == kind && one->stored())
        return ParameterKind{one->type, one->plural, one->namespaced};
    return std::nullopt;
  };
  return policies.check(read->tables, attempt_of(request, object, old), kind_of, request.warnings);
}

}  // namespace lockstep::kube
