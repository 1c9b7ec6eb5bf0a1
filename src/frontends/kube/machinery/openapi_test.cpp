#include "frontends/kube/machinery/openapi.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <set>

#include "base/text.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/protobuf_wire.h"

namespace lockstep::kube {
namespace {

std::vector<const Resource*> all_resources() {
  std::vector<const Resource*> out;
  for (const Resource& resource : builtin_resources()) out.push_back(&resource);
  return out;
}

// A custom resource whose schema has a bit of everything.
struct Custom {
  SchemaSet set;
  Resource resource;

  Custom() {
    Schema &root = set.make(), &spec = set.make(), &size = set.make(), &any = set.make();
    size.type = Schema::Type::kInteger;
    size.description = "how big";
    size.nullable = true;
    size.rules = json::object{{"minimum", 1}, {"oneOf", json::array()}};
    any.keep_unknown = true;
    spec.type = root.type = Schema::Type::kObject;
    spec.fields = {{"any", &any}, {"size", &size, true}};
    root.fields = {{"spec", &spec}};
    resource.group = "example.com";
    resource.version = "v1";
    resource.kind = "Widget";
    resource.plural = "widgets";
    resource.singular = "widget";
    resource.namespaced = true;
    resource.verbs = {"create", "get", "list", "patch"};
    resource.schema = &root;
    resource.list_kind = "WidgetList";
  }
};

void collect_references(const json::value& value, std::set<std::string>& out) {
  if (value.is_array())
    for (const json::value& element : value.get_array()) collect_references(element, out);
  if (!value.is_object())
    return;
  for (const auto& entry : value.get_object()) {
    if (entry.key() == "$ref" && entry.value().is_string())
      out.insert(std::string(entry.value().get_string()));
    collect_references(entry.value(), out);
  }
}

TEST(Discovery, PlainLists) {
  const auto resources = all_resources();
  EXPECT_EQ(json::serialize(api_versions("10.0.0.1:6443").at("versions")), R"(["v1"])");
  const json::object groups = api_group_list(resources);
  std::set<std::string_view> names;
  for (const json::value& group : groups.at("groups").as_array()) names.insert(text_of(group.at("name")));
  EXPECT_TRUE(names.contains("apps"));
  EXPECT_FALSE(names.contains(""));
  const json::object autoscaling = api_group(resources, "autoscaling");
  EXPECT_EQ(text_of(autoscaling.at("preferredVersion").at("version")), "v2");
  EXPECT_EQ(autoscaling.at("versions").as_array().size(), 2u);
  EXPECT_TRUE(api_group(resources, "nobody").empty());
  const json::object list = api_resource_list(resources, "apps", "v1");
  bool scale = false;
  for (const json::value& entry : list.at("resources").as_array())
    if (text_of(entry.at("name")) == "deployments/scale") {
      scale = true;
      EXPECT_EQ(json::serialize(entry),
                R"({"name":"deployments/scale","singularName":"","namespaced":true,"group":"autoscaling",)"
                R"("version":"v1","kind":"Scale","verbs":["get","patch","update"]})");
    }
  EXPECT_TRUE(scale);
}

TEST(Discovery, Aggregated) {
  const auto resources = all_resources();
  const json::object core = aggregated_discovery(resources, true, "v2beta1");
  EXPECT_EQ(text_of(core.at("apiVersion")), "apidiscovery.k8s.io/v2beta1");
  ASSERT_EQ(core.at("items").as_array().size(), 1u);
  const json::object rest = aggregated_discovery(resources, false, "v2");
  EXPECT_GT(rest.at("items").as_array().size(), 15u);
  EXPECT_EQ(text_of(rest.at("items").at(0).at("versions").at(0).at("freshness")), "Current");
}

TEST(OpenApi, EveryReferenceOfEveryDocumentLeadsSomewhere) {
  Custom custom;
  auto resources = all_resources();
  resources.push_back(&custom.resource);
  const json::object v2 = openapi_v2(resources, "v1.34.4");
  std::set<std::string> references;
  collect_references(v2, references);
  EXPECT_GT(references.size(), 400u);
  for (const std::string& reference : references) {
    ASSERT_TRUE(reference.starts_with("#/definitions/"));
    EXPECT_TRUE(member_object(v2.at("definitions"), reference.substr(14))) << reference;
  }
  std::set<std::pair<std::string, std::string>> versions;
  for (const Resource* resource : resources) versions.emplace(resource->group, resource->version);
  for (const auto& [group, version] : versions) {
    const json::object v3 = openapi_v3(resources, group, version, "v1.34.4");
    references.clear();
    collect_references(v3, references);
    EXPECT_FALSE(references.empty()) << group;
    for (const std::string& reference : references)
      EXPECT_TRUE(member_object(v3.at("components").at("schemas"), reference.substr(21))) << reference;
  }
}

TEST(OpenApi, OperationsHaveNamesOfTheirOwn) {
  const json::object v2 = openapi_v2(all_resources(), "v1");
  std::set<std::string_view> names;
  std::size_t count = 0;
  for (const auto& path : v2.at("paths").as_object())
    for (const auto& operation : path.value().as_object())
      if (operation.value().is_object()) {
        ++count;
        EXPECT_TRUE(names.insert(text_of(operation.value().at("operationId"))).second)
            << text_of(operation.value().at("operationId"));
      }
  EXPECT_GT(count, 300u);
  EXPECT_TRUE(names.contains("listCoreV1NamespacedPod"));
  EXPECT_TRUE(names.contains("patchSchedulingV1PriorityClass"));
}

TEST(OpenApi, SaysWhatClientsAskFor) {
  const auto resources = all_resources();
  const json::object v3 = openapi_v3(resources, "apps", "v1", "v1");
  const json::value& patch = v3.at("paths").at("/apis/apps/v1/namespaces/{namespace}/deployments/{name}").at("patch");
  EXPECT_EQ(text_of(patch.at("x-kubernetes-action")), "patch");
  EXPECT_EQ(json::serialize(patch.at("x-kubernetes-group-version-kind")),
            R"({"group":"apps","kind":"Deployment","version":"v1"})");
  bool validates = false;
  for (const json::value& parameter : patch.at("parameters").as_array())
    validates = validates || text_of(parameter.at("name")) == "fieldValidation";
  EXPECT_TRUE(validates);
  for (const auto& path : v3.at("paths").as_object()) {  // clients that write it again leave empty lists out
    const json::array* own = member_array(path.value(), "parameters");
    EXPECT_TRUE(!own || !own->empty()) << path.key();
  }
  const json::value& schemas = v3.at("components").at("schemas");
  EXPECT_EQ(json::serialize(schemas.at("io.k8s.api.apps.v1.Deployment").at("x-kubernetes-group-version-kind")),
            R"([{"group":"apps","kind":"Deployment","version":"v1"}])");
  EXPECT_EQ(
      json::serialize(schemas.at("io.k8s.api.core.v1.PodSpec").at("properties").at("volumes")),
      R"({"description":"storage that containers can mount","type":"array","items":{"$ref":"#/components/schemas/io.k8s.api.core.v1.Volume"},"x-kubernetes-list-map-keys":["name"],)"
      R"("x-kubernetes-list-type":"map","x-kubernetes-patch-merge-key":"name","x-kubernetes-patch-strategy":"merge,retainKeys"})");
  EXPECT_EQ(
      json::serialize(schemas.at("io.k8s.api.apps.v1.DeploymentSpec").at("properties").at("strategy")),
      R"({"allOf":[{"$ref":"#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy"}],"x-kubernetes-patch-strategy":"retainKeys",)"
      R"("description":"how pods are exchanged for newer ones"})");
}

// Beside a reference a text stands as the real server writes it; the type's own text is where the type is defined.
TEST(OpenApi, FieldsAndTypesSayWhatTheyAre) {
  const auto resources = all_resources();
  const json::object v3 = openapi_v3(resources, "apps", "v1", "v1"), v2 = openapi_v2(resources, "v1");
  const json::value& schemas = v3.at("components").at("schemas");
  EXPECT_EQ(
      json::serialize(schemas.at("io.k8s.api.apps.v1.DeploymentStrategy")),
      R"({"description":"how a deployment exchanges pods","type":"object","properties":{"rollingUpdate":{"allOf":[)"
      R"({"$ref":"#/components/schemas/io.k8s.api.apps.v1.RollingUpdateDeployment"}],"description":"how many pods more )"
      R"(and how many less there may be on the way, for RollingUpdate"},"type":{"description":"Recreate (all old pods go )"
      R"_(first) or RollingUpdate (the default)","type":"string","enum":["Recreate","RollingUpdate"],"default":"RollingUpdate"}}})_");
  EXPECT_EQ(json::serialize(schemas.at("io.k8s.api.apps.v1.DeploymentList").at("properties").at("items")),
            R"({"description":"the objects of the list","type":"array","items":)"
            R"({"$ref":"#/components/schemas/io.k8s.api.apps.v1.Deployment"}})");
  EXPECT_EQ(text_of(schemas.at("io.k8s.api.apps.v1.DeploymentList").at("description")),
            "a list of objects of kind Deployment");
  EXPECT_EQ(json::serialize(v2.at("definitions").at("io.k8s.api.apps.v1.Deployment").at("properties").at("spec")),
            R"({"$ref":"#/definitions/io.k8s.api.apps.v1.DeploymentSpec","description":"what is wanted"})");
  EXPECT_EQ(
      text_of(v2.at("definitions").at("io.k8s.api.apps.v1.Deployment").at("properties").at("kind").at("description")),
      kKindSaid);
}

TEST(OpenApi, CustomResourcesAreThere) {
  Custom custom;
  const Resource* one[] = {&custom.resource};
  const json::object v3 = openapi_v3(one, "example.com", "v1", "v1");
  const json::value& widget = v3.at("components").at("schemas").at("com.example.v1.Widget");
  EXPECT_EQ(
      json::serialize(widget.at("properties").at("spec")),
      R"({"type":"object","required":["size"],"properties":{"any":{"x-kubernetes-preserve-unknown-fields":true},)"
      R"("size":{"description":"how big","type":"integer","format":"int64","nullable":true,"minimum":1,"oneOf":[]}}})");
  EXPECT_TRUE(member_object(widget.at("properties"), "metadata"));
  EXPECT_TRUE(member_object(v3.at("components").at("schemas"), "com.example.v1.WidgetList"));
  const json::object v2 = openapi_v2(one, "v1");
  EXPECT_EQ(
      json::serialize(
          v2.at("definitions").at("com.example.v1.Widget").at("properties").at("spec").at("properties").at("size")),
      R"({"description":"how big","type":"integer","format":"int64","minimum":1})");
}

// kubectl sends the patches that the document offers.
TEST(OpenApi, CustomResourcesOfferWhatTheyTake) {
  Custom custom;
  const Resource* own[] = {&custom.resource};
  const std::vector<const Resource*> built_in = all_resources();
  const auto said = [](Resources resources, const char* group, const std::string& path) {
    const json::object v3 = openapi_v3(resources, group, "v1", "v1"), v2 = openapi_v2(resources, "v1");
    std::string out;
    for (const char* verb : {"patch", "post"}) {
      const std::string place = verb == std::string("patch") ? path + "/{name}" : path;
      std::vector<std::string> v3_types, v2_types;
      for (const auto& one : v3.at("paths").at(place).at(verb).at("requestBody").at("content").as_object())
        v3_types.emplace_back(one.key());
      for (const json::value& one : v2.at("paths").at(place).at(verb).at("consumes").as_array())
        v2_types.emplace_back(one.as_string());
      EXPECT_EQ(v3_types, v2_types);
      out += join(v3_types, " ") + "\n";
    }
    return out;
  };
  EXPECT_EQ(said(own, "example.com", "/apis/example.com/v1/namespaces/{namespace}/widgets"),
            "application/json-patch+json application/merge-patch+json application/apply-patch+yaml\n"
            "application/json application/yaml\n");
  EXPECT_EQ(said(built_in, "apps", "/apis/apps/v1/namespaces/{namespace}/deployments"),
            "application/json-patch+json application/merge-patch+json application/apply-patch+yaml "
            "application/strategic-merge-patch+json\n"
            "application/json application/yaml application/vnd.kubernetes.protobuf\n");
}

// Every message can be walked, and the definitions are those of the JSON document.
TEST(OpenApi, AsProtobuf) {
  const json::object v2 = openapi_v2(all_resources(), "v1");
  const std::string bytes = openapi_v2_protobuf(v2);
  std::string_view rest = bytes;
  WireField field;
  std::size_t definitions = 0, paths = 0;
  while (!rest.empty()) {
    ASSERT_TRUE(take_field(rest, field));
    std::string_view inner = field.bytes;
    WireField entry;
    while ((field.number == 8 || field.number == 9) && !inner.empty()) {
      ASSERT_TRUE(take_field(inner, entry));
      ++(field.number == 9 ? definitions : paths);
    }
  }
  EXPECT_EQ(definitions, v2.at("definitions").as_object().size());
  EXPECT_EQ(paths, v2.at("paths").as_object().size());
}

TEST(OpenApi, IndexNamesHashes) {
  EXPECT_EQ(json::serialize(openapi_v3_index({{"apis/apps/v1", "AB"}})),
            R"({"paths":{"apis/apps/v1":{"serverRelativeURL":"/openapi/v3/apis/apps/v1?hash=AB"}}})");
  EXPECT_EQ(document_hash("a").size(), 32u);
  EXPECT_NE(document_hash("a"), document_hash("b"));
}

}  // namespace
}  // namespace lockstep::kube
