#include "frontends/kube/server/kinds.h"

#include <algorithm>

#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/custom_validation.h"

namespace lockstep::kube {

namespace {

// Source: kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors ("List of supported fields").
const std::pair<std::string_view, std::vector<std::string>> kSelectable[] = {
    {"pods",
     {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
      "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName"}},
    {"events",
     {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
      "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
      "reportingComponent", "source", "type", "regarding.kind", "regarding.namespace", "regarding.name",
      "regarding.uid", "reportingController"}},
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

// What version_before() compares: rank (stable, beta, alpha, other), and its numbers.
std::tuple<int, std::int64_t, std::int64_t> rank_of(std::string_view version) {
  const auto number = [](std::string_view text, std::size_t& at) {
    std::int64_t out = 0;
    const std::size_t from = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9' && at - from < 9) out = out * 10 + (text[at++] - '0');
    return at == from ? std::int64_t{-1} : out;
  };
  std::size_t at = 1;
  const std::int64_t major = version.starts_with('v') ? number(version, at) : -1;
  if (major < 0)
    return {3, 0, 0};
  if (at == version.size())
    return {0, -major, 0};
  for (const auto& [word, rank] : {std::pair<std::string_view, int>{"beta", 1}, {"alpha", 2}})
    if (version.substr(at).starts_with(word)) {
      at += word.size();
      const std::int64_t minor = number(version, at);
      if (minor >= 0 && at == version.size())
        return {rank, -major, -minor};
    }
  return {3, 0, 0};
}

}  // namespace

FieldErrors CustomParts::faults(const json::object& tree, const json::object* old) const {
  const json::value now(tree), before = old ? json::value(*old) : json::value();
  const json::value* then = old ? &before : nullptr;
  FieldErrors found = validate_custom(now, *version->schema, definition->patterns, then);
  return found.empty() && !rules.empty() ? rules.validate(now, then, *version->schema) : found;
}

std::vector<Kind> built_in_kinds() {
  std::vector<Kind> out;
  for (const Resource& resource : builtin_resources()) {
    Kind kind{resource, type_of(resource), {}, nullptr};
    for (const auto& [type, fields] : kSelectable)
      if (type == kind.type)
        kind.selectable = fields;
    out.push_back(std::move(kind));
  }
  return out;
}

bool version_before(std::string_view a, std::string_view b) {
  const auto first = rank_of(a), second = rank_of(b);
  return first != second ? first < second : a < b;
}

Kinds::Ref Kinds::find(std::string_view group, std::string_view version, std::string_view plural) const {
  const auto at = by_name_.find({std::string(group), std::string(version), std::string(plural)});
  return at == by_name_.end() ? nullptr : at->second;
}

void Kinds::put(Kind kind) {
  ++changes_;
  const auto made = std::make_shared<const Kind>(std::move(kind));
  by_name_[{made->group, made->version, made->plural}] = made;
  // Behind the last of its group that comes before it; a new group stands at the end.
  auto at = std::ranges::find_if(all_, [&](const Ref& one) { return one->group == made->group; });
  if (at == all_.end())
    return all_.push_back(made);
  while (at != all_.end() && (*at)->group == made->group && !version_before(made->version, (*at)->version)) ++at;
  all_.insert(at, made);
}

void Kinds::remove_type(std::string_view type) {
  changes_ += std::erase_if(all_, [&](const Ref& kind) { return kind->type == type; });
  std::erase_if(by_name_, [&](const auto& one) { return one.second->type == type; });
}

}  // namespace lockstep::kube
