#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include "frontends/kube/kinds/rules.h"

namespace lockstep::kube {
namespace {

json::object definition(std::string_view spec, std::string_view columns = "[]") {
  return json::parse(
             R"({"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",)"
             R"("names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,)"
             R"("additionalPrinterColumns":)" +
             std::string(columns) +
             R"(,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{)" +
             std::string(spec) + "}}}}}}]}}")
      .as_object();
}

std::string definition_faults(const json::object& tree, const json::object* old = nullptr) {
  FieldErrors out;
  rules_of("customresourcedefinitions.apiextensions.k8s.io").validate(tree, old, out);
  std::string text;
  for (const FieldError& one : out) text += (text.empty() ? "" : "\n") + one.text();
  return text;
}

constexpr std::string_view kOfSpec = "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties";

TEST(DefinitionChecks, DefaultsAreWhatTheirSchemasAllow) {
  const auto of = [](std::string_view spec) {
    std::string text = definition_faults(definition(spec));
    return text.starts_with(kOfSpec) ? text.substr(kOfSpec.size()) : text;
  };
  EXPECT_EQ(of(R"("n":{"type":"integer","default":3})"), "");
  EXPECT_EQ(of(R"("n":{"type":"integer","default":"three"})"),
            R"([n].default: Invalid value: "string":  in body must be of type integer: "string")");
  EXPECT_EQ(of(R"("n":{"type":"integer","maximum":2,"default":3})"),
            "[n].default: Invalid value: 3:  in body should be less than or equal to 2");
  EXPECT_EQ(of(R"("n":{"type":"string","enum":["a"],"default":"b"})"),
            R"([n].default: Unsupported value: "b": supported values: "a")");
  EXPECT_EQ(of(R"("n":{"type":"integer","default":3,"x-kubernetes-validations":[{"rule":"self > 3"}]})"),
            R"([n].default: Invalid value: "integer": failed rule: self > 3)");
  EXPECT_EQ(of(R"("o":{"type":"object","default":{"a":"x"},"properties":{"a":{"type":"integer"}}})"),
            R"([o].default.a: Invalid value: "string": a in body must be of type integer: "string")");
  EXPECT_EQ(of(R"("o":{"type":"object","default":{"b":1},"properties":{"a":{"type":"integer"}}})"),
            R"([o].default: Invalid value: {"b":1}: must not have unknown fields)");
  EXPECT_EQ(of(R"("l":{"type":"array","default":[1,"x"],"items":{"type":"integer"}})"),
            R"([l].default[1]: Invalid value: "string": [1] in body must be of type integer: "string")");
  EXPECT_EQ(
      of(R"("l":{"type":"array","items":{"type":"object","properties":{"n":{"type":"integer","default":true}}}})"),
      R"([l].items.properties[n].default: Invalid value: "boolean":  in body must be of type integer: "boolean")");
}

TEST(DefinitionChecks, ColumnsAreWhatTablesShow) {
  const auto of = [](std::string_view column) {
    return definition_faults(definition(R"("n":{"type":"integer"})", "[" + std::string(column) + "]"));
  };
  EXPECT_EQ(of(R"({"name":"N","type":"integer","format":"int32","jsonPath":".spec.n"})"), "");
  constexpr const char* kTypes = "must be one of boolean,date,integer,number,string";
  const std::string path = "spec.versions[0].additionalPrinterColumns[0]";
  EXPECT_EQ(of("{}"), path + ".name: Required value\n" + path + ".type: Required value: " + kTypes + "\n" + path +
                          ".JSONPath: Required value");
  EXPECT_EQ(of(R"({"name":"N","type":"int","jsonPath":".a"})"), path + R"(.type: Invalid value: "int": )" + kTypes);
  EXPECT_EQ(
      of(R"({"name":"N","type":"date","format":"x","jsonPath":".a"})"),
      path + R"(.format: Invalid value: "x": must be one of byte,date,date-time,double,float,int32,int64,password)");
  EXPECT_EQ(of(R"({"name":"N","type":"date","jsonPath":"spec.a"})"),
            path + R"(.JSONPath: Invalid value: "spec.a": must be a simple json path starting with .)");
}

TEST(DefinitionChecks, WhatIsStoredStaysServed) {
  const json::object bad = definition(R"("n":{"type":"integer","default":"three"})");
  json::object told = bad;
  told["status"] = {{"conditions", json::array()}};
  EXPECT_EQ(definition_faults(told, &bad), "");
  EXPECT_NE(definition_faults(definition(R"("n":{"type":"integer","default":"four"})"), &bad), "");
}

}  // namespace
}  // namespace lockstep::kube
