#include "frontends/kube/server/discovery.h"

#include <boost/json/serialize.hpp>

#include "base/text.h"

namespace lockstep::kube {

namespace {

const std::vector<std::string> kVerbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"};

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
    resources.push_back(std::move(one));
    for (const std::string& sub : kind->subresources)
      resources.push_back({{"name", kind->plural + "/" + sub}, {"singularName", ""}, {"namespaced", kind->namespaced}, {"kind", kind->kind},
                           {"verbs", json::array{"get", "patch", "update"}}});
  }
  if (resources.empty())
    return {};
  return {{"kind", "APIResourceList"},
          {"apiVersion", "v1"},
          {"groupVersion", group.empty() ? version : group + "/" + version},
          {"resources", std::move(resources)}};
}

}  // namespace

std::vector<Kind> built_in_kinds() {
  std::vector<Kind> out;
  const auto add = [&](std::string group, std::string version, std::string kind, std::string plural, bool namespaced,
                       std::vector<std::string> short_names = {}, std::vector<std::string> subresources = {}) {
    Kind one;
    one.group = group;
    one.version = std::move(version);
    one.singular = lower(kind);
    one.list_kind = kind + "List";
    one.kind = std::move(kind);
    one.type = group.empty() ? plural : plural + "." + group;
    one.plural = std::move(plural);
    one.short_names = std::move(short_names);
    one.subresources = std::move(subresources);
    one.namespaced = namespaced;
    one.verbs = kVerbs;
    out.push_back(std::move(one));
  };
  add("", "v1", "Namespace", "namespaces", false, {"ns"}, {"status", "finalize"});
  add("", "v1", "ConfigMap", "configmaps", true, {"cm"});
  add("", "v1", "Secret", "secrets", true);
  add("", "v1", "ServiceAccount", "serviceaccounts", true, {"sa"});
  add("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false);
  add("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", false);
  add("rbac.authorization.k8s.io", "v1", "Role", "roles", true);
  add("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", true);
  return out;
}

std::optional<HttpResponse> discovery_of(const HttpRequest& http, const Kinds& kinds) {
  const std::vector<std::string> parts = split(http.path, '/');
  if (http.path == "/version" || http.path == "/version/")
    return json_answer({{"major", "1"}, {"minor", "34"}, {"gitVersion", "v1.34.4"}, {"gitCommit", ""}, {"gitTreeState", "clean"},
                        {"buildDate", "1970-01-01T00:00:00Z"}, {"goVersion", ""}, {"compiler", ""}, {"platform", "linux/amd64"}});
  if (http.path == "/api")
    return json_answer({{"kind", "APIVersions"}, {"versions", json::array{"v1"}},
                        {"serverAddressByClientCIDRs", json::array{json::object{{"clientCIDR", "0.0.0.0/0"}, {"serverAddress", ""}}}}});
  if (http.path == "/apis") {
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
