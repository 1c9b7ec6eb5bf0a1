#include "frontends/kube/machinery/custom_validation.h"

#include <arpa/inet.h>
#include <re2/re2.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <set>
#include <unordered_set>

#include "base/text.h"
#include "frontends/kube/machinery/field_set.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/timestamps.h"

namespace lockstep::kube {
namespace {

std::string_view type_word(const json::value& value) {
  if (value.is_null())
    return "null";
  if (value.is_bool())
    return "boolean";
  if (value.is_string())
    return "string";
  if (value.is_array())
    return "array";
  if (value.is_object())
    return "object";
  return value.is_double() && std::trunc(value.get_double()) != value.get_double() ? "number" : "integer";
}

std::size_t characters_in(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

// A schema's schemas, wherever they stand in it.
void add_patterns_of(const json::value& rules, Patterns& patterns) {
  if (const json::object* object = rules.if_object()) {
    if (const json::value* pattern = object->if_contains("pattern"); pattern != nullptr && pattern->is_string())
      (void)patterns.add(std::string(text_of(*pattern)));
    for (const auto& entry : *object)
      if (entry.key() != "enum" && entry.key() != "x-kubernetes-validations")
        add_patterns_of(entry.value(), patterns);
  } else if (const json::array* list = rules.if_array()) {
    for (const json::value& each : *list) add_patterns_of(each, patterns);
  }
}

void add_patterns_below(const Schema& schema, Patterns& patterns, std::unordered_set<const Schema*>& seen) {
  if (!seen.insert(&schema).second)
    return;
  add_patterns_of(schema.rules, patterns);
  if (schema.element != nullptr)
    add_patterns_below(*schema.element, patterns, seen);
  for (const Field& field : schema.fields)
    if (field.schema != nullptr)
      add_patterns_below(*field.schema, patterns, seen);
}

class CustomWalk {
 public:
  explicit CustomWalk(const Patterns& patterns) : patterns_(patterns) {}

  void walk(const json::value& value, const Schema& schema, const json::value* old, const std::string& path);
  FieldErrors errors, doubles;  // the latter: elements of sets and of lists with keys

 private:
  void say(FieldError error) {
    if (errors.size() < kCustomErrorsMax)
      errors.push_back(std::move(error));
  }
  void say_type(const std::string& path, const json::value& value, std::string_view wanted) {
    say(field_type_invalid(path, json::value(type_word(value)),
                           format("{} in body must be of type {}: \"{}\"", path, wanted, type_word(value))));
  }
  bool fits_type(const json::value& value, const Schema& schema, const std::string& path);
  void check_value(const json::value& value, const Schema& schema, const json::value* old, const std::string& path);
  void walk_object(const json::object& object, const Schema& schema, const json::value* old, const std::string& path);
  void walk_list(const json::array& list, const Schema& schema, const json::value* old, const std::string& path);
  void check_rules(const json::value& value, const json::object& rules, const std::string& path);
  void check_number(const json::value& value, const json::object& rules, const std::string& path);
  void check_text(const json::value& value, const json::object& rules, const std::string& path);
  void check_alternatives(const json::value& value, const json::object& rules, const std::string& path);
  bool holds(const json::value& value, const json::value& schema);
  void check_nested(const json::value& value, const json::object& schema, const std::string& path);

  const Patterns& patterns_;
};

std::string child_path(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : format("{}.{}", path, name);
}

bool CustomWalk::fits_type(const json::value& value, const Schema& schema, const std::string& path) {
  using Type = Schema::Type;
  const auto is = [&](bool fits, std::string_view wanted) {
    if (!fits)
      say_type(path, value, wanted);
    return fits;
  };
  switch (schema.type) {
    case Type::kAny: return true;
    case Type::kBoolean: return is(value.is_bool(), "boolean");
    case Type::kInteger: return is(type_word(value) == "integer", "integer");
    case Type::kNumber: return is(is_number(value), "number");
    case Type::kString: return is(value.is_string(), "string");
    case Type::kIntOrString:
    case Type::kQuantity:
      // The words of the real server, which keeps this rule as an anyOf.
      if (value.is_string() || type_word(value) == "integer" || (schema.type == Type::kQuantity && is_number(value)))
        return true;
      say(field_invalid("<nil>", json::value(""), format("\"{}\" must validate at least one schema (anyOf)", path)));
      say_type(path, value, "integer");
      return false;
    case Type::kObject:
    case Type::kMap: return is(value.is_object(), "object");
    case Type::kList: return is(value.is_array(), "array");
  }
  return true;
}

void CustomWalk::walk_object(const json::object& object, const Schema& schema, const json::value* old,
                             const std::string& path) {
  for (const Field& field : schema.fields)
    if (field.required && !object.contains(field.name))
      say(field_required(child_path(path, field.name)));
  for (const auto& entry : object) {
    const bool metadata = (path.empty() || schema.embedded) && entry.key() == "metadata";
    const Field* field = schema.type == Schema::Type::kObject ? schema.field(entry.key()) : nullptr;
    const Schema* below = schema.type == Schema::Type::kMap ? schema.element
                          : field == nullptr                ? nullptr
                                                            : field->schema;
    if (below != nullptr && !metadata)
      walk(entry.value(), *below, old == nullptr ? nullptr : member(*old, entry.key()), child_path(path, entry.key()));
  }
}

void CustomWalk::walk_list(const json::array& list, const Schema& schema, const json::value* old,
                           const std::string& path) {
  std::set<std::string> seen;
  const PastElements past(old, schema);
  const auto say_doubled = [&](const std::string& here, json::value value) {
    if (doubles.size() < kCustomErrorsMax)
      doubles.push_back(field_duplicate(here, std::move(value)));
  };
  for (std::size_t at = 0; at < list.size(); ++at) {
    const std::string here = format("{}[{}]", path, at);
    if (schema.element != nullptr)
      walk(list[at], *schema.element, past.of(list[at]), here);
    if (schema.list == ListKind::kSet && !seen.insert(canonical_text(list[at])).second)
      say_doubled(here, list[at]);
    if (schema.list == ListKind::kMap && list[at].is_object()) {
      json::object key;
      for (const std::string& name : schema.keys)
        if (const json::value* part = list[at].get_object().if_contains(name))
          key[name] = *part;
      if (!seen.insert(canonical_text(key)).second)
        say_doubled(here, std::move(key));
    }
  }
}

// What is below is looked at as well, so that its own faults are known to be old ones before this one's are counted.
void CustomWalk::walk(const json::value& value, const Schema& schema, const json::value* old, const std::string& path) {
  const std::size_t before = errors.size();
  if (before >= kCustomErrorsMax)
    return;
  check_value(value, schema, old, path);
  if (errors.size() > before && old != nullptr && same_json(*old, value))
    errors.resize(before);
}

void CustomWalk::check_value(const json::value& value, const Schema& schema, const json::value* old,
                             const std::string& path) {
  if (value.is_null() && schema.nullable)
    return;
  if (!fits_type(value, schema, path))
    return;
  if (value.is_string() && !schema.format.empty() && schema.type == Schema::Type::kString &&
      !keeps_format(schema.format, text_of(value)))
    say(field_invalid(path, value,
                      format("{} in body must be of type {}: \"{}\"", path, schema.format, text_of(value))));
  if (schema.type == Schema::Type::kInteger && schema.format == "int32" && std::fabs(number_of(value)) > 2147483648.0)
    say(field_invalid(path, value, format("Checked value must be of type int32 with format int32 in {}", path)));
  if (const json::object* rules = schema.rules.if_object())
    check_rules(value, *rules, path);
  if (const json::object* object = value.if_object())
    walk_object(*object, schema, old, path);
  else if (const json::array* list = value.if_array())
    walk_list(*list, schema, old, path);
}

void CustomWalk::check_number(const json::value& value, const json::object& rules, const std::string& path) {
  const double number = number_of(value);
  const auto bound = [&](const char* which) -> const json::value* {
    const json::value* said = rules.if_contains(which);
    return said != nullptr && is_number(*said) ? said : nullptr;
  };
  const auto exclusive = [&](const char* which) {
    const json::value* said = rules.if_contains(which);
    return said != nullptr && said->is_bool() && said->get_bool();
  };
  const auto refuse = [&](std::string_view why, const json::value& limit) {
    say(field_invalid(path, value, format("{} in body should be {} {}", path, why, number_text(limit))));
  };
  if (const json::value* most = bound("maximum")) {
    if (exclusive("exclusiveMaximum") ? number >= number_of(*most) : number > number_of(*most))
      refuse(exclusive("exclusiveMaximum") ? "less than" : "less than or equal to", *most);
  }
  if (const json::value* least = bound("minimum")) {
    if (exclusive("exclusiveMinimum") ? number <= number_of(*least) : number < number_of(*least))
      refuse(exclusive("exclusiveMinimum") ? "greater than" : "greater than or equal to", *least);
  }
  if (const json::value* factor = bound("multipleOf"); factor != nullptr && number_of(*factor) > 0) {
    const double times = number / number_of(*factor);
    if (std::fabs(times - std::round(times)) > 1e-9 * std::max(1.0, std::fabs(times)))
      refuse("a multiple of", *factor);
  }
}

void CustomWalk::check_text(const json::value& value, const json::object& rules, const std::string& path) {
  const std::string_view text = text_of(value);
  const auto limit = [&](const char* which, std::int64_t standard) {
    const json::value* said = rules.if_contains(which);
    return said != nullptr && said->is_int64() ? said->get_int64() : standard;
  };
  const auto length = static_cast<std::int64_t>(characters_in(text));
  if (const std::int64_t most = limit("maxLength", INT64_MAX); length > most)
    say(field_too_long(path, static_cast<std::size_t>(std::max<std::int64_t>(most, 0))));
  if (const std::int64_t least = limit("minLength", 0); length < least)
    say(field_invalid(path, value, format("{} in body should be at least {} chars long", path, least)));
  if (const json::value* pattern = rules.if_contains("pattern"); pattern != nullptr && pattern->is_string())
    if (!patterns_.matches(std::string(text_of(*pattern)), text))
      say(field_invalid(path, value, format("{} in body should match '{}'", path, text_of(*pattern))));
}

void CustomWalk::check_rules(const json::value& value, const json::object& rules, const std::string& path) {
  if (is_number(value))
    check_number(value, rules, path);
  if (value.is_string())
    check_text(value, rules, path);
  const auto limit = [&](const char* which, std::int64_t standard) {
    const json::value* said = rules.if_contains(which);
    return said != nullptr && said->is_int64() ? said->get_int64() : standard;
  };
  const auto within = [&](std::size_t size, const char* least_rule, const char* most_rule, const char* what) {
    const auto count = static_cast<std::int64_t>(size);
    if (const std::int64_t most = limit(most_rule, INT64_MAX); count > most)
      say(field_too_many(path, size, static_cast<std::size_t>(std::max<std::int64_t>(most, 0))));
    if (const std::int64_t least = limit(least_rule, 0); count < least)
      say(field_invalid(path, count, format("{} in body should have at least {} {}", path, least, what)));
  };
  if (const json::array* list = value.if_array()) {
    within(list->size(), "minItems", "maxItems", "items");
    const json::value* unique = rules.if_contains("uniqueItems");
    if (unique != nullptr && unique->is_bool() && unique->get_bool()) {
      std::unordered_set<std::string> seen;
      if (!std::ranges::all_of(*list,
                               [&](const json::value& each) { return seen.insert(canonical_text(each)).second; }))
        say(field_invalid(path, json::value(""), format("{} in body shouldn't contain duplicates", path)));
    }
  }
  if (const json::object* object = value.if_object())
    within(object->size(), "minProperties", "maxProperties", "properties");
  if (const json::value* words = rules.if_contains("enum"); words != nullptr && words->is_array()) {
    const json::array& list = words->get_array();
    if (std::ranges::none_of(list, [&](const json::value& each) { return same_json(each, value); })) {
      std::vector<std::string> supported;
      for (const json::value& each : list)
        supported.push_back(each.is_string() ? std::string(text_of(each)) : canonical_text(each));
      say(field_not_supported(path, value, supported));
    }
  }
  check_alternatives(value, rules, path);
}

void CustomWalk::check_alternatives(const json::value& value, const json::object& rules, const std::string& path) {
  const auto list_of = [&](const char* which) -> const json::array* {
    const json::value* said = rules.if_contains(which);
    return said == nullptr ? nullptr : said->if_array();
  };
  const auto refuse = [&](std::string_view why) {
    say(field_invalid("<nil>", json::value(""), format("\"{}\" {}", path, why)));
  };
  if (const json::array* all = list_of("allOf")) {
    const std::size_t before = errors.size();
    for (const json::value& each : *all)
      if (each.is_object())
        check_nested(value, each.get_object(), path);
    if (errors.size() > before)
      refuse("must validate all the schemas (allOf)");
  }
  const auto count = [&](const json::array& list) {
    return std::ranges::count_if(list, [&](const json::value& each) { return holds(value, each); });
  };
  if (const json::array* any = list_of("anyOf"); any != nullptr && !any->empty() && count(*any) == 0)
    refuse("must validate at least one schema (anyOf)");
  if (const json::array* one = list_of("oneOf"); one != nullptr && !one->empty())
    if (const auto fitting = count(*one); fitting != 1)
      refuse(fitting == 0
                 ? std::string("must validate one and only one schema (oneOf). Found none valid")
                 : format("must validate one and only one schema (oneOf). Found {} valid alternatives", fitting));
  if (const json::value* none = rules.if_contains("not"); none != nullptr && none->is_object() && holds(value, *none))
    refuse("must not validate the schema (not)");
}

bool CustomWalk::holds(const json::value& value, const json::value& schema) {
  if (!schema.is_object())
    return true;
  CustomWalk trial(patterns_);
  trial.check_nested(value, schema.get_object(), {});
  return trial.errors.empty();
}

// A schema below allOf, anyOf, oneOf or not: it stays as it was written, so its structure is walked here.
void CustomWalk::check_nested(const json::value& value, const json::object& schema, const std::string& path) {
  const auto said = [&](const char* which) { return schema.if_contains(which); };
  if (const json::value* type = said("type"); type != nullptr && type->is_string()) {
    const std::string_view wanted = text_of(*type), is = type_word(value);
    if (is != wanted && !(wanted == "number" && is == "integer"))
      return say_type(path, value, wanted);
  }
  if (const json::value* format_word = said("format");
      format_word != nullptr && value.is_string() && !keeps_format(text_of(*format_word), text_of(value)))
    say(field_invalid(path, value, format("{} in body must be of type {}", path, text_of(*format_word))));
  check_rules(value, schema, path);
  if (const json::object* object = value.if_object()) {
    if (const json::value* required = said("required"); required != nullptr && required->is_array())
      for (const json::value& each : required->get_array())
        if (!object->contains(text_of(each)))
          say(field_required(child_path(path, text_of(each))));
    const json::value *properties = said("properties"), *additional = said("additionalProperties");
    for (const auto& entry : *object) {
      const json::value* below = properties == nullptr ? nullptr : member(*properties, entry.key());
      if (below == nullptr)
        below = additional;
      if (below != nullptr && below->is_object())
        check_nested(entry.value(), below->get_object(), child_path(path, entry.key()));
    }
  }
  if (const json::value* items = said("items"); items != nullptr && items->is_object() && value.is_array()) {
    std::size_t at = 0;
    for (const json::value& each : value.get_array())
      check_nested(each, items->get_object(), format("{}[{}]", path, at++));
  }
}

bool all_of_class(std::string_view text, std::string_view more) {
  return std::ranges::all_of(
      text, [&](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0 || more.find(c) != more.npos; });
}

bool ip_text(int family, std::string_view text) {
  unsigned char address[sizeof(in6_addr)];
  return inet_pton(family, std::string(text).c_str(), address) == 1;
}

bool keeps_network(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == text.npos)
    return false;
  const auto bits = parse_int(text.substr(slash + 1));
  const bool four = ip_text(AF_INET, text.substr(0, slash));
  return bits && *bits >= 0 && *bits <= (four ? 32 : 128) && (four || ip_text(AF_INET6, text.substr(0, slash)));
}

bool keeps_uuid(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '-');
  return digits.size() == 32 && all_of_class(digits, "") &&
         (text.size() == 32 ||
          (text.size() == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-'));
}

// "1h30m", as Go writes spans of time.
bool keeps_duration(std::string_view text) {
  static const re2::RE2 kSpan(R"([-+]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d|w))+))");
  return re2::RE2::FullMatch(re2::StringPiece(text.data(), text.size()), kSpan);
}

bool keeps_base64(std::string_view text) {
  static const re2::RE2 kBytes(R"(([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)");
  return re2::RE2::FullMatch(re2::StringPiece(text.data(), text.size()), kBytes);
}

}  // namespace

Patterns::Patterns() = default;
Patterns::~Patterns() = default;
Patterns::Patterns(Patterns&&) noexcept = default;
Patterns& Patterns::operator=(Patterns&&) noexcept = default;

std::string Patterns::add(const std::string& pattern) {
  if (compiled_.contains(pattern))
    return {};
  if (pattern.size() > kPatternMax)
    return format("it is longer than {} bytes", kPatternMax);
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kPatternMemory);
  auto compiled = std::make_unique<re2::RE2>(pattern, options);
  if (!compiled->ok())
    return compiled->error();
  compiled_.emplace(pattern, std::move(compiled));
  return {};
}

bool Patterns::matches(const std::string& pattern, std::string_view text) const {
  const auto found = compiled_.find(pattern);
  return found == compiled_.end() || re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *found->second);
}

void add_patterns(const Schema& schema, Patterns& patterns) {
  std::unordered_set<const Schema*> seen;
  add_patterns_below(schema, patterns, seen);
}

FieldErrors validate_custom(const json::value& value, const Schema& schema, const Patterns& patterns,
                            const json::value* old) {
  CustomWalk walk(patterns);
  walk.walk(value, schema, old, {});
  if (walk.doubles.empty())
    return std::move(walk.errors);
  // Who had doubles may keep them, and change what is around them.
  CustomWalk earlier(patterns);
  if (old != nullptr)
    earlier.walk(*old, schema, old, {});
  if (earlier.doubles.empty())
    walk.errors.insert(walk.errors.end(), walk.doubles.begin(), walk.doubles.end());
  if (walk.errors.size() > kCustomErrorsMax)
    walk.errors.resize(kCustomErrorsMax);
  return std::move(walk.errors);
}

PastElements::PastElements(const json::value* old, const Schema& schema) : schema_(schema) {
  if (old != nullptr && old->is_array() && schema.list == ListKind::kMap)
    for (const json::value& each : old->get_array()) by_key_.emplace(key_of(each), &each);
}

std::string PastElements::key_of(const json::value& element) const {
  json::object key;
  for (const std::string& name : schema_.keys)
    if (const json::value* part = member(element, name))
      key[name] = *part;
  return canonical_text(key);
}

const json::value* PastElements::of(const json::value& now) const {
  const auto found = by_key_.empty() ? by_key_.end() : by_key_.find(key_of(now));
  return found == by_key_.end() ? nullptr : found->second;
}

bool keeps_format(std::string_view format, std::string_view text) {
  if (format == "date-time" || format == "datetime")
    return parse_timestamp(text).has_value();
  if (format == "date")
    return text.size() == 10 && parse_timestamp(std::string(text) + "T00:00:00Z").has_value();
  if (format == "byte")
    return keeps_base64(text);
  if (format == "ipv4")
    return ip_text(AF_INET, text);
  if (format == "ipv6")
    return ip_text(AF_INET6, text);
  if (format == "cidr")
    return keeps_network(text);
  if (format == "uuid")
    return keeps_uuid(text);
  if (format == "duration")
    return keeps_duration(text);
  if (format == "hexcolor" || format == "rgbcolor")
    return !text.empty();
  if (format == "mac")
    return text.size() == 17 && all_of_class(text, ":-");
  return true;
}

}  // namespace lockstep::kube
