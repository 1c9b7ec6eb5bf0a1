#include "frontends/kube/machinery/yaml_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>

#include "base/text.h"
#include "frontends/kube/machinery/encodings.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/pruning.h"
#include "frontends/kube/machinery/quoted.h"
#include "wire/yaml.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kTagBegin = "tag:yaml.org,2002:";
constexpr double kExactIntegers = 9007199254740992.0;

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

std::optional<json::value> yaml_word_value(std::string_view text) {
  if (is_one_of(text, {"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"}))
    return json::value(true);
  if (is_one_of(text, {"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"}))
    return json::value(false);
  if (is_one_of(text, {"", "~", "null", "Null", "NULL"}))
    return json::value(nullptr);
  if (is_one_of(text, {".nan", ".NaN", ".NAN"}))
    return json::value(std::nan(""));
  if (is_one_of(text, {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"}))
    return json::value(HUGE_VAL);
  if (is_one_of(text, {"-.inf", "-.Inf", "-.INF"}))
    return json::value(-HUGE_VAL);
  return std::nullopt;
}

// 0x1f, 0b11, 0o17 and 017 have the base that they begin with. Null: it is no integer of 64 bits.
std::optional<json::value> integer_of(std::string_view text) {
  const bool negative = text.starts_with('-'), has_sign = negative || text.starts_with('+');
  if (has_sign)
    text.remove_prefix(1);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const char kind = static_cast<char>(text[1] | 0x20);
    base = kind == 'x' ? 16 : kind == 'b' ? 2 : 8;
    text.remove_prefix(kind == 'x' || kind == 'b' || kind == 'o' ? 2 : 1);
  }
  std::uint64_t amount = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), amount, base);
  if (text.empty() || failed != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 63;
  if (negative && amount <= kMost)
    return json::value(static_cast<std::int64_t>(0 - amount));
  if (!negative && amount < kMost)
    return json::value(static_cast<std::int64_t>(amount));
  return has_sign ? std::nullopt : std::optional<json::value>(amount);  // Go takes no sign where it has no sign's bit
}

// [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
std::optional<json::value> fraction_of(std::string_view text) {
  std::string_view rest = text;
  const auto digits = [&rest] {
    const std::size_t count = std::min(rest.find_first_not_of("0123456789"), rest.size());
    rest.remove_prefix(count);
    return count;
  };
  const auto sign = [&rest] {
    if (rest.starts_with('-') || rest.starts_with('+'))
      rest.remove_prefix(1);
  };
  sign();
  const std::size_t whole = digits();
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    if (digits() == 0 && whole == 0)
      return std::nullopt;
  } else if (whole == 0) {
    return std::nullopt;
  }
  if (rest.starts_with('e') || rest.starts_with('E')) {
    rest.remove_prefix(1);
    sign();
    if (digits() == 0)
      return std::nullopt;
  }
  if (!rest.empty())
    return std::nullopt;
  if (text.starts_with('+'))
    text.remove_prefix(1);
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed == std::errc::result_out_of_range) {
    // What is too small is nothing; what is too large stays text.
    const std::size_t power = text.find_first_of("eE");
    if (power == text.npos || text[power + 1] != '-')
      return std::nullopt;
    return json::value(0.0);
  }
  return json::value(value);
}

// What stands plainly, without a tag.
json::value plain_value(std::string_view text) {
  constexpr std::string_view kBegins = "+-0123456789yYnNtTfFoO~.";
  if (!text.empty() && kBegins.find(text[0]) == kBegins.npos)
    return json::value(text);
  if (auto word = yaml_word_value(text))
    return std::move(*word);
  std::string digits(text);
  if (text[0] == '.') {  // each "_" between two digits
    const auto is_digit = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
    for (std::size_t at = text.find('_'); at != text.npos; at = text.find('_', at + 1))
      if (!is_digit(at - 1) || !is_digit(at + 1))
        return json::value(text);
    std::erase(digits, '_');
    return fraction_of(digits).value_or(json::value(text));
  }
  std::erase(digits, '_');
  if (auto integer = integer_of(digits))
    return std::move(*integer);
  return fraction_of(digits).value_or(json::value(text));
}

bool looks_like_a_date(std::string_view text) {
  return text.size() > 5 && text.find_first_not_of("0123456789") == 4 && text[4] == '-';
}

Result<json::value> tagged_value(const YamlNode& node) {
  const std::string_view tag = std::string_view(node.tag).starts_with(kTagBegin)
                                   ? std::string_view(node.tag).substr(kTagBegin.size())
                                   : std::string_view();
  if (tag == "binary") {
    const auto bytes = bytes_of_base64(node.text);
    if (!bytes || !is_utf8(*bytes))
      return invalid(format("line {}: !!binary value contains {}", node.begin.line,
                            bytes ? "what is no text" : "invalid base64 data"));
    return json::value(*bytes);
  }
  if (!is_one_of(tag, {"bool", "int", "float", "null", "timestamp"}))
    return json::value(node.text);
  json::value value = plain_value(node.text);
  const bool fits = tag == "bool"    ? value.is_bool()
                    : tag == "int"   ? value.is_int64() || value.is_uint64()
                    : tag == "null"  ? value.is_null()
                    : tag == "float" ? is_number(value)
                                     : value.is_string() && looks_like_a_date(node.text);
  if (!fits)
    return invalid(format("line {}: cannot decode `{}` as a !!{}", node.begin.line, node.text.substr(0, 40), tag));
  return value;
}

class Values {
 public:
  Result<json::value> value(const YamlNode& node) {
    switch (node.shape) {
      case YamlNode::Shape::kScalar: return scalar(node);
      case YamlNode::Shape::kList: return list(node);
      case YamlNode::Shape::kMap: {
        json::object out;
        TRY(add_map(node, out));
        return json::value(std::move(out));
      }
    }
    return json::value();
  }
  std::vector<std::string> doubled;

 private:
  Result<json::value> scalar(const YamlNode& node) {
    if (node.tag.empty() && !node.plain)
      return json::value(node.text);
    json::value value = node.tag.empty() ? plain_value(node.text) : TRY(tagged_value(node));
    if (!value.is_double())
      return value;
    const double number = value.get_double();
    if (!std::isfinite(number))
      return invalid(format("line {}: json: unsupported value: {}", node.begin.line, node.text));
    if (std::trunc(number) == number && std::abs(number) < kExactIntegers)  // JSON has no other numbers
      return json::value(static_cast<std::int64_t>(number));
    return value;
  }

  Result<json::value> list(const YamlNode& node) {
    json::array out;
    out.reserve(node.children.size());
    for (const YamlNode& child : node.children) out.push_back(TRY(value(child)));
    return json::value(std::move(out));
  }

  Result<void> add_map(const YamlNode& node, json::object& out) {
    for (const YamlNode& child : node.children) {
      if (child.key_plain && child.key == "<<") {
        TRY(merge(child, out));
        continue;
      }
      const json::value key = child.key_plain ? plain_value(child.key) : json::value(child.key);
      std::string name = TRY(name_of(child, key));
      json::value member = TRY(value(child));
      const auto [place, is_new] = out.emplace(name, nullptr);
      if (!is_new && doubled.size() < kStrictErrorsMax)
        doubled.push_back(
            format("line {}: key {} already set in map", child.begin.line, key.is_string() ? quoted(name) : name));
      place->value() = std::move(member);
    }
    return {};
  }

  static Result<std::string> name_of(const YamlNode& child, const json::value& key) {
    if (key.is_string())
      return std::string(key.get_string());
    if (key.is_bool())
      return std::string(key.get_bool() ? "true" : "false");
    if (key.is_int64())
      return std::to_string(key.get_int64());
    if (key.is_double()) {
      const double number = key.get_double();
      if (std::isnan(number))
        return std::string(".nan");
      if (std::isinf(number))
        return std::string(number > 0 ? ".inf" : "-.inf");
      char text[32];
      const auto end = std::to_chars(std::begin(text), std::end(text), static_cast<float>(number)).ptr;
      return std::string(text, end);
    }
    return invalid(format("line {}: unsupported map key: {}", child.key_begin.line, child.key.substr(0, 40)));
  }

  // Of several the first counts.
  Result<void> merge(const YamlNode& from, json::object& out) {
    const Error wrong =
        invalid(format("line {}: map merge requires map or sequence of maps as the value", from.begin.line));
    if (from.shape == YamlNode::Shape::kMap)
      return add_map(from, out);
    if (from.shape != YamlNode::Shape::kList)
      return wrong;
    for (auto one = from.children.rbegin(); one != from.children.rend(); ++one) {
      if (one->shape != YamlNode::Shape::kMap)
        return wrong;
      TRY(add_map(*one, out));
    }
    return {};
  }
};

}  // namespace

bool may_outgrow_its_text(std::string_view yaml) { return yaml.find('&') != yaml.npos && yaml.find('*') != yaml.npos; }

Result<YamlValues> values_of_yaml(std::string_view text, const YamlMost& most) {
  const YamlNode root =
      TRY(read_whole_yaml(text, {.bytes = most.bytes, .values = most.values, .depth = static_cast<int>(kDepthMax)}));
  Values reader;
  json::value value = TRY(reader.value(root));
  return YamlValues{std::move(value), std::move(reader.doubled)};
}

}  // namespace lockstep::kube
