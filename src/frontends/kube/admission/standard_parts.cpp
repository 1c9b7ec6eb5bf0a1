#include "frontends/kube/admission/standard_parts.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <span>

#include "base/text.h"
#include "frontends/kube/kinds/claims.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"
#include "model/records.h"

namespace lockstep::kube {

namespace {

constexpr const char* kRuntimeClasses = "runtimeclasses.node.k8s.io";
constexpr const char* kOldClassName = "volume.beta.kubernetes.io/storage-class";
constexpr const char* kIngressClasses = "ingressclasses.networking.k8s.io";
constexpr const char* kPriorityClasses = "priorityclasses.scheduling.k8s.io";
constexpr const char* kOldIngressClass = "kubernetes.io/ingress.class";
constexpr const char* kStandardIngress[] = {"ingressclass.kubernetes.io/is-default-class"};
constexpr const char* kStandard[] = {"storageclass.kubernetes.io/is-default-class",
                                     "storageclass.beta.kubernetes.io/is-default-class"};

Status pod_rejected(const json::object& pod, std::string_view why) {
  return Status::forbidden({"", "pods"}, text_in(part(pod, "metadata"), "name"), format("pod rejected: {}", why));
}

std::optional<Status> choose_nodes(const json::value& scheduling, json::object& pod, json::object& spec) {
  if (const json::object* wanted = member_object(scheduling, "nodeSelector"); wanted && !wanted->empty()) {
    json::value& own = spec["nodeSelector"];
    json::object& selector = own.is_object() ? own.get_object() : own.emplace_object();
    for (const auto& [key, value] : *wanted) {
      const json::value* said = selector.if_contains(key);
      if (said && *said != value)
        return pod_rejected(pod, format("conflict: runtimeClass.scheduling.nodeSelector[{}] = {}; "
                                        "pod.spec.nodeSelector[{}] = {}",
                                        std::string_view(key), text_of(value), std::string_view(key), text_of(*said)));
      selector[key] = value;
    }
  }
  if (const json::array* bears = member_array(scheduling, "tolerations"); bears && !bears->empty()) {
    json::value& own = spec["tolerations"];
    json::array& all = own.is_array() ? own.get_array() : own.emplace_array();
    for (const json::value& one : *bears)
      if (std::ranges::none_of(all, [&](const json::value& there) { return same_json(there, one); }))
        all.push_back(one);
  }
  return std::nullopt;
}

// Null: no object of the type has one of these annotations.
const Object* newest_marked(const Tables& tables, std::string_view of_type, std::span<const char* const> annotations) {
  const std::string type(of_type);
  const Object* chosen = nullptr;
  for (auto at = tables.objects.lower_bound({type, "", ""});
       at != tables.objects.end() && std::get<0>(at->first) == type; ++at) {
    const Object& one = *at->second;
    const bool marked =
        one.meta.extra && std::ranges::any_of(one.meta.extra->annotations, [&](const auto& entry) {
          return std::ranges::find(annotations, entry.first) != annotations.end() && entry.second == "true";
        });
    if (marked && (!chosen || one.meta.uid > chosen->meta.uid))  // numbers of objects grow
      chosen = &one;
  }
  return chosen;
}

}  // namespace

std::optional<Status> apply_runtime_class(const Tables& tables, json::object& pod) {
  json::value* own = pod.if_contains("spec");
  if (!own || !own->is_object())
    return std::nullopt;
  json::object& spec = own->get_object();
  const std::string name = text_in(spec, "runtimeClassName");
  const json::object* said = member_object(spec, "overhead");
  if (name.empty()) {
    if (said && !said->empty())
      return pod_rejected(pod, "Pod Overhead set without corresponding RuntimeClass defined Overhead");
    return std::nullopt;
  }
  const auto at = tables.objects.find({kRuntimeClasses, "", name});
  if (at == tables.objects.end())
    return pod_rejected(pod, format("RuntimeClass \"{}\" not found", name));
  const json::value body = parse_own(at->second->body.get());
  if (const json::object* overhead = member_object(part(body, "overhead"), "podFixed");
      overhead && !overhead->empty()) {
    if (said && !said->empty() && !same_json(*said, *overhead))
      return pod_rejected(pod, "Pod's Overhead doesn't match RuntimeClass's defined Overhead");
    spec["overhead"] = *overhead;
  } else if (said && !said->empty()) {
    return pod_rejected(pod, "Pod Overhead set without corresponding RuntimeClass defined Overhead");
  }
  return choose_nodes(part(body, "scheduling"), pod, spec);
}

void choose_storage_class(const Tables& tables, json::object& claim) {
  json::value* own = claim.if_contains("spec");
  if (!own || !own->is_object() || part(*own, "storageClassName").is_string() ||
      !text_in(part(part(claim, "metadata"), "annotations"), kOldClassName).empty())
    return;
  if (const Object* chosen = newest_marked(tables, kStorageClasses, kStandard))
    own->get_object()["storageClassName"] = chosen->meta.name;
}

std::optional<Status> check_claim_growth(const Tables& tables, const json::object& claim, const json::object& old) {
  const auto asked = [](const json::object& tree) {
    return quantity_in(part(part(part(tree, "spec"), "resources"), "requests"), "storage");
  };
  const auto wanted = asked(claim), had = asked(old);
  if (!wanted || !had || *wanted <= *had)
    return std::nullopt;
  const auto refuse = [&](const char* why) {
    return Status::forbidden({"", std::string(kClaims)}, text_in(part(claim, "metadata"), "name"), why);
  };
  if (text_in(part(old, "status"), "phase") != "Bound")
    return refuse("Only bound persistent volume claims can be expanded");
  const std::string storage = storage_class_of(claim);
  const auto at = tables.objects.find({std::string(kStorageClasses), "", storage});
  const json::value body = at == tables.objects.end() ? json::value() : parse_own(at->second->body.get());
  const json::value& allows = part(body, "allowVolumeExpansion");
  if (storage.empty() || storage != storage_class_of(old) || !allows.is_bool() || !allows.get_bool())
    return refuse(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support "
        "resize");
  return std::nullopt;
}

void choose_ingress_class(const Tables& tables, json::object& ingress) {
  json::value& own = ingress["spec"];
  if (!own.is_object())
    own.emplace_object();
  if (part(own, "ingressClassName").is_string() ||
      !part(part(part(ingress, "metadata"), "annotations"), kOldIngressClass).is_null())
    return;
  if (const Object* chosen = newest_marked(tables, kIngressClasses, kStandardIngress))
    own.get_object()["ingressClassName"] = chosen->meta.name;
}

std::optional<Status> refuse_second_default(const Tables& tables, const json::object& priority_class, bool is_new) {
  const auto is_default = [](const json::object& one) {
    const json::value& said = part(one, "globalDefault");
    return said.is_bool() && said.get_bool();
  };
  if (!is_default(priority_class))
    return std::nullopt;
  const std::string name = text_in(part(priority_class, "metadata"), "name"), type(kPriorityClasses);
  for (auto at = tables.objects.lower_bound({type, "", ""});
       at != tables.objects.end() && std::get<0>(at->first) == type; ++at) {
    const Object& other = *at->second;
    if ((is_new || other.meta.name != name) && is_default(parse_own(other.body.get()).as_object()))
      return Status::forbidden(
          {"scheduling.k8s.io", "priorityclasses"}, name,
          format("PriorityClass {} is already marked as default. Only one default can exist", other.meta.name));
  }
  return std::nullopt;
}

}  // namespace lockstep::kube
