// Defaults and canonical form, compared with what Kubernetes' own code makes of the same objects (testdata/README.md).
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <sstream>

#include "base/scenario.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/defaulting.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/pruning.h"
#include "frontends/kube/machinery/typed.h"

namespace lockstep::kube {
namespace {

json::value nulls_gone(const json::value& value) {
  if (value.is_array()) {
    json::array out;
    for (const json::value& element : value.get_array()) out.push_back(nulls_gone(element));
    return out;
  }
  if (!value.is_object())
    return value;
  json::object out;
  for (const auto& entry : value.get_object())
    if (!entry.value().is_null())
      out[entry.key()] = nulls_gone(entry.value());
  return out;
}

// Where two values first differ.
std::string difference(const json::value& ours, const json::value& theirs, const std::string& path = "") {
  if (ours.is_object() && theirs.is_object()) {
    for (const auto& entry : theirs.get_object()) {
      const json::value* own = ours.get_object().if_contains(entry.key());
      const std::string at = path + "." + std::string(entry.key());
      if (!own)
        return at + ": lacks " + json::serialize(entry.value());
      if (std::string found = difference(*own, entry.value(), at); !found.empty())
        return found;
    }
    for (const auto& entry : ours.get_object())
      if (!theirs.get_object().contains(entry.key()))
        return path + "." + std::string(entry.key()) + ": is " + json::serialize(entry.value());
    return {};
  }
  if (ours.is_array() && theirs.is_array() && ours.get_array().size() == theirs.get_array().size()) {
    for (std::size_t i = 0; i < ours.get_array().size(); ++i)
      if (std::string found =
              difference(ours.get_array()[i], theirs.get_array()[i], path + "[" + std::to_string(i) + "]");
          !found.empty())
        return found;
    return {};
  }
  return same_json(ours, theirs) ? "" : path + ": is " + json::serialize(ours) + ", not " + json::serialize(theirs);
}

const Schema& schema_of(const json::object& object) {
  const GroupVersion of = split_group_version(text_of(object.at("apiVersion")));
  return *builtin_kind_schema(of.group, of.version, text_of(object.at("kind")));
}

TEST(Defaults, AsKubernetesFillsThemIn) {
  std::istringstream file(scenario_text(scenario_folder(LOCKSTEP_TESTDATA) + "/defaults.txt"));
  std::string given, wanted;
  std::size_t cases = 0;
  while (std::getline(file, given) && std::getline(file, wanted)) {
    ++cases;
    json::object object = json::parse(given).as_object();
    const Schema& schema = schema_of(object);
    EXPECT_EQ(prune(object, schema), std::vector<std::string>()) << given;
    const auto settled = settle(object, schema);
    ASSERT_TRUE(settled.ok()) << settled.error().message << "\n" << given;
    fill_defaults(object, schema, {});
    EXPECT_EQ(difference(object, nulls_gone(json::parse(wanted))), "") << given;
  }
  EXPECT_GE(cases, 50u);
}

// What Go writes of an object that is filled at random is canonical already.
TEST(Settle, LeavesCanonicalObjectsAsTheyAre) {
  std::istringstream file(scenario_text(scenario_folder(LOCKSTEP_TESTDATA) + "/protobuf.txt"));
  std::string name, hex, text;
  while (std::getline(file, name) && std::getline(file, hex) && std::getline(file, text)) {
    json::object object = nulls_gone(json::parse(text)).as_object();
    const json::object before = object;
    const Schema& schema = schema_of(object);
    EXPECT_EQ(prune(object, schema), std::vector<std::string>()) << name;
    const auto settled = settle(object, schema);
    ASSERT_TRUE(settled.ok()) << name << ": " << settled.error().message;
    EXPECT_EQ(difference(object, before), "") << name;
  }
}

}  // namespace
}  // namespace lockstep::kube
