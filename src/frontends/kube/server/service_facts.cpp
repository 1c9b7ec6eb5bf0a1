#include "frontends/kube/server/service_facts.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kOfService = "kubernetes.io/service-name";
constexpr std::uint32_t kStickyFor = 10'800;  // seconds, where the Service says nothing
constexpr std::uint32_t kStickyMost = 86'400;

std::uint16_t port_in(const json::value& value, std::string_view key) {
  const std::int64_t number = integer_in(value, key).value_or(0);
  return number > 0 && number <= UINT16_MAX ? static_cast<std::uint16_t>(number) : std::uint16_t{0};
}

ServicePort port_of(const json::value& port) {
  const std::string protocol = text_in(port, "protocol");
  return {text_in(port, "name"), protocol.empty() ? "tcp" : lower(protocol), port_in(port, "port"),
          port_in(port, "nodePort")};
}

// null says as much as nothing.
bool flag_or(const json::value& value, std::string_view key, bool otherwise) {
  const json::value& said = part(value, key);
  return said.is_bool() ? said.get_bool() : otherwise;
}

bool is_left_to_others(const Object& service) {
  return service.meta.extra && std::ranges::any_of(service.meta.extra->labels, [](const auto& label) {
           return label.first == "service.kubernetes.io/service-proxy-name" ||
                  label.first == "service.kubernetes.io/headless";
         });
}

}  // namespace

ServiceFact fact_of_service(const Object& service) {
  const json::value body = parse_own(service.body.get());
  const json::value& spec = part(body, "spec");
  ServiceFact out;
  out.space = service.meta.ns;
  out.name = service.meta.name;
  out.order = service.meta.uid.value;
  if (text_in(spec, "type") == "ExternalName") {
    out.alias = lower(text_in(spec, "externalName"));
    return out;
  }
  const std::string address = text_in(spec, "clusterIP");
  out.headless = address == "None";
  if (!out.headless)
    out.address = address;
  out.external = texts_in(spec, "externalIPs");
  // Who restricts its sources is not opened to everybody: that is the balancer's business.
  if (list_in(spec, "loadBalancerSourceRanges").empty())
    for (const json::value& one : list_in(part(part(body, "status"), "loadBalancer"), "ingress"))
      if (const std::string ip = text_in(one, "ip"); !ip.empty() && text_in(one, "ipMode") != "Proxy")
        out.external.push_back(ip);
  for (const json::value& port : list_in(spec, "ports")) out.ports.push_back(port_of(port));
  // Another program leads to it, or none is to: names answer as ever.
  if (is_left_to_others(service)) {
    out.ports.clear();
    out.external.clear();
  }
  if (text_in(spec, "sessionAffinity") == "ClientIP") {
    const std::int64_t said =
        integer_in(part(part(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds").value_or(kStickyFor);
    out.affinity_s = said > 0 && said <= kStickyMost ? static_cast<std::uint32_t>(said) : kStickyFor;
  }
  out.local_inside = text_in(spec, "internalTrafficPolicy") == "Local";
  out.local_outside = text_in(spec, "externalTrafficPolicy") == "Local";
  if (out.local_outside && !is_left_to_others(service))
    out.health_port = port_in(spec, "healthCheckNodePort");
  out.is_controller = out.space == "default" && out.name == "kubernetes";
  out.answers_names = out.space == "kube-system" && out.name == "kube-dns";
  return out;
}

std::optional<ServiceEnds> ends_of_slice(const Object& slice) {
  const std::string* service = nullptr;
  if (slice.meta.extra)
    for (const auto& [key, value] : slice.meta.extra->labels)
      if (key == kOfService)
        service = &value;
  if (!service || service->empty())
    return std::nullopt;
  const json::value body = parse_own(slice.body.get());
  if (text_in(body, "addressType") != "IPv4")
    return std::nullopt;
  ServiceEnds out;
  out.space = slice.meta.ns;
  out.name = slice.meta.name;
  out.service = *service;
  for (const json::value& port : list_in(body, "ports")) out.ports.push_back(port_of(port));
  for (const json::value& one : list_in(body, "endpoints")) {
    const json::value& conditions = part(one, "conditions");
    ServiceEnd end;
    end.node = text_in(one, "nodeName");
    end.host = text_in(one, "hostname");
    end.ready = flag_or(conditions, "ready", true);
    end.serving = flag_or(conditions, "serving", end.ready);
    end.going = flag_or(conditions, "terminating", false);
    // Further addresses are the same end's; whoever leads to it takes the first.
    if (const auto addresses = texts_in(one, "addresses"); !addresses.empty()) {
      end.address = addresses.front();
      out.ends.push_back(std::move(end));
    }
  }
  return out;
}

}  // namespace lockstep::kube
