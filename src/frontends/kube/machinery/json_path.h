// The paths that name parts of objects in printer columns, selectable fields, scale subresources and kubectl's custom
// columns: ".spec.replicas", ".status.conditions[?(@.type=="Ready")].status", ".metadata.labels['a.b/c']", "..image".
// Syntax: "JSONPath Support" in kubectl's reference.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::kube {

namespace json = boost::json;

class JsonPath {
 public:
  // Empty where nothing is there, or what is there has another shape: those are no errors. 10,000 results at most.
  std::vector<const json::value*> find(const json::value& root) const;
  const json::value* first(const json::value& root) const;  // null: nothing there

  // ".a.b.c": names only, so a value can also be put there. Nullopt: anything more than that.
  std::optional<std::vector<std::string>> names() const;

 private:
  friend Result<JsonPath> parse_json_path(std::string_view text);
  friend class JsonPathParser;

  struct Step;
  struct Filter {
    std::vector<Step> left;        // behind "@"
    std::string op;                // "", "==", "!=", "<", "<=", ">", ">="; "" = something is there
    json::value right;             // a text, number or boolean
    std::vector<Step> right_path;  // behind "@", where the right side is one
    bool right_is_path = false;
  };
  struct Step {
    enum class Kind : unsigned char { kName, kEvery, kBelow, kSlice, kFilter } kind = Kind::kName;
    std::string name;                         // kName
    std::int64_t from = 0, to = 0, step = 1;  // kSlice
    bool has_from = false, has_to = false, single = false;
    std::vector<Filter> filters;  // kFilter: one
  };
  static void walk(const std::vector<Step>& steps, std::size_t at, const json::value& value,
                   std::vector<const json::value*>& out);
  static bool holds(const Filter& filter, const json::value& value);

  std::vector<Step> steps_;
};

// With or without "{…}" and "$" around it; 4096 characters at most.
Result<JsonPath> parse_json_path(std::string_view text);

// As kubectl prints results: texts bare, structures as JSON, several with blanks between.
std::string json_path_text(const std::vector<const json::value*>& results);

}  // namespace lockstep::kube
