#include "frontends/kube/cel/value.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/timestamps.h"

namespace lockstep::kube::cel {
namespace {

constexpr std::string_view kReserved[] = {"true",     "false",   "null",      "in",       "as",  "break",  "const",
                                          "continue", "else",    "for",       "function", "if",  "import", "let",
                                          "loop",     "package", "namespace", "return",   "var", "void",   "while"};
constexpr std::pair<std::string_view, std::string_view> kEscapes[] = {
    {"__", "__underscores__"}, {".", "__dot__"}, {"-", "__dash__"}, {"/", "__slash__"}};

std::string decoded_base64(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (value < 0)
      continue;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    if (count += 6; count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return out;
}

Value text_from_json(const std::string_view text, const Schema* schema) {
  if (schema != nullptr && schema->type == Schema::Type::kString) {
    if (schema->format == "byte")
      return Value(std::make_shared<const Bytes>(Bytes{decoded_base64(text)}));
    if (schema->format == "date-time" || schema->format == "date") {
      const auto time = parse_moment(schema->format == "date" ? std::string(text) + "T00:00:00Z" : std::string(text));
      return time ? Value(*time) : Value::fault(format("invalid {} {}", schema->format, text));
    }
    if (schema->format == "duration") {
      const auto span = parse_span_text(text);
      return span ? Value(*span) : Value::fault(format("invalid duration {}", text));
    }
  }
  return Value::text(std::string(text));
}

std::optional<long double> wide(const Value& value) {
  if (const auto* number = value.as<std::int64_t>())
    return static_cast<long double>(*number);
  if (const auto* number = value.as<std::uint64_t>())
    return static_cast<long double>(*number);
  if (const auto* number = value.as<double>())
    return static_cast<long double>(*number);
  return std::nullopt;
}

int sign_of(auto difference) { return difference < 0 ? -1 : difference > 0 ? 1 : 0; }

// Lists of a set or a map have no order; elements of a map are told apart by their keys, which are part of them.
bool equal_lists(const List& a, const List& b) {
  if (a.items.size() != b.items.size())
    return false;
  const bool unordered = a.schema != nullptr && a.schema->list != ListKind::kAtomic;
  if (!unordered)
    return std::equal(a.items.begin(), a.items.end(), b.items.begin(), equal);
  return std::ranges::all_of(a.items, [&](const Value& each) {
    return std::ranges::any_of(b.items, [&](const Value& other) { return equal(each, other); });
  });
}

bool equal_maps(const Value& a, const Value& b) {
  if (size_of(a) != size_of(b))
    return false;
  for (const auto& [key, value] : entries_of(a)) {
    const auto other = find_key(b, key);
    if (!other || !equal(value, *other))
      return false;
  }
  return true;
}

int compare_addresses(const Address& a, const Address& b) {
  return a.v6 != b.v6 ? (a.v6 ? 1 : -1) : std::memcmp(a.bytes, b.bytes, sizeof a.bytes);
}

}  // namespace

Value Value::list(std::vector<Value> items, const Schema* schema) {
  return Value(std::make_shared<const List>(List{std::move(items), schema}));
}
Value Value::map(std::vector<std::pair<Value, Value>> entries) {
  return Value(std::make_shared<const Map>(Map{std::move(entries)}));
}
Value Value::some(Value value) { return Value(std::make_shared<const Optional>(Optional{{std::move(value)}})); }

Value from_json(const json::value& value, const Schema* schema) {
  if (value.is_null())
    return Value();
  if (value.is_bool())
    return Value(value.get_bool());
  if (value.is_string())
    return text_from_json(text_of(value), schema);
  if (value.is_object())
    return Value(Tree{&value.get_object(), schema});
  if (const json::array* list = value.if_array()) {
    std::vector<Value> items;
    items.reserve(list->size());
    for (const json::value& each : *list)
      items.push_back(from_json(each, schema == nullptr ? nullptr : schema->element));
    return Value::list(std::move(items), schema);
  }
  const bool fraction = schema != nullptr && schema->type == Schema::Type::kNumber;
  if (value.is_double() || fraction) {
    const double number = number_of(value);
    const bool whole = schema != nullptr && schema->type == Schema::Type::kInteger && std::fabs(number) < 9e18;
    return whole ? Value(static_cast<std::int64_t>(number)) : Value(number);
  }
  if (value.is_uint64())
    return Value(static_cast<double>(value.get_uint64()));
  return Value(value.get_int64());
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number())
    return *wide(a) == *wide(b);
  if (a.is_map() && b.is_map())
    return equal_maps(a, b);
  if (a.held().index() != b.held().index())
    return false;
  if (const auto* list = a.part<List>())
    return equal_lists(*list, *b.part<List>());
  if (const auto* optional = a.part<Optional>())
    return optional->value.size() == b.part<Optional>()->value.size() &&
           (optional->value.empty() || equal(optional->value[0], b.part<Optional>()->value[0]));
  if (a.is_null())
    return true;
  if (const auto* type = a.part<TypeName>())
    return type->name == b.part<TypeName>()->name;
  if (const auto* network = a.as<Network>())
    return network->bits == b.as<Network>()->bits && compare_addresses(network->address, b.as<Network>()->address) == 0;
  if (const auto* url = a.part<Url>())
    return url->scheme == b.part<Url>()->scheme && url->host == b.part<Url>()->host &&
           url->escaped_path == b.part<Url>()->escaped_path && url->query == b.part<Url>()->query;
  if (const auto* format = a.part<Format>())
    return format->name == b.part<Format>()->name;
  const auto compared = order(a, b);
  return compared && *compared == 0;
}

std::optional<int> order(const Value& a, const Value& b) {
  if (a.as<std::int64_t>() && b.as<std::int64_t>())
    return *a.as<std::int64_t>() < *b.as<std::int64_t>() ? -1 : *a.as<std::int64_t>() > *b.as<std::int64_t>() ? 1 : 0;
  if (a.is_number() && b.is_number()) {
    const long double left = *wide(a), right = *wide(b);
    if (std::isnan(left) || std::isnan(right))
      return std::nullopt;
    return left < right ? -1 : left > right ? 1 : 0;
  }
  if (a.held().index() != b.held().index())
    return std::nullopt;
  if (const auto* truth = a.as<bool>())
    return static_cast<int>(*truth) - static_cast<int>(*b.as<bool>());
  if (const auto* text = a.string())
    return sign_of(text->compare(*b.string()));
  if (const auto* bytes = a.part<Bytes>())
    return sign_of(bytes->bytes.compare(b.part<Bytes>()->bytes));
  if (const auto* moment = a.as<Moment>()) {
    const Moment& other = *b.as<Moment>();
    return moment->seconds != other.seconds ? (moment->seconds < other.seconds ? -1 : 1)
                                            : sign_of(moment->nanos - other.nanos);
  }
  if (const auto* span = a.as<Span>()) {
    const Span& other = *b.as<Span>();
    return span->seconds != other.seconds ? (span->seconds < other.seconds ? -1 : 1)
                                          : sign_of(span->nanos - other.nanos);
  }
  if (const auto* quantity = a.as<Quantity>())
    return *quantity < *b.as<Quantity>() ? -1 : *quantity > *b.as<Quantity>() ? 1 : 0;
  if (const auto* address = a.as<Address>())
    return sign_of(compare_addresses(*address, *b.as<Address>()));
  if (const auto* version = a.part<Semver>()) {
    const Semver& other = *b.part<Semver>();
    const std::array<std::int64_t, 3> left{version->major, version->minor, version->patch};
    const std::array<std::int64_t, 3> right{other.major, other.minor, other.patch};
    if (left != right)
      return left < right ? -1 : 1;
    if (version->pre.empty() || other.pre.empty())
      return static_cast<int>(version->pre.empty()) - static_cast<int>(other.pre.empty());
    for (std::size_t at = 0; at < std::min(version->pre.size(), other.pre.size()); ++at) {
      const auto mine = parse_int(version->pre[at]), theirs = parse_int(other.pre[at]);
      if (mine && theirs && *mine != *theirs)
        return *mine < *theirs ? -1 : 1;
      if (mine.has_value() != theirs.has_value())
        return mine ? -1 : 1;
      if (const int text = version->pre[at].compare(other.pre[at]); !mine && text != 0)
        return sign_of(text);
    }
    return sign_of(static_cast<std::int64_t>(version->pre.size()) - static_cast<std::int64_t>(other.pre.size()));
  }
  return std::nullopt;
}

std::string type_word(const Value& value) {
  constexpr const char* kWords[] = {"null_type",
                                    "bool",
                                    "int",
                                    "uint",
                                    "double",
                                    "string",
                                    "bytes",
                                    "list",
                                    "map",
                                    "map",
                                    "google.protobuf.Timestamp",
                                    "google.protobuf.Duration",
                                    "type",
                                    "optional_type",
                                    "error",
                                    "kubernetes.Quantity",
                                    "net.IP",
                                    "net.CIDR",
                                    "kubernetes.URL",
                                    "kubernetes.NamedFormat",
                                    "kubernetes.Semver",
                                    "kubernetes.authorization.Authorizer"};
  static_assert(std::size(kWords) == std::variant_size_v<Value::Held>);
  return kWords[value.held().index()];
}

std::size_t size_of(const Value& value) {
  if (const auto* text = value.string())
    return static_cast<std::size_t>(std::ranges::count_if(*text, [](char c) { return (c & 0xC0) != 0x80; }));
  if (const auto* bytes = value.part<Bytes>())
    return bytes->bytes.size();
  if (const auto* list = value.part<List>())
    return list->items.size();
  if (const auto* map = value.part<Map>())
    return map->entries.size();
  if (const auto* tree = value.as<Tree>())
    return tree->object->size();
  return 0;
}

std::optional<Value> find_key(const Value& map, const Value& key) {
  if (const auto* tree = map.as<Tree>()) {
    const std::string* name = key.string();
    if (name == nullptr)
      return std::nullopt;
    const bool object = tree->schema != nullptr && tree->schema->type == Schema::Type::kObject;
    const json::value* found = tree->object->if_contains(object ? unescaped_name(*name) : *name);
    if (found == nullptr)
      return std::nullopt;
    const Schema* below = nullptr;
    if (object) {
      const Field* field = tree->schema->field(unescaped_name(*name));
      below = field == nullptr ? nullptr : field->schema;
    } else if (tree->schema != nullptr) {
      below = tree->schema->element;
    }
    return from_json(*found, below);
  }
  if (const auto* owned = map.part<Map>())
    for (const auto& [name, value] : owned->entries)
      if (equal(name, key))
        return value;
  return std::nullopt;
}

std::vector<std::pair<Value, Value>> entries_of(const Value& map) {
  if (const auto* owned = map.part<Map>())
    return owned->entries;
  std::vector<std::pair<Value, Value>> out;
  if (const auto* tree = map.as<Tree>())
    for (const auto& entry : *tree->object) {
      const bool object = tree->schema != nullptr && tree->schema->type == Schema::Type::kObject;
      const Field* field = object ? tree->schema->field(entry.key()) : nullptr;
      const Schema* below = object ? (field == nullptr ? nullptr : field->schema)
                                   : (tree->schema == nullptr ? nullptr : tree->schema->element);
      out.emplace_back(Value::text(object ? escaped_name(entry.key()) : std::string(entry.key())),
                       from_json(entry.value(), below));
    }
  return out;
}

std::string escaped_name(std::string_view field) {
  if (std::ranges::find(kReserved, field) != std::end(kReserved))
    return format("__{}__", field);
  std::string out;
  while (!field.empty()) {
    bool found = false;
    for (const auto& [plain, escape] : kEscapes)
      if (!found && field.starts_with(plain)) {
        out += escape;
        field.remove_prefix(plain.size());
        found = true;
      }
    if (!found) {
      out += field.front();
      field.remove_prefix(1);
    }
  }
  return out;
}

std::string unescaped_name(std::string_view field) {
  if (field.size() > 4 && field.starts_with("__") && field.ends_with("__") &&
      std::ranges::find(kReserved, field.substr(2, field.size() - 4)) != std::end(kReserved))
    return std::string(field.substr(2, field.size() - 4));
  std::string out;
  while (!field.empty()) {
    bool found = false;
    for (const auto& [plain, escape] : kEscapes)
      if (!found && field.starts_with(escape)) {
        out += plain;
        field.remove_prefix(escape.size());
        found = true;
      }
    if (!found) {
      out += field.front();
      field.remove_prefix(1);
    }
  }
  return out;
}

std::string span_text(const Span& span) {
  std::string text = span.seconds < 0 || span.nanos < 0 ? "-" : "";
  text += std::to_string(static_cast<std::uint64_t>(span.seconds < 0 ? -span.seconds : span.seconds));
  if (span.nanos != 0) {
    std::string digits = format("{:09}", span.nanos < 0 ? -span.nanos : span.nanos);
    digits.erase(digits.find_last_not_of('0') + 1);
    text += "." + digits;
  }
  return text + "s";
}

std::string moment_text(const Moment& time) {
  std::string text = timestamp_text({time.seconds * 1'000'000});
  if (time.nanos != 0) {
    std::string digits = format("{:09}", time.nanos);
    digits.erase(digits.find_last_not_of('0') + 1);
    text.insert(text.size() - 1, "." + digits);
  }
  return text;
}

std::optional<Span> parse_span_text(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+'))
    text.remove_prefix(1);
  if (text == "0")
    return Span{};
  if (text.empty())
    return std::nullopt;
  constexpr std::pair<std::string_view, std::int64_t> kUnits[] = {{"ns", 1},
                                                                  {"us", 1'000},
                                                                  {"µs", 1'000},
                                                                  {"ms", 1'000'000},
                                                                  {"s", 1'000'000'000},
                                                                  {"m", 60'000'000'000},
                                                                  {"h", 3'600'000'000'000}};
  __int128 nanos = 0;
  while (!text.empty()) {
    std::int64_t whole = 0, fraction = 0, scale = 1;
    std::size_t digits = 0;
    const auto digit = [&] { return !text.empty() && text.front() >= '0' && text.front() <= '9'; };
    for (; digit(); text.remove_prefix(1), ++digits) {
      if (whole > INT64_MAX / 20)
        return std::nullopt;
      whole = whole * 10 + (text.front() - '0');
    }
    if (text.starts_with('.'))
      for (text.remove_prefix(1); digit(); text.remove_prefix(1), ++digits)
        if (scale < 1'000'000'000'000'000) {
          fraction = fraction * 10 + (text.front() - '0');
          scale *= 10;
        }
    const auto unit = std::ranges::find_if(kUnits, [&](const auto& each) {
      return text.starts_with(each.first) && !(each.first == "m" && text.starts_with("ms"));
    });
    if (digits == 0 || unit == std::end(kUnits))
      return std::nullopt;
    text.remove_prefix(unit->first.size());
    nanos += static_cast<__int128>(whole) * unit->second + static_cast<__int128>(fraction) * unit->second / scale;
    if (nanos > INT64_MAX)
      return std::nullopt;
  }
  const auto total = static_cast<std::int64_t>(negative ? -nanos : nanos);
  return Span{total / 1'000'000'000, static_cast<std::int32_t>(total % 1'000'000'000)};
}

std::optional<Moment> parse_moment(std::string_view text) {
  const auto time = parse_timestamp(text);
  if (!time)
    return std::nullopt;
  std::int64_t seconds = time->us / 1'000'000, micros = time->us % 1'000'000;
  if (micros < 0) {
    micros += 1'000'000;
    --seconds;
  }
  return Moment{seconds, static_cast<std::int32_t>(micros * 1'000)};
}

std::string double_text(double number) {
  if (!std::isfinite(number))
    return std::isnan(number) ? "NaN" : number > 0 ? "+Inf" : "-Inf";
  const double size = std::fabs(number);
  char out[64];
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e21);
  const auto end =
      std::to_chars(out, out + sizeof out, number, plain ? std::chars_format::fixed : std::chars_format::scientific);
  return {out, end.ptr};
}

}  // namespace lockstep::kube::cel
