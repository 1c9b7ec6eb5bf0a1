#include "frontends/kube/machinery/yaml_values.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {
namespace {

struct Case {
  const char* yaml;
  const char* json;          // what sigs.k8s.io/yaml 1.6 makes of it
  const char* doubled = "";  // its UnmarshalStrict's lines
};

// Answers of the real reader.
const Case kCases[] = {
    {"mode: 0644", R"({"mode":420})"},
    {"mode: 0o644", R"({"mode":420})"},
    {"a: [0x1F, 0b11, -0b11, 0o8, 08, 09.5, 1_000, _1, 1__0, +5, -0, 00, 0_7, 0X1f, 0B1, 0O17, 12:30:45]",
     R"({"a":[31,3,-3,"0o8",8,9.5,1000,"_1",10,5,0,0,7,31,1,15,"12:30:45"]})"},
    {"a: [9223372036854775807, 9223372036854775808, -9223372036854775808, -9223372036854775809, 18446744073709551616]",
     R"({"a":[9223372036854775807,9223372036854775808,-9223372036854775808,-9223372036854775809.0,18446744073709551616.0]})"},
    {"a: [1., .5, 1e3, 1E+3, 1.5e3, .5e1, -.5, \"-.5\", +.5, ., 1e400, 1e-400, 0x1p2, 1.5_0, .5_0, ._5, 1.5.2, 1e, -]",
     R"({"a":[1,0.5,1000,1000,1500,5,-0.5,"-.5",0.5,".","1e400",0,"0x1p2",1.5,0.5,"._5","1.5.2","1e","-"]})"},
    {"a: [y, Y, yes, on, No, OFF, yEs, true, TRUE, tRue, ~, null, NULL, nULL]\nb:\nc: \"yes\"\nd: 'on'",
     R"({"a":[true,true,true,true,false,false,"yEs",true,true,"tRue",null,null,null,"nULL"],"b":null,"c":"yes","d":"on"})"},
    {"a: [2001-01-01, 2001-01-01T00:00:00Z, 2001-1-1 10:00:00]",
     R"({"a":["2001-01-01","2001-01-01T00:00:00Z","2001-1-1 10:00:00"]})"},
    {"base: &b {x: 1, q: z}\nother:\n  <<: *b\n  x: 2", R"({"base":{"q":"z","x":1},"other":{"q":"z","x":2}})",
     "line 4: key \"x\" already set in map"},
    {"base: &b {x: 1, q: z}\nother:\n  x: 2\n  <<: *b", R"({"base":{"q":"z","x":1},"other":{"q":"z","x":1}})",
     "line 1: key \"x\" already set in map"},
    {"a: &a {p: 1}\nb: &b {p: 2, r: 3}\nc: {<<: [*a, *b]}", R"({"a":{"p":1},"b":{"p":2,"r":3},"c":{"p":1,"r":3}})",
     "line 1: key \"p\" already set in map"},
    {"a: 1\nb: 2\na: 3", R"({"a":3,"b":2})", "line 3: key \"a\" already set in map"},
    {"a:\n  x: 1\nb: 1\na:\n  q: 2", R"({"a":{"q":2},"b":1})", "line 5: key \"a\" already set in map"},
    {"yes: 1\n3: x\n0x10: y\n1.5: z\n\"no\": w", R"({"1.5":"z","16":true,"3":"x","no":"w","true":1})"},
    {"a: !!str 012\nb: !!int \"012\"\nc: !!float 3\nd: !!bool yes\ne: !foo bar\nf: !!binary aGVsbG8=",
     R"({"a":"012","b":10,"c":3,"d":true,"e":"bar","f":"hello"})"},
    {"a: !!timestamp 2001-01-01", R"({"a":"2001-01-01"})"},
    {"a: 1\n---\n\tb: [", R"({"a":1})"},
    {"a: |\n  line\n  two\nb: >-\n  folded\n  text", R"({"a":"line\ntwo\n","b":"folded text"})"},
    {R"({"a": 010, "b": {"c": yes,}})", R"({"a":8,"b":{"c":true}})"},
    {"a: 0.1\nb: 100.0\nc: 1e21\nd: 123456789.125\ne: 1e-7",
     R"({"a":0.1,"b":100,"c":1e21,"d":123456789.125,"e":1e-7})"},
    {"", "null"},
    {"# nothing", "null"},
    {"- 1\n- x", R"([1,"x"])"},
    {"a: 0o\nb: 0x\nc: 0b\nd: \"0\"\ne: 1_\nf: 0x_1F", R"({"a":"0o","b":"0x","c":"0b","d":"0","e":1,"f":31})"},
    {"a: &s text\nb: *s\n*s : 3", R"({"a":"text","b":"text","text":3})"},
    {"on: push\nname: n", R"({"name":false,"true":"push"})"},
};

TEST(YamlValues, AreThoseOfTheRealReader) {
  for (const Case& one : kCases) {
    const auto read = values_of_yaml(one.yaml);
    ASSERT_TRUE(read.ok()) << one.yaml << ": " << read.error().message;
    EXPECT_TRUE(same_json(read->value, json::parse(one.json))) << one.yaml << "\n" << json::serialize(read->value);
    EXPECT_EQ(join(read->doubled, "\n"), one.doubled) << one.yaml;
  }
}

TEST(YamlValues, WhatItRefusesIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"b: 1\na: .inf", "line 2: json: unsupported value: .inf"},
      {"a: .NaN", "line 1: json: unsupported value: .NaN"},
      {"<<: 3", "line 1: map merge requires map or sequence of maps as the value"},
      {"~: 1", "line 1: unsupported map key: ~"},
      {"? [a]\n: 1", "line 1: a name must be plain text"},
      {"a: !!int x", "line 1: cannot decode `x` as a !!int"},
      {"a: !!timestamp foo", "line 1: cannot decode `foo` as a !!timestamp"},
      {"a: !!binary '*'", "line 1: !!binary value contains invalid base64 data"},
      {"a: &x [1, *x]", "line 1: anchor 'x' value contains itself"},
      {"a: *nope", "line 1: unknown anchor 'nope' referenced"},
  };
  for (const auto& [yaml, words] : cases) {
    const auto read = values_of_yaml(yaml);
    ASSERT_FALSE(read.ok()) << yaml;
    EXPECT_EQ(read.error().message, words) << yaml;
  }
}

// A short text stays small, whatever its aliases stand for, and is refused before it is made.
TEST(YamlValues, AliasesHaveABound) {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    std::string list;
    for (int j = 0; j < 10; ++j) list += format("{}*a{}", j ? ", " : "", i - 1);
    laughs += format("a{}: &a{} [{}]\n", i, i, list);
  }
  EXPECT_FALSE(values_of_yaml(laughs).ok());
  // So is what is read at once, without a thread of its own: a few lines may hold as much as a long body.
  const std::string some = "a: &a [x, x, x, x]\nb: [*a, *a]\n";
  EXPECT_TRUE(may_outgrow_its_text(some) && may_outgrow_its_text(laughs));
  EXPECT_FALSE(may_outgrow_its_text("a: [x, x]\ncron: '0 * * * *'\n"));
  EXPECT_TRUE(values_of_yaml(some, {.values = 30}).ok());
  EXPECT_FALSE(values_of_yaml(some, {.values = 12}).ok());
  EXPECT_FALSE(values_of_yaml("a: &a " + std::string(100, 'x') + "\nb: [*a, *a]\n", {.bytes = 150}).ok());
  std::string long_words = "a: &a \"" + std::string(1 << 20, 'x') + "\"\nb:\n";
  for (int i = 0; i < 1000; ++i) long_words += "- *a\n";
  EXPECT_FALSE(values_of_yaml(long_words).ok());
  std::string nested, end;
  for (int i = 0; i < 150; ++i) {
    nested += format("&a{} [", i);
    end += ']';
  }
  for (int i = 0; i < 5000; ++i) nested += "x,";
  EXPECT_FALSE(values_of_yaml(nested + end).ok());
  EXPECT_FALSE(values_of_yaml(std::string(100'000, '[')).ok());
}

}  // namespace
}  // namespace lockstep::kube
