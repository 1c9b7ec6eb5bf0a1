#include "frontends/kube/machinery/conditional_defaults.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/timestamps.h"
#include "frontends/kube/machinery/typed.h"

namespace lockstep::kube {
namespace {

bool empty_at(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return !value || says_nothing(*value);
}

void put_if_absent(json::object& object, std::string_view key, json::value value) {
  if (const json::value* present = object.if_contains(key); !present || present->is_null())
    object[key] = std::move(value);
}

void put_if_empty(json::object& object, std::string_view key, json::value value) {
  if (empty_at(object, key))
    object[key] = std::move(value);
}

std::string_view text_at(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value ? text_of(*value) : std::string_view();
}

json::object* object_at(json::object& object, std::string_view key) {
  json::value* value = object.if_contains(key);
  return value ? value->if_object() : nullptr;
}

json::object& made_object(json::object& object, std::string_view key) {
  json::object* present = object_at(object, key);
  return present ? *present : object[key].emplace_object();
}

template <class Each>
void each_object(json::object& object, std::string_view key, Each each) {
  if (json::value* value = object.if_contains(key))
    if (json::array* list = value->if_array())
      for (json::value& element : *list)
        if (json::object* part = element.if_object())
          each(*part);
}

bool is_true(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value && value->is_bool() && value->get_bool();
}

// "latest" is meant by an image without a tag and a digest, too.
std::string_view pull_policy(std::string_view image) {
  if (image.find('@') != std::string_view::npos)
    return "IfNotPresent";
  const std::string_view name = image.substr(image.rfind('/') + 1);
  const std::size_t colon = name.find(':');
  return colon == std::string_view::npos || name.substr(colon + 1) == "latest" ? "Always" : "IfNotPresent";
}

void container(json::object& object, WallTime) {
  put_if_empty(object, "imagePullPolicy", json::value(pull_policy(text_at(object, "image"))));
}

void volume(json::object& object, WallTime) {
  if (json::object* image = object_at(object, "image"))
    put_if_empty(*image, "pullPolicy", json::value(pull_policy(text_at(*image, "reference"))));
  if (object.empty() || (object.size() == 1 && object.contains("name")))
    object["emptyDir"].emplace_object();
}

void requests_from_limits(json::object& container) {
  json::object* resources = object_at(container, "resources");
  const json::object* limits = resources ? object_at(*resources, "limits") : nullptr;
  if (!limits || limits->empty())
    return;
  const json::object copy = *limits;
  json::object& requests = made_object(*resources, "requests");
  for (const auto& entry : copy) put_if_absent(requests, entry.key(), entry.value());
}

void pod(json::object& object, WallTime) {
  json::object* spec = object_at(object, "spec");
  if (!spec)
    return;
  put_if_absent(*spec, "enableServiceLinks", true);
  for (const std::string_view list : {"containers", "initContainers"}) {
    each_object(*spec, list, requests_from_limits);
    if (is_true(*spec, "hostNetwork"))
      each_object(*spec, list, [](json::object& container) {
        each_object(container, "ports", [](json::object& port) {
          if (const json::value* number = port.if_contains("containerPort"); number && empty_at(port, "hostPort"))
            port["hostPort"] = *number;
        });
      });
  }
}

void service(json::object& object, WallTime) {
  const std::string type(text_at(object, "type")), affinity(text_at(object, "sessionAffinity"));
  const bool balanced = type == "LoadBalancer",
             outside = balanced || type == "NodePort" || !empty_at(object, "externalIPs");
  if (affinity == "None")
    object.erase("sessionAffinityConfig");
  if (affinity == "ClientIP")
    put_if_absent(made_object(made_object(object, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds", 10800);
  each_object(object, "ports", [](json::object& port) {
    put_if_empty(port, "protocol", "TCP");
    if (const json::value* number = port.if_contains("port"))
      put_if_empty(port, "targetPort", *number);
  });
  if (outside && type != "ExternalName")
    put_if_empty(object, "externalTrafficPolicy", "Cluster");
  if (balanced || type == "NodePort" || type == "ClusterIP")
    put_if_absent(object, "internalTrafficPolicy", "Cluster");
  if (balanced)
    put_if_absent(object, "allocateLoadBalancerNodePorts", true);
}

void service_status(json::object& object, WallTime) {
  json::object *spec = object_at(object, "spec"), *status = object_at(object, "status");
  json::object* balancer = status ? object_at(*status, "loadBalancer") : nullptr;
  if (!spec || !balancer || text_at(*spec, "type") != "LoadBalancer")
    return;
  each_object(*balancer, "ingress", [](json::object& ingress) {
    if (!empty_at(ingress, "ip"))
      put_if_absent(ingress, "ipMode", "VIP");
  });
}

void namespace_labels(json::object& object, WallTime) {
  json::object* metadata = object_at(object, "metadata");
  if (metadata && !empty_at(*metadata, "name")) {
    const std::string name(text_at(*metadata, "name"));
    made_object(*metadata, "labels")["kubernetes.io/metadata.name"] = name;
  }
}

void node_status(json::object& object, WallTime) {
  if (const json::value* capacity = object.if_contains("capacity"); capacity && capacity->is_object())
    put_if_absent(object, "allocatable", json::value(*capacity));
}

void limit_range_item(json::object& object, WallTime) {
  if (text_at(object, "type") != "Container")
    return;
  const auto copy = [&](std::string_view from, std::string_view to) {
    if (const json::object* source = object_at(object, from); source && !source->empty()) {
      const json::object values = *source;
      json::object& target = made_object(object, to);
      for (const auto& entry : values) put_if_absent(target, entry.key(), entry.value());
    }
  };
  copy("max", "default");
  copy("default", "defaultRequest");
  copy("min", "defaultRequest");
}

// Labels of the template where a workload has none of its own.
void labels_of_template(json::object& object, bool selector) {
  json::object* spec = object_at(object, "spec");
  json::object* pods = spec ? object_at(*spec, "template") : nullptr;
  json::object* metadata = pods ? object_at(*pods, "metadata") : nullptr;
  const json::object* labels = metadata ? object_at(*metadata, "labels") : nullptr;
  if (!labels || labels->empty())
    return;
  const json::object copy = *labels;
  if (selector)
    put_if_empty(*spec, "selector", copy);
  put_if_empty(made_object(object, "metadata"), "labels", copy);
}

void replication_controller(json::object& object, WallTime) { labels_of_template(object, true); }

void job(json::object& object, WallTime) {
  json::object& spec = made_object(object, "spec");
  if (!spec.contains("completions") && !spec.contains("parallelism"))
    spec["completions"] = 1;
  put_if_absent(spec, "parallelism", 1);
  put_if_absent(spec, "backoffLimit", spec.contains("backoffLimitPerIndex") ? INT32_MAX : 6);
  put_if_absent(spec, "completionMode", "NonIndexed");
  put_if_absent(spec, "suspend", false);
  put_if_absent(spec, "podReplacementPolicy", spec.contains("podFailurePolicy") ? "Failed" : "TerminatingOrFailed");
  put_if_absent(spec, "manualSelector", false);
  labels_of_template(object, false);
}

void deployment_strategy(json::object& object, WallTime) {
  if (text_at(object, "type") != "RollingUpdate")
    return;
  json::object& rolling = made_object(object, "rollingUpdate");
  put_if_absent(rolling, "maxUnavailable", "25%");
  put_if_absent(rolling, "maxSurge", "25%");
}

void daemon_set_strategy(json::object& object, WallTime) {
  if (text_at(object, "type") != "RollingUpdate")
    return;
  json::object& rolling = made_object(object, "rollingUpdate");
  put_if_absent(rolling, "maxUnavailable", 1);
  put_if_absent(rolling, "maxSurge", 0);
}

void stateful_set_strategy(json::object& object, WallTime) {
  if (empty_at(object, "type")) {
    object["type"] = "RollingUpdate";
    made_object(object, "rollingUpdate");
  }
  json::object* rolling = object_at(object, "rollingUpdate");
  if (rolling && text_at(object, "type") == "RollingUpdate")
    put_if_absent(*rolling, "partition", 0);
}

void scaling_rules(json::object& behavior, std::string_view key, std::string_view standard) {
  json::object rules = json::parse(standard).as_object();
  if (const json::object* own = object_at(behavior, key))
    for (const auto& entry : *own) rules[entry.key()] = entry.value();
  behavior[key] = std::move(rules);
}

void pod_autoscaler(json::object& object, WallTime) {
  json::object& spec = made_object(object, "spec");
  if (empty_at(spec, "metrics"))
    spec["metrics"] = json::parse(
        R"([{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}])");
  json::object* behavior = object_at(spec, "behavior");
  if (!behavior)
    return;
  scaling_rules(*behavior, "scaleUp", R"({"stabilizationWindowSeconds":0,"selectPolicy":"Max","policies":[
      {"type":"Pods","value":4,"periodSeconds":15},{"type":"Percent","value":100,"periodSeconds":15}]})");
  scaling_rules(*behavior, "scaleDown",
                R"({"selectPolicy":"Max","policies":[{"type":"Percent","value":100,"periodSeconds":15}]})");
}

void network_policy(json::object& object, WallTime) {
  if (!empty_at(object, "policyTypes"))
    return;
  json::array types{"Ingress"};
  if (!empty_at(object, "egress"))
    types.emplace_back("Egress");
  object["policyTypes"] = std::move(types);
}

void rbac_subject(json::object& object, WallTime) {
  const std::string_view kind = text_at(object, "kind");
  if (kind == "User" || kind == "Group")
    put_if_empty(object, "apiGroup", "rbac.authorization.k8s.io");
}

void device_request(json::object& object, WallTime) {
  if (text_at(object, "allocationMode") == "ExactCount")
    put_if_empty(object, "count", 1);
}

void device_taint(json::object& object, WallTime now) {
  put_if_absent(object, "timeAdded", json::value(timestamp_text(now)));
}

void custom_definition(json::object& object, WallTime) {
  json::object& status = made_object(object, "status");
  json::object* spec = object_at(object, "spec");
  if (!spec)
    return;
  if (json::object* names = object_at(*spec, "names")) {
    const std::string kind(text_at(*names, "kind"));
    put_if_empty(*names, "singular", json::value(lower(kind)));
    if (!kind.empty())
      put_if_empty(*names, "listKind", json::value(kind + "List"));
  }
  if (empty_at(status, "storedVersions"))
    each_object(*spec, "versions", [&](json::object& version) {
      if (is_true(version, "storage") && empty_at(status, "storedVersions"))
        status["storedVersions"] = json::array{text_at(version, "name")};
    });
}

struct NamedDefault {
  std::string_view schema;
  ConditionalDefault fill;
};
constexpr auto kNamedDefaults = std::to_array<NamedDefault>({
    {"io.k8s.api.apps.v1.DaemonSetUpdateStrategy", daemon_set_strategy},
    {"io.k8s.api.apps.v1.DeploymentStrategy", deployment_strategy},
    {"io.k8s.api.apps.v1.StatefulSetUpdateStrategy", stateful_set_strategy},
    {"io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler", pod_autoscaler},
    {"io.k8s.api.batch.v1.Job", job},
    {"io.k8s.api.core.v1.Container", container},
    {"io.k8s.api.core.v1.EphemeralContainer", container},
    {"io.k8s.api.core.v1.LimitRangeItem", limit_range_item},
    {"io.k8s.api.core.v1.Namespace", namespace_labels},
    {"io.k8s.api.core.v1.NodeStatus", node_status},
    {"io.k8s.api.core.v1.Pod", pod},
    {"io.k8s.api.core.v1.ReplicationController", replication_controller},
    {"io.k8s.api.core.v1.Service", service_status},
    {"io.k8s.api.core.v1.ServiceSpec", service},
    {"io.k8s.api.core.v1.Volume", volume},
    {"io.k8s.api.networking.v1.NetworkPolicySpec", network_policy},
    {"io.k8s.api.rbac.v1.Subject", rbac_subject},
    {"io.k8s.api.resource.v1.DeviceSubRequest", device_request},
    {"io.k8s.api.resource.v1.DeviceTaint", device_taint},
    {"io.k8s.api.resource.v1.ExactDeviceRequest", device_request},
    {"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition", custom_definition},
});
static_assert(std::ranges::is_sorted(kNamedDefaults, {}, &NamedDefault::schema));

}  // namespace

ConditionalDefault conditional_default(std::string_view schema) {
  const auto at = std::ranges::lower_bound(kNamedDefaults, schema, {}, &NamedDefault::schema);
  return at != kNamedDefaults.end() && at->schema == schema ? at->fill : nullptr;
}

}  // namespace lockstep::kube
