// Target: what a request of Kubernetes' API is about, from its path, method and query.
//
//   /api/v1/namespaces/default/pods/web/log      {"", "v1", "default", "pods", "web", "log"}
//   /apis/apps/v1/deployments                    {"apps", "v1", "", "deployments", "", ""}
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ports/http.h"

namespace lockstep::kube {

struct Target {
  std::string group, version;
  std::string ns;        // "" = of the whole cluster, or of all namespaces
  std::string resource;  // plural; "" = the group's version itself is asked for
  std::string name, subresource;
  std::string rest;  // behind the subresource: "proxy/some/path"
  bool watch = false;

  // "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection": as RBAC calls it.
  std::string verb;
};

// Nothing: the path is none of /api/VERSION or /apis/GROUP/VERSION.
// The path without slashes behind it, which mean nothing.
std::string plain_path(const HttpRequest& request);
std::optional<Target> target_of(const HttpRequest& request);

// A word of the query; "" = it is not there.
std::string query_of(const HttpRequest& request, std::string_view name);
// "true", "1", "True" …
bool query_flag(const HttpRequest& request, std::string_view name);
std::string header_of(const HttpRequest& request, std::string_view lower_name);

}  // namespace lockstep::kube
