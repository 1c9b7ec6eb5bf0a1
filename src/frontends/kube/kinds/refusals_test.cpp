// What is wrong with a manifest, compared with what the real server says of it (testdata/README.md).
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <set>

#include "base/scenario.h"
#include "frontends/kube/kinds/rules.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/defaulting.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/names.h"
#include "frontends/kube/machinery/pruning.h"
#include "frontends/kube/machinery/typed.h"
#include "frontends/kube/machinery/validation.h"

namespace lockstep::kube {
namespace {

using Faults = std::set<std::string>;  // "Invalid spec.replicas"

Faults faults_of(const json::value& one) {
  const std::string group = text_in(one, "group"), plural = text_in(one, "plural");
  const Resource* resource = find_builtin(group, text_in(one, "version"), plural);
  if (!resource)
    return {"no such resource"};
  json::object tree = one.at("object").as_object();
  prune(tree, *resource->schema);
  if (const auto settled = settle(tree, *resource->schema); !settled.ok())
    return {settled.error().message};
  fill_defaults(tree, *resource->schema, WallTime{});
  const KindRules& rules = rules_of(group.empty() ? plural : plural + "." + group);
  rules.prepare_create(tree);
  FieldErrors errors = validate_metadata(tree.at("metadata").as_object(), {false, name_rule(group, plural)});
  const FieldErrors by_schema = validate_fields(tree, *resource->schema);
  errors.insert(errors.end(), by_schema.begin(), by_schema.end());
  rules.validate(tree, nullptr, errors);
  Faults out;
  for (const FieldError& error : errors)
    out.insert(std::string(reason_word(error.type).substr(sizeof("FieldValue") - 1)) + " " + error.path);
  return out;
}

TEST(Refusals, are_those_of_the_real_server) {
  const json::value all = json::parse(scenario_text(scenario_folder(LOCKSTEP_TESTDATA) + "/refusals.json"));
  for (const json::value& one : all.as_array()) {
    Faults real;
    for (const json::value& cause : one.at("causes").as_array()) real.emplace(text_of(cause));
    const Faults ours = faults_of(one);
    if (member(one, "close"))  // refused for the same, and the field is named a little otherwise
      EXPECT_FALSE(ours.empty()) << one;
    else
      EXPECT_EQ(ours, real) << text_in(one, "case");
  }
}

}  // namespace
}  // namespace lockstep::kube
