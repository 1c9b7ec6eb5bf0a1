#include "frontends/kube/kinds/quota.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kQuotaClaims = "persistentvolumeclaims", kAttributesScope = "VolumeAttributesClass";
// Resources that are written bare and with "requests." before them.
constexpr std::string_view kBare[] = {"cpu", "memory", "ephemeral-storage"};

Quantity quantity_of(const json::value& value) {
  const auto read = parse_quantity(is_number(value) ? number_text(value) : std::string(text_of(value)));
  return read.ok() ? *read : Quantity();
}

Amounts amounts_in(const json::object* object) {
  Amounts out;
  if (object)
    for (const auto& [name, value] : *object) out.emplace(name, quantity_of(value));
  return out;
}

void add(Amounts& sums, const Amounts& more) {
  for (const auto& [name, amount] : more) sums[name] += amount;
}

Amounts of_container(const json::value& container, std::string_view which) {
  const json::value* resources = member(container, "resources");
  return amounts_in(resources ? member_object(*resources, which) : nullptr);
}

bool is_final(const json::object& pod) {
  const json::value* status = pod.if_contains("status");
  const json::value* phase = status ? member(*status, "phase") : nullptr;
  return phase && (text_of(*phase) == "Succeeded" || text_of(*phase) == "Failed");
}

// "nvidia.com/gpu": of nobody's but its vendor's domain.
bool is_extended_resource(std::string_view name) {
  return name.find('/') != name.npos && name.find("kubernetes.io/") == name.npos && !name.starts_with("requests.");
}

void count_pod(Amounts& out, const json::object& pod) {
  if (is_final(pod))
    return;
  out["pods"] = Quantity(1);
  const auto is_bare = [](std::string_view name) { return std::ranges::find(kBare, name) != std::end(kBare); };
  for (const auto& [name, amount] : pod_sums(pod, "requests")) {
    const bool bare = is_bare(name) || name.starts_with("hugepages-");
    if (bare)
      out[name] = amount;
    if (bare || is_extended_resource(name))
      out["requests." + name] = amount;
  }
  // Of extended resources limits are requests: one name for them is enough.
  for (const auto& [name, amount] : pod_sums(pod, "limits"))
    if (is_bare(name))
      out["limits." + name] = amount;
}

void count_service(Amounts& out, const json::object& service) {
  out["services"] = Quantity(1);
  const json::value& spec = spec_of(service);
  const json::value* type = member(spec, "type");
  const std::string_view word = type ? text_of(*type) : "";
  const json::array* ports = member_array(spec, "ports");
  const auto count = static_cast<std::int64_t>(ports ? ports->size() : 0);
  out["services.loadbalancers"] = Quantity(word == "LoadBalancer");
  const json::value* gives = member(spec, "allocateLoadBalancerNodePorts");
  const bool without = gives && gives->is_bool() && !gives->get_bool();
  out["services.nodeports"] = Quantity(word == "NodePort" || (word == "LoadBalancer" && !without) ? count : 0);
}

void count_claim(Amounts& out, const json::object& claim) {
  out["persistentvolumeclaims"] = Quantity(1);
  const Amounts asked = of_container(spec_of(claim), "requests");
  const auto storage = asked.find("storage");
  const Quantity bytes = storage == asked.end() ? Quantity() : storage->second;
  out["requests.storage"] = bytes;
  if (const json::value* name = member(spec_of(claim), "storageClassName"); name && name->is_string()) {
    const std::string before = std::string(text_of(*name)) + ".storageclass.storage.k8s.io/";
    out[before + "persistentvolumeclaims"] = Quantity(1);
    out[before + "requests.storage"] = bytes;
  }
}

bool is_best_effort(const json::object& pod) {
  const json::value& spec = spec_of(pod);
  for (const char* list : {"containers", "initContainers"})
    if (const json::array* containers = member_array(spec, list))
      for (const json::value& one : *containers)
        for (const char* which : {"requests", "limits"})
          for (const auto& [name, amount] : of_container(one, which))
            if ((name == "cpu" || name == "memory") && amount.sign() > 0)
              return false;
  return true;
}

// Whether a term of the pod's affinities names other namespaces than its own.
bool looks_across(const json::object& pod) {
  const json::value& affinity = part(spec_of(pod), "affinity");
  const auto across = [](const json::value& term) {
    const json::array* names = member_array(term, "namespaces");
    return (names && !names->empty()) || part(term, "namespaceSelector").is_object();
  };
  for (const char* kind : {"podAffinity", "podAntiAffinity"})
    for (const char* how :
         {"requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"})
      if (const json::array* terms = member_array(part(affinity, kind), how))
        for (const json::value& term : *terms)
          if (across(term) || across(part(term, "podAffinityTerm")))
            return true;
  return false;
}

bool in_scope(std::string_view scope, const json::object& pod) {
  const json::value* deadline = member(spec_of(pod), "activeDeadlineSeconds");
  const bool ends = deadline && is_number(*deadline);
  if (scope == "Terminating")
    return ends;
  if (scope == "NotTerminating")
    return !ends;
  if (scope == "BestEffort")
    return is_best_effort(pod);
  if (scope == "NotBestEffort")
    return !is_best_effort(pod);
  if (scope == "PriorityClass") {
    const json::value* name = member(spec_of(pod), "priorityClassName");
    return name && !text_of(*name).empty();
  }
  return scope == "CrossNamespacePodAffinity" && looks_across(pod);
}

// has: "" = it has none.
bool fits(const json::value& expression, std::string_view has) {
  const std::string how = text_in(expression, "operator");
  const json::array* values = member_array(expression, "values");
  const bool among =
      values && std::ranges::any_of(*values, [&](const json::value& one) { return text_of(one) == has; });
  return how == "In" ? among : how == "NotIn" ? !among : how == "DoesNotExist" ? has.empty() : !has.empty();
}

bool matches_expression(const json::value& expression, const json::object& pod) {
  const std::string scope = text_in(expression, "scopeName");
  return scope == "PriorityClass" ? fits(expression, text_in(spec_of(pod), "priorityClassName")) : in_scope(scope, pod);
}

// That a claim has, has had until a change is done, or is to have.
std::vector<std::string> attribute_classes(const json::object& claim) {
  const json::value& status = part(claim, "status");
  std::vector<std::string> out{text_in(spec_of(claim), "volumeAttributesClassName"),
                               text_in(status, "currentVolumeAttributesClassName"),
                               text_in(part(status, "modifyVolumeStatus"), "targetVolumeAttributesClassName")};
  std::erase(out, "");
  return out;
}

bool claim_in_scope(std::string_view scope, const json::object& claim) {
  return scope == kAttributesScope && !attribute_classes(claim).empty();
}

bool claim_matches(const json::value& expression, const json::object& claim) {
  if (text_in(expression, "scopeName") != kAttributesScope)
    return false;
  const std::vector<std::string> classes = attribute_classes(claim);
  return classes.empty() ? fits(expression, "")
                         : std::ranges::any_of(classes, [&](const auto& one) { return fits(expression, one); });
}

}  // namespace

// The most of: all containers together, and any init container by itself (sidecars count with the containers).
Amounts pod_sums(const json::object& pod, std::string_view which) {
  const json::value& spec = spec_of(pod);
  Amounts sums, sidecars, first;
  if (const json::array* containers = member_array(spec, "initContainers"))
    for (const json::value& one : *containers) {
      const Amounts asks = of_container(one, which);
      const json::value* restarts = member(one, "restartPolicy");
      if (restarts && text_of(*restarts) == "Always") {
        add(sidecars, asks);
        continue;
      }
      Amounts at_once = sidecars;
      add(at_once, asks);
      for (const auto& [name, amount] : at_once) first[name] = std::max(first[name], amount);
    }
  sums = sidecars;
  if (const json::array* containers = member_array(spec, "containers"))
    for (const json::value& one : *containers) add(sums, of_container(one, which));
  for (const auto& [name, amount] : first) {
    Quantity& sum = sums[name];
    if (sum < amount)
      sum = amount;
  }
  add(sums, amounts_in(member_object(spec, "overhead")));
  return sums;
}

Amounts amounts_of(std::string_view type, const json::object& tree) {
  Amounts out;
  if (type == kPods)
    count_pod(out, tree);
  else if (type == kServices)
    count_service(out, tree);
  else if (type == kQuotaClaims)
    count_claim(out, tree);
  else if (type == "configmaps" || type == "secrets" || type == "replicationcontrollers" || type == "resourcequotas")
    out[std::string(type)] = Quantity(1);
  if (type != kPods || !is_final(tree))
    out["count/" + std::string(type)] = Quantity(1);
  return out;
}

Amounts bounds_of(const json::object& quota) { return amounts_in(member_object(spec_of(quota), "hard")); }

Amounts used_of(const json::object& quota) {
  const json::value* status = quota.if_contains("status");
  return amounts_in(status ? member_object(*status, "used") : nullptr);
}

json::object amounts_object(const Amounts& amounts) {
  json::object out;
  for (const auto& [name, amount] : amounts) out[name] = amount.text();
  return out;
}

bool quota_takes(const json::object& quota, std::string_view type, const json::object& tree) {
  const json::value& spec = spec_of(quota);
  const json::array* scopes = member_array(spec, "scopes");
  const json::value* selector = member(spec, "scopeSelector");
  const json::array* expressions = selector ? member_array(*selector, "matchExpressions") : nullptr;
  if ((!scopes || scopes->empty()) && (!expressions || expressions->empty()))
    return true;
  if (type != kPods && type != kQuotaClaims)
    return false;
  const bool claim = type == kQuotaClaims;
  const auto in = [&](const json::value& one) {
    return claim ? claim_in_scope(text_of(one), tree) : in_scope(text_of(one), tree);
  };
  const auto matches = [&](const json::value& one) {
    return claim ? claim_matches(one, tree) : matches_expression(one, tree);
  };
  return (!scopes || std::ranges::all_of(*scopes, in)) && (!expressions || std::ranges::all_of(*expressions, matches));
}

}  // namespace lockstep::kube
