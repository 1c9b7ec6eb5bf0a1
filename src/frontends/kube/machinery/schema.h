// What a value of a Kubernetes object may be: names, types, defaults, and how lists and maps are merged.
//
// A schema is data. Those of built-in kinds come from tables (made by scripts/make_kube_tables from the published API
// modules), those of custom resources from their definitions. One generic path serves both: defaulting, pruning,
// validation, patches, columns, OpenAPI and protobuf ask nothing but the schema.
//
// Structure follows Kubernetes' "structural schemas" and "merge and apply" pages
// (kubernetes.io/docs/reference/using-api).
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::kube {

namespace json = boost::json;

struct Schema;

struct Field {
  std::string name;
  const Schema* schema = nullptr;
  bool required = false;
  std::uint32_t number = 0;             // of protobuf; 0 = it has none
  std::vector<std::uint32_t> within;    // of protobuf: numbers of the messages it lies in there, outermost first; JSON
                                        // has it in its parent's place
  std::optional<json::value> standard;  // its default, where it has a constant one
  bool pointer = false;  // an empty value (0, "", false, {}) is not absence. Of other fields of built-in kinds it is
  bool always = false;   // built-in kinds: written even when empty ("status": {})
  std::string_view description = {};  // of built-in kinds, a literal; "": what its schema says
};

// How a server-side apply and a strategic merge patch treat a list.
enum class ListKind : unsigned char {
  kAtomic,  // one owner, replaced as a whole
  kSet,     // scalars, each once
  kMap,     // objects, told apart by `keys`
};

struct Schema {
  enum class Type : unsigned char {
    kAny,  // anything; unknown fields are kept
    kBoolean,
    kInteger,  // 64 bits; `format` "int32" bounds it
    kNumber,
    kString,       // `format`: "byte" (base64), "date-time", …
    kIntOrString,  // a number or a text: target ports, percentages
    kQuantity,     // "1500m"; a number is taken too
    kObject,       // `fields`
    kMap,          // any keys; each value is an `element`
    kList,         // each is an `element`
  } type = Type::kAny;
  std::string name;           // "io.k8s.api.core.v1.PodSpec", "io.example.v1.Widget"; "" = none of its own
  std::string format;         // "int32", "int64", "double", "byte", "date-time", "micro-time", …
  std::string description;    // of a type, in our words, or the custom resource's own
  std::vector<Field> fields;  // kObject, ascending by name
  const Schema* element = nullptr;

  ListKind list = ListKind::kAtomic;
  std::vector<std::string> keys;  // ListKind::kMap
  bool atomic = false;            // kObject, kMap: one owner, replaced as a whole

  // Strategic merge patches know a single key, and some lists of scalars that are merged; lists without are replaced.
  bool patch_merge = false;
  std::string patch_key;
  bool patch_retain_keys = false;  // keys that the patch does not name are dropped ("retainKeys")

  bool nullable = false;
  bool keep_unknown = false;  // x-kubernetes-preserve-unknown-fields
  bool embedded = false;      // x-kubernetes-embedded-resource: has apiVersion, kind and metadata
  json::value rules;          // what else of JSON schema a definition says: minimum, pattern, enum, oneOf,
                              // x-kubernetes-validations … an object, or null

  const Field* field(std::string_view wanted) const;  // null: none of that name
};

// Owns schemas, which may name each other in circles. They live as long as it does and do not move.
class SchemaSet {
 public:
  Schema& make() { return schemas_.emplace_back(); }

 private:
  std::deque<Schema> schemas_;
};

}  // namespace lockstep::kube
