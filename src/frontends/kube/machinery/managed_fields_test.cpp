#include "frontends/kube/machinery/managed_fields.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/cases.h"
#include "frontends/kube/machinery/schema_reader.h"
#include "frontends/kube/machinery/timestamps.h"

namespace lockstep::kube {
namespace {

// The original leaves null where the last part of an unstructured map goes; ours goes with it.
void drop_null_members(json::value& value) {
  if (json::object* object = value.if_object()) {
    drop_members(*object, [](std::string_view, const json::value& each) { return each.is_null(); });
    for (auto& entry : *object) drop_null_members(entry.value());
  } else if (json::array* list = value.if_array()) {
    for (json::value& each : *list) drop_null_members(each);
  }
}

// Without the times, which differ, and in an order that does not rest on them.
json::value comparable(json::value object) {
  drop_null_members(object);
  json::value* metadata = object.as_object().if_contains("metadata");
  json::value* list = metadata == nullptr ? nullptr : metadata->as_object().if_contains("managedFields");
  if (list == nullptr)
    return object;
  std::map<std::string, json::value> sorted;
  for (json::value& each : list->as_array()) {
    each.as_object().erase("time");
    sorted[case_text(each, "operation") + case_text(each, "manager")] = each;
  }
  json::array out;
  for (auto& [name, entry] : sorted) out.push_back(std::move(entry));
  *list = std::move(out);
  return object;
}

std::string without_times(std::string text) {
  for (std::size_t at = text.find(" at 20"); at != text.npos; at = text.find(" at 20"))
    text.erase(at, std::string(" at 2026-11-26T00:00:00Z").size());
  return text;
}

// A conflict's paths come in no settled order from the original.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines = split(without_times(text), '\n');
  std::ranges::sort(lines);
  return lines;
}

TEST(ManagedFields, AsTheOriginal) {
  const json::value cases = load_cases("applies.json");
  SchemaSet set;
  const auto schema = read_root_schema({set}, *member(cases, "schema"));
  ASSERT_TRUE(schema.ok());
  std::size_t number = 0, conflicts = 0;
  for (const json::value& scenario : *member_array(cases, "scenarios")) {
    json::value live;
    WallTime now = *parse_timestamp("2026-11-26T10:00:00Z");
    std::size_t at = 0;
    for (const json::value& step : scenario.as_array()) {
      const std::string where = format("scenario {} step {}: {}", number, at++, json::serialize(step));
      const FieldManager manager{case_text(step, "manager"), "example.com/v1", "", now, nullptr};
      now.us += 1'000'000;
      const std::string error = case_text(step, "error");
      json::value result = *member(step, "object");
      if (case_text(step, "op") == "update") {
        track_update(live, result, **schema, manager);
      } else {
        const Force force = member(step, "force") != nullptr ? Force::kYes : Force::kNo;
        auto applied = apply_configuration(live, result, **schema, manager, force);
        ASSERT_EQ(applied.ok(), error.empty()) << where << (applied.ok() ? "" : applied.error().message);
        if (!applied.ok()) {
          EXPECT_EQ(applied.error().code, 409);
          EXPECT_EQ(lines_of(applied.error().message), lines_of(error)) << where;
          ++conflicts;
          continue;
        }
        result = std::move(*applied);
      }
      ASSERT_TRUE(same_json(comparable(result), comparable(*member(step, "result"))))
          << where << "\nours " << json::serialize(comparable(result)) << "\ntheirs "
          << json::serialize(comparable(*member(step, "result")));
      live = *member(step, "result");
      live.at("metadata").as_object()["uid"] = "u";
    }
    ++number;
  }
  EXPECT_GE(conflicts, 10u);
}

constexpr std::string_view kDeployment = R"({"type":"object","properties":{
  "metadata":{"type":"object","properties":{"name":{"type":"string"},"annotations":{"type":"object","additionalProperties":{"type":"string"}}}},
  "spec":{"type":"object","properties":{"replicas":{"type":"integer"},"text":{"type":"string"}}},
  "status":{"type":"object","properties":{"ready":{"type":"integer"}}}}})";

class Applying : public testing::Test {
 protected:
  void SetUp() override {
    schema = *read_root_schema({set, *read_schema({set}, parsed(R"({"type":"object","properties":{
      "name":{"type":"string"},"uid":{"type":"string"},"annotations":{"type":"object","additionalProperties":{"type":"string"}}}})"))},
                               parsed(kDeployment));
  }
  FieldManager who(std::string name, std::string subresource = {}) const {
    return {std::move(name), "apps/v1", std::move(subresource), *parse_timestamp("2026-11-26T10:00:00Z"), nullptr};
  }
  static json::value object(std::string_view rest) {
    return parsed(format(R"({{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"d"}},{}}})", rest));
  }

  SchemaSet set;
  const Schema* schema = nullptr;
};

TEST_F(Applying, AConflictNamesTheOtherManagerAndTheField) {
  json::value live = object(R"("spec":{"replicas":1})");
  track_update(nullptr, live, *schema, who("kubectl-client-side-apply"));
  live.at("metadata").as_object()["uid"] = "u";
  const auto refused = apply_configuration(live, object(R"("spec":{"replicas":2})"), *schema, who("me"), Force::kNo);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, 409);
  EXPECT_EQ(refused.error().message,
            "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: "
            ".spec.replicas");
  EXPECT_EQ(refused.error().causes,
            (std::vector<Cause>{{"FieldManagerConflict", "conflict with \"kubectl-client-side-apply\" using apps/v1",
                                 ".spec.replicas"}}));
  const auto forced = apply_configuration(live, object(R"("spec":{"replicas":2})"), *schema, who("me"), Force::kYes);
  ASSERT_TRUE(forced.ok());
  EXPECT_EQ(json::serialize(forced->at("metadata").at("managedFields")),
            R"([{"manager":"me","operation":"Apply","apiVersion":"apps/v1","time":"2026-11-26T10:00:00Z",)"
            R"("fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}},)"
            R"({"manager":"kubectl-client-side-apply","operation":"Update","apiVersion":"apps/v1",)"
            R"("time":"2026-11-26T10:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}])");
}

TEST_F(Applying, KubectlTakesOverWhatClientSideApplyLeft) {
  json::value live = object(R"("spec":{"replicas":1})");
  const std::string last = json::serialize(live);
  live.at("metadata").as_object()["annotations"] = {{"kubectl.kubernetes.io/last-applied-configuration", last}};
  track_update(nullptr, live, *schema, who("kubectl-client-side-apply"));
  live.at("metadata").as_object()["uid"] = "u";
  EXPECT_FALSE(apply_configuration(live, object(R"("spec":{"replicas":2})"), *schema, who("me"), Force::kNo).ok());
  const auto taken = apply_configuration(live, object(R"("spec":{"replicas":2})"), *schema, who("kubectl"), Force::kNo);
  ASSERT_TRUE(taken.ok()) << taken.error().message;
  EXPECT_NE(
      std::string(
          taken->at("metadata").at("annotations").at("kubectl.kubernetes.io/last-applied-configuration").as_string())
          .find(R"("replicas":2)"),
      std::string::npos);
}

TEST_F(Applying, WhatTheEndpointIgnoresIsNobodys) {
  FieldSet status;
  status.insert({"f:status"});
  FieldManager manager = who("me");
  manager.ignored = &status;
  json::value live = object(R"("spec":{"replicas":1},"status":{"ready":1})");
  track_update(nullptr, live, *schema, manager);
  EXPECT_EQ(json::serialize(live.at("metadata").at("managedFields").at(0).at("fieldsV1")),
            R"({"f:spec":{".":{},"f:replicas":{}}})");
}

TEST_F(Applying, AConfigThatDoesNotFitIsRefused) {
  const auto refused = [&](std::string_view rest) {
    const auto applied = apply_configuration(nullptr, object(rest), *schema, who("me"), Force::kNo);
    return applied.ok() ? std::string() : applied.error().message;
  };
  EXPECT_EQ(refused(R"("spec":{"nonsense":1})"),
            "failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.nonsense: field not declared in "
            "schema");
  EXPECT_NE(refused(R"("spec":{"replicas":"x"})").find(".spec.replicas: expected numeric (int or float), got \"x\""),
            std::string::npos);
}

TEST_F(Applying, ManyUpdatersBecomeOne) {
  json::value live = object(R"("spec":{"replicas":0})");
  for (int each = 0; each < 30; ++each) {
    json::value changed = live;
    changed.at("metadata").as_object()["annotations"].emplace_object();
    for (int note = 0; note <= each; ++note)
      changed.at("metadata").at("annotations").as_object()[format("a{}", note)] = "x";
    track_update(each == 0 ? json::value() : live, changed, *schema, who(format("m{:02}", each)));
    live = std::move(changed);
    live.at("metadata").as_object()["uid"] = "u";
  }
  const auto entries = read_managed_fields(live);
  ASSERT_TRUE(entries.ok());
  EXPECT_EQ(entries->size(), kUpdateManagersMax);
  EXPECT_EQ(std::ranges::count(*entries, "ancient-changes", &ManagedEntry::manager), 1);
}

TEST(FieldSet, ReadsBack) {
  const json::value fields =
      parsed(R"({"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:ports":{)"
             R"("k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{}}},"f:tags":{"v:\"x\"":{}}}})");
  const auto set = read_fields_v1(fields);
  ASSERT_TRUE(set.ok());
  EXPECT_TRUE(same_json(fields_v1(*set), fields)) << json::serialize(fields_v1(*set));
  EXPECT_TRUE(set->has({"f:metadata", "f:labels"}));
  EXPECT_FALSE(set->has({"f:metadata"}));
  EXPECT_EQ(path_text({"f:spec", "f:ports", R"(k:{"port":80,"protocol":"TCP"})", "f:name"}),
            R"(.spec.ports[port=80,protocol="TCP"].name)");
  EXPECT_EQ(path_text({"f:spec", "f:tags", R"(v:"x")"}), R"(.spec.tags[="x"])");
  EXPECT_FALSE(read_fields_v1(parsed(R"({"k:nonsense":{}})")).ok());
  EXPECT_FALSE(read_fields_v1(parsed(R"({"f:a":1})")).ok());
  EXPECT_TRUE(read_fields_v1(parsed(R"({"z:unknown":{}})"))->empty());
}

}  // namespace
}  // namespace lockstep::kube
