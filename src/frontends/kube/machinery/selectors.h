// Label and field selectors: as text of a request, and as the LabelSelector objects of specs.
// Grammar and messages are those of k8s.io/apimachinery pkg/labels and pkg/fields.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::kube {

namespace json = boost::json;

inline constexpr std::size_t kRequirementsMax = 10'000;  // of one selector, its values counted too

// The label's value; nullopt: the object has no such label.
using LabelOf = std::function<std::optional<std::string_view>(std::string_view key)>;

struct Requirement {
  enum class Is : unsigned char { kIn, kNotIn, kExists, kAbsent, kGreater, kLess } is = Is::kExists;
  std::string key;
  std::vector<std::string> values;  // ascending, each once
  std::int64_t bound = 0;           // kGreater, kLess

  bool matches(const LabelOf& label) const;
  bool operator==(const Requirement&) const = default;
};

// All requirements must hold; none at all: everything matches. `nothing`: a LabelSelector that is null.
struct LabelSelector {
  std::vector<Requirement> requirements;
  bool nothing = false;

  bool matches(const LabelOf& label) const;
  bool matches(const json::object& labels) const;
  bool everything() const { return !nothing && requirements.empty(); }
  std::string text() const;  // reads back as the same
};

Result<LabelSelector> parse_label_selector(std::string_view text);
// {"matchLabels":{…},"matchExpressions":[…]}; an empty object selects everything, null nothing.
Result<LabelSelector> read_label_selector(const json::value& selector);
// A plain map of labels: a Service's or a ReplicationController's selector.
LabelSelector select_labels(const json::object& labels);

// Why it cannot be a label's key ("example.com/name") or value; empty: it can.
std::string label_key_fault(std::string_view key);
std::string label_value_fault(std::string_view value);

struct FieldTerm {
  std::string field;  // "metadata.name", "status.phase"
  std::string value;
  bool equal = true;

  bool operator==(const FieldTerm&) const = default;
};

struct FieldSelector {
  std::vector<FieldTerm> terms;  // all must hold

  // A field that an object does not have counts as "".
  bool matches(const LabelOf& field) const;
  // The value that `field` must have, where a term says so: a list that asks for metadata.name is a single read.
  std::optional<std::string> exact(std::string_view field) const;
  std::string text() const;  // reads back as the same
};

// `a=b,c!=d,e==f`; in values "\", "," and "=" stand behind a "\".
Result<FieldSelector> parse_field_selector(std::string_view text);

}  // namespace lockstep::kube
