#include "frontends/kube/server/kinds.h"

#include <algorithm>

#include "frontends/kube/machinery/builtin.h"

namespace lockstep::kube {

namespace {

// Source: kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors ("List of supported fields").
const std::pair<std::string_view, std::vector<std::string>> kSelectable[] = {
    {"pods",
     {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork", "status.phase", "status.podIP",
      "status.podIPs", "status.nominatedNodeName"}},
    {"events",
     {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
      "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type", "regarding.kind",
      "regarding.namespace", "regarding.name", "regarding.uid", "reportingController"}},
    {"nodes", {"spec.unschedulable"}},
    {"namespaces", {"status.phase"}},
    {"secrets", {"type"}},
    {"services", {"spec.clusterIP", "spec.type"}},
    {"replicationcontrollers", {"status.replicas"}},
    {"replicasets.apps", {"status.replicas"}},
    {"jobs.batch", {"status.successful"}},
    {"certificatesigningrequests.certificates.k8s.io", {"spec.signerName"}},
};

// Events are the same objects in both of their groups.
std::string type_of(const Resource& resource) {
  if (resource.plural == "events")
    return "events";
  return resource.group.empty() ? resource.plural : resource.plural + "." + resource.group;
}

}  // namespace

std::vector<Kind> built_in_kinds() {
  std::vector<Kind> out;
  for (const Resource& resource : builtin_resources()) {
    Kind kind{resource, type_of(resource), false, {}};
    for (const auto& [type, fields] : kSelectable)
      if (type == kind.type)
        kind.selectable = fields;
    out.push_back(std::move(kind));
  }
  return out;
}

const Kind* Kinds::find(std::string_view group, std::string_view version, std::string_view plural) const {
  for (const auto& kind : all_)
    if (kind->plural == plural && kind->version == version && kind->group == group)
      return kind.get();
  return nullptr;
}

const Kind* Kinds::of_kind(std::string_view api_version, std::string_view name) const {
  for (const auto& kind : all_)
    if (kind->kind == name && kind->api_version() == api_version)
      return kind.get();
  return nullptr;
}

void Kinds::put(Kind kind) {
  remove(kind.group, kind.version, kind.plural);
  all_.push_back(std::make_shared<const Kind>(std::move(kind)));
}

void Kinds::remove(std::string_view group, std::string_view version, std::string_view plural) {
  std::erase_if(all_, [&](const auto& kind) { return kind->group == group && kind->version == version && kind->plural == plural; });
}

}  // namespace lockstep::kube
