#include "frontends/kube/server/address_claims.h"

#include <algorithm>
#include <set>

#include "base/ip_range.h"
#include "base/text.h"
#include "frontends/kube/admission/external_ranges.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/field_error.h"
#include "frontends/kube/machinery/json_tree.h"
#include "model/node.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kExternalMax = 64;  // of a Service

struct Named {
  std::string path, address;
};

void add_each(std::vector<Named>& out, const json::value& holder, std::string_view list, const std::string& path) {
  const json::array& all = list_in(holder, list);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string at = format("{}.{}[{}]", path, list, i);
    if (all[i].is_string())
      out.push_back({at, std::string(text_of(all[i]))});
    else
      out.push_back({at + ".ip", text_in(all[i], "ip")});
  }
}

std::vector<Named> named_by_service(const json::value& tree) {
  std::vector<Named> out;
  add_each(out, part(tree, "spec"), "externalIPs", "spec");
  add_each(out, part(part(tree, "status"), "loadBalancer"), "ingress", "status.loadBalancer");
  return out;
}

std::vector<Named> named_by_endpoints(const json::value& tree) {
  std::vector<Named> out;
  const json::array &subsets = list_in(tree, "subsets"), &ends = list_in(tree, "endpoints");
  for (std::size_t i = 0; i < subsets.size(); ++i)
    for (const char* list : {"addresses", "notReadyAddresses"})
      add_each(out, subsets[i], list, format("subsets[{}]", i));
  for (std::size_t i = 0; i < ends.size(); ++i) add_each(out, ends[i], "addresses", format("endpoints[{}]", i));
  return out;
}

std::vector<Named> named_by(const Request& request, const json::value& tree) {
  return request.kind->type == "services" ? named_by_service(tree) : named_by_endpoints(tree);
}

// Who may list what others may claim may claim it.
bool may_list(const Request& request, const RoleBook& roles) {
  return roles.allows(request.user, {"update", "", "v1", "configmaps", "", kExternalSpace, kExternalName, ""});
}

// Of one machine or one link, or of many: nothing that a Service can lead to. Source: k8s.io/kubernetes
// pkg/apis/core/validation (ValidateNonSpecialIP).
bool is_special(std::uint32_t address) {
  return is_loopback(address) || !is_unicast(address) || address >> 16 == 0xA9FE;
}

}  // namespace

ClusterAddresses::ClusterAddresses(const Tables& tables, const std::vector<std::string>& own) {
  for (const auto& [id, node] : tables.nodes) {
    for (const std::string* each : {&node->address, &node->terms.address})
      if (const auto address = parse_ip(*each))
        addresses_.emplace(*address, "the address of node " + node->meta.name);
    for (const std::string* each : {&node->task_range, &node->terms.task_range})
      if (const auto range = parse_ip_range(*each))
        ranges_.emplace(range->first, std::pair(range->last(), format("within {}, of which pods on node {} have their "
                                                                      "addresses",
                                                                      *each, node->meta.name)));
  }
  for (const std::string& each : own)
    if (const auto address = parse_ip(each))
      addresses_.emplace(*address, "an address of the controller's machine");
}

ClusterAddresses::Owner ClusterAddresses::owner_of(std::uint32_t address) const {
  if (is_special(address))
    return {"no address that others reach"};
  if (const auto range = parse_ip_range(kServiceRange); range && range->contains(address))
    return {format("within {}, of which Services have their cluster addresses", kServiceRange)};
  if (const auto at = addresses_.find(address); at != addresses_.end())
    return {at->second};
  const auto next = ranges_.upper_bound(address);
  if (next != ranges_.begin())
    if (const auto& [last, words] = std::prev(next)->second; address <= last)
      return {words, true};
  return {};
}

std::optional<Status> check_address_claims(Request& request, const json::object& tree, const json::object* old,
                                           const RoleBook& roles, const std::vector<std::string>& own) {
  const std::string& type = request.kind->type;
  const bool is_service = type == "services";
  if (!is_service && type != "endpoints" && type != "endpointslices.discovery.k8s.io")
    return std::nullopt;
  std::set<std::string> before;
  if (old)
    for (Named& one : named_by(request, json::value(*old))) before.insert(std::move(one.address));
  const Tables& tables = request.visit->read()->tables;
  const ClusterAddresses cluster(tables, own);
  const ExternalRanges listed = ExternalRanges::of(tables);
  const bool is_administrator = may_list(request, roles);
  std::set<std::string> judged, unlisted;
  const std::vector<Named> all = named_by(request, json::value(tree));
  if (is_service && all.size() > kExternalMax)
    return Status::invalid(
        {"", "Service"}, text_in(part(tree, "metadata"), "name"),
        {{"FieldValueTooMany", format("Too many: {}: must have at most {} items", all.size(), kExternalMax),
          "spec.externalIPs"}});
  for (const Named& one : all) {
    const auto address = parse_ip(one.address);
    if (!address || before.contains(one.address) || !judged.insert(one.address).second)
      continue;
    const auto [owner, is_pods] = cluster.owner_of(*address);
    const auto refuse = [&](const std::string& why) {
      const FieldError error = field_forbidden(one.path, why);
      return Status::invalid({request.kind->group, request.kind->kind}, text_in(part(tree, "metadata"), "name"),
                             {{std::string(reason_word(error.type)), error.body(), error.path}});
    };
    if (is_service && !owner.empty())
      return refuse(format("{} is {}: no Service may claim it", one.address, owner));
    if (is_service && !listed.contains(*address)) {
      if (!is_administrator)
        return refuse(format("{} is in no range that administrators list for Services ({}/{}, key ranges)", one.address,
                             kExternalSpace, kExternalName));
      unlisted.insert(one.address);
    }
    if (!is_service && !owner.empty() && !is_pods && (!is_administrator || is_special(*address)))
      return refuse(format("{} is {}: no Service may lead there", one.address, owner));
  }
  if (!unlisted.empty())
    add_warnings(request, {format("no range of {}/{} holds {}: nodes do not lead it to this Service until one does",
                                  kExternalSpace, kExternalName,
                                  join(std::vector<std::string>(unlisted.begin(), unlisted.end()), ", "))});
  return std::nullopt;
}

}  // namespace lockstep::kube
