#include "frontends/kube/cel/rules.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "frontends/kube/machinery/cases.h"
#include "frontends/kube/machinery/schema_reader.h"

namespace lockstep::kube::cel {
namespace {

class RulesOf : public testing::Test {
 protected:
  // The definition's faults, or those of an object under its rules, one a line.
  std::string texts(const FieldErrors& errors) {
    std::string out;
    for (const FieldError& error : errors) out += (out.empty() ? "" : "\n") + error.text();
    return out;
  }
  void define(std::string_view definition) {
    const auto schema = read_root_schema({set}, parsed(definition));
    ASSERT_TRUE(schema.ok());
    root = *schema;
    CompiledRules compiled = compile_rules(*root, "schema");
    faults = texts(compiled.errors);
    rules = std::move(compiled.rules);
  }
  std::string of(std::string_view object, std::string_view old = {}) {
    const json::value before = old.empty() ? json::value() : parsed(old);
    return texts(rules.validate(parsed(object), old.empty() ? nullptr : &before, *root));
  }

  SchemaSet set;
  const Schema* root = nullptr;
  Rules rules;
  std::string faults;
};

TEST_F(RulesOf, ARuleWithItsMessage) {
  define(R"json({"type":"object","properties":{"spec":{"type":"object",
    "x-kubernetes-validations":[
      {"rule":"self.min <= self.max","message":"min must not be above max"},
      {"rule":"self.min >= 0","messageExpression":"'min is %d'.format([self.min])","fieldPath":".min","reason":"FieldValueForbidden"},
      {"rule":"self.max < 100"}],
    "properties":{
  "min" : {"type" : "integer"}, "max" : { "type" : "integer" }
}
}
}
})json");
  EXPECT_EQ(faults, "");
  EXPECT_EQ(of(R"({"spec":{"min":1,"max":2}})"), "");
  EXPECT_EQ(of(R"({"spec":{"min":3,"max":2}})"), R"(spec: Invalid value: "object": min must not be above max)");
  EXPECT_EQ(of(R"({"spec":{"min":-1,"max":2}})"), "spec.min: Forbidden: min is -1");
  EXPECT_EQ(of(R"({"spec":{"min":1,"max":200}})"), R"(spec: Invalid value: "object": failed rule: self.max < 100)");
  EXPECT_EQ(of(R"({"spec":{"min":1}})"),
            "spec: Invalid value: \"object\": no such key: max evaluating rule: self.min <= self.max\n"
            "spec: Invalid value: \"object\": no such key: max evaluating rule: self.max < 100");
}

TEST_F(RulesOf, TransitionsLookAtWhatWasThere) {
  define(R"json({"type":"object","properties":{"spec":{"type":"object","properties":{
    "name":{"type":"string","x-kubernetes-validations":[{"rule":"self == oldSelf","message":"is immutable"}]},
    "list":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],
      "properties":{"k":{"type":"string"},"n":{"type":"integer","x-kubernetes-validations":[{"rule":"self >= oldSelf","message":"must not fall"}]}}}},
    "born":{"type":"integer","x-kubernetes-validations":[{"rule":"oldSelf.hasValue() || self == 0","optionalOldSelf":true,"message":"begins at 0"}]}}}}})json");
  EXPECT_EQ(faults, "");
  EXPECT_EQ(of(R"({"spec":{"name":"a"}})"), "");
  EXPECT_EQ(of(R"({"spec":{"name":"b"}})", R"({"spec":{"name":"a"}})"),
            R"(spec.name: Invalid value: "string": is immutable)");
  EXPECT_EQ(of(R"({"spec":{"list":[{"k":"y","n":1},{"k":"x","n":1}]}})",
               R"({"spec":{"list":[{"k":"x","n":2},{"k":"y","n":1}]}})"),
            R"(spec.list[1].n: Invalid value: "integer": must not fall)");
  EXPECT_EQ(of(R"({"spec":{"born":1}})"), R"(spec.born: Invalid value: "integer": begins at 0)");
  EXPECT_EQ(of(R"({"spec":{"born":1}})", R"({"spec":{"born":0}})"), "");
}

TEST_F(RulesOf, MistakesOfADefinition) {
  define(R"json({"type":"object","properties":{"spec":{"type":"object","x-kubernetes-validations":[
      {"rule":"self.nonsense > 1"},{"rule":"self.n"},{"rule":""},{"rule":"true","reason":"Because"},{"rule":"self.n > 'a'"}],
    "properties":{"n":{"type":"integer"},
      "list":{"type":"array","items":{"type":"integer","x-kubernetes-validations":[{"rule":"self == oldSelf"}]}}}}}})json");
  EXPECT_EQ(
      faults,
      "schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: \"self.nonsense > 1\": compilation "
      "failed: "
      "ERROR: <input>:1:5: undefined field 'nonsense'\n | self.nonsense > 1\n | ....^\n"
      "schema.properties[spec].x-kubernetes-validations[1].rule: Invalid value: \"self.n\": cel expression must "
      "evaluate to a bool\n"
      "schema.properties[spec].x-kubernetes-validations[2].rule: Required value: rule is not specified\n"
      "schema.properties[spec].x-kubernetes-validations[3].reason: Unsupported value: \"Because\": supported values: "
      "\"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"\n"
      "schema.properties[spec].x-kubernetes-validations[4].rule: Invalid value: \"self.n > 'a'\": compilation failed: "
      "ERROR: <input>:1:8: found no matching overload for '_>_' applied to '(int, string)'\n | self.n > 'a'\n | "
      ".......^\n"
      "schema.properties[spec].properties[list].items.x-kubernetes-validations[0].rule: Invalid value: \"self == "
      "oldSelf\": "
      "oldSelf cannot be used on the uncorrelatable portion of the schema");
}

TEST_F(RulesOf, ListsOfSetsAndMapsHaveNoOrder) {
  define(R"json({"type":"object","properties":{
    "a":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
    "when":{"type":"string","format":"date-time"},"for":{"type":"string","format":"duration"},
    "a-b":{"type":"integer"},"either":{"x-kubernetes-int-or-string":true}},
    "x-kubernetes-validations":[
      {"rule":"!has(self.a) || self.a == ['x','y']","message":"a"},
      {"rule":"!has(self.when) || self.when.getFullYear() == 2026","message":"when"},
      {"rule":"!has(self.__for__) || self.__for__ < duration('1h')","message":"for"},
      {"rule":"!has(self.a__dash__b) || self.a__dash__b == 1","message":"a-b"},
      {"rule":"!has(self.either) || (type(self.either) == string ? self.either == 'x' : self.either == 1)","message":"either"}]
})json");
  EXPECT_EQ(faults, "");
  EXPECT_EQ(of(R"({"a":["y","x"],"when":"2026-01-01T00:00:00Z","for":"59m","a-b":1,"either":"x"})"), "");
  EXPECT_EQ(of(R"({"a":["y"],"when":"2025-01-01T00:00:00Z","for":"2h","a-b":2,"either":2})"),
            ": Invalid value: \"object\": a\n: Invalid value: \"object\": when\n: Invalid value: \"object\": for\n"
            ": Invalid value: \"object\": a-b\n: Invalid value: \"object\": either");
}

TEST_F(RulesOf, AnObjectsRulesMayNotCostMoreThanTheyMay) {
  define(R"json({"type":"object","properties":{"l":{"type":"array","items":{"type":"integer"}}},
    "x-kubernetes-validations":[{"rule":"self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))"}]
})json");
  EXPECT_EQ(faults, "");
  json::array list(500, 1);
  const json::value object = {{"l", list}};
  const FieldErrors errors = rules.validate(object, nullptr, *root);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_NE(errors[0].text().find("call cost exceeds limit"), std::string::npos);
}

TEST_F(RulesOf, WhatIsAsItWasMayStaySo) {
  define(R"json({"type":"object","x-kubernetes-validations":[{"rule":"!has(self.spec.n) || self.spec.n != 13"}],
    "properties":{"metadata":{"type":"object"},"spec":{"type":"object","properties":{
      "n":{"type":"integer","x-kubernetes-validations":[{"rule":"self < 10"},{"rule":"self >= oldSelf"}]},
      "more":{"type":"integer"},
      "list":{"type":"array","items":{"type":"integer","x-kubernetes-validations":[{"rule":"self < 10"}]}},
      "keyed":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],
        "properties":{"k":{"type":"string"},"n":{"type":"integer","x-kubernetes-validations":[{"rule":"self < 10"}]}}}},
      "map":{"type":"object","x-kubernetes-map-type":"atomic","additionalProperties":{
        "type":"integer","x-kubernetes-validations":[{"rule":"self < 10"}]}}}}}})json");
  ASSERT_EQ(faults, "");
  const auto spec = [&](std::string_view old, std::string_view now) {
    return of(R"({"spec":{)" + std::string(now) + "}}", R"({"spec":{)" + std::string(old) + "}}");
  };
  constexpr const char* kTooLarge = "failed rule: self < 10";
  EXPECT_EQ(spec(R"("n":20)", R"("n":20,"more":1)"), "");
  EXPECT_NE(spec(R"("n":20)", R"("n":21)").find(kTooLarge), std::string::npos);
  EXPECT_EQ(spec(R"("n":20)", R"("n":19)").find("failed rule: self >= oldSelf") == std::string::npos, false)
      << "rules about the change hold";
  EXPECT_NE(spec(R"("n":13)", R"("n":13,"more":1)"), "") << "the object is not as it was";
  EXPECT_EQ(spec(R"("n":13)", R"("n":13)"), "");
  EXPECT_EQ(spec(R"("list":[20])", R"("list":[20],"more":1)"), "");
  EXPECT_NE(spec(R"("list":[20])", R"("list":[20,1])"), "");
  EXPECT_EQ(spec(R"("keyed":[{"k":"a","n":20}])", R"("keyed":[{"k":"b"},{"k":"a","n":20}])"), "");
  EXPECT_NE(spec(R"("keyed":[{"k":"a","n":20}])", R"("keyed":[{"k":"b","n":20}])"), "");
  EXPECT_EQ(spec(R"("map":{"a":20})", R"("map":{"a":20,"b":1})"), "") << "though no rule may ask for its past";
  EXPECT_NE(spec(R"("map":{"a":20})", R"("map":{"b":20})"), "");
}

}  // namespace
}  // namespace lockstep::kube::cel
