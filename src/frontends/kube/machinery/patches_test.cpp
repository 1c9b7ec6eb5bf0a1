#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/cases.h"
#include "frontends/kube/machinery/json_patch.h"
#include "frontends/kube/machinery/merge_patch.h"
#include "frontends/kube/machinery/schema_reader.h"
#include "frontends/kube/machinery/strategic_patch.h"

namespace lockstep::kube {
namespace {

// What of a Pod the cases touch.
constexpr std::string_view kPod = R"({"type":"object","properties":{
  "metadata":{"type":"object","properties":{
    "labels":{"type":"object","additionalProperties":{"type":"string"}},
    "finalizers":{"type":"array","items":{"type":"string"},"x-kubernetes-patch-strategy":"merge"},
    "ownerReferences":{"type":"array","items":{"type":"object"},"x-kubernetes-patch-strategy":"merge","x-kubernetes-patch-merge-key":"uid"}}},
  "spec":{"type":"object","properties":{
    "containers":{"type":"array","x-kubernetes-patch-strategy":"merge","x-kubernetes-patch-merge-key":"name","items":{"type":"object","properties":{
      "args":{"type":"array","items":{"type":"string"}},
      "env":{"type":"array","x-kubernetes-patch-strategy":"merge","x-kubernetes-patch-merge-key":"name","items":{"type":"object"}},
      "ports":{"type":"array","x-kubernetes-patch-strategy":"merge","x-kubernetes-patch-merge-key":"containerPort","items":{"type":"object"}}}}},
    "volumes":{"type":"array","x-kubernetes-patch-strategy":"merge,retainKeys","x-kubernetes-patch-merge-key":"name","items":{"type":"object"}},
    "imagePullSecrets":{"type":"array","x-kubernetes-patch-strategy":"merge","x-kubernetes-patch-merge-key":"name","items":{"type":"object"}},
    "tolerations":{"type":"array","items":{"type":"object"}},
    "nodeSelector":{"type":"object","additionalProperties":{"type":"string"}}}}}})";

TEST(StrategicPatch, AsTheOriginal) {
  SchemaSet set;
  const auto schema = read_schema({set}, parsed(kPod));
  ASSERT_TRUE(schema.ok());
  const json::value cases = load_cases("strategic_patches.json");
  for (const json::value& each : *member_array(cases, "patches")) {
    const json::value& patch = *member(each, "patch");
    const auto result = apply_strategic_patch(*member(cases, "object"), patch, **schema);
    const json::value* wanted = member(each, "result");
    EXPECT_EQ(result.ok(), wanted != nullptr) << json::serialize(patch) << (result.ok() ? "" : result.error().message);
    if (result.ok() && wanted != nullptr) {
      EXPECT_TRUE(same_json(*result, *wanted)) << json::serialize(patch) << "\n"
                                               << json::serialize(*result) << "\n"
                                               << json::serialize(*wanted);
    }
  }
}

TEST(JsonPatch, AsTheOriginal) {
  const json::value cases = load_cases("json_patches.json");
  for (const json::value& each : *member_array(cases, "patches")) {
    const json::value& patch = *member(each, "patch");
    const auto result = apply_json_patch(*member(cases, "document"), patch);
    const json::value* wanted = member(each, "result");
    EXPECT_EQ(result.ok(), wanted != nullptr) << json::serialize(patch) << (result.ok() ? "" : result.error().message);
    if (result.ok() && wanted != nullptr) {
      EXPECT_TRUE(same_json(*result, *wanted)) << json::serialize(patch) << "\n" << json::serialize(*result);
    }
    if (!result.ok()) {
      EXPECT_EQ(result.error().code, 422);
      // The cause is worded as in the original; what stands around it differs for some.
      const std::string theirs = case_text(each, "error");
      if (theirs.find("nexistent key: /") == theirs.npos && theirs.find("does not apply") != theirs.npos) {
        EXPECT_EQ(result.error().message, theirs);
      }
    }
  }
}

TEST(JsonPatch, Bounds) {
  json::array many(kPatchOperationsMax + 1, json::value{{"op", "remove"}, {"path", "/a"}});
  EXPECT_EQ(apply_json_patch(json::object(), many).error().code, 413);
  EXPECT_EQ(apply_json_patch(json::object(), json::object()).error().code, 400);

  // Copies of the whole into itself double it with each operation.
  json::array doubling;
  for (int each = 0; each < 100; ++each)
    doubling.push_back(json::value{{"op", "copy"}, {"from", ""}, {"path", format("/{}", each)}});
  const auto grown = apply_json_patch(json::object(), doubling);
  ASSERT_FALSE(grown.ok());
  EXPECT_EQ(grown.error().code, 422);

  json::array deepening;
  std::string path = "/a";
  for (int each = 0; each < 300; ++each) {
    deepening.push_back(json::value{{"op", "add"}, {"path", path}, {"value", json::object()}});
    path += "/a";
  }
  EXPECT_NE(apply_json_patch(json::object(), deepening).error().message.find("200"), std::string::npos);
}

TEST(MergePatch, ExamplesOfTheStandard) {
  const char* cases[][3] = {{R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
                            {R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
                            {R"({"a":"b"})", R"({"a":null})", R"({})"},
                            {R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
                            {R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
                            {R"({"a":"c"})", R"({"a":["b"]})", R"({"a":["b"]})"},
                            {R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
                            {R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
                            {R"(["a","b"])", R"(["c","d"])", R"(["c","d"])"},
                            {R"({"a":"b"})", R"(["c"])", R"(["c"])"},
                            {R"({"a":"foo"})", "null", "null"},
                            {R"({"a":"foo"})", R"("bar")", R"("bar")"},
                            {R"({"e":null})", R"({"a":1})", R"({"e":null,"a":1})"},
                            {R"([1,2])", R"({"a":"b","c":null})", R"({"a":"b"})"},
                            {"{}", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"}};
  for (const auto& [document, patch, wanted] : cases)
    EXPECT_EQ(json::serialize(apply_merge_patch(parsed(document), parsed(patch))), wanted) << patch;
}

TEST(MergePatch, WhatIsMadeOfTwoDocumentsTurnsOneIntoTheOther) {
  const json::value from = parsed(R"({"a":{"b":1,"c":[1]},"d":"x","gone":true})");
  const json::value to = parsed(R"({"a":{"b":2,"c":[2]},"d":"x","new":{"n":1}})");
  const json::value patch = make_merge_patch(from, to);
  EXPECT_EQ(json::serialize(patch), R"({"gone":null,"a":{"b":2,"c":[2]},"new":{"n":1}})");
  EXPECT_TRUE(same_json(apply_merge_patch(from, patch), to));
}

}  // namespace
}  // namespace lockstep::kube
