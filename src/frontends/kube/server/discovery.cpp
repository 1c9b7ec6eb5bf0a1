#include "frontends/kube/server/discovery.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/discovery.h"
#include "frontends/kube/machinery/openapi.h"
#include "frontends/kube/server/health.h"
#include "frontends/kube/server/target.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kPlainV2 = "/openapi/v2", kProtobufV2 = "/openapi/v2 protobuf", kIndexV3 = "/openapi/v3";

std::vector<const Resource*> resources_of(const Kinds& kinds) {
  std::vector<const Resource*> out;
  for (const Kinds::Ref& kind : kinds.all()) out.push_back(kind.get());
  return out;
}

HttpResponse json_answer(const json::object& body, std::string type = "application/json") {
  return {200, std::move(type), json::serialize(body), {}};
}

// The version of aggregated discovery that is asked for first; "" = the plain form is.
std::string aggregated_version(const HttpRequest& http) {
  for (const std::string& range : split(header_of(http, "accept"), ',')) {
    std::string version;
    bool ours = false, list = false;
    const std::vector<std::string> parts = split(range, ';');
    for (const std::string& part : parts) {
      const std::string_view word = trim(part);
      ours |= word == "g=apidiscovery.k8s.io";
      list |= word == "as=APIGroupDiscoveryList";
      if (word.starts_with("v="))
        version = word.substr(2);
    }
    const std::string_view type = parts.empty() ? std::string_view() : trim(parts.front());
    if (type == "application/json" && ours && list && (version == "v2" || version == "v2beta1"))
      return version;
    if ((type == "application/json" || type == "*/*") && parts.size() == 1)
      return {};
  }
  return {};
}

json::object path_list(const std::vector<const Resource*>& resources) {
  std::vector<std::string> paths = health_paths();
  for (const char* path : {"/.well-known/openid-configuration", "/api", "/apis", "/metrics", "/openapi/v2",
                           "/openapi/v3", "/openid/v1/jwks", "/version"})
    paths.emplace_back(path);
  for (const Resource* resource : resources) {
    if (!resource->group.empty())
      paths.push_back("/apis/" + resource->group);
    paths.push_back("/" + openapi_v3_path(resource->group, resource->version));
  }
  std::ranges::sort(paths);
  const auto twice = std::ranges::unique(paths);
  paths.erase(twice.begin(), twice.end());
  return {{"paths", json::array(paths.begin(), paths.end())}};
}

}  // namespace

std::optional<HttpResponse> Discovery::answer(const HttpRequest& http) {
  const std::string path = plain_path(http);
  if (path == "/" || path == "/index.html")
    return json_answer(path_list(resources_of(kinds_)));
  if (path == "/version")
    return json_answer({{"major", "1"},
                        {"minor", "34"},
                        {"emulationMajor", "1"},
                        {"emulationMinor", "34"},
                        {"minCompatibilityMajor", "1"},
                        {"minCompatibilityMinor", "33"},
                        {"gitVersion", kServerVersion},
                        {"gitCommit", ""},
                        {"gitTreeState", "clean"},
                        {"buildDate", "1970-01-01T00:00:00Z"},
                        {"goVersion", ""},
                        {"compiler", ""},
                        {"platform", "linux/amd64"}});
  if (path.starts_with("/openapi"))
    return openapi(http, path);
  const std::vector<std::string> parts = split(path, '/');
  const auto resources = resources_of(kinds_);
  if (path == "/api" || path == "/apis") {
    const bool core = path == "/api";
    if (const std::string version = aggregated_version(http); !version.empty())
      return json_answer(aggregated_discovery(resources, core, version),
                         format("application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList", version));
    return json_answer(core ? api_versions("") : api_group_list(resources));
  }
  json::object found;
  if (parts.size() == 3 && parts[1] == "api")
    found = api_resource_list(resources, "", parts[2]);
  else if (parts.size() == 3 && parts[1] == "apis")
    found = api_group(resources, parts[2]);
  else if (parts.size() == 4 && parts[1] == "apis")
    found = api_resource_list(resources, parts[2], parts[3]);
  return found.empty() ? std::nullopt : std::optional(json_answer(found));
}

const std::string& Discovery::document(const std::string& path) {
  if (std::exchange(made_of_, kinds_.changes()) != kinds_.changes())
    documents_.clear();
  const auto known = documents_.find(path);
  if (known != documents_.end())
    return known->second;
  const auto resources = resources_of(kinds_);
  std::string text;
  if (path == kPlainV2) {
    text = json::serialize(openapi_v2(resources, kServerVersion));
  } else if (path == kProtobufV2) {
    text = openapi_v2_protobuf(openapi_v2(resources, kServerVersion));
  } else {
    std::vector<OpenApiPart> all;
    for (const Resource* resource : resources) {
      const std::string part = openapi_v3_path(resource->group, resource->version);
      if (path == std::string(kIndexV3) + "/" + part) {
        text = json::serialize(openapi_v3(resources, resource->group, resource->version, kServerVersion));
        break;
      }
      if (path == kIndexV3 && std::ranges::find(all, part, &OpenApiPart::path) == all.end())
        all.push_back({part, document_hash(document(std::string(kIndexV3) + "/" + part))});
    }
    if (path == kIndexV3)
      text = json::serialize(openapi_v3_index(all));
    else if (text.empty())
      return documents_[""];
  }
  return documents_[path] = std::move(text);
}

std::optional<HttpResponse> Discovery::openapi(const HttpRequest& http, const std::string& path) {
  const bool protobuf = path == kPlainV2 && header_of(http, "accept").find("protobuf") != std::string::npos;
  const std::string& text = document(protobuf ? std::string(kProtobufV2) : path);
  if (text.empty())
    return std::nullopt;
  const std::string tag = "\"" + document_hash(text) + "\"";
  if (header_of(http, "if-none-match") == tag)
    return HttpResponse{304, "", "", {{"Etag", tag}}};
  return HttpResponse{200, protobuf ? std::string(kOpenApiProtobufType) : "application/json", text, {{"Etag", tag}}};
}

}  // namespace lockstep::kube
