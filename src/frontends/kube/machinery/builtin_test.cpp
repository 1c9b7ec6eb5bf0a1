#include "frontends/kube/machinery/builtin.h"

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

TEST(Builtin, PodsAreFoundByPluralAndByKind) {
  const Resource* pods = find_builtin("", "v1", "pods");
  ASSERT_TRUE(pods);
  EXPECT_EQ(pods, find_builtin_kind("", "v1", "Pod"));
  EXPECT_EQ(pods->schema->name, "io.k8s.api.core.v1.Pod");
  EXPECT_EQ(pods->list_schema->name, "io.k8s.api.core.v1.PodList");
  EXPECT_EQ(pods->short_names, std::vector<std::string>{"po"});
  EXPECT_TRUE(pods->namespaced);
  ASSERT_TRUE(pods->subresource("eviction"));
  EXPECT_EQ(pods->subresource("eviction")->group, "policy");
  EXPECT_TRUE(pods->subresource("eviction")->schema);
  EXPECT_FALSE(find_builtin("apps", "v1", "pods"));
}

TEST(Builtin, FieldsSayHowTheyAreMerged) {
  const Schema* spec = builtin_schema("io.k8s.api.core.v1.PodSpec");
  ASSERT_TRUE(spec);
  const Field* volumes = spec->field("volumes");
  ASSERT_TRUE(volumes);
  EXPECT_EQ(volumes->number, 1u);
  EXPECT_EQ(volumes->schema->list, ListKind::kMap);
  EXPECT_EQ(volumes->schema->keys, std::vector<std::string>{"name"});
  EXPECT_EQ(volumes->schema->patch_key, "name");
  EXPECT_TRUE(volumes->schema->patch_retain_keys);
  EXPECT_TRUE(spec->field("nodeSelector")->schema->atomic);
  EXPECT_EQ(*spec->field("restartPolicy")->standard, json::value("Always"));
  const Schema* ports = builtin_schema("io.k8s.api.core.v1.Container")->field("ports")->schema;
  EXPECT_EQ(ports->keys, (std::vector<std::string>{"containerPort", "protocol"}));
  EXPECT_EQ(ports->patch_key, "containerPort");
  const Field* empty_dir = builtin_schema("io.k8s.api.core.v1.Volume")->field("emptyDir");
  EXPECT_EQ(empty_dir->within, std::vector<std::uint32_t>{2});
  EXPECT_EQ(empty_dir->number, 2u);
}

TEST(Builtin, OptionsBelongToEveryGroup) {
  const Schema* options = builtin_kind_schema("apps", "v1", "DeleteOptions");
  ASSERT_TRUE(options);
  EXPECT_EQ(options->name, "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
  EXPECT_FALSE(builtin_kind_schema("", "v1", "OwnerReference"));
  EXPECT_FALSE(builtin_kind_schema("", "v1", "Nothing"));
}

TEST(Builtin, EveryResourceAndSubresourceHasASchema) {
  EXPECT_GE(builtin_resources().size(), 60u);
  for (const Resource& resource : builtin_resources()) {
    EXPECT_TRUE(resource.schema) << resource.plural;
    for (const Subresource& part : resource.subresources)
      EXPECT_TRUE(part.schema) << resource.plural << "/" << part.name;
  }
  for (const Schema* schema : builtin_schemas())
    for (const Field& field : schema->fields) EXPECT_TRUE(field.schema) << schema->name << "." << field.name;
}

TEST(Builtin, EveryTypeAndEveryFieldSaysWhatItIs) {
  constexpr std::size_t kTextMax = 160;
  std::size_t fields = 0;
  for (const Schema* schema : builtin_schemas()) {
    EXPECT_FALSE(schema->description.empty()) << schema->name;
    EXPECT_LE(schema->description.size(), kTextMax) << schema->name;
    for (const Field& field : schema->fields) {
      ++fields;
      EXPECT_FALSE(field.description.empty()) << schema->name << "." << field.name;
      EXPECT_LE(field.description.size(), kTextMax) << schema->name << "." << field.name;
    }
  }
  EXPECT_GT(fields, 2500u);
}

}  // namespace
}  // namespace lockstep::kube
