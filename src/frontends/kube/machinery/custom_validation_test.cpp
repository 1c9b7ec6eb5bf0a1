#include "frontends/kube/machinery/custom_validation.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "frontends/kube/machinery/cases.h"
#include "frontends/kube/machinery/custom_definition.h"
#include "frontends/kube/machinery/schema_reader.h"
#include "frontends/kube/machinery/structural.h"

namespace lockstep::kube {
namespace {

std::string lines(const FieldErrors& errors) {
  std::string out;
  for (const FieldError& error : errors) out += (out.empty() ? "" : "\n") + error.text();
  return out;
}

std::string faults_of(std::string_view definition, std::string_view object) {
  SchemaSet set;
  const auto schema = read_root_schema({set}, parsed(definition));
  Patterns patterns;
  add_patterns(**schema, patterns);
  return lines(validate_custom(parsed(object), **schema, patterns));
}

constexpr std::string_view kWidget =
    R"({"type":"object","required":["spec"],"properties":{"spec":{"type":"object","required":["name"],"properties":{
  "name":{"type":"string","minLength":2,"maxLength":5,"pattern":"^[a-z]+$"},
  "n":{"type":"integer","minimum":1,"maximum":3},"x":{"type":"number","exclusiveMaximum":true,"maximum":2,"multipleOf":0.5},
  "word":{"type":"string","enum":["a","b"]},"when":{"type":"string","format":"date-time"},
  "list":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"integer"}},
  "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
  "map":{"type":"object","maxProperties":1,"additionalProperties":{"type":"boolean"}},
  "keyed":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"}}}},
  "maybe":{"type":"string","nullable":true},"either":{"x-kubernetes-int-or-string":true},
  "one":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"oneOf":[{"required":["a"]},{"required":["b"]}]},
  "not":{"type":"string","not":{"pattern":"^x"}}}}}})";

TEST(CustomValidation, WordsOfTheRealServer) {
  const auto spec = [&](std::string_view rest) {
    return faults_of(kWidget, R"({"spec":{"name":"abc",)" + std::string(rest) + "}}");
  };
  EXPECT_EQ(faults_of(kWidget, "{}"), "spec: Required value");
  EXPECT_EQ(faults_of(kWidget, R"({"spec":{}})"), "spec.name: Required value");
  EXPECT_EQ(faults_of(kWidget, R"({"spec":{"name":"a"}})"),
            R"(spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long)");
  EXPECT_EQ(faults_of(kWidget, R"({"spec":{"name":"ABC"}})"),
            R"(spec.name: Invalid value: "ABC": spec.name in body should match '^[a-z]+$')");
  EXPECT_EQ(faults_of(kWidget, R"({"spec":{"name":"abcdef"}})"), "spec.name: Too long: may not be more than 5 bytes");
  EXPECT_EQ(spec(R"("n":5)"), "spec.n: Invalid value: 5: spec.n in body should be less than or equal to 3");
  EXPECT_EQ(spec(R"("n":0)"), "spec.n: Invalid value: 0: spec.n in body should be greater than or equal to 1");
  EXPECT_EQ(spec(R"("n":"1")"), R"(spec.n: Invalid value: "string": spec.n in body must be of type integer: "string")");
  EXPECT_EQ(spec(R"("x":2)"), "spec.x: Invalid value: 2: spec.x in body should be less than 2");
  EXPECT_EQ(spec(R"("x":1.25)"), "spec.x: Invalid value: 1.25: spec.x in body should be a multiple of 0.5");
  EXPECT_EQ(spec(R"("word":"c")"), R"(spec.word: Unsupported value: "c": supported values: "a", "b")");
  EXPECT_EQ(spec(R"("when":"soon")"),
            R"(spec.when: Invalid value: "soon": spec.when in body must be of type date-time: "soon")");
  EXPECT_EQ(spec(R"("list":[])"), "spec.list: Invalid value: 0: spec.list in body should have at least 1 items");
  EXPECT_EQ(spec(R"("list":[1,2,3])"), "spec.list: Too many: 3: must have at most 2 items");
  EXPECT_EQ(spec(R"("list":[1,"x"])"),
            R"(spec.list[1]: Invalid value: "string": spec.list[1] in body must be of type integer: "string")");
  EXPECT_EQ(spec(R"("set":["a","b","a"])"), R"(spec.set[2]: Duplicate value: "a")");
  EXPECT_EQ(spec(R"("keyed":[{"k":"a"},{"k":"a"}])"), R"(spec.keyed[1]: Duplicate value: {"k":"a"})");
  EXPECT_EQ(spec(R"("map":{"a":true,"b":false})"), "spec.map: Too many: 2: must have at most 1 item");
  EXPECT_EQ(spec(R"("maybe":null)"), "");
  EXPECT_EQ(spec(R"("word":null)"),
            R"(spec.word: Invalid value: "null": spec.word in body must be of type string: "null")");
  EXPECT_EQ(spec(R"("either":1)"), "");
  EXPECT_EQ(spec(R"("either":"x")"), "");
  EXPECT_NE(spec(R"("either":true)"), "");
  EXPECT_EQ(spec(R"("one":{"a":1})"), "");
  EXPECT_EQ(
      spec(R"("one":{"a":1,"b":2})"),
      R"(<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives)");
  EXPECT_EQ(spec(R"("not":"xy")"), R"(<nil>: Invalid value: "": "spec.not" must not validate the schema (not))");
}

// A definition that became stricter holds up nobody who changes something else.
TEST(CustomValidation, WhatIsAsItWasMayStaySo) {
  SchemaSet set;
  const auto schema = read_root_schema({set}, parsed(kWidget));
  ASSERT_TRUE(schema.ok());
  Patterns patterns;
  add_patterns(**schema, patterns);
  const auto of = [&](std::string_view old, std::string_view now) {
    const json::value before = parsed(old);
    return lines(validate_custom(parsed(now), **schema, patterns, &before));
  };
  const auto spec = [&](std::string_view old, std::string_view now) {
    return of(R"({"metadata":{"name":"w","finalizers":["f"]},"spec":{)" + std::string(old) + "}}",
              R"({"metadata":{"name":"w"},"spec":{)" + std::string(now) + "}}");
  };
  constexpr const char* kShort = R"(spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long)";
  EXPECT_EQ(spec(R"("name":"a")", R"("name":"a")"), "");
  EXPECT_EQ(spec(R"("name":"a")", R"("name":"a","n":2)"), "") << "beside it";
  EXPECT_EQ(spec(R"("name":"a")", R"("name":"a","n":5)"),
            "spec.n: Invalid value: 5: spec.n in body should be less than or equal to 3");
  EXPECT_EQ(spec(R"("name":"abc")", R"("name":"a")"), kShort);
  EXPECT_EQ(spec(R"("name":"b")", R"("name":"a")"), kShort) << "another wrong one";
  EXPECT_EQ(spec("", ""), "") << "what is missing";
  EXPECT_EQ(spec("", R"("n":2)"), "spec.name: Required value");
  EXPECT_EQ(spec(R"("name":"abc","n":"1")", R"("name":"abd","n":"1")"), "") << "of another type";
  // Of lists that have no keys all is as it was, or nothing.
  constexpr const char* kName = R"("name":"abc",)";
  const auto beside = [&](std::string_view old, std::string_view now) {
    return spec(kName + std::string(old), kName + std::string(now));
  };
  EXPECT_EQ(beside(R"("list":[1,"x"])", R"("n":1,"list":[1,"x"])"), "");
  EXPECT_EQ(beside(R"("list":[1,"x"])", R"("list":[2,"x"])"),
            R"(spec.list[1]: Invalid value: "string": spec.list[1] in body must be of type integer: "string")");
  EXPECT_EQ(beside(R"("keyed":[{"k":"a"},{"k":7}])", R"("keyed":[{"k":7},{"k":"b"}])"), "");
  EXPECT_NE(beside(R"("keyed":[{"k":7}])", R"("keyed":[{"k":7},{"k":8}])"), "");
  // Doubles: who had some may have more.
  EXPECT_EQ(beside(R"("set":["a","a"])", R"("n":1,"set":["a","a","b"])"), "");
  EXPECT_EQ(beside(R"("set":["a","b"])", R"("set":["a","a"])"), R"(spec.set[1]: Duplicate value: "a")");
  // More old faults than are told do not hide a new one.
  std::string many;
  for (int i = 0; i < 150; ++i) many += R"(,{"k":)" + std::to_string(i) + "}";
  EXPECT_EQ(beside(R"("keyed":[)" + many.substr(1) + "]", R"("n":5,"keyed":[)" + many.substr(1) + R"(,{"k":"x"}])"),
            "spec.n: Invalid value: 5: spec.n in body should be less than or equal to 3");
}

TEST(Structural, WordsOfTheRealServer) {
  const auto of = [](std::string_view definition) { return lines(structural_faults(parsed(definition), "s")); };
  EXPECT_EQ(of(kWidget), "");
  EXPECT_EQ(of(R"({"properties":{}})"), "s.type: Required value: must not be empty at the root");
  EXPECT_EQ(of(R"({"type":"object","properties":{"a":{}}})"),
            "s.properties[a].type: Required value: must not be empty for specified object fields");
  EXPECT_EQ(of(R"({"type":"object","properties":{"a":{"type":"array"}}})"),
            "s.properties[a].items: Required value: must be specified");
  EXPECT_EQ(of(R"({"type":"object","anyOf":[{"type":"string"}]})"),
            "s.anyOf[0].type: Forbidden: must be empty to be structural");
  EXPECT_EQ(of(R"({"type":"object","properties":{"a":{"type":"string","pattern":"["}}})").substr(0, 96),
            "s.properties[a].pattern: Invalid value: \"[\": must be a valid regular expression, but isn't: miss");
  EXPECT_EQ(
      of(R"({"type":"object","properties":{"a":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],
                  "items":{"type":"object","properties":{"k":{"type":"string"}}}}}})"),
      "s.properties[a].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so "
      "it must have a default or be a required property");
}

TEST(CustomDefinition, Read) {
  const auto of = [](std::string_view spec, std::string_view name = "widgets.example.com") {
    return read_custom_definition(
        parsed(std::string(R"({"metadata":{"name":")") + std::string(name) + R"("},"spec":)" + std::string(spec) + "}"),
        nullptr);
  };
  constexpr std::string_view kSpec =
      R"({"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget","shortNames":["w"]},
    "versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
      "spec":{"type":"object","properties":{"n":{"type":"integer"},"colour":{"type":"string"}}}}}},
      "subresources":{"status":{},"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n"}},
      "selectableFields":[{"jsonPath":".spec.colour"}],
      "additionalPrinterColumns":[{"name":"N","type":"integer","jsonPath":".spec.n"}]}]})";
  const ReadDefinition read = of(kSpec);
  ASSERT_EQ(lines(read.errors), "");
  const CustomVersion& version = read.definition->storage();
  EXPECT_EQ(read.definition->singular, "widget");
  EXPECT_EQ(read.definition->list_kind, "WidgetList");
  EXPECT_EQ(version.scale->spec_replicas, (std::vector<std::string>{"spec", "n"}));
  EXPECT_EQ(version.selectable.at(0).name, "spec.colour");
  EXPECT_EQ(version.columns.columns().size(), 2u);
  EXPECT_TRUE(version.has_status);
  EXPECT_EQ(read.definition->version("v2"), nullptr);
  EXPECT_EQ(lines(of(kSpec, "other").errors),
            R"(metadata.name: Invalid value: "other": must be spec.names.plural+"."+spec.group)");
  const auto changed = [&](std::string from, std::string_view to) {
    std::string spec(kSpec);
    spec.replace(spec.find(from), from.size(), to);
    return lines(of(spec).errors);
  };
  EXPECT_EQ(changed(R"("storage":true)", R"("storage":false)"),
            R"(spec.versions: Invalid value: "": must have exactly one version marked as storage version)");
  EXPECT_EQ(
      changed(R"(".spec.n","statusReplicasPath")", R"(".metadata.n","statusReplicasPath")"),
      R"(spec.versions[0].subresources.scale.specReplicasPath: Invalid value: ".metadata.n": should be a json path under .spec)");
  EXPECT_EQ(
      changed(R"(".spec.colour")", R"(".spec.color")"),
      R"(spec.versions[0].selectableFields[0].jsonPath: Invalid value: ".spec.color": does not refer to a valid field)");
  EXPECT_EQ(changed(R"("Namespaced")", R"("Everywhere")"),
            R"(spec.scope: Unsupported value: "Everywhere": supported values: "Cluster", "Namespaced")");
}

}  // namespace
}  // namespace lockstep::kube
