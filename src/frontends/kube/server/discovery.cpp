#include "frontends/kube/server/discovery.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "base/text.h"

namespace lockstep::kube {

namespace {

HttpResponse json_answer(const json::object& body) { return {200, "application/json", json::serialize(body), {}}; }

json::array texts(const std::vector<std::string>& words) {
  json::array out;
  for (const std::string& word : words) out.emplace_back(word);
  return out;
}

json::object group_of(const Kinds& kinds, const std::string& group) {
  json::array versions;
  std::vector<std::string> seen;
  for (const auto& kind : kinds.all())
    if (kind->group == group && std::ranges::find(seen, kind->version) == seen.end()) {
      seen.push_back(kind->version);
      versions.push_back({{"groupVersion", kind->api_version()}, {"version", kind->version}});
    }
  if (versions.empty())
    return {};
  json::value preferred = versions.front();
  return {{"name", group}, {"versions", std::move(versions)}, {"preferredVersion", std::move(preferred)}};
}

json::object resources_of(const Kinds& kinds, const std::string& group, const std::string& version) {
  json::array resources;
  for (const auto& kind : kinds.all()) {
    if (kind->group != group || kind->version != version)
      continue;
    json::object one{{"name", kind->plural}, {"singularName", kind->singular}, {"namespaced", kind->namespaced}, {"kind", kind->kind},
                     {"verbs", texts(kind->verbs)}};
    if (!kind->short_names.empty())
      one["shortNames"] = texts(kind->short_names);
    if (!kind->categories.empty())
      one["categories"] = texts(kind->categories);
    if (!kind->storage_hash.empty())
      one["storageVersionHash"] = kind->storage_hash;
    resources.push_back(std::move(one));
    for (const Subresource& sub : kind->subresources) {
      json::object part{{"name", kind->plural + "/" + sub.name}, {"singularName", ""}, {"namespaced", kind->namespaced}, {"kind", sub.kind},
                        {"verbs", texts(sub.verbs)}};
      if (sub.group != kind->group || sub.version != kind->version) {
        part["group"] = sub.group;
        part["version"] = sub.version;
      }
      resources.push_back(std::move(part));
    }
  }
  if (resources.empty())
    return {};
  return {{"kind", "APIResourceList"},
          {"apiVersion", "v1"},
          {"groupVersion", group.empty() ? version : group + "/" + version},
          {"resources", std::move(resources)}};
}

}  // namespace

std::optional<HttpResponse> discovery_of(const HttpRequest& http, const Kinds& kinds) {
  std::string path = http.path;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::vector<std::string> parts = split(path, '/');
  if (path == "/version")
    return json_answer({{"major", "1"}, {"minor", "34"}, {"gitVersion", "v1.34.4"}, {"gitCommit", ""}, {"gitTreeState", "clean"},
                        {"buildDate", "1970-01-01T00:00:00Z"}, {"goVersion", ""}, {"compiler", ""}, {"platform", "linux/amd64"}});
  if (path == "/api")
    return json_answer({{"kind", "APIVersions"}, {"versions", json::array{"v1"}},
                        {"serverAddressByClientCIDRs", json::array{json::object{{"clientCIDR", "0.0.0.0/0"}, {"serverAddress", ""}}}}});
  if (path == "/apis") {
    json::array groups;
    std::vector<std::string> seen{""};
    for (const auto& kind : kinds.all())
      if (std::ranges::find(seen, kind->group) == seen.end()) {
        seen.push_back(kind->group);
        groups.push_back(group_of(kinds, kind->group));
      }
    return json_answer({{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", std::move(groups)}});
  }
  json::object found;
  if (parts.size() == 3 && parts[1] == "api") {
    found = resources_of(kinds, "", parts[2]);
  } else if (parts.size() == 3 && parts[1] == "apis") {
    found = group_of(kinds, parts[2]);
    if (!found.empty()) {
      found["kind"] = "APIGroup";
      found["apiVersion"] = "v1";
    }
  } else if (parts.size() == 4 && parts[1] == "apis") {
    found = resources_of(kinds, parts[2], parts[3]);
  }
  return found.empty() ? std::nullopt : std::optional(json_answer(found));
}

}  // namespace lockstep::kube
