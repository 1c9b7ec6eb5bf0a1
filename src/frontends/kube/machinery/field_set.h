// Sets of fields of an object, as managedFields keeps them ("FieldsV1"), and their algebra.
//
// A field is a path of elements, each in the text it has in FieldsV1: "f:spec", `k:{"name":"a"}`, `v:"x"`, "i:0". Texts
// are canonical (keys in order, numbers shortest), so that equal elements have equal texts.
// Source: sigs.k8s.io/structured-merge-diff, fieldpath.
#pragma once

#include <boost/json/value.hpp>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::kube {

namespace json = boost::json;

inline constexpr std::size_t kFieldSetDepthMax = 200;

struct FieldSet {
  bool member = false;  // this very path is in the set; of the root: without meaning
  std::map<std::string, FieldSet, std::less<>> below;

  bool empty() const { return !member && below.empty(); }
  FieldSet& at(std::string_view element);  // made where it is not there
  const FieldSet* find(std::string_view element) const;
  void insert(const std::vector<std::string>& path);
  bool has(const std::vector<std::string>& path) const;

  // Calls `visit` with each path of the set.
  void each(const std::function<void(const std::vector<std::string>&)>& visit) const;

  bool operator==(const FieldSet&) const = default;
};

FieldSet united(FieldSet a, const FieldSet& b);
FieldSet common(const FieldSet& a, const FieldSet& b);
FieldSet without(const FieldSet& a, const FieldSet& b);        // the paths of `a` that `b` does not have
FieldSet without_below(const FieldSet& a, const FieldSet& b);  // nor anything below a path of `b`

json::object fields_v1(const FieldSet& set);
Result<FieldSet> read_fields_v1(const json::value& fields);  // elements of unknown kinds are dropped

std::string field_element(std::string_view name);                 // "f:name"
std::string canonical_text(const json::value& value);             // compact JSON, keys in order, numbers shortest
std::string path_text(const std::vector<std::string>& elements);  // `.spec.containers[name="a"].image`

}  // namespace lockstep::kube
