#include "frontends/kube/machinery/selectors.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cctype>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/quoted.h"

namespace lockstep::kube {
namespace {

using Is = Requirement::Is;

bool alphanumeric(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", 63 characters at most.
std::string name_fault(std::string_view text, std::string_view who, std::string_view example, bool may_be_empty) {
  const bool legal =
      text.empty()
          ? may_be_empty
          : alphanumeric(text.front()) && alphanumeric(text.back()) &&
                std::ranges::all_of(text, [](char c) { return alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
  std::string fault;
  if (text.empty() && !may_be_empty)
    fault = format("{}must be non-empty", who);
  if (text.size() > 63)
    fault += format("{}{}must be no more than 63 characters", fault.empty() ? "" : "; ", who);
  if (legal)
    return fault;
  if (!fault.empty())
    fault += "; ";
  if (may_be_empty)
    return fault + format(
                       "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
                       "'.', and must start and end with an alphanumeric character (e.g. {}, regex used for "
                       "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
                       example);
  return fault + format(
                     "{}must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
                     "alphanumeric character (e.g. {}, regex used for validation is "
                     "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                     who, example);
}

bool dns_subdomain(std::string_view text) {
  if (text.empty())
    return false;
  char before = '.';
  for (const char c : text) {
    const bool lower_or_digit = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (!lower_or_digit && c != '-' && c != '.')
      return false;
    if ((before == '.' && !lower_or_digit) || (c == '.' && before == '-'))
      return false;
    before = c;
  }
  return before != '.' && before != '-';
}

Result<Requirement> make_requirement(std::string key, Is is, std::vector<std::string> values) {
  if (const std::string fault = label_key_fault(key); !fault.empty())
    return invalid(format("<nil>: Invalid value: {}: {}", quoted(key), fault));
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  Requirement requirement{is, std::move(key), std::move(values), 0};
  if (is == Is::kGreater || is == Is::kLess) {
    const auto bound = parse_int(requirement.values.front());
    if (!bound)
      return invalid(format("values[0]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
                            quoted(requirement.values.front())));
    requirement.bound = *bound;
  }
  for (std::size_t at = 0; at < requirement.values.size(); ++at)
    if (const std::string fault = label_value_fault(requirement.values[at]); !fault.empty())
      return invalid(
          format("values[{}][{}]: Invalid value: {}: {}", at, requirement.key, quoted(requirement.values[at]), fault));
  return requirement;
}

enum class Token : unsigned char {
  kEnd,
  kComma,
  kOpen,
  kClose,
  kNot,
  kEquals,
  kNotEquals,
  kGreater,
  kLess,
  kWord,
  kFault
};

struct Item {
  Token token = Token::kEnd;
  std::string text;
};

bool special(char c) { return std::string_view("=!(),><").find(c) != std::string_view::npos; }
bool blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::vector<Item> scan(std::string_view text) {
  std::vector<Item> items;
  std::size_t at = 0;
  while (true) {
    while (at < text.size() && blank(text[at])) ++at;
    if (at == text.size())
      break;
    const char c = text[at];
    if (!special(c)) {
      const std::size_t from = at;
      while (at < text.size() && !special(text[at]) && !blank(text[at])) ++at;
      items.push_back({Token::kWord, std::string(text.substr(from, at - from))});
      continue;
    }
    const bool equals_behind = at + 1 < text.size() && text[at + 1] == '=';
    const std::size_t size = (c == '=' || c == '!') && equals_behind ? 2 : 1;
    Token token = Token::kComma;
    switch (c) {
      case ',': token = Token::kComma; break;
      case '(': token = Token::kOpen; break;
      case ')': token = Token::kClose; break;
      case '>': token = Token::kGreater; break;
      case '<': token = Token::kLess; break;
      case '=': token = Token::kEquals; break;
      default: token = equals_behind ? Token::kNotEquals : Token::kNot;
    }
    items.push_back({token, std::string(text.substr(at, size))});
    at += size;
  }
  items.push_back({});
  return items;
}

class SelectorParser {
 public:
  explicit SelectorParser(std::string_view text) : items_(scan(text)) {}

  Result<LabelSelector> parse() {
    LabelSelector selector;
    if (items_.size() > 4 * kRequirementsMax)
      return invalid(format("a selector may have {} requirements at most", kRequirementsMax));
    while (true) {
      if (now().token == Token::kEnd)
        return selector;
      if (now().token != Token::kWord && now().token != Token::kNot)
        return invalid(format("found '{}', expected: !, identifier, or 'end of string'", now().text));
      Result<Requirement> requirement = parse_requirement();
      if (!requirement)
        return invalid("unable to parse requirement: " + requirement.error().message);
      selector.requirements.push_back(std::move(*requirement));
      const Item behind = next();
      if (behind.token == Token::kEnd)
        return selector;
      if (behind.token != Token::kComma)
        return invalid(format("found '{}', expected: ',' or 'end of string'", behind.text));
      if (now().token != Token::kWord && now().token != Token::kNot)
        return invalid(format("found '{}', expected: identifier after ','", now().text));
    }
  }

 private:
  const Item& now() const { return items_[at_]; }
  const Item& next() {
    const Item& item = items_[at_];
    if (at_ + 1 < items_.size())
      ++at_;
    return item;
  }

  Result<Requirement> parse_requirement() {
    const bool absent = now().token == Token::kNot;
    if (absent)
      next();
    const Item key = next();
    if (key.token != Token::kWord)
      return invalid(format("found '{}', expected: identifier", key.text));
    if (const std::string fault = label_key_fault(key.text); !fault.empty())
      return invalid(format("<nil>: Invalid value: {}: {}", quoted(key.text), fault));
    if (absent)
      return make_requirement(key.text, Is::kAbsent, {});
    if (now().token == Token::kEnd || now().token == Token::kComma)
      return make_requirement(key.text, Is::kExists, {});
    const Item verb = next();
    switch (verb.token) {
      case Token::kEquals: return with_value(key.text, Is::kIn);
      case Token::kNotEquals: return with_value(key.text, Is::kNotIn);
      case Token::kGreater: return with_value(key.text, Is::kGreater);
      case Token::kLess: return with_value(key.text, Is::kLess);
      default: break;
    }
    if (verb.token == Token::kWord && (verb.text == "in" || verb.text == "notin")) {
      auto values = parse_values();
      if (!values)
        return std::move(values).error();
      return make_requirement(key.text, verb.text == "in" ? Is::kIn : Is::kNotIn, std::move(*values));
    }
    return invalid(format("found '{}', expected: in, notin, =, ==, !=, gt, lt", verb.text));
  }

  Result<Requirement> with_value(const std::string& key, Is is) {
    std::string value;
    if (now().token != Token::kEnd && now().token != Token::kComma) {
      const Item item = next();
      if (item.token != Token::kWord)
        return invalid(format("found '{}', expected: identifier", item.text));
      value = item.text;
    }
    return make_requirement(key, is, {std::move(value)});
  }

  // "(a,b)"; a place without a word is the empty value.
  Result<std::vector<std::string>> parse_values() {
    std::vector<std::string> values;
    if (const Item open = next(); open.token != Token::kOpen)
      return invalid(format("found '{}' expected: '('", open.text));
    if (now().token != Token::kWord && now().token != Token::kComma && now().token != Token::kClose)
      return invalid(format("found '{}', expected: ',', ')' or identifier", now().text));
    bool wants_value = true;
    while (true) {
      const Item item = next();
      if (item.token == Token::kWord) {
        if (!wants_value)
          return invalid(format("found '{}', expected: ',' or ')'", item.text));
        values.push_back(item.text);
        wants_value = false;
      } else if (item.token == Token::kComma || item.token == Token::kClose) {
        if (wants_value)
          values.emplace_back();
        if (item.token == Token::kClose)
          return values;
        wants_value = true;
      } else {
        return invalid(
            format("found '{}', expected: {}", item.text, wants_value ? "',', or identifier" : "',' or ')'"));
      }
    }
  }

  std::vector<Item> items_;
  std::size_t at_ = 0;
};

}  // namespace

std::string label_key_fault(std::string_view key) {
  const std::size_t slash = key.find('/');
  if (slash == key.npos)
    return name_fault(key, "name part ", "'MyName',  or 'my.name',  or '123-abc'", false);
  std::string fault;
  const std::string_view prefix = key.substr(0, slash), name = key.substr(slash + 1);
  if (name.find('/') != name.npos)
    return "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
           "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
           "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. "
           "'example.com/MyName')";
  if (prefix.empty())
    fault = "prefix part must be non-empty";
  else if (prefix.size() > 253)
    fault = "prefix part must be no more than 253 characters";
  else if (!dns_subdomain(prefix))
    fault =
        "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
        "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation "
        "is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
  const std::string second = name_fault(name, "name part ", "'MyName',  or 'my.name',  or '123-abc'", false);
  return fault.empty() || second.empty() ? fault + second : fault + "; " + second;
}

std::string label_value_fault(std::string_view value) {
  return name_fault(value, "", "'MyValue',  or 'my_value',  or '12345'", true);
}

bool Requirement::matches(const LabelOf& label) const {
  const auto value = label(key);
  switch (is) {
    case Is::kExists: return value.has_value();
    case Is::kAbsent: return !value.has_value();
    case Is::kIn: return value && std::ranges::binary_search(values, *value, std::less<>());
    case Is::kNotIn: return !value || !std::ranges::binary_search(values, *value, std::less<>());
    case Is::kGreater:
    case Is::kLess: break;
  }
  const auto number = value ? parse_int(*value) : std::nullopt;
  return number && (is == Is::kGreater ? *number > bound : *number < bound);
}

bool LabelSelector::matches(const LabelOf& label) const {
  return !nothing && std::ranges::all_of(requirements, [&](const Requirement& each) { return each.matches(label); });
}

bool LabelSelector::matches(const json::object& labels) const {
  return matches([&](std::string_view key) -> std::optional<std::string_view> {
    const json::value* value = labels.if_contains(key);
    return value == nullptr ? std::nullopt : std::optional(text_of(*value));
  });
}

std::string LabelSelector::text() const {
  std::vector<std::string> parts;
  for (const Requirement& each : requirements) {
    switch (each.is) {
      case Is::kExists: parts.push_back(each.key); break;
      case Is::kAbsent: parts.push_back("!" + each.key); break;
      case Is::kGreater: parts.push_back(format("{}>{}", each.key, each.bound)); break;
      case Is::kLess: parts.push_back(format("{}<{}", each.key, each.bound)); break;
      case Is::kIn:
      case Is::kNotIn: {
        const bool in = each.is == Is::kIn;
        if (each.values.size() == 1)
          parts.push_back(each.key + (in ? "=" : "!=") + each.values.front());
        else
          parts.push_back(format("{} {} ({})", each.key, in ? "in" : "notin", join(each.values, ",")));
      }
    }
  }
  return join(parts, ",");
}

Result<LabelSelector> parse_label_selector(std::string_view text) { return SelectorParser(text).parse(); }

Result<LabelSelector> read_label_selector(const json::value& selector) {
  LabelSelector out;
  if (selector.is_null()) {
    out.nothing = true;
    return out;
  }
  if (!selector.is_object())
    return invalid("a label selector is an object of matchLabels and matchExpressions");
  if (const json::object* labels = member_object(selector, "matchLabels"))
    for (const auto& entry : *labels)
      out.requirements.push_back(
          TRY(make_requirement(std::string(entry.key()), Is::kIn, {std::string(text_of(entry.value()))})));
  if (const json::array* expressions = member_array(selector, "matchExpressions"))
    for (const json::value& each : *expressions) {
      const auto part = [&](std::string_view key) {
        const json::value* found = member(each, key);
        return found == nullptr ? std::string() : std::string(text_of(*found));
      };
      std::vector<std::string> values;
      if (const json::array* list = member_array(each, "values"))
        for (const json::value& value : *list) values.emplace_back(text_of(value));
      const std::string verb = part("operator");
      Is is = Is::kIn;
      if (verb == "NotIn")
        is = Is::kNotIn;
      else if (verb == "Exists")
        is = Is::kExists;
      else if (verb == "DoesNotExist")
        is = Is::kAbsent;
      else if (verb != "In")
        return invalid(format("{} is not a valid label selector operator", quoted(verb)));
      const bool takes_values = is == Is::kIn || is == Is::kNotIn;
      if (takes_values && values.empty())
        return invalid("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty");
      if (!takes_values && !values.empty())
        return invalid(format("values: Invalid value: [{}]: values set must be empty for exists and does not exist",
                              join(values, ",")));
      out.requirements.push_back(TRY(make_requirement(part("key"), is, std::move(values))));
    }
  return out;
}

LabelSelector select_labels(const json::object& labels) {
  LabelSelector out;
  for (const auto& entry : labels)
    out.requirements.push_back({Is::kIn, std::string(entry.key()), {std::string(text_of(entry.value()))}, 0});
  return out;
}

bool FieldSelector::matches(const LabelOf& field) const {
  return std::ranges::all_of(terms, [&](const FieldTerm& term) {
    return (field(term.field).value_or(std::string_view()) == term.value) == term.equal;
  });
}

std::optional<std::string> FieldSelector::exact(std::string_view field) const {
  for (const FieldTerm& term : terms)
    if (term.equal && term.field == field)
      return term.value;
  return std::nullopt;
}

std::string FieldSelector::text() const {
  std::vector<std::string> parts;
  for (const FieldTerm& term : terms) {
    std::string value;
    for (const char c : term.value) {
      if (c == '\\' || c == ',' || c == '=')
        value += '\\';
      value += c;
    }
    parts.push_back(term.field + (term.equal ? "=" : "!=") + value);
  }
  return join(parts, ",");
}

Result<FieldSelector> parse_field_selector(std::string_view text) {
  FieldSelector selector;
  std::vector<std::string> parts(1);
  bool escaped = false;
  for (const char c : text) {
    if (c == ',' && !escaped) {
      parts.emplace_back();
      if (parts.size() > kRequirementsMax)
        return invalid(format("a field selector may have {} terms at most", kRequirementsMax));
      continue;
    }
    escaped = c == '\\' && !escaped;
    parts.back() += c;
  }
  std::ranges::sort(parts);
  for (const std::string& part : parts) {
    if (part.empty())
      continue;
    const std::size_t at = part.find('=');
    if (at == part.npos)
      return invalid(format("invalid selector: '{}'; can't understand '{}'", text, part));
    const bool unequal = at > 0 && part[at - 1] == '!';
    const bool doubled = !unequal && at + 1 < part.size() && part[at + 1] == '=';
    FieldTerm term{part.substr(0, unequal ? at - 1 : at), {}, !unequal};
    const std::string_view raw = std::string_view(part).substr(at + (doubled ? 2 : 1));
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] == '\\') {
        if (i + 1 == raw.size() || (raw[i + 1] != '\\' && raw[i + 1] != ',' && raw[i + 1] != '='))
          return invalid(format("invalid field selector: invalid escape sequence: {}", raw.substr(i, 2)));
        term.value += raw[++i];
        continue;
      }
      if (raw[i] == '=')
        return invalid(format("invalid field selector: unescaped character in value: {}", static_cast<int>(raw[i])));
      term.value += raw[i];
    }
    selector.terms.push_back(std::move(term));
  }
  return selector;
}

}  // namespace lockstep::kube
