#include "frontends/kube/machinery/typed.h"

#include <boost/json/array.hpp>
#include <limits>
#include <utility>

#include "base/text.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/encodings.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/pruning.h"
#include "frontends/kube/machinery/quantity.h"
#include "frontends/kube/machinery/quoted.h"
#include "frontends/kube/machinery/timestamps.h"

namespace lockstep::kube {
namespace {

std::string_view last_word(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// "v1.PodSpec" of io.k8s.api.core.v1.PodSpec.
std::string_view last_words(std::string_view name) {
  const std::size_t last = name.rfind('.');
  return last == std::string_view::npos || last == 0 ? name : name.substr(name.rfind('.', last - 1) + 1);
}

std::string go_type(const Schema& schema) {
  using enum Schema::Type;
  switch (schema.type) {
    case kBoolean: return "bool";
    case kInteger: return schema.format;
    case kNumber: return "float64";
    case kString:
      return schema.format == "byte" ? "[]uint8"
             : schema.name.empty()   ? "string"
                                     : std::string(last_words(schema.name));
    case kMap: return "map[string]" + go_type(*schema.element);
    case kList: return "[]" + go_type(*schema.element);
    default: return schema.name.empty() ? "interface {}" : std::string(last_words(schema.name));
  }
}

std::string go_value(const json::value& value) {
  if (value.is_string())
    return "string";
  if (value.is_bool())
    return "bool";
  if (is_number(value))
    return "number";
  return value.is_array() ? "array" : "object";
}

class Settler {
 public:
  Result<void> object(json::object& object, const Schema& schema) {
    bool drop = false;
    for (auto& entry : object) {
      const Field* field = schema.field(entry.key());
      if (!field)
        continue;
      const Place place = step(entry.key());
      const std::string_view outer = std::exchange(structure_, last_word(schema.name));
      if (!entry.value().is_null())
        TRY(value(entry.value(), *field->schema));
      structure_ = outer;
      leave(place);
      drop = drop || unwanted(*field, entry.value());
    }
    if (drop)
      drop_members(object, [&](std::string_view key, const json::value& value) {
        const Field* field = schema.field(key);
        return field && unwanted(*field, value);
      });
    return {};
  }

 private:
  struct Place {
    std::size_t path, go_path;
  };

  static bool unwanted(const Field& field, const json::value& value) {
    if (value.is_null())
      return true;
    if (field.pointer || field.always || field.schema->type == Schema::Type::kAny)
      return false;
    return says_nothing(value);
  }

  // Go's messages name fields without the numbers of list elements; ours keep them.
  Place step(std::string_view key) {
    const Place before{path_.size(), go_path_.size()};
    for (std::string* path : {&path_, &go_path_}) {
      if (!path->empty())
        *path += '.';
      *path += key;
    }
    return before;
  }
  void leave(Place place) {
    path_.resize(place.path);
    go_path_.resize(place.go_path);
  }

  Error unfit(const json::value& value, const Schema& schema, std::string what = {}) const {
    return invalid(format("json: cannot unmarshal {} into Go struct field {}.{} of type {}",
                          what.empty() ? go_value(value) : what, structure_, go_path_, go_type(schema)),
                   path_);
  }
  Error wrong(std::string why) const { return invalid(std::move(why), path_); }

  Result<void> value(json::value& value, const Schema& schema) {
    using enum Schema::Type;
    switch (schema.type) {
      case kBoolean: return value.is_bool() ? Result<void>() : unfit(value, schema);
      case kInteger: return integer(value, schema);
      case kNumber: return is_number(value) ? Result<void>() : unfit(value, schema);
      case kString: return value.is_string() ? text(value, schema) : unfit(value, schema);
      case kIntOrString: return value.is_string() ? Result<void>() : integer(value, schema);
      case kQuantity: return amount(value, schema);
      case kObject: return value.is_object() ? object(value.get_object(), schema) : unfit(value, schema);
      case kMap: return map(value, schema);
      case kList: return value.is_array() ? list(value.get_array(), *schema.element) : unfit(value, schema);
      case kAny:
        if (const Schema* other = alternative(schema, value))
          return value.is_array() ? list(value.get_array(), *other) : this->value(value, *other);
        return {};
    }
    return {};
  }

  Result<void> integer(json::value& value, const Schema& schema) {
    if (!is_number(value))
      return unfit(value, schema);
    const bool narrow = schema.format != "int64";
    if (value.is_uint64() && value.get_uint64() <= INT64_MAX)  // of a tree that we made
      value = static_cast<std::int64_t>(value.get_uint64());
    const bool whole = value.is_int64();
    if (!whole || (narrow && (value.get_int64() > INT32_MAX || value.get_int64() < INT32_MIN)))
      return unfit(value, schema, "number " + number_text(value));
    return {};
  }

  Result<void> text(json::value& value, const Schema& schema) {
    const std::string_view text = value.get_string();
    if (schema.format.empty())
      return {};
    if (schema.format == "byte") {
      if (!bytes_of_base64(text))
        return wrong(format("illegal base64 data at input byte {}",
                            std::min(text.find_first_not_of(kBase64Characters), text.size())));
    } else if (schema.name == kTimeName || schema.name == kMicroTimeName) {
      const auto time = parse_timestamp(text);
      if (!time)
        return wrong(format("parsing time {} as \"2006-01-02T15:04:05{}Z07:00\": cannot parse {}", quoted(text),
                            schema.name == kTimeName ? "" : ".000000", quoted(text)));
      value = schema.name == kTimeName ? timestamp_text(*time) : micro_timestamp_text(*time);
    } else if (schema.name == kDurationName) {
      const auto duration = parse_duration(text);
      if (!duration)
        return wrong("time: invalid duration " + quoted(text));
      value = duration_text(*duration);
    }
    return {};
  }

  Result<void> amount(json::value& value, const Schema& schema) {
    if (!value.is_string() && !is_number(value))
      return unfit(value, schema);
    const auto quantity = parse_quantity(value.is_string() ? std::string(value.get_string()) : number_text(value));
    if (!quantity.ok())
      return wrong(quantity.error().message);
    value = quantity->text();
    return {};
  }

  Result<void> map(json::value& value, const Schema& schema) {
    if (!value.is_object())
      return unfit(value, schema);
    for (auto& entry : value.get_object()) {
      const Place place = step(entry.key());
      if (entry.value().is_null())
        empty(entry.value(), *schema.element);
      else
        TRY(this->value(entry.value(), *schema.element));
      leave(place);
    }
    return {};
  }

  Result<void> list(json::array& list, const Schema& element) {
    const std::size_t length = path_.size();
    for (std::size_t i = 0; i < list.size(); ++i) {
      path_ += format("[{}]", i);
      if (list[i].is_null())
        empty(list[i], element);
      else
        TRY(value(list[i], element));
      path_.resize(length);
    }
    return {};
  }

  // Null where something must stand is the type's empty value.
  static void empty(json::value& value, const Schema& schema) {
    using enum Schema::Type;
    switch (schema.type) {
      case kBoolean: value = false; break;
      case kInteger:
      case kIntOrString: value = 0; break;
      case kNumber: value = 0.0; break;
      case kString:
        if (schema.name.empty())
          value = "";
        break;
      case kQuantity: value = "0"; break;
      case kObject: value = json::object(); break;
      default: break;
    }
  }

  static constexpr std::string_view kBase64Characters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/\r\n";

  std::string path_, go_path_;
  std::string_view structure_;
};

}  // namespace

bool says_nothing(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null: return true;
    case json::kind::bool_: return !value.get_bool();
    case json::kind::int64: return value.get_int64() == 0;
    case json::kind::uint64: return value.get_uint64() == 0;
    case json::kind::double_: return value.get_double() == 0;
    case json::kind::string: return value.get_string().empty();
    case json::kind::array: return value.get_array().empty();
    case json::kind::object: return value.get_object().empty();
  }
  return false;
}

Result<void> settle(json::object& object, const Schema& schema) { return Settler().object(object, schema); }

}  // namespace lockstep::kube
