#include "frontends/kube/machinery/selectors.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "frontends/kube/machinery/cases.h"

namespace lockstep::kube {
namespace {

TEST(LabelSelector, AsTheOriginal) {
  const json::object labels =
      parsed(R"({"a":"b","x":"5","empty":"","app.kubernetes.io/name":"web","in":"in"})").as_object();
  for (const json::value& each : load_list("label_selectors.json")) {
    const std::string text = case_text(each, "text");
    const auto selector = parse_label_selector(text);
    const std::string error = case_text(each, "error");
    EXPECT_EQ(selector.ok(), error.empty()) << text << ": " << (selector.ok() ? error : selector.error().message);
    if (!selector.ok()) {
      if (!error.empty()) {
        EXPECT_EQ(selector.error().message, error) << text;
      }
      continue;
    }
    if (!error.empty())
      continue;
    EXPECT_EQ(selector->matches(labels), member(each, "matches")->as_bool()) << text;
    const auto again = parse_label_selector(selector->text());
    ASSERT_TRUE(again.ok()) << selector->text();
    EXPECT_EQ(again->requirements, selector->requirements);
  }
}

TEST(LabelSelector, Objects) {
  const json::object web = parsed(R"({"app":"web","tier":"front"})").as_object();
  const auto matches = [&](std::string_view text) {
    const auto selector = read_label_selector(parsed(text));
    return selector.ok() ? (selector->matches(web) ? "yes" : "no") : selector.error().message;
  };
  EXPECT_EQ(matches("{}"), "yes");
  EXPECT_EQ(matches("null"), "no");
  EXPECT_EQ(matches(R"({"matchLabels":{"app":"web"}})"), "yes");
  EXPECT_EQ(matches(R"({"matchLabels":{"app":"api"}})"), "no");
  EXPECT_EQ(matches(R"({"matchExpressions":[{"key":"app","operator":"In","values":["api","web"]}]})"), "yes");
  EXPECT_EQ(matches(R"({"matchExpressions":[{"key":"app","operator":"NotIn","values":["web"]}]})"), "no");
  EXPECT_EQ(matches(R"({"matchExpressions":[{"key":"zone","operator":"DoesNotExist"}]})"), "yes");
  EXPECT_EQ(matches(R"({"matchExpressions":[{"key":"zone","operator":"Exists"}]})"), "no");
  EXPECT_EQ(matches(R"({"matchExpressions":[{"key":"zone","operator":"In"}]})"),
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty");
  EXPECT_EQ(matches(R"({"matchExpressions":[{"key":"zone","operator":"Near"}]})"),
            "\"Near\" is not a valid label selector operator");
  EXPECT_TRUE(select_labels(web).matches(web));
}

TEST(FieldSelector, AsTheOriginal) {
  const json::value object = parsed(R"({"metadata.name":"x","status.phase":"Running","odd":"a,b=c\\"})");
  const LabelOf field = [&](std::string_view key) -> std::optional<std::string_view> {
    const json::value* value = member(object, key);
    return value == nullptr ? std::nullopt : std::optional(text_of(*value));
  };
  for (const json::value& each : load_list("field_selectors.json")) {
    const std::string text = case_text(each, "text");
    const auto selector = parse_field_selector(text);
    const std::string error = case_text(each, "error");
    EXPECT_EQ(selector.ok(), error.empty()) << text << ": " << (selector.ok() ? error : selector.error().message);
    if (!selector.ok() && !error.empty()) {
      EXPECT_EQ(selector.error().message, error);
    }
    if (!selector.ok() || !error.empty())
      continue;
    EXPECT_EQ(selector->matches(field), member(each, "matches")->as_bool()) << text;
    EXPECT_EQ(selector->text(), case_text(each, "canonical")) << text;
  }
  EXPECT_EQ(parse_field_selector("a!=b,metadata.name=y")->exact("metadata.name"), "y");
  EXPECT_EQ(parse_field_selector("metadata.name!=y")->exact("metadata.name"), std::nullopt);
}

}  // namespace
}  // namespace lockstep::kube
