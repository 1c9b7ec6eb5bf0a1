#include "frontends/kube/machinery/openapi.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <map>
#include <span>

#include "base/text.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/openapi_schema.h"

namespace lockstep::kube {
namespace {

constexpr std::string_view kStatusName = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
constexpr std::string_view kDeleteOptionsName = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

struct Parameter {
  std::string_view name, type;
};
constexpr Parameter kListParameters[] = {{"allowWatchBookmarks", "boolean"},
                                         {"continue", "string"},
                                         {"fieldSelector", "string"},
                                         {"labelSelector", "string"},
                                         {"limit", "integer"},
                                         {"resourceVersion", "string"},
                                         {"resourceVersionMatch", "string"},
                                         {"sendInitialEvents", "boolean"},
                                         {"timeoutSeconds", "integer"},
                                         {"watch", "boolean"}};
constexpr Parameter kWriteParameters[] = {
    {"dryRun", "string"}, {"fieldManager", "string"}, {"fieldValidation", "string"}};
constexpr Parameter kPatchParameters[] = {
    {"dryRun", "string"}, {"fieldManager", "string"}, {"fieldValidation", "string"}, {"force", "boolean"}};
constexpr Parameter kDeleteParameters[] = {{"dryRun", "string"},
                                           {"gracePeriodSeconds", "integer"},
                                           {"orphanDependents", "boolean"},
                                           {"propagationPolicy", "string"}};

// Custom resources have no protobuf form, and nothing says how their lists are merged: clients choose by these how they
// change them.
constexpr std::string_view kObjectTypes[] = {"application/json", "application/yaml",
                                             "application/vnd.kubernetes.protobuf"};
constexpr std::string_view kPatchTypes[] = {"application/json-patch+json", "application/merge-patch+json",
                                            "application/apply-patch+yaml", "application/strategic-merge-patch+json"};
using Types = std::span<const std::string_view>;

bool is_built_in(const Resource& resource) {
  return resource.schema && builtin_schema(resource.schema->name) == resource.schema;
}

// What one verb is as an operation of HTTP.
struct Verb {
  std::string_view verb, method, action, operation;
  bool collection;
  std::span<const Parameter> parameters;
};
constexpr Verb kVerbs[] = {
    {"list", "get", "list", "list", true, kListParameters},
    {"create", "post", "post", "create", true, kWriteParameters},
    {"deletecollection", "delete", "deletecollection", "deleteCollection", true, kListParameters},
    {"get", "get", "get", "read", false, {}},
    {"update", "put", "put", "replace", false, kWriteParameters},
    {"patch", "patch", "patch", "patch", false, kPatchParameters},
    {"delete", "delete", "delete", "delete", false, kDeleteParameters},
};

std::string capitalised(std::string_view text) {
  std::string out(text);
  if (!out.empty() && out[0] >= 'a' && out[0] <= 'z')
    out[0] = static_cast<char>(out[0] - 'a' + 'A');
  return out;
}

// "AppsV1": of operations' names, which must differ from one another.
std::string group_word(const Resource& resource) {
  std::string out;
  std::string_view group = resource.group;
  if (group.empty())
    group = "core";
  if (group.ends_with(".k8s.io"))
    group.remove_suffix(7);
  for (const std::string& part : split(group, '.')) out += capitalised(part);
  return out + capitalised(resource.version);
}

class Paths {
 public:
  Paths(OpenApiVersion version, Definitions& definitions) : version_(version), definitions_(definitions) {}

  void add(const Resource& resource) {
    const std::string root =
        (resource.group.empty() ? "/api/" : "/apis/") + group_version_text(resource.group, resource.version) + "/";
    const std::string base = root + (resource.namespaced ? "namespaces/{namespace}/" : "") + resource.plural;
    const std::string word = group_word(resource) + (resource.namespaced ? "Namespaced" : "") + resource.kind;
    const Target target{resource.group, resource.version, resource.kind, is_built_in(resource)};
    const json::object object = definitions_.object_of(resource);
    const json::object list = resource.list_kind.empty() ? object : definitions_.list_of(resource);
    for (const Verb& verb : kVerbs) {
      if (!resource.has_verb(verb.verb))
        continue;
      const std::string path = verb.collection ? base : base + "/{name}";
      put(path, verb, word, target, object, verb.verb == "list" ? list : object);
      if (verb.verb == "list" && resource.namespaced)
        put(root + resource.plural, verb, group_word(resource) + resource.kind + "ForAllNamespaces", target, object,
            list);
    }
    for (const Subresource& part : resource.subresources) add(resource, part, base + "/{name}/" + part.name, word);
  }

  json::object take() {
    json::object out;
    for (auto& [path, item] : paths_) out[path] = std::move(item);
    return out;
  }

 private:
  struct Target {
    std::string_view group, version, kind;
    bool built_in;
    Types objects() const { return Types(kObjectTypes).first(built_in ? 3 : 2); }
    Types patches() const { return Types(kPatchTypes).first(built_in ? 4 : 3); }
  };

  void add(const Resource& resource, const Subresource& part, const std::string& path, const std::string& word) {
    const Target target{part.group, part.version, part.kind, is_built_in(resource)};
    const bool own = part.kind == resource.kind && part.group == resource.group;
    const json::object object = own           ? definitions_.object_of(resource)
                                : part.schema ? definitions_.kind_of(*part.schema, part.group, part.version, part.kind)
                                              : json::object{{"type", "object"}};
    for (const Verb& verb : kVerbs) {
      if (std::ranges::find(part.verbs, verb.verb) == part.verbs.end() || verb.verb == "list" ||
          verb.verb == "deletecollection")
        continue;
      put(path, verb, word + capitalised(part.name), target, object, object);
    }
  }

  void put(const std::string& path, const Verb& verb, const std::string& word, const Target& target,
           const json::object& body, const json::object& answer) {
    json::object& item = paths_[path];
    // No list at all where there is none: clients that write the document again leave an empty one out.
    if (json::array own = path_parameters(path); !own.empty())
      item["parameters"] = std::move(own);
    json::object operation{{"operationId", std::string(verb.operation) + word}};
    json::array parameters;
    for (const Parameter& each : verb.parameters) parameters.push_back(parameter(each, "query", false));
    const bool writes = verb.method == "post" || verb.method == "put";
    if (writes || verb.method == "patch")
      put_body(writes ? body : patch(), writes ? target.objects() : target.patches(), operation, parameters);
    else if (verb.method == "delete")
      put_body(options(), target.objects(), operation, parameters);
    if (!parameters.empty())
      operation["parameters"] = std::move(parameters);
    json::object responses{{"200", response("OK", verb.method == "delete" ? definitions_status() : answer, target)}};
    if (writes)
      responses["201"] = response("Created", answer, target);
    responses["401"] = json::object{{"description", "Unauthorized"}};
    operation["responses"] = std::move(responses);
    operation["x-kubernetes-action"] = verb.action;
    operation["x-kubernetes-group-version-kind"] =
        json::object{{"group", target.group}, {"kind", target.kind}, {"version", target.version}};
    item[verb.method] = std::move(operation);
  }

  json::object definitions_status() { return definitions_.kind_of(*builtin_schema(kStatusName), "", "v1", "Status"); }
  json::object options() {
    return definitions_.kind_of(*builtin_schema(kDeleteOptionsName), "", "v1", "DeleteOptions");
  }
  static json::object patch() { return {{"type", "object"}}; }

  json::object parameter(const Parameter& each, std::string_view in, bool required) const {
    json::object out{{"in", in}, {"name", each.name}};
    if (required)
      out["required"] = true;
    if (version_ == OpenApiVersion::kV2)
      out["type"] = each.type;
    else
      out["schema"] = json::object{{"type", each.type}};
    return out;
  }

  json::array path_parameters(std::string_view path) const {
    json::array out;
    for (const std::string_view name : {"name", "namespace"})
      if (path.find("{" + std::string(name) + "}") != std::string_view::npos)
        out.push_back(parameter({name, "string"}, "path", true));
    return out;
  }

  static json::object contents(const json::object& schema, Types types) {
    json::object out;
    for (const std::string_view type : types) out[type] = json::object{{"schema", schema}};
    return out;
  }

  void put_body(const json::object& schema, Types types, json::object& operation, json::array& parameters) const {
    if (version_ == OpenApiVersion::kV3) {
      operation["requestBody"] = json::object{{"content", contents(schema, types)}};
      return;
    }
    operation["consumes"] = json::array(types.begin(), types.end());
    parameters.push_back(json::object{{"in", "body"}, {"name", "body"}, {"schema", schema}});
  }

  json::object response(std::string_view description, const json::object& schema, const Target& target) const {
    json::object out{{"description", description}};
    if (version_ == OpenApiVersion::kV3)
      out["content"] = contents(schema, target.objects());
    else
      out["schema"] = schema;
    return out;
  }

  OpenApiVersion version_;
  Definitions& definitions_;
  std::map<std::string, json::object> paths_;
};

json::object about(std::string_view server_version) { return {{"title", "Kubernetes"}, {"version", server_version}}; }

}  // namespace

std::string custom_schema_name(std::string_view group, std::string_view version, std::string_view kind) {
  std::vector<std::string> parts = split(group, '.');
  std::ranges::reverse(parts);
  parts.emplace_back(version);
  parts.emplace_back(kind);
  return join(parts, ".");
}

json::object openapi_v2(Resources resources, std::string_view server_version) {
  Definitions definitions(OpenApiVersion::kV2);
  Paths paths(OpenApiVersion::kV2, definitions);
  for (const Resource* resource : resources) paths.add(*resource);
  return {{"swagger", "2.0"},
          {"info", about(server_version)},
          {"paths", paths.take()},
          {"definitions", definitions.take()}};
}

std::string openapi_v3_path(std::string_view group, std::string_view version) {
  return (group.empty() ? "api/" : "apis/") + group_version_text(group, version);
}

json::object openapi_v3(Resources resources, std::string_view group, std::string_view version,
                        std::string_view server_version) {
  Definitions definitions(OpenApiVersion::kV3);
  Paths paths(OpenApiVersion::kV3, definitions);
  for (const Resource* resource : resources)
    if (resource->group == group && resource->version == version)
      paths.add(*resource);
  return {{"openapi", "3.0.0"},
          {"info", about(server_version)},
          {"paths", paths.take()},
          {"components", json::object{{"schemas", definitions.take()}}}};
}

json::object openapi_v3_index(const std::vector<OpenApiPart>& parts) {
  json::object paths;
  for (const OpenApiPart& part : parts)
    paths[part.path] = json::object{{"serverRelativeURL", "/openapi/v3/" + part.path + "?hash=" + part.hash}};
  return {{"paths", std::move(paths)}};
}

std::string document_hash(std::string_view text) {
  // FNV-1a, twice from different beginnings.
  std::uint64_t first = 0xcbf29ce484222325, second = 0x84222325cbf29ce4;
  for (const char c : text) {
    first = (first ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    second = (second ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    second ^= second >> 29;
  }
  return format("{:016X}{:016X}", first, second);
}

}  // namespace lockstep::kube
