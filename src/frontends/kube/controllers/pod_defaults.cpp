#include "frontends/kube/controllers/pod_defaults.h"

#include <algorithm>
#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"
#include "model/records.h"

namespace lockstep::kube {

namespace {

constexpr const char* kPodAccount = "default";
constexpr const char* kMirror = "kubernetes.io/config.mirror";
constexpr std::int64_t kTokenSeconds = 3607, kReadable = 0644, kBearSeconds = 300;
// Classes that every cluster has, whether or not anybody wrote them down.
constexpr std::pair<std::string_view, std::int64_t> kSystemClasses[] = {{"system-cluster-critical", 2'000'000'000},
                                                                        {"system-node-critical", 2'000'001'000}};

const Object* object_named(const Tables& tables, std::string_view type, std::string_view ns, std::string_view name) {
  const auto at = tables.objects.find({std::string(type), std::string(ns), std::string(name)});
  return at == tables.objects.end() ? nullptr : at->second.get();
}

Status forbidden(const json::object& pod, std::string_view why) {
  return Status::forbidden({"", "pods"}, text_in(part(pod, "metadata"), "name"), why);
}

json::object& spec_in(json::object& pod) {
  json::value& spec = pod["spec"];
  return spec.is_object() ? spec.get_object() : spec.emplace_object();
}

json::array& array_at(json::object& object, std::string_view name) {
  json::value& value = object[name];
  return value.is_array() ? value.get_array() : value.emplace_array();
}

// --- the service account ---

// The same for whoever decides twice, and for all pods of one template: their jobs share what they ask for.
std::string end_of_name(const std::string& of) {
  constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : of) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  std::string out;
  for (int i = 0; i < 5; ++i, hash /= kLetters.size()) out += kLetters[hash % kLetters.size()];
  return out;
}

json::object token_volume(const std::string& name) {
  json::array sources;
  sources.push_back(
      json::object{{"serviceAccountToken", json::object{{"expirationSeconds", kTokenSeconds}, {"path", "token"}}}});
  const json::array certificate{json::object{{"key", "ca.crt"}, {"path", "ca.crt"}}};
  sources.push_back(json::object{{"configMap", json::object{{"name", "kube-root-ca.crt"}, {"items", certificate}}}});
  const json::object ns{{"apiVersion", "v1"}, {"fieldPath", "metadata.namespace"}};
  const json::array fields{json::object{{"path", "namespace"}, {"fieldRef", ns}}};
  sources.push_back(json::object{{"downwardAPI", json::object{{"items", fields}}}});
  return {{"name", name}, {"projected", json::object{{"sources", std::move(sources)}, {"defaultMode", kReadable}}}};
}

bool mounts_token(const json::value& container) {
  return std::ranges::any_of(list_in(container, "volumeMounts"),
                             [](const json::value& one) { return text_in(one, "mountPath") == kTokenFolder; });
}

void mount_token(json::object& pod) {
  json::object& spec = spec_in(pod);
  const json::value& metadata = part(pod, "metadata");
  const std::string volume =
      "kube-api-access-" + end_of_name(text_in(metadata, "namespace") + "/" + text_in(spec, "serviceAccountName"));
  bool any = false;
  for (const char* list : {"initContainers", "containers"})
    if (json::value* containers = spec.if_contains(list); containers && containers->is_array())
      for (json::value& one : containers->get_array()) {
        if (!one.is_object() || mounts_token(one))
          continue;
        array_at(one.get_object(), "volumeMounts")
            .push_back(json::object{{"name", volume}, {"readOnly", true}, {"mountPath", kTokenFolder}});
        any = true;
      }
  if (!any)
    return;
  // It is there already where a webhook added a container to a pod that had it.
  json::array& volumes = array_at(spec, "volumes");
  if (std::ranges::none_of(volumes, [&](const json::value& one) { return text_in(one, "name") == volume; }))
    volumes.push_back(token_volume(volume));
}

std::optional<Status> use_account(const Tables& tables, json::object& pod) {
  json::object& spec = spec_in(pod);
  const json::value& metadata = part(pod, "metadata");
  if (part(part(metadata, "annotations"), kMirror).is_string())
    return std::nullopt;
  std::string name = text_in(spec, "serviceAccountName");
  if (name.empty())
    name = kPodAccount;
  spec["serviceAccountName"] = name;
  spec["serviceAccount"] = name;
  const std::string ns = text_in(metadata, "namespace");
  const Object* account = object_named(tables, "serviceaccounts", ns, name);
  if (!account)
    return forbidden(pod,
                     format("error looking up service account {}/{}: serviceaccount \"{}\" not found", ns, name, name));
  const json::value body = parse_own(account->body.get());
  if (list_in(spec_of(pod), "imagePullSecrets").empty() && !list_in(body, "imagePullSecrets").empty())
    spec["imagePullSecrets"] = list_in(body, "imagePullSecrets");
  const json::value &own = part(spec, "automountServiceAccountToken"),
                    &accounts = part(body, "automountServiceAccountToken");
  const bool mounts = own.is_bool() ? own.get_bool() : !accounts.is_bool() || accounts.get_bool();
  if (mounts)
    mount_token(pod);
  return std::nullopt;
}

// --- nodes that are lost ---

void bear_lost_nodes(json::object& pod) {
  json::object& spec = spec_in(pod);
  for (const char* key : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    const bool told = std::ranges::any_of(list_in(spec_of(pod), "tolerations"), [&](const json::value& one) {
      const std::string its = text_in(one, "key"), effect = text_in(one, "effect");
      return (its == key || its.empty()) && (effect == "NoExecute" || effect.empty());
    });
    if (!told)
      array_at(spec, "tolerations")
          .push_back(json::object{
              {"key", key}, {"operator", "Exists"}, {"effect", "NoExecute"}, {"tolerationSeconds", kBearSeconds}});
  }
}

// --- priority ---

struct Priority {
  std::string name;  // of the class; "" = of none
  std::int64_t value = 0;
  std::string preemption = "PreemptLowerPriority";
};

Priority of_class(const Object& object) {
  const json::value body = parse_own(object.body.get());
  Priority out{object.meta.name, integer_in(body, "value").value_or(0)};
  if (const std::string policy = text_in(body, "preemptionPolicy"); !policy.empty())
    out.preemption = policy;
  return out;
}

constexpr std::string_view kClasses = "priorityclasses.scheduling.k8s.io";

// The class for pods that name none: of several the lowest.
Priority standard_priority(const Tables& tables) {
  std::optional<Priority> out;
  const std::string type(kClasses);
  for (auto at = tables.objects.lower_bound({type, "", ""});
       at != tables.objects.end() && std::get<0>(at->first) == type; ++at) {
    if (!flag_in(parse_own(at->second->body.get()), "globalDefault"))
      continue;
    Priority one = of_class(*at->second);
    if (!out || one.value < out->value)
      out = std::move(one);
  }
  return out.value_or(Priority());
}

std::optional<Status> set_priority(const Tables& tables, json::object& pod) {
  json::object& spec = spec_in(pod);
  const std::string name = text_in(spec, "priorityClassName");
  Priority priority;
  const auto system = std::ranges::find(kSystemClasses, name, [](const auto& one) { return one.first; });
  if (name.empty())
    priority = standard_priority(tables);
  else if (const Object* object = object_named(tables, kClasses, "", name))
    priority = of_class(*object);
  else if (system != std::end(kSystemClasses))
    priority = {name, system->second};
  else
    return forbidden(pod, format("no PriorityClass with name {} was found", name));
  if (const auto said = integer_in(json::value(spec), "priority"); said && *said != priority.value)
    return forbidden(pod, format("the integer value of priority ({}) must not be provided in pod spec; priority "
                                 "admission controller computed {} from the given PriorityClass name",
                                 *said, priority.value));
  if (!priority.name.empty())
    spec["priorityClassName"] = priority.name;
  spec["priority"] = priority.value;
  if (text_in(spec, "preemptionPolicy").empty())
    spec["preemptionPolicy"] = priority.preemption;
  return std::nullopt;
}

}  // namespace

std::optional<Status> default_pod(const Tables& tables, json::object& tree) {
  if (auto refused = use_account(tables, tree))
    return refused;
  bear_lost_nodes(tree);
  return set_priority(tables, tree);
}

}  // namespace lockstep::kube
