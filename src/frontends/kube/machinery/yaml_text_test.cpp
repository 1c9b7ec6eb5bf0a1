#include "frontends/kube/machinery/yaml_text.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "wire/yaml.h"

namespace lockstep::kube {
namespace {

TEST(YamlText, ReadsAsKubernetesWritesIt) {
  const json::value value = json::parse(
      R"({"kind":"ConfigMap","data":{"b":"true","a":"x: y","empty":""},"list":[{"n":1,"m":[1,2]},"s",[],{}],"no":null})");
  EXPECT_EQ(yaml_text(value),
            "data:\n  a: \"x: y\"\n  b: \"true\"\n  empty: \"\"\nkind: ConfigMap\nlist:\n- m:\n  - 1\n  - 2\n  \"n\": "
            "1\n- s\n"
            "- []\n- {}\n\"no\": null\n");
}

TEST(YamlText, ReadsBackAsWhatItWas) {
  for (const char* text :
       {R"({"a":[[1,[2,{"b":[]}]],[{"c":{"d":"e\nf\n","g":" h "}}]],"y":"no","n":"1e3","t":"2020-01-01T00:00:00Z"})",
        R"({"": {"- ": ["#", "a #b", "@x", "*", "&a", "!t", "%", "|", ">", "\t", "\u0007"]}})", "[]", "{}", "3"}) {
    const auto back = json_of_yaml(yaml_text(json::parse(text)));
    ASSERT_TRUE(back.ok()) << back.error().message << yaml_text(json::parse(text));
    EXPECT_EQ(json::parse(back->json), json::parse(text)) << yaml_text(json::parse(text));
  }
}

TEST(YamlText, DeepListsDoNotGrowWithoutEnd) {
  std::string deep = "[";
  for (int i = 0; i < 50'000; ++i) deep += "1,";
  deep += "1]";
  for (int i = 0; i < 100; ++i) deep = "{\"a\":" + deep + "}";
  const json::value value = json::parse(deep, {}, {.max_depth = 200});
  for (const std::string& text : {yaml_text(value, yaml_most(deep.size())), yaml_item(value, yaml_most(deep.size()))})
    EXPECT_LE(text.size(), 8 * deep.size());
  EXPECT_EQ(yaml_text(json::parse(R"({"a":{"b":[1,2]},"c":{"d":1}})"), 18), "a:\n  b: [1,2]\nc:\n  d: 1\n");
}

}  // namespace
}  // namespace lockstep::kube
