#include "frontends/kube/cel/admission_names.h"

namespace lockstep::kube::cel {
namespace {

using Fields = std::map<std::string, TypeRef, std::less<>>;

TypeRef list_of(TypeRef element) { return composed_type("list", {std::move(element)}); }
TypeRef map_of(TypeRef element) { return composed_type("map", {simple_type("string"), std::move(element)}); }

Fields texts(std::initializer_list<const char*> names) {
  Fields out;
  for (const char* name : names) out.emplace(name, simple_type("string"));
  return out;
}

TypeRef request_type() {
  const TypeRef kind = fields_type("kubernetes.GroupVersionKind", texts({"group", "version", "kind"}));
  const TypeRef resource = fields_type("kubernetes.GroupVersionResource", texts({"group", "version", "resource"}));
  Fields user = texts({"username", "uid"});
  user["groups"] = list_of(simple_type("string"));
  user["extra"] = map_of(list_of(simple_type("string")));
  Fields out = texts({"subResource", "requestSubResource", "name", "namespace", "operation"});
  out["kind"] = out["requestKind"] = kind;
  out["resource"] = out["requestResource"] = resource;
  out["userInfo"] = fields_type("kubernetes.UserInfo", std::move(user));
  out["dryRun"] = simple_type("bool");
  out["options"] = simple_type("dyn");
  return fields_type("kubernetes.AdmissionRequest", std::move(out));
}

TypeRef namespace_type() {
  Fields metadata = texts({"name", "generateName", "namespace", "UID", "resourceVersion"});
  metadata["labels"] = metadata["annotations"] = map_of(simple_type("string"));
  metadata["creationTimestamp"] = metadata["deletionTimestamp"] = simple_type("timestamp");
  metadata["deletionGracePeriodSeconds"] = metadata["generation"] = simple_type("int");
  metadata["finalizers"] = list_of(simple_type("string"));
  Fields condition = texts({"status", "type", "message", "reason"});
  condition["lastTransitionTime"] = simple_type("timestamp");
  Fields status = texts({"phase"});
  status["conditions"] = list_of(fields_type("kubernetes.NamespaceCondition", std::move(condition)));
  return fields_type(
      "kubernetes.Namespace",
      {{"metadata", fields_type("kubernetes.NamespaceMetadata", std::move(metadata))},
       {"spec", fields_type("kubernetes.NamespaceSpec", {{"finalizers", list_of(simple_type("string"))}})},
       {"status", fields_type("kubernetes.NamespaceStatus", std::move(status))}});
}

}  // namespace

std::vector<Variable> admission_names(const AdmissionNames& wanted) {
  static const TypeRef request = request_type(), space = namespace_type(),
                       authorizer = fields_type("authorizer", {{"requestResource", simple_type("resource_check")}});
  std::vector<Variable> out{{"object", simple_type("dyn")},
                            {"oldObject", simple_type("dyn")},
                            {"request", request},
                            {"namespaceObject", space}};
  if (wanted.params)
    out.push_back({"params", simple_type("dyn")});
  if (wanted.authorizer)
    out.push_back({"authorizer", authorizer});
  if (wanted.variables)
    out.push_back({"variables", fields_type("kubernetes.variables", *wanted.variables)});
  return out;
}

std::vector<Variable> device_names() {
  static const TypeRef device =
      fields_type("kubernetes.DRADevice", {{"driver", simple_type("string")},
                                           {"attributes", map_of(map_of(simple_type("dyn")))},
                                           {"capacity", map_of(map_of(simple_type("quantity")))}});
  return {{"device", device}};
}

}  // namespace lockstep::kube::cel
