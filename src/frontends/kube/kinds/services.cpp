// Services: ports, addresses and policies that go together.
// Source: kubernetes.io/docs/concepts/services-networking/service; messages are those of k8s.io/kubernetes
// pkg/apis/core/validation. Which addresses and node ports are free is the allocator's business.
#include <arpa/inet.h>

#include <boost/json/array.hpp>
#include <set>

#include "base/text.h"
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/kinds/place.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/names.h"

namespace lockstep::kube {

namespace {

constexpr std::int64_t kAffinityMax_s = 86'400;

void check_ports(const Place& spec) {
  const auto ports = spec["ports"].each();
  const bool headless = spec["clusterIP"].is("None"), outside = spec["type"].is("ExternalName");
  if (ports.empty() && !headless && !outside)
    spec["ports"].required();
  std::set<std::string> names, seen;
  for (const Place& one : ports) {
    const Place name = one["name"], port = one["port"], target = one["targetPort"];
    if (name.empty()) {
      if (ports.size() > 1)
        name.required();
    } else if (const auto faults = dns_label_faults(name.text()); !faults.empty()) {
      name.faults(faults);
    } else if (!names.insert(name.text()).second) {
      name.duplicate();
    }
    if (!port.there())
      one.out().push_back(field_invalid(port.path(), json::value(0), "must be between 1 and 65535, inclusive"));
    port.port();
    target.port_or_name();
    if (const Place of = one["appProtocol"]; of.there())
      of.qualified_name();
    if (headless && target.value().is_string())
      continue;
    const std::string protocol = one["protocol"].text();
    if (!seen.insert(protocol + "/" + std::to_string(port.number().value_or(0))).second)
      one.duplicate();
    if (const Place node = one["nodePort"]; node.number().value_or(0) != 0 && spec["type"].is("ClusterIP"))
      node.forbidden("may not be used when `type` is 'ClusterIP'");
  }
}

void check_external_address(const Place& place) {
  const std::string text = place.text();
  in_addr v4{};
  in6_addr v6{};
  const bool is_v4 = inet_pton(AF_INET, text.c_str(), &v4) == 1, is_v6 = inet_pton(AF_INET6, text.c_str(), &v6) == 1;
  if (!is_v4 && !is_v6)
    return place.address();
  const std::uint32_t number = ntohl(v4.s_addr);
  if (is_v4 ? number == 0 : IN6_IS_ADDR_UNSPECIFIED(&v6))
    place.invalid(format("may not be unspecified ({})", text));
  if (is_v4 ? number >> 24 == 127 : IN6_IS_ADDR_LOOPBACK(&v6))
    place.invalid("may not be in the loopback range (127.0.0.0/8, ::1/128)");
  if (is_v4 ? number >> 16 == 0xA9FE : IN6_IS_ADDR_LINKLOCAL(&v6))
    place.invalid("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
  if (is_v4 ? number >> 8 == 0xE00000 : IN6_IS_ADDR_MC_LINKLOCAL(&v6))
    place.invalid("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
}

void check_kind(const Place& spec) {
  const Place own = spec["clusterIP"], all = spec["clusterIPs"];
  if (spec["type"].is("ExternalName")) {
    if (!own.empty())
      all.forbidden("may not be set for ExternalName services");
    const Place name = spec["externalName"];
    std::string text = name.text();
    if (text.empty())
      return name.required();
    if (text.ends_with('.'))
      text.pop_back();
    name.faults(dns_subdomain_faults(text));
    return;
  }
  if (own.is("None") && !spec["type"].is("ClusterIP") && spec["type"].there())
    spec.out().push_back(field_invalid(all.path() + "[0]", own.value(),
                                       format("may not be set to 'None' for {} services", spec["type"].text())));
  else if (!own.empty() && !own.is("None"))
    Place(own.value(), all.path() + "[0]", spec.out()).address();
}

void check_balancer(const Place& spec) {
  const bool balanced = spec["type"].is("LoadBalancer");
  const std::string ranges = spec.path() + ".LoadBalancerSourceRanges";  // so it is called there
  if (!spec["loadBalancerSourceRanges"].empty() && !balanced)
    spec.out().push_back(field_forbidden(ranges, "may only be used when `type` is 'LoadBalancer'"));
  else
    for (const Place& one : Place(spec["loadBalancerSourceRanges"].value(), ranges, spec.out()).each()) one.cidr();
  if (const Place kind = spec["loadBalancerClass"]; kind.there() && !balanced)
    kind.forbidden("may only be used when `type` is 'LoadBalancer'");
  else if (kind.there())
    kind.qualified_name();
  if (const Place make = spec["allocateLoadBalancerNodePorts"]; make.there() && !balanced)
    make.forbidden("may only be used when `type` is 'LoadBalancer'");
}

void check_policies(const Place& spec) {
  const std::string type = spec["type"].text();
  const bool from_outside = type == "NodePort" || type == "LoadBalancer" || !spec["externalIPs"].empty();
  if (const Place policy = spec["externalTrafficPolicy"]; policy.there() && !from_outside)
    policy.invalid("may only be set for externally-accessible services");
  if (const Place port = spec["healthCheckNodePort"];
      port.number().value_or(0) != 0 && (type != "LoadBalancer" || !spec["externalTrafficPolicy"].is("Local")))
    port.invalid("may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'");
  const Place timeout = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
  if (const auto has = timeout.number();
      spec["sessionAffinity"].is("ClientIP") && has && (*has <= 0 || *has > kAffinityMax_s))
    timeout.invalid(format("must be greater than 0 and less than {}", kAffinityMax_s));
  if (const Place near = spec["trafficDistribution"]; near.there())
    near.one_of({"PreferClose", "PreferSameZone", "PreferSameNode"});
}

bool is_reached_from_outside(const json::value& spec) {
  const std::string type = text_in(spec, "type");
  const json::array* addresses = member_array(spec, "externalIPs");
  return type == "NodePort" || type == "LoadBalancer" || (addresses && !addresses->empty());
}
bool has_node_ports(const json::value& spec) {
  return text_in(spec, "type") == "NodePort" || text_in(spec, "type") == "LoadBalancer";
}
bool is_local_balancer(const json::value& spec) {
  return text_in(spec, "type") == "LoadBalancer" && text_in(spec, "externalTrafficPolicy") == "Local";
}

bool same_node_ports(const json::value& a, const json::value& b) {
  const auto ports = [](const json::value& spec) {
    std::set<std::int64_t> out;
    for (const json::value& one : list_in(spec, "ports")) out.insert(integer_in(one, "nodePort").value_or(0));
    return out;
  };
  return ports(a) == ports(b);
}

// What went with the old type and was left as it was goes with it: who changes the type alone need not name the rest.
void drop_what_went_with_type(json::object& spec, const json::value& was) {
  const json::value now(spec);
  const auto drop_if_same = [&](const char* key) {
    if (same_json(part(now, key), part(was, key)))
      spec.erase(key);
  };
  const bool away = text_in(now, "type") == "ExternalName" && text_in(was, "type") != "ExternalName";
  if (away && same_json(part(now, "clusterIP"), part(was, "clusterIP")))
    for (const char* key : {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"}) spec.erase(key);
  if (has_node_ports(was) && !has_node_ports(now) && same_node_ports(now, was))
    if (json::value* ports = spec.if_contains("ports"); ports && ports->is_array())
      for (json::value& one : ports->get_array())
        if (one.is_object())
          one.get_object().erase("nodePort");
  if (is_local_balancer(was) && !is_local_balancer(now))
    drop_if_same("healthCheckNodePort");
  if (text_in(was, "type") == "LoadBalancer" && text_in(now, "type") != "LoadBalancer")
    for (const char* key : {"allocateLoadBalancerNodePorts", "loadBalancerClass"}) drop_if_same(key);
  if (is_reached_from_outside(was) && !is_reached_from_outside(now))
    drop_if_same("externalTrafficPolicy");
}

class ServiceRules final : public KindRules {
 public:
  void prepare_update(json::object& tree, const json::object& old, std::string_view) const override {
    if (json::value* spec = tree.if_contains("spec"); spec && spec->is_object())
      drop_what_went_with_type(spec->get_object(), part(old, "spec"));
    if (text_in(part(tree, "spec"), "type") != "LoadBalancer" && text_in(part(old, "spec"), "type") == "LoadBalancer")
      if (json::value* status = tree.if_contains("status"); status && status->is_object())
        status->get_object()["loadBalancer"] = json::object();
  }

  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const Place spec(part(tree, "spec"), "spec", out);
    if (const Place told(part(part(part(tree, "status"), "loadBalancer"), "ingress"), "status.loadBalancer.ingress",
                         out);
        !told.empty() && !spec["type"].is("LoadBalancer"))
      told.forbidden("may only be used when `spec.type` is 'LoadBalancer'");
    if (old && same_json(spec.value(), part(*old, "spec")))
      return;
    check_ports(spec);
    check_kind(spec);
    spec["selector"].label_keys();
    for (const Place& one : spec["externalIPs"].each()) check_external_address(one);
    check_balancer(spec);
    check_policies(spec);
    for (const Place& family : spec["ipFamilies"].each())
      if (family.is("IPv6"))
        family.invalid("not configured on this cluster");
    if (const Place policy = spec["ipFamilyPolicy"]; policy.is("RequireDualStack"))
      policy.invalid("this cluster is not configured for dual-stack services");
  }
};

}  // namespace

const KindRules& service_rules() {
  static const ServiceRules rules;
  return rules;
}

}  // namespace lockstep::kube
