#include "frontends/kube/machinery/discovery.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <string>
#include <vector>

namespace lockstep::kube {
namespace {

json::array strings(const std::vector<std::string>& texts) {
  json::array out;
  for (const std::string& text : texts) out.emplace_back(text);
  return out;
}

// Each once, in the order of their first appearance.
std::vector<std::string> groups_of(Resources resources, bool core) {
  std::vector<std::string> out;
  for (const Resource* resource : resources)
    if (resource->group.empty() == core && std::ranges::find(out, resource->group) == out.end())
      out.push_back(resource->group);
  return out;
}

std::vector<std::string> versions_of(Resources resources, std::string_view group) {
  std::vector<std::string> out;
  for (const Resource* resource : resources)
    if (resource->group == group && std::ranges::find(out, resource->version) == out.end())
      out.push_back(resource->version);
  return out;
}

json::object group_entry(Resources resources, std::string_view group) {
  json::array versions;
  for (const std::string& version : versions_of(resources, group))
    versions.push_back(json::object{{"groupVersion", group_version_text(group, version)}, {"version", version}});
  json::object out{{"name", group}};
  if (versions.empty())
    return {};
  out["preferredVersion"] = versions[0];
  out["versions"] = std::move(versions);
  return out;
}

json::object plain_entry(const Resource& resource) {
  json::object out{{"name", resource.plural},
                   {"singularName", resource.singular},
                   {"namespaced", resource.namespaced},
                   {"kind", resource.kind},
                   {"verbs", strings(resource.verbs)}};
  if (!resource.short_names.empty())
    out["shortNames"] = strings(resource.short_names);
  if (!resource.categories.empty())
    out["categories"] = strings(resource.categories);
  if (!resource.storage_hash.empty())
    out["storageVersionHash"] = resource.storage_hash;
  return out;
}

json::object plain_entry(const Resource& resource, const Subresource& part) {
  json::object out{
      {"name", resource.plural + "/" + part.name}, {"singularName", ""}, {"namespaced", resource.namespaced}};
  if (part.group != resource.group || part.version != resource.version) {
    out["group"] = part.group;
    out["version"] = part.version;
  }
  out["kind"] = part.kind;
  out["verbs"] = strings(part.verbs);
  return out;
}

// Empty group and version are those around it.
json::object response_kind(const Resource& resource, std::string_view group, std::string_view version,
                           std::string_view kind) {
  const bool same = group == resource.group && version == resource.version;
  return {{"group", same ? "" : group}, {"version", same ? "" : version}, {"kind", kind}};
}

json::object aggregated_entry(const Resource& resource) {
  json::object out{{"resource", resource.plural},
                   {"responseKind", response_kind(resource, resource.group, resource.version, resource.kind)},
                   {"scope", resource.namespaced ? "Namespaced" : "Cluster"},
                   {"singularResource", resource.singular},
                   {"verbs", strings(resource.verbs)}};
  if (!resource.short_names.empty())
    out["shortNames"] = strings(resource.short_names);
  if (!resource.categories.empty())
    out["categories"] = strings(resource.categories);
  json::array parts;
  for (const Subresource& part : resource.subresources)
    parts.push_back(json::object{{"subresource", part.name},
                                 {"responseKind", response_kind(resource, part.group, part.version, part.kind)},
                                 {"verbs", strings(part.verbs)}});
  if (!parts.empty())
    out["subresources"] = std::move(parts);
  return out;
}

}  // namespace

json::object api_versions(std::string_view server_address) {
  return {{"kind", "APIVersions"},
          {"versions", json::array{"v1"}},
          {"serverAddressByClientCIDRs",
           json::array{json::object{{"clientCIDR", "0.0.0.0/0"}, {"serverAddress", server_address}}}}};
}

json::object api_group_list(Resources resources) {
  json::array groups;
  for (const std::string& group : groups_of(resources, false)) groups.push_back(group_entry(resources, group));
  return {{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", std::move(groups)}};
}

json::object api_group(Resources resources, std::string_view group) {
  json::object entry = group_entry(resources, group);
  if (entry.empty())
    return entry;
  json::object out{{"kind", "APIGroup"}, {"apiVersion", "v1"}};
  for (auto& member : entry) out[member.key()] = std::move(member.value());
  return out;
}

json::object api_resource_list(Resources resources, std::string_view group, std::string_view version) {
  json::array list;
  for (const Resource* resource : resources) {
    if (resource->group != group || resource->version != version)
      continue;
    list.push_back(plain_entry(*resource));
    for (const Subresource& part : resource->subresources) list.push_back(plain_entry(*resource, part));
  }
  if (list.empty())  // nobody serves that version: who asks whether it is there must not be told that it is
    return {};
  return {{"kind", "APIResourceList"},
          {"apiVersion", "v1"},
          {"groupVersion", group_version_text(group, version)},
          {"resources", std::move(list)}};
}

json::object aggregated_discovery(Resources resources, bool core, std::string_view version) {
  json::array items;
  for (const std::string& group : groups_of(resources, core)) {
    json::array versions;
    for (const std::string& of : versions_of(resources, group)) {
      json::array list;
      for (const Resource* resource : resources)
        if (resource->group == group && resource->version == of)
          list.push_back(aggregated_entry(*resource));
      versions.push_back(json::object{{"version", of}, {"resources", std::move(list)}, {"freshness", "Current"}});
    }
    json::object metadata;
    if (!group.empty())
      metadata["name"] = group;
    items.push_back(json::object{{"metadata", std::move(metadata)}, {"versions", std::move(versions)}});
  }
  std::string api_version = "apidiscovery.k8s.io/";
  return {{"kind", "APIGroupDiscoveryList"},
          {"apiVersion", api_version.append(version)},
          {"metadata", json::object()},
          {"items", std::move(items)}};
}

}  // namespace lockstep::kube
