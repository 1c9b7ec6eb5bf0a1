// Ingresses and NetworkPolicies.
// Source: kubernetes.io/docs/concepts/services-networking (Ingress, Network Policies); messages are those of
// k8s.io/kubernetes pkg/apis/networking/validation.
#include <algorithm>

#include "base/ip_range.h"
#include "base/text.h"
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/kinds/place.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/names.h"

namespace lockstep::kube {

namespace {

// --- Ingress ---

void check_backend(const Place& backend, const Place& holder) {
  const Place service = backend["service"], resource = backend["resource"];
  const auto fault = [&](const Place& at, const char* what) {
    at.out().push_back(field_invalid(at.path(), json::value(""), what));
  };
  if (resource.there() && service.there())
    return fault(holder, "cannot set both resource and service backends");
  if (resource.there()) {
    resource["kind"].needed();
    resource["name"].needed();
    return;
  }
  if (!service.there())
    return fault(backend, "resource or service backend is required");
  if (service["name"].empty())
    service["name"].required();
  else
    service["name"].dns_1035();
  const Place name = service["port"]["name"], number = service["port"]["number"];
  if (!name.empty() && number.number().value_or(0) != 0)
    fault(backend, "cannot set both port name & port number");
  else if (!name.empty())
    name.faults(port_name_faults(name.text()));
  else if (number.number().value_or(0) != 0)
    number.port();
  else
    backend.required("port name or number is required");
}

void check_host(const Place& host) {
  const std::string text = host.text();
  if (text.empty())
    return;
  if (parse_ip(text) || text.find(':') != text.npos)
    host.invalid("must be a DNS name, not an IP address");
  else if (text.starts_with("*."))
    host.faults(dns_subdomain_faults(text.substr(2)));
  else if (text.find('*') != text.npos)
    host.invalid("a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain");
  else
    host.dns_subdomain();
}

void check_path(const Place& one) {
  const Place type = one["pathType"], path = one["path"];
  const std::string text = path.text();
  if (!type.there())
    return type.required("pathType must be specified");
  const bool plain = type.is("Exact") || type.is("Prefix");
  if (plain && !text.starts_with('/'))
    path.invalid("must be an absolute path");
  else if (!plain && !text.empty() && type.is("ImplementationSpecific") && !text.starts_with('/'))
    path.invalid("must be an absolute path");
  if (plain)
    for (const char* bad : {"//", "/./", "/../", "%2f", "%2F"})
      if (text.find(bad) != text.npos)
        path.invalid(format("must not contain '{}'", bad));
  check_backend(one["backend"], one["backend"]);
}

class IngressRules final : public KindRules {
 public:
  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const Place spec(part(tree, "spec"), "spec", out);
    if (old && same_json(spec.value(), part(*old, "spec")))
      return;
    const Place fallback = spec["defaultBackend"], name = spec["ingressClassName"];
    if (spec["rules"].empty() && !fallback.there())
      spec.invalid("either `defaultBackend` or `rules` must be specified");
    if (fallback.there())
      check_backend(fallback, fallback);
    for (const Place& rule : spec["rules"].each()) {
      check_host(rule["host"]);
      if (const Place http = rule["http"]; http.there() && http["paths"].empty())
        http["paths"].required();
      for (const Place& one : rule["http"]["paths"].each()) check_path(one);
    }
    for (const Place& tls : spec["tls"].each()) {
      for (const Place& host : tls["hosts"].each()) check_host(host);
      if (!tls["secretName"].empty())
        tls["secretName"].dns_subdomain();
    }
    if (name.there())
      name.dns_subdomain();
  }
};

// --- NetworkPolicy ---

void check_policy_port(const Place& one) {
  const Place port = one["port"], end = one["endPort"];
  if (const Place protocol = one["protocol"]; protocol.there())
    protocol.one_of({"TCP", "UDP", "SCTP"});
  if (!port.there()) {
    if (end.there())
      end.invalid("may not be specified when `port` is not specified");
    return;
  }
  port.port_or_name();
  if (!end.there())
    return;
  if (port.value().is_string())
    end.invalid("may not be specified when `port` is non-numeric");
  else if (end.number() < port.number())
    end.out().push_back(field_invalid(end.path(), port.value(), "must be greater than or equal to `port`"));
  else
    end.port();
}

// "10.1.0.0/16", of any width. Nothing: none of IPv4.
struct Block {
  std::uint32_t address = 0;
  std::int64_t bits = 0;
};
std::optional<Block> read_block(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto address = parse_ip(text.substr(0, slash));
  const auto bits = slash == text.npos ? std::nullopt : parse_int(text.substr(slash + 1));
  if (!address || !bits || *bits < 0 || *bits > 32)
    return std::nullopt;
  return Block{*address, *bits};
}

bool is_within(const Block& inner, const Block& outer) {
  return inner.bits > outer.bits && (outer.bits == 0 || (inner.address ^ outer.address) >> (32 - outer.bits) == 0);
}

void check_block(const Place& block) {
  const Place cidr = block["cidr"];
  if (cidr.empty())
    return cidr.required();
  cidr.cidr();
  const auto whole = read_block(cidr.text());
  for (const Place& one : block["except"].each()) {
    one.cidr();
    const auto inner = read_block(one.text());
    if (whole && inner && !is_within(*inner, *whole))
      one.invalid("must be a strict subset of `cidr`");
  }
}

void check_peer(const Place& peer) {
  const Place pods = peer["podSelector"], spaces = peer["namespaceSelector"], block = peer["ipBlock"];
  check_selector(pods);
  check_selector(spaces);
  if (block.there())
    check_block(block);
  if (block.there() && (pods.there() || spaces.there()))
    peer.forbidden("may not specify both ipBlock and another peer");
  else if (!block.there() && !pods.there() && !spaces.there())
    peer.required("must specify a peer");
}

class NetworkPolicyRules final : public KindRules {
 public:
  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const Place spec(part(tree, "spec"), "spec", out);
    if (old && same_json(spec.value(), part(*old, "spec")))
      return;
    check_selector(spec["podSelector"]);
    for (const auto& [way, peers] : {std::pair{"ingress", "from"}, {"egress", "to"}})
      for (const Place& rule : spec[way].each()) {
        for (const Place& port : rule["ports"].each()) check_policy_port(port);
        for (const Place& peer : rule[peers].each()) check_peer(peer);
      }
    if (const auto types = spec["policyTypes"].each(); types.size() > 2)
      spec["policyTypes"].invalid("may not specify more than two policyTypes");
    else
      for (const Place& type : types) type.one_of({"Ingress", "Egress"});
  }
};

}  // namespace

const KindRules& ingress_rules() {
  static const IngressRules rules;
  return rules;
}
const KindRules& network_policy_rules() {
  static const NetworkPolicyRules rules;
  return rules;
}

}  // namespace lockstep::kube
