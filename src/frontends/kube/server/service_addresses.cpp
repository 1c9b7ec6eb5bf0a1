#include "frontends/kube/server/service_addresses.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "frontends/kube/admission/external_ranges.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/field_error.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kAddresses = "ipaddresses.networking.k8s.io";
constexpr std::uint32_t kRangeFirst = (10u << 24) + (96u << 16), kRangeSize = 1u << 16;
constexpr int kAddressTries = 4096;
constexpr std::size_t kPortsMax = 1024;  // of a Service: a bound of ours

std::string address_text(std::uint32_t address) {
  return format("{}.{}.{}.{}", address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255);
}

std::optional<std::uint32_t> address_of(std::string_view text) {
  const std::vector<std::string> parts = split(text, '.');
  std::uint32_t out = 0;
  for (const std::string& part : parts) {
    const auto number = parse_uint(part);
    if (!number || *number > 255)
      return std::nullopt;
    out = out << 8 | static_cast<std::uint32_t>(*number);
  }
  return parts.size() == 4 ? std::optional(out) : std::nullopt;
}

constexpr const char* kHealthPort = "healthCheckNodePort";

std::uint32_t node_port_of(const json::value& port, std::string_view key = "nodePort") {
  const json::value* number = member(port, key);
  return number && is_number(*number) ? static_cast<std::uint32_t>(number_of(*number)) : 0;
}

Status invalid_service(const json::object& tree, const FieldError& error) {
  return Status::invalid({"", "Service"}, text_in(tree.at("metadata"), "name"),
                         {{std::string(reason_word(error.type)), error.body(), error.path}});
}

bool has_ports(const json::object& spec) {
  const json::value* type = spec.if_contains("type");
  const std::string_view word = type ? text_of(*type) : "";
  const json::value* gives = spec.if_contains("allocateLoadBalancerNodePorts");
  return word == "NodePort" || (word == "LoadBalancer" && !(gives && gives->is_bool() && !gives->get_bool()));
}

const json::array* ports_of(const json::object& tree) {
  const json::value* spec = tree.if_contains("spec");
  return spec ? member_array(*spec, "ports") : nullptr;
}

// An update that names no port keeps the one that the port of that name (or number) had.
std::uint32_t port_before(const json::object* old, const json::value& port) {
  if (const json::array* ports = old ? ports_of(*old) : nullptr)
    for (const json::value& one : *ports)
      if (text_in(one, "name") == text_in(port, "name") && same_json(part(one, "port"), part(port, "port")))
        return node_port_of(one);
  return 0;
}

}  // namespace

void ServiceAddresses::begin(const Tables& tables) {
  for (auto at = tables.objects.lower_bound({std::string(kServices), "", ""});
       at != tables.objects.end() && std::get<0>(at->first) == kServices; ++at)
    count(*at->second, 1);
}

void ServiceAddresses::change(const Tables& before, const Change& change) {
  const auto* object = std::get_if<Ref<Object>>(&change.record);
  if (!object || (*object)->type != kServices)
    return;
  if (const auto known = before.objects.find({(*object)->type, (*object)->meta.ns, (*object)->meta.name});
      known != before.objects.end())
    count(*known->second, -1);
  if (!change.removed)
    count(**object, 1);
}

std::size_t ServiceAddresses::price_of(const json::value& service) {
  return list_in(part(service, "spec"), "ports").size() + external_addresses(service).size();
}

std::size_t ServiceAddresses::price_of_space(const std::string& ns) const {
  const auto at = prices_.find(ns);
  return at == prices_.end() ? 0 : at->second;
}

void ServiceAddresses::count(const Object& object, int sign) {
  const json::object body = parse_own(object.body.get()).as_object();
  if (const std::size_t price = price_of(json::value(body)); price > 0) {
    std::size_t& sum = prices_[object.meta.ns];
    sum = sign > 0 ? sum + price : sum - std::min(sum, price);
    if (sum == 0)
      prices_.erase(object.meta.ns);
  }
  const json::value* spec = body.if_contains("spec");
  if (!spec)
    return;
  const auto add = [&](auto& counts, const auto& key) {
    if ((counts[key] += sign) <= 0)
      counts.erase(key);
  };
  if (const std::string address = text_in(*spec, "clusterIP"); !address.empty() && address != "None")
    add(addresses_, address);
  if (const json::array* ports = ports_of(body))
    for (const json::value& one : *ports)
      if (const std::uint32_t port = node_port_of(one))
        add(ports_, port);
  if (const std::uint32_t port = node_port_of(*spec, kHealthPort))
    add(ports_, port);
}

namespace {

constexpr std::uint32_t kPortCount = ServiceAddresses::kLastPort - ServiceAddresses::kFirstPort + 1;

// A node port that nobody has; 0: there is none.
std::uint32_t free_port(const ServiceAddresses& taken, const std::set<std::uint32_t>& given, std::uint32_t from) {
  for (std::uint32_t k = 0; k < kPortCount; ++k) {
    const std::uint32_t candidate = ServiceAddresses::kFirstPort + (from + k) % kPortCount;
    if (!taken.has_port(candidate) && !given.contains(candidate))
      return candidate;
  }
  return 0;
}

// Of a balanced Service that leads to what is on the node alone: where its balancer asks whether something is.
std::optional<Status> give_health_port(json::object& tree, const json::value* old_spec, const ServiceAddresses& taken,
                                       const std::set<std::uint32_t>& given, std::uint32_t from) {
  json::object& spec = tree["spec"].get_object();
  if (text_in(spec, "type") != "LoadBalancer" || text_in(spec, "externalTrafficPolicy") != "Local") {
    if (old_spec)
      spec.erase(kHealthPort);
    return std::nullopt;
  }
  const std::uint32_t was = old_spec ? node_port_of(*old_spec, kHealthPort) : 0;
  std::uint32_t port = node_port_of(tree["spec"], kHealthPort);
  if (port == 0)
    port = was ? was : free_port(taken, given, from);
  if (port == 0)
    return Status::internal("no node port is free");
  if (port != was && (port < ServiceAddresses::kFirstPort || port > ServiceAddresses::kLastPort))
    return invalid_service(tree, field_invalid(format("spec.{}", kHealthPort), port,
                                               "provided port is not in the valid range. The range of valid ports is "
                                               "30000-32767"));
  if (port != was && taken.has_port(port))
    return invalid_service(tree,
                           field_invalid(format("spec.{}", kHealthPort), port, "provided port is already allocated"));
  spec[kHealthPort] = port;
  return std::nullopt;
}

}  // namespace

Answered<GivenAddresses> give_addresses(const Request& request, json::object& tree, const json::object* old,
                                        const ServiceAddresses& taken, std::uint64_t seed) {
  GivenAddresses out;
  const std::size_t price = ServiceAddresses::price_of(json::value(tree)),
                    was = old ? ServiceAddresses::price_of(json::value(*old)) : 0;
  if (const std::size_t others =
          taken.price_of_space(request.target.ns) - std::min(was, taken.price_of_space(request.target.ns));
      price > was && others + price > ServiceAddresses::kPriceOfSpace)
    return Status::forbidden(
        {"", "services"}, text_in(tree.at("metadata"), "name"),
        format(
            "the Services of namespace {} would have {} ports and external addresses, which every node keeps: {} are "
            "allowed",
            request.target.ns, others + price, ServiceAddresses::kPriceOfSpace));
  json::object& spec = tree["spec"].is_object() ? tree["spec"].get_object() : tree["spec"].emplace_object();
  const std::string type = text_in(spec, "type");
  const json::value* old_spec = old ? old->if_contains("spec") : nullptr;
  const std::string before = old_spec ? text_in(*old_spec, "clusterIP") : "";
  if (type == "ExternalName") {
    for (const char* gone : {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"})
      spec.erase(gone);
  } else {
    std::string address = text_in(spec, "clusterIP");
    if (address.empty())
      if (const json::array* all = member_array(spec, "clusterIPs"); all && !all->empty())
        address = text_of(all->front());
    if (address.empty())
      address = before;
    if (!before.empty() && before != address && text_in(*old_spec, "type") != "ExternalName")
      return invalid_service(tree, field_invalid("spec.clusterIPs[0]", json::value(json::string_view(address)),
                                                 "may not change once set"));
    const auto& objects = request.visit->read()->tables.objects;
    const auto is_taken = [&](const std::string& one) {
      return objects.contains({std::string(kAddresses), "", one}) || taken.has_address(one);
    };
    const bool is_new = address != before || before.empty();
    if (address.empty()) {
      for (int i = 0; i < kAddressTries && address.empty(); ++i) {
        // The lower part is left to those who choose one (KEP-3070).
        const std::uint32_t number =
            kRangeFirst + 256 +
            static_cast<std::uint32_t>((seed + static_cast<std::uint64_t>(i) * 40'503) % (kRangeSize - 257));
        if (!is_taken(address_text(number)))
          address = address_text(number);
      }
      if (address.empty())
        return Status::internal("no cluster address is free");
    } else if (is_new && address != "None") {
      const auto number = address_of(address);
      if (!number || *number < kRangeFirst || *number >= kRangeFirst + kRangeSize)
        return invalid_service(
            tree,
            field_invalid(
                "spec.clusterIPs", json::array{json::string_view(address)},
                format(
                    "failed to allocate IP {}: the provided IP is not in the valid range. The range of valid IPs is {}",
                    address, kServiceRange)));
      if (is_taken(address))
        return invalid_service(
            tree, field_invalid("spec.clusterIPs", json::array{json::string_view(address)},
                                format("failed to allocate IP {}: provided IP is already allocated", address)));
    }
    spec["clusterIP"] = address;
    spec["clusterIPs"] = json::array{json::string_view(address)};
    if (!spec.contains("ipFamilies"))
      spec["ipFamilies"] = json::array{"IPv4"};
    if (!spec.contains("ipFamilyPolicy"))
      spec["ipFamilyPolicy"] = "SingleStack";
    if (is_new && address != "None") {
      json::object made{
          {"metadata",
           {{"name", address},
            {"creationTimestamp", time_text(request.visit->read()->now, request.visit->read()->wall_offset)},
            {"labels",
             {{"ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io"},
              {"ipaddress.kubernetes.io/ip-family", "IPv4"}}}}},
          {"spec",
           {{"parentRef",
             {{"group", ""},
              {"resource", "services"},
              {"namespace", request.target.ns},
              {"name", text_in(tree.at("metadata"), "name")}}}}}};
      Object object = object_of(kAddresses, std::move(made));
      out.read.records.push_back({ObjectKey{object.type, "", address}, 0});
      out.commands.emplace_back(PutObject{std::move(object), 0});
    }
  }
  json::value* ports = spec.if_contains("ports");
  if (!ports || !ports->is_array())
    return out;
  if (const std::size_t count = ports->get_array().size(); count > kPortsMax)
    return invalid_service(tree, field_too_many("spec.ports", count, kPortsMax));
  std::uint32_t next = static_cast<std::uint32_t>(seed >> 20) % kPortCount;  // another one for each Service
  std::set<std::uint32_t> given;
  for (std::size_t i = 0; i < ports->get_array().size(); ++i) {
    json::value& one = ports->get_array()[i];
    if (!one.is_object())
      continue;
    if (!has_ports(spec)) {
      if (!old)
        continue;
      one.get_object().erase("nodePort");
      continue;
    }
    std::uint32_t port = node_port_of(one);
    const std::uint32_t was = port_before(old, one);
    if (port == 0)
      port = was;
    if (port != 0 && port != was && (port < ServiceAddresses::kFirstPort || port > ServiceAddresses::kLastPort))
      return invalid_service(
          tree, field_invalid(format("spec.ports[{}].nodePort", i), port,
                              "provided port is not in the valid range. The range of valid ports is 30000-32767"));
    if (port != 0 && port != was && taken.has_port(port) && !given.contains(port))
      return invalid_service(
          tree, field_invalid(format("spec.ports[{}].nodePort", i), port, "provided port is already allocated"));
    if (port == 0) {
      port = free_port(taken, given, next);
      next = port - ServiceAddresses::kFirstPort + 1;
    }
    if (port == 0)
      return invalid_service(
          tree, field_invalid(format("spec.ports[{}].nodePort", i), 0, "failed to allocate a nodePort: range is full"));
    given.insert(port);
    one.get_object()["nodePort"] = port;
  }
  if (auto refused = give_health_port(tree, old_spec, taken, given, next + kPortCount / 2))
    return std::move(*refused);
  return out;
}

}  // namespace lockstep::kube
