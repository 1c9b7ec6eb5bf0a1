// Values of CEL, the expression language of Kubernetes' validation rules: what an expression works on and what it
// gives.
//
// A part of an object is looked at where it lies: a value refers to its JSON and to the schema that gives it a type. An
// error is a value too, as the language wants: `false && 1/0 == 1` is false.
// Source: the language definition at cel.dev; types of k8s.io/apiserver pkg/cel.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/time.h"
#include "frontends/kube/machinery/quantity.h"
#include "frontends/kube/machinery/schema.h"

namespace lockstep::kube::cel {

class Value;
struct Access;

struct Bytes {
  std::string bytes;
};
struct TypeName {
  std::string name;  // "int", "list", "google.protobuf.Timestamp"
};
struct Fault {
  std::string message;  // "no such key: x", "division by zero"
};
struct Span {
  std::int64_t seconds = 0;  // both of one sign
  std::int32_t nanos = 0;
};
struct Moment {
  std::int64_t seconds = 0;  // since 1970, UTC
  std::int32_t nanos = 0;    // 0 … 999,999,999
};
struct List {
  std::vector<Value> items;
  const Schema* schema = nullptr;  // of a list of an object; null: made by the expression
};
struct Map {
  std::vector<std::pair<Value, Value>> entries;
};
// A map or an object of JSON. `schema` says which: fields have types of their own, keys of a map one.
struct Tree {
  const json::object* object = nullptr;
  const Schema* schema = nullptr;
};
struct Optional {
  std::vector<Value> value;  // one or none
};
struct Address {
  unsigned char bytes[16] = {};
  bool v6 = false;
};
struct Network {
  Address address;
  int bits = 0;
};
struct Url {
  std::string scheme, host, hostname, port, escaped_path;
  std::vector<std::pair<std::string, std::vector<std::string>>> query;
};
struct Format {
  std::string name;
};
struct Semver {
  std::int64_t major = 0, minor = 0, patch = 0;
  std::vector<std::string> pre;
};

class Value {
 public:
  using Held =
      std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::shared_ptr<const std::string>,
                   std::shared_ptr<const Bytes>, std::shared_ptr<const List>, std::shared_ptr<const Map>, Tree, Moment,
                   Span, std::shared_ptr<const TypeName>, std::shared_ptr<const Optional>, std::shared_ptr<const Fault>,
                   Quantity, Address, Network, std::shared_ptr<const Url>, std::shared_ptr<const Format>,
                   std::shared_ptr<const Semver>, std::shared_ptr<const Access>>;

  Value() = default;  // null
  template <class T>
  explicit Value(T held) : held_(std::move(held)) {}

  static Value text(std::string value) { return Value(std::make_shared<const std::string>(std::move(value))); }
  static Value list(std::vector<Value> items, const Schema* schema = nullptr);
  static Value map(std::vector<std::pair<Value, Value>> entries);
  static Value fault(std::string message) { return Value(std::make_shared<const Fault>(Fault{std::move(message)})); }
  static Value type(std::string name) { return Value(std::make_shared<const TypeName>(TypeName{std::move(name)})); }
  static Value none() { return Value(std::make_shared<const Optional>()); }
  static Value some(Value value);

  template <class T>
  const T* as() const {  // of what is held by value: null if it is something else
    return std::get_if<T>(&held_);
  }
  template <class T>
  const T* part() const {  // of what is shared
    const auto* held = std::get_if<std::shared_ptr<const T>>(&held_);
    return held == nullptr ? nullptr : held->get();
  }
  const std::string* string() const { return part<std::string>(); }
  bool is_null() const { return std::holds_alternative<std::monostate>(held_); }
  bool is_fault() const { return std::holds_alternative<std::shared_ptr<const Fault>>(held_); }
  bool is_true() const { return as<bool>() != nullptr && *as<bool>(); }
  bool is_number() const { return as<std::int64_t>() || as<std::uint64_t>() || as<double>(); }
  bool is_map() const { return as<Tree>() != nullptr || part<Map>() != nullptr; }
  const Held& held() const { return held_; }

 private:
  Held held_;
};

// A JSON value as its schema types it; null schema: by what it is.
Value from_json(const json::value& value, const Schema* schema);

bool equal(const Value& a, const Value& b);
std::optional<int> order(const Value& a, const Value& b);  // nullopt: they cannot be compared
std::string type_word(const Value& value);                 // "int", "list", …: what type() names
std::size_t size_of(const Value& value);                   // of texts in characters, of bytes, lists and maps

std::optional<Value> find_key(const Value& map, const Value& key);
std::vector<std::pair<Value, Value>> entries_of(const Value& map);

std::string escaped_name(std::string_view field);    // "a-b" -> "a__dash__b": how a field is written in an expression
std::string unescaped_name(std::string_view field);  // and back

std::string span_text(const Span& span);                     // "3600s", "1.5s"
std::string moment_text(const Moment& time);                 // RFC 3339
std::optional<Span> parse_span_text(std::string_view text);  // "1h30m", "1.5s", "-2ms"
std::optional<Moment> parse_moment(std::string_view text);
std::string double_text(double number);  // as Go prints it

}  // namespace lockstep::kube::cel
