#include <algorithm>
#include <bit>
#include <boost/json/array.hpp>
#include <limits>

#include "base/text.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/encodings.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/protobuf.h"
#include "frontends/kube/machinery/protobuf_wire.h"
#include "frontends/kube/machinery/quoted.h"
#include "frontends/kube/machinery/timestamps.h"
#include "frontends/kube/machinery/typed.h"

namespace lockstep::kube {
namespace {

constexpr std::string_view kMagic{"k8s\0", 4};
constexpr std::int64_t kFirstSecond = -62135596800, kLastSecond = 253402300799;  // of the years 1 and 9999

class Decoder {
 public:
  Result<json::object> body(std::string_view bytes, std::string_view api_version, std::string_view kind) {
    if (!is_protobuf_body(bytes))
      return invalid("provided data does not appear to be a protobuf message: it must begin with k8s and a zero byte");
    if (bytes.size() == kMagic.size())
      return invalid("empty body");
    if (bytes.size() > kProtobufBytesMax)
      return Error{
          Errc::kExhausted, format("a body of {} bytes: at most {} are read", bytes.size(), kProtobufBytesMax), {}};
    bytes.remove_prefix(kMagic.size());
    std::string own_version, own_kind;
    std::string_view raw;
    WireField field;
    while (!bytes.empty()) {
      if (!take_field(bytes, field))
        return cut_off();
      if (field.type != WireType::kBytes)
        continue;
      if (field.number == 2)
        raw = field.bytes;
      else if (field.number == 1)
        TRY(type_meta(field.bytes, own_version, own_kind));
      else if (field.number == 3 && !field.bytes.empty())
        return invalid(
            format("content encoding {} of a protobuf body is not known", quoted(field.bytes.substr(0, 60))));
    }
    if (own_version.empty())
      own_version = api_version;
    if (own_kind.empty())
      own_kind = kind;
    const GroupVersion of = split_group_version(own_version);
    const Schema* schema = builtin_kind_schema(of.group, of.version, own_kind);
    if (!schema)
      return not_found(format("no kind \"{}\" is registered for version \"{}\" in protobuf", own_kind, own_version));
    json::object out;
    out["kind"] = own_kind;
    out["apiVersion"] = own_version;
    TRY(message(raw, *schema, out));
    return out;
  }

  Result<void> message(std::string_view bytes, const Schema& schema, json::object& out) {
    std::vector<std::uint32_t> within;
    return fields(bytes, schema, within, out);
  }

 private:
  static Error cut_off() { return invalid("the protobuf message is malformed or cut off"); }
  static Error misfit(const Field& field) { return invalid("the protobuf message holds another type", field.name); }

  // Messages nest and lists repeat as the sender likes: both are counted.
  struct Deeper {
    explicit Deeper(std::size_t& depth) : depth(depth) { ++depth; }
    ~Deeper() { --depth; }
    std::size_t& depth;
  };
  Result<void> spend() {
    if (++values_ > kProtobufValuesMax)
      return Error{Errc::kExhausted, format("the protobuf message holds more than {} values", kProtobufValuesMax), {}};
    if (depth_ > kProtobufDepthMax)
      return Error{Errc::kExhausted, format("the protobuf message nests deeper than {}", kProtobufDepthMax), {}};
    return {};
  }

  static Result<void> type_meta(std::string_view bytes, std::string& api_version, std::string& kind) {
    WireField field;
    while (!bytes.empty()) {
      if (!take_field(bytes, field))
        return cut_off();
      if (field.type != WireType::kBytes || (field.number != 1 && field.number != 2))
        continue;
      if (field.bytes.size() > 253 || !is_utf8(field.bytes))
        return invalid("apiVersion and kind are text of at most 253 bytes");
      (field.number == 1 ? api_version : kind) = field.bytes;
    }
    return {};
  }

  Result<void> fields(std::string_view bytes, const Schema& schema, std::vector<std::uint32_t>& within,
                      json::object& out) {
    Deeper deeper(depth_);
    WireField wire;
    while (!bytes.empty()) {
      if (!take_field(bytes, wire))
        return cut_off();
      TRY(spend());
      if (const Field* field = find(schema, within, wire.number)) {
        if (auto read = take(*field, wire, out); !read.ok()) {
          Error error = std::move(read).error();
          if (error.field != field->name)
            error.field = error.field.empty() ? field->name : field->name + "." + error.field;
          return error;
        }
      } else if (wire.type == WireType::kBytes && leads_on(schema, within, wire.number)) {
        within.push_back(wire.number);
        auto read = fields(wire.bytes, schema, within, out);
        within.pop_back();
        TRY(std::move(read));
      }
    }
    return {};
  }

  static const Field* find(const Schema& schema, const std::vector<std::uint32_t>& within, std::uint32_t number) {
    for (const Field& field : schema.fields)
      if (field.number == number && field.within == within)
        return &field;
    return nullptr;
  }
  // Is the message of this number one whose fields JSON shows in their parent's place?
  static bool leads_on(const Schema& schema, const std::vector<std::uint32_t>& within, std::uint32_t number) {
    return std::ranges::any_of(schema.fields, [&](const Field& field) {
      return field.within.size() > within.size() && field.within[within.size()] == number &&
             std::equal(within.begin(), within.end(), field.within.begin());
    });
  }

  Result<void> take(const Field& field, const WireField& wire, json::object& out) {
    const Schema& schema = *field.schema;
    if (schema.type == Schema::Type::kMap)
      return map_entry(field, wire, out);
    if (schema.type == Schema::Type::kList && schema.name.empty())
      return list_element(field, wire, out);
    json::value value;
    if (schema.type == Schema::Type::kObject) {
      if (wire.type != WireType::kBytes)
        return misfit(field);
      // A message that comes in parts is one.
      json::value* before = out.if_contains(field.name);
      json::object object = before && before->is_object() ? std::move(before->get_object()) : json::object();
      TRY(message(wire.bytes, schema, object));
      if (object.empty() && !field.pointer && !field.always)
        return {};
      value = std::move(object);
    } else {
      TRY(read(schema, wire, value));
      if (!field.pointer && !field.always && says_nothing(value))
        return {};
      if (value.is_null())
        return {};
    }
    out[field.name] = std::move(value);
    return {};
  }
  Result<void> list_element(const Field& field, const WireField& wire, json::object& out) {
    json::value& value = out[field.name];
    json::array& list = value.is_array() ? value.get_array() : value.emplace_array();
    const Schema& element = *field.schema->element;
    if (wire.type == WireType::kBytes && element.type == Schema::Type::kInteger) {  // packed
      std::string_view bytes = wire.bytes;
      WireField one{wire.number, WireType::kVarint, 0, {}};
      while (!bytes.empty()) {
        TRY(spend());
        if (!take_varint(bytes, one.value))
          return cut_off();
        TRY(read(element, one, list.emplace_back(nullptr)));
      }
      return {};
    }
    return read(element, wire, list.emplace_back(nullptr));
  }

  Result<void> map_entry(const Field& field, const WireField& wire, json::object& out) {
    if (wire.type != WireType::kBytes)
      return misfit(field);
    std::string_view bytes = wire.bytes, key;
    WireField part, content{2, WireType::kBytes, 0, {}};
    const Schema& element = *field.schema->element;
    if (element.type == Schema::Type::kInteger || element.type == Schema::Type::kBoolean)
      content.type = WireType::kVarint;
    while (!bytes.empty()) {
      if (!take_field(bytes, part))
        return cut_off();
      if (part.number == 1 && part.type == WireType::kBytes)
        key = part.bytes;
      else if (part.number == 2)
        content = part;
    }
    if (!is_utf8(key))
      return invalid("a key is not UTF-8", field.name);
    json::value entry;
    TRY(read(element, content, entry));
    json::value& value = out[field.name];
    (value.is_object() ? value.get_object() : value.emplace_object())[key] = std::move(entry);
    return {};
  }

  Result<void> read(const Schema& schema, const WireField& wire, json::value& out) {
    using enum Schema::Type;
    switch (schema.type) {
      case kBoolean:
      case kInteger:
        if (wire.type != WireType::kVarint)
          break;
        if (schema.type == kBoolean)
          out = wire.value != 0;
        else if (schema.format == "int32")
          out = std::int64_t{static_cast<std::int32_t>(wire.value)};
        else
          out = static_cast<std::int64_t>(wire.value);
        return {};
      case kNumber: {
        const double number = std::bit_cast<double>(wire.value);
        if (wire.type != WireType::kFixed64 || number != number || number - number != 0)
          break;
        out = number;
        return {};
      }
      default: break;
    }
    if (wire.type != WireType::kBytes)
      return invalid("the protobuf message holds another type");
    switch (schema.type) {
      case kString: return text(schema, wire.bytes, out);
      case kQuantity: return single_text(wire.bytes, out);
      case kIntOrString: return int_or_string(wire.bytes, out);
      case kObject: return message(wire.bytes, schema, out.emplace_object());
      case kList: return wrapped_list(schema, wire.bytes, out);
      case kAny: return any(schema, wire.bytes, out);
      default: return invalid("the protobuf message holds another type");
    }
  }

  Result<void> text(const Schema& schema, std::string_view bytes, json::value& out) {
    if (schema.format == "byte") {
      out = base64_text(bytes);
      return {};
    }
    if (schema.name == kTimeName || schema.name == kMicroTimeName)
      return time(schema.name == kMicroTimeName, bytes, out);
    if (schema.name == kDurationName) {
      std::uint64_t nanoseconds = 0;
      TRY(numbers(bytes, nanoseconds, nanoseconds, 1));
      out = duration_text(static_cast<std::int64_t>(nanoseconds));
      return {};
    }
    if (!is_utf8(bytes))
      return invalid("a text is not UTF-8");
    out = bytes;
    return {};
  }

  // The numbers 1 and 2 of a message of numbers.
  static Result<void> numbers(std::string_view bytes, std::uint64_t& first, std::uint64_t& second,
                              std::uint32_t count) {
    WireField field;
    while (!bytes.empty()) {
      if (!take_field(bytes, field))
        return cut_off();
      if (field.type == WireType::kVarint && field.number <= count)
        (field.number == 1 ? first : second) = field.value;
    }
    return {};
  }

  // No bytes are no time: null.
  static Result<void> time(bool micros, std::string_view bytes, json::value& out) {
    out = nullptr;
    if (bytes.empty())
      return {};
    std::uint64_t seconds_bits = 0, nanos_bits = 0;
    TRY(numbers(bytes, seconds_bits, nanos_bits, 2));
    const auto seconds = static_cast<std::int64_t>(seconds_bits);
    const std::int64_t nanos = static_cast<std::int32_t>(nanos_bits);
    if (seconds < kFirstSecond || seconds > kLastSecond || nanos < 0 || nanos >= 1'000'000'000)
      return invalid("a time lies outside of the years 1 to 9999");
    const WallTime time{seconds * 1'000'000 + (micros ? nanos / 1'000 : 0)};
    out = micros ? micro_timestamp_text(time) : timestamp_text(time);
    return {};
  }

  static Result<void> single_text(std::string_view bytes, json::value& out) {
    std::string_view text = "0";
    WireField field;
    while (!bytes.empty()) {
      if (!take_field(bytes, field))
        return cut_off();
      if (field.number == 1 && field.type == WireType::kBytes)
        text = field.bytes;
    }
    if (!is_utf8(text))
      return invalid("a text is not UTF-8");
    out = text;
    return {};
  }

  static Result<void> int_or_string(std::string_view bytes, json::value& out) {
    std::uint64_t type = 0;
    std::int64_t number = 0;
    std::string_view text;
    WireField field;
    while (!bytes.empty()) {
      if (!take_field(bytes, field))
        return cut_off();
      if (field.number == 1 && field.type == WireType::kVarint)
        type = field.value;
      else if (field.number == 2 && field.type == WireType::kVarint)
        number = static_cast<std::int32_t>(field.value);
      else if (field.number == 3 && field.type == WireType::kBytes)
        text = field.bytes;
    }
    if (type > 1 || !is_utf8(text))
      return invalid("neither a number nor a text");
    if (type == 1)
      out = text;
    else
      out = number;
    return {};
  }

  // A list that is a message: ExtraValue, Verbs.
  Result<void> wrapped_list(const Schema& schema, std::string_view bytes, json::value& out) {
    json::array& list = out.emplace_array();
    WireField field;
    while (!bytes.empty()) {
      TRY(spend());
      if (!take_field(bytes, field))
        return cut_off();
      if (field.number == 1)
        TRY(read(*schema.element, field, list.emplace_back(nullptr)));
    }
    return {};
  }

  Result<void> any(const Schema& schema, std::string_view bytes, json::value& out) {
    Deeper deeper(depth_);
    TRY(spend());
    if (schema.element)
      return schema_or(schema, bytes, out);
    out = nullptr;
    WireField field;
    while (!bytes.empty()) {
      if (!take_field(bytes, field))
        return cut_off();
      if (field.number == 1 && field.type == WireType::kBytes && !field.bytes.empty())
        TRY(raw(field.bytes, out));
    }
    return {};
  }

  // A field that holds any object has it as JSON, or as a body of its own.
  Result<void> raw(std::string_view bytes, json::value& out) {
    if (is_protobuf_body(bytes)) {
      out = TRY(body(bytes, {}, {}));
      return {};
    }
    values_ += bytes.size() / 16;
    TRY(spend());
    auto given = parse_given(bytes, kProtobufDepthMax);
    if (!given.ok())
      return invalid("a field that holds any object is not JSON: " + given.error().message);
    out = std::move(*given);
    return {};
  }

  // Where a custom resource's schema may have a schema, a list of them, a boolean or a list of names.
  Result<void> schema_or(const Schema& schema, std::string_view bytes, json::value& out) {
    const bool or_bool = schema.name == kSchemaOrBoolName;
    json::value own;
    json::array list;
    bool allows = false, has_own = false;
    WireField field;
    while (!bytes.empty()) {
      TRY(spend());
      if (!take_field(bytes, field))
        return cut_off();
      if (or_bool && field.number == 1 && field.type == WireType::kVarint) {
        allows = field.value != 0;
      } else if (field.type == WireType::kBytes && field.number == (or_bool ? 2 : 1)) {
        TRY(message(field.bytes, *schema.element, own.emplace_object()));
        has_own = true;
      } else if (field.type == WireType::kBytes && field.number == 2) {
        if (schema.name == kSchemaOrStringsName)
          TRY(text(*builtin_string(), field.bytes, list.emplace_back(nullptr)));
        else
          TRY(message(field.bytes, *schema.element, list.emplace_back(nullptr).emplace_object()));
      }
    }
    if (!list.empty())
      out = std::move(list);
    else if (has_own)
      out = std::move(own);
    else if (or_bool)
      out = allows;
    else
      out = nullptr;
    return {};
  }
  static const Schema* builtin_string() {
    static const Schema string = [] {
      Schema schema;
      schema.type = Schema::Type::kString;
      return schema;
    }();
    return &string;
  }

  std::size_t depth_ = 0, values_ = 0;
};

}  // namespace

bool is_protobuf_body(std::string_view bytes) { return bytes.starts_with(kMagic); }

Result<json::object> decode_protobuf(std::string_view bytes, std::string_view api_version, std::string_view kind) {
  return Decoder().body(bytes, api_version, kind);
}

Result<json::object> decode_message(std::string_view bytes, const Schema& schema) {
  json::object out;
  TRY(Decoder().message(bytes, schema, out));
  return out;
}

}  // namespace lockstep::kube
