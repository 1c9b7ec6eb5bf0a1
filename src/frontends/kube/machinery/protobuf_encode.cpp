#include <algorithm>
#include <bit>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <optional>
#include <span>

#include "base/text.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/encodings.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/protobuf.h"
#include "frontends/kube/machinery/protobuf_wire.h"
#include "frontends/kube/machinery/timestamps.h"

namespace lockstep::kube {
namespace {

Error misfit(std::string_view wanted) { return invalid(format("must be {} to be written as protobuf", wanted)); }

bool is_message(const Schema& schema) {
  using enum Schema::Type;
  return schema.type == kObject || schema.type == kQuantity || schema.type == kIntOrString || schema.type == kAny ||
         (schema.type == kString &&
          (schema.name == kTimeName || schema.name == kMicroTimeName || schema.name == kDurationName));
}

class Encoder {
 public:
  Result<std::string> message(const json::object& object, const Schema& schema) {
    if (++depth_ > kDepthMax)
      return Error{Errc::kExhausted, format("nests deeper than {}", kDepthMax), {}};
    std::vector<const Field*> present;
    for (const Field& field : schema.fields)
      if (field.number != 0)
        present.push_back(&field);
    std::ranges::sort(present, {}, [](const Field* field) { return path(*field); });
    std::string out;
    TRY(level(object, present, 0, out));
    --depth_;
    return out;
  }

 private:
  static std::vector<std::uint32_t> path(const Field& field) {
    std::vector<std::uint32_t> out = field.within;
    out.push_back(field.number);
    return out;
  }

  // Fields of one message, or of one that lies in it and whose fields JSON shows in their parent's place.
  Result<void> level(const json::object& object, std::span<const Field* const> fields, std::size_t depth,
                     std::string& out) {
    for (std::size_t i = 0; i < fields.size();) {
      if (fields[i]->within.size() == depth) {
        if (auto put = field(*fields[i], object.if_contains(fields[i]->name), out); !put.ok()) {
          Error error = std::move(put).error();
          error.field = error.field.empty() ? fields[i]->name : fields[i]->name + "." + error.field;
          return error;
        }
        ++i;
        continue;
      }
      const std::uint32_t number = fields[i]->within[depth];
      std::size_t end = i;
      while (end < fields.size() && fields[end]->within.size() > depth && fields[end]->within[depth] == number) ++end;
      std::string inner;
      TRY(level(object, fields.subspan(i, end - i), depth + 1, inner));
      put_bytes(out, number, inner);
      i = end;
    }
    return {};
  }

  Result<void> field(const Field& field, const json::value* value, std::string& out) {
    const Schema& schema = *field.schema;
    if (value && value->is_null())
      value = nullptr;
    if (schema.type == Schema::Type::kMap)
      return value ? map(field, *value, out) : Result<void>();
    if (schema.type == Schema::Type::kList) {
      if (!value)
        return {};
      if (!value->is_array())
        return misfit("a list");
      if (schema.name.empty()) {
        for (const json::value& element : value->get_array()) TRY(one(*schema.element, field.number, element, out));
        return {};
      }
      std::string inner;
      for (const json::value& element : value->get_array()) TRY(one(*schema.element, 1, element, inner));
      put_bytes(out, field.number, inner);
      return {};
    }
    if (value)
      return one(schema, field.number, *value, out);
    if (field.pointer || schema.format == "byte")
      return {};
    return nothing(schema, field.number, out);
  }

  // What is no pointer is written even where it holds nothing.
  Result<void> nothing(const Schema& schema, std::uint32_t number, std::string& out) {
    using enum Schema::Type;
    switch (schema.type) {
      case kObject: return one(schema, number, json::object(), out);
      case kQuantity: return one(schema, number, "0", out);
      case kIntOrString: return one(schema, number, 0, out);
      case kNumber: return one(schema, number, 0.0, out);
      case kInteger:
      case kBoolean: put_number(out, number, 0); return {};
      case kString:
        if (schema.name == kDurationName)
          return one(schema, number, "0s", out);
        put_bytes(out, number, {});
        return {};
      case kAny: put_bytes(out, number, {}); return {};
      default: return {};
    }
  }

  Result<void> map(const Field& field, const json::value& value, std::string& out) {
    if (!value.is_object())
      return misfit("an object");
    std::vector<std::pair<std::string_view, const json::value*>> entries;
    for (const auto& entry : value.get_object()) entries.emplace_back(entry.key(), &entry.value());
    std::ranges::sort(entries, {}, [](const auto& entry) { return entry.first; });
    for (const auto& [key, content] : entries) {
      std::string inner;
      put_bytes(inner, 1, key);
      const Schema& element = *field.schema->element;
      if (element.type == Schema::Type::kList) {
        std::string items;
        if (!content->is_array())
          return misfit("a list");
        for (const json::value& item : content->get_array()) TRY(one(*element.element, 1, item, items));
        put_bytes(inner, 2, items);
      } else {
        TRY(one(element, 2, *content, inner));
      }
      put_bytes(out, field.number, inner);
    }
    return {};
  }

  Result<void> one(const Schema& schema, std::uint32_t number, const json::value& value, std::string& out) {
    using enum Schema::Type;
    switch (schema.type) {
      case kBoolean:
        if (!value.is_bool())
          return misfit("true or false");
        put_number(out, number, value.get_bool() ? 1 : 0);
        return {};
      case kInteger: {
        const auto whole = integer(value);
        if (!whole)
          return misfit("a whole number");
        put_number(out, number, static_cast<std::uint64_t>(*whole));
        return {};
      }
      case kNumber: {
        if (!is_number(value))
          return misfit("a number");
        put_tag(out, number, WireType::kFixed64);
        const auto bits = std::bit_cast<std::uint64_t>(number_of(value));
        for (int i = 0; i < 8; ++i) out += static_cast<char>(bits >> (8 * i));
        return {};
      }
      default: break;
    }
    if (schema.type == kString && !is_message(schema)) {
      if (!value.is_string())
        return misfit("a text");
      if (schema.format != "byte") {
        put_bytes(out, number, value.get_string());
        return {};
      }
      const auto bytes = bytes_of_base64(value.get_string());
      if (!bytes)
        return misfit("base64");
      put_bytes(out, number, *bytes);
      return {};
    }
    std::string inner;
    TRY(content(schema, value, inner));
    put_bytes(out, number, inner);
    return {};
  }

  static std::optional<std::int64_t> integer(const json::value& value) {
    if (value.is_int64())
      return value.get_int64();
    if (value.is_uint64() && value.get_uint64() <= INT64_MAX)
      return static_cast<std::int64_t>(value.get_uint64());
    if (value.is_double() && value.get_double() == static_cast<double>(static_cast<std::int32_t>(value.get_double())))
      return static_cast<std::int64_t>(value.get_double());
    return std::nullopt;
  }

  Result<void> content(const Schema& schema, const json::value& value, std::string& out) {
    using enum Schema::Type;
    switch (schema.type) {
      case kObject:
        if (value.is_null())
          return {};
        if (!value.is_object())
          return misfit("an object");
        out = TRY(message(value.get_object(), schema));
        return {};
      case kQuantity:
        if (!value.is_string() && !is_number(value))
          return misfit("an amount");
        put_bytes(out, 1, value.is_string() ? std::string(value.get_string()) : number_text(value));
        return {};
      case kIntOrString: {
        const auto whole = integer(value);
        if (!whole && !value.is_string())
          return misfit("a number or a text");
        put_number(out, 1, whole ? 0 : 1);
        put_number(out, 2, static_cast<std::uint64_t>(whole.value_or(0)));
        put_bytes(out, 3, whole ? std::string_view() : std::string_view(value.get_string()));
        return {};
      }
      case kString: return time(schema, value, out);
      case kAny: return any(schema, value, out);
      default: return misfit("of a type that protobuf has");
    }
  }

  static Result<void> time(const Schema& schema, const json::value& value, std::string& out) {
    if (value.is_null())
      return {};
    if (schema.name == kDurationName) {
      const auto nanoseconds = parse_duration(text_of(value));
      if (!nanoseconds)
        return misfit("a duration, as 1h30m");
      put_number(out, 1, static_cast<std::uint64_t>(*nanoseconds));
      return {};
    }
    const auto time = parse_timestamp(text_of(value));
    if (!time)
      return misfit("a time, as 2006-01-02T15:04:05Z");
    std::int64_t seconds = time->us / 1'000'000, micros = time->us % 1'000'000;
    if (micros < 0) {
      --seconds;
      micros += 1'000'000;
    }
    put_number(out, 1, static_cast<std::uint64_t>(seconds));
    put_number(out, 2, schema.name == kMicroTimeName ? static_cast<std::uint64_t>(micros * 1000) : 0);
    return {};
  }

  Result<void> any(const Schema& schema, const json::value& value, std::string& out) {
    if (value.is_null())
      return {};
    if (!schema.element) {
      put_bytes(out, 1, json::serialize(value));
      return {};
    }
    const bool or_bool = schema.name == kSchemaOrBoolName;
    if (or_bool)
      put_number(out, 1, value.is_bool() ? value.get_bool() : value.is_object());
    if (value.is_object())
      return one(*schema.element, or_bool ? 2 : 1, value, out);
    if (!value.is_array())
      return value.is_bool() && or_bool ? Result<void>() : misfit("a schema");
    for (const json::value& element : value.get_array()) {
      if (schema.name == kSchemaOrStringsName && element.is_string())
        put_bytes(out, 2, element.get_string());
      else
        TRY(one(*schema.element, 2, element, out));
    }
    return {};
  }

  std::size_t depth_ = 0;
};

}  // namespace

Result<std::string> encode_message(const json::object& object, const Schema& schema) {
  return Encoder().message(object, schema);
}

Result<std::string> encode_protobuf(const json::object& object) {
  const json::value* api_version = object.if_contains("apiVersion");
  const json::value* kind = object.if_contains("kind");
  if (!api_version || !api_version->is_string() || !kind || !kind->is_string())
    return invalid("an object without apiVersion and kind has no protobuf form");
  const GroupVersion of = split_group_version(api_version->get_string());
  const Schema* schema = builtin_kind_schema(of.group, of.version, kind->get_string());
  if (!schema)
    return not_found(format("no kind \"{}\" is registered for version \"{}\" in protobuf",
                            std::string_view(kind->get_string()), std::string_view(api_version->get_string())));
  return protobuf_envelope(api_version->get_string(), kind->get_string(), TRY(encode_message(object, *schema)));
}

std::string protobuf_envelope(std::string_view api_version, std::string_view kind, std::string_view message) {
  std::string type_meta, out("k8s\0", 4);
  put_bytes(type_meta, 1, api_version);
  put_bytes(type_meta, 2, kind);
  put_bytes(out, 1, type_meta);
  put_bytes(out, 2, message);
  put_bytes(out, 3, {});
  put_bytes(out, 4, {});
  return out;
}

void append_list_metadata(std::string& message, std::string_view metadata) { put_bytes(message, 1, metadata); }
void append_list_item(std::string& message, std::string_view item) { put_bytes(message, 2, item); }

std::string watch_frame(std::string_view type, std::string_view body) {
  std::string object, event;
  put_bytes(object, 1, body);
  put_bytes(event, 1, type);
  put_bytes(event, 2, object);
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(event.size() >> shift);
  return out + event;
}

}  // namespace lockstep::kube
