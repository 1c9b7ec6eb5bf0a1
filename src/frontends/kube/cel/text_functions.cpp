// Texts, regular expressions, formatted texts.
#include <re2/re2.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <cmath>

#include "base/text.h"
#include "frontends/kube/cel/functions.h"
#include "frontends/kube/machinery/quoted.h"

namespace lockstep::kube::cel {
namespace {

constexpr std::int64_t kTextMax = 8 << 20;  // bytes that a single text may have
constexpr std::int64_t kPatternMemoryMax = 1 << 20;

// Texts are counted in characters, so they are worked on as such.
std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    std::size_t size = 1;
    while (size < text.size() && (text[size] & 0xC0) == 0x80) ++size;
    out.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return out;
}
std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

// Every function on a text pays for its length first.
#define TEXT_TARGET(text)                    \
  if (!a[0].string())                        \
    return no_overload();                    \
  const std::string& text = *a[0].string();  \
  if (!budget.spend(text_cost(text.size()))) \
    return Value();

Value contains(Budget& budget, const Arguments& a) {
  TEXT_TARGET(text)
  return a[1].string() ? Value(text.find(*a[1].string()) != text.npos) : no_overload();
}
Value starts_with(Budget& budget, const Arguments& a) {
  TEXT_TARGET(text)
  return a[1].string() ? Value(text.starts_with(*a[1].string())) : no_overload();
}
Value ends_with(Budget& budget, const Arguments& a) {
  TEXT_TARGET(text)
  return a[1].string() ? Value(text.ends_with(*a[1].string())) : no_overload();
}

// Compiling costs by the pattern, matching by pattern and text.
std::unique_ptr<re2::RE2> compile_pattern(Budget& budget, const std::string& pattern, std::size_t text_size,
                                          Value& fault) {
  if (!budget.spend(text_cost(text_size) * (pattern.size() / 4 + 1) + pattern.size()))
    return nullptr;
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kPatternMemoryMax);
  auto compiled = std::make_unique<re2::RE2>(pattern, options);
  if (compiled->ok())
    return compiled;
  fault = Value::fault(format("error parsing regexp: {}", compiled->error()));
  return nullptr;
}
re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

Value matches(Budget& budget, const Arguments& a) {
  TEXT_TARGET(text)
  if (!a[1].string())
    return no_overload();
  Value fault;
  const auto pattern = compile_pattern(budget, *a[1].string(), text.size(), fault);
  return pattern == nullptr ? fault : Value(re2::RE2::PartialMatch(piece(text), *pattern));
}

Value find_first(Budget& budget, const Arguments& a) {
  TEXT_TARGET(text)
  if (!a[1].string())
    return no_overload();
  Value fault;
  const auto pattern = compile_pattern(budget, *a[1].string(), text.size(), fault);
  if (pattern == nullptr)
    return fault;
  re2::StringPiece found;
  if (!pattern->Match(piece(text), 0, text.size(), re2::RE2::UNANCHORED, &found, 1))
    return Value::text("");
  return Value::text(std::string(found.data(), found.size()));
}

Value find_all(Budget& budget, const Arguments& a) {
  TEXT_TARGET(text)
  const std::int64_t limit = a.size() > 2 && a[2].as<std::int64_t>() ? *a[2].as<std::int64_t>() : -1;
  if (!a[1].string() || (a.size() > 2 && !a[2].as<std::int64_t>()))
    return no_overload();
  Value fault;
  const auto pattern = compile_pattern(budget, *a[1].string(), text.size(), fault);
  if (pattern == nullptr)
    return fault;
  std::vector<Value> out;
  std::size_t at = 0;
  while (at <= text.size() && (limit < 0 || static_cast<std::int64_t>(out.size()) < limit)) {
    re2::StringPiece found;
    if (!budget.spend(1) || !pattern->Match(piece(text), at, text.size(), re2::RE2::UNANCHORED, &found, 1))
      break;
    const auto begin = static_cast<std::size_t>(found.data() - text.data());
    out.push_back(Value::text(std::string(found.data(), found.size())));
    at = found.empty() ? begin + 1 : begin + found.size();
  }
  return Value::list(std::move(out));
}

Value char_at(Budget& budget, const Arguments& a) {
  TEXT_TARGET(text)
  const auto* index = a[1].as<std::int64_t>();
  if (index == nullptr)
    return no_overload();
  const auto characters = characters_of(text);
  if (*index < 0 || *index > static_cast<std::int64_t>(characters.size()))
    return Value::fault(format("index out of range: {}", *index));
  return Value::text(*index == static_cast<std::int64_t>(characters.size()) ? "" : std::string(characters[*index]));
}

// Where a text stands in another, counted in characters; lists have the same functions.
Value index_of(Budget& budget, const Arguments& a) {
  if (const auto* list = a[0].part<List>()) {
    for (std::size_t at = 0; at < list->items.size() && budget.spend(1); ++at)
      if (equal(list->items[at], a[1]))
        return Value(static_cast<std::int64_t>(at));
    return Value(std::int64_t{-1});
  }
  TEXT_TARGET(text)
  if (!a[1].string() || (a.size() > 2 && !a[2].as<std::int64_t>()))
    return no_overload();
  const std::int64_t from = a.size() > 2 ? *a[2].as<std::int64_t>() : 0;
  const auto characters = characters_of(text);
  if (from < 0 || from > static_cast<std::int64_t>(characters.size()))
    return Value::fault(format("index out of range: {}", from));
  const std::size_t skip = from == static_cast<std::int64_t>(characters.size())
                               ? text.size()
                               : static_cast<std::size_t>(characters[from].data() - text.data());
  const std::size_t found = text.find(*a[1].string(), skip);
  return Value(found == text.npos
                   ? std::int64_t{-1}
                   : static_cast<std::int64_t>(count_characters(std::string_view(text).substr(0, found))));
}

Value last_index_of(Budget& budget, const Arguments& a) {
  if (const auto* list = a[0].part<List>()) {
    for (std::size_t at = list->items.size(); at > 0 && budget.spend(1); --at)
      if (equal(list->items[at - 1], a[1]))
        return Value(static_cast<std::int64_t>(at - 1));
    return Value(std::int64_t{-1});
  }
  TEXT_TARGET(text)
  if (!a[1].string() || (a.size() > 2 && !a[2].as<std::int64_t>()))
    return no_overload();
  std::size_t until = text.npos;
  if (a.size() > 2) {
    const std::int64_t last = *a[2].as<std::int64_t>();
    const auto characters = characters_of(text);
    if (last < 0 || last >= static_cast<std::int64_t>(characters.size()))
      return Value::fault(format("index out of range: {}", last));
    until = static_cast<std::size_t>(characters[last].data() - text.data());
  }
  const std::size_t found = text.rfind(*a[1].string(), until);
  return Value(found == text.npos
                   ? std::int64_t{-1}
                   : static_cast<std::int64_t>(count_characters(std::string_view(text).substr(0, found))));
}

Value lower_ascii(Budget& budget, const Arguments& a) {
  TEXT_TARGET(text)
  std::string out = text;
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return Value::text(std::move(out));
}
Value upper_ascii(Budget& budget, const Arguments& a) {
  TEXT_TARGET(text)
  std::string out = text;
  for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return Value::text(std::move(out));
}

Value trimmed(Budget& budget, const Arguments& a) {
  TEXT_TARGET(text)
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  const std::size_t from = text.find_first_not_of(kBlanks);
  return Value::text(from == text.npos ? "" : text.substr(from, text.find_last_not_of(kBlanks) - from + 1));
}

Value replaced(Budget& budget, const Arguments& a) {
  TEXT_TARGET(text)
  if (!a[1].string() || !a[2].string() || (a.size() > 3 && !a[3].as<std::int64_t>()))
    return no_overload();
  const std::string &old = *a[1].string(), &fresh = *a[2].string();
  std::int64_t left = a.size() > 3 ? *a[3].as<std::int64_t>() : -1;
  std::string out;
  std::size_t at = 0;
  bool at_start = true;
  while (left != 0) {
    // An empty text stands before every character and at the end.
    std::size_t found = at;
    if (old.empty()) {
      if (!at_start && at >= text.size())
        break;
      if (!at_start) {
        std::size_t size = 1;
        while (at + size < text.size() && (text[at + size] & 0xC0) == 0x80) ++size;
        out += text.substr(at, size);
        at += size;
        found = at;
      }
    } else if (found = text.find(old, at); found == text.npos) {
      break;
    } else {
      out += text.substr(at, found - at);
    }
    at_start = false;
    out += fresh;
    at = found + old.size();
    --left;
    if (!budget.spend(text_cost(fresh.size())) || out.size() > static_cast<std::size_t>(kTextMax))
      return Value::fault("text is too long");
  }
  if (at < text.size())
    out += text.substr(at);
  return Value::text(std::move(out));
}

Value split_text(Budget& budget, const Arguments& a) {
  TEXT_TARGET(text)
  if (!a[1].string() || (a.size() > 2 && !a[2].as<std::int64_t>()))
    return no_overload();
  const std::string& separator = *a[1].string();
  const std::int64_t limit = a.size() > 2 ? *a[2].as<std::int64_t>() : -1;
  std::vector<Value> out;
  if (limit == 0)
    return Value::list({});
  if (separator.empty()) {
    const auto characters = characters_of(text);
    for (std::size_t at = 0; at < characters.size(); ++at) {
      if (limit > 0 && static_cast<std::int64_t>(out.size()) == limit - 1) {
        out.push_back(Value::text(std::string(characters[at].data(), text.data() + text.size())));
        break;
      }
      out.push_back(Value::text(std::string(characters[at])));
    }
    return Value::list(std::move(out));
  }
  std::size_t at = 0;
  while (true) {
    const std::size_t found =
        limit > 0 && static_cast<std::int64_t>(out.size()) == limit - 1 ? text.npos : text.find(separator, at);
    out.push_back(Value::text(text.substr(at, found == text.npos ? found : found - at)));
    if (found == text.npos)
      return Value::list(std::move(out));
    at = found + separator.size();
  }
}

Value substring(Budget& budget, const Arguments& a) {
  TEXT_TARGET(text)
  if (!a[1].as<std::int64_t>() || (a.size() > 2 && !a[2].as<std::int64_t>()))
    return no_overload();
  const auto characters = characters_of(text);
  const auto size = static_cast<std::int64_t>(characters.size());
  const std::int64_t from = *a[1].as<std::int64_t>(), to = a.size() > 2 ? *a[2].as<std::int64_t>() : size;
  if (from < 0 || from > size)
    return Value::fault(format("index out of range: {}", from));
  if (to < 0 || to > size)
    return Value::fault(format("index out of range: {}", to));
  if (from > to)
    return Value::fault(format("invalid substring range. start: {}, end: {}", from, to));
  const auto offset = [&](std::int64_t index) {
    return index == size ? text.size() : static_cast<std::size_t>(characters[index].data() - text.data());
  };
  return Value::text(text.substr(offset(from), offset(to) - offset(from)));
}

Value join_texts(Budget& budget, const Arguments& a) {
  const auto* list = a[0].part<List>();
  if (list == nullptr || (a.size() > 1 && !a[1].string()))
    return no_overload();
  std::string out;
  for (const Value& each : list->items) {
    if (!each.string())
      return no_overload();
    if (&each != &list->items.front() && a.size() > 1)
      out += *a[1].string();
    out += *each.string();
    if (!budget.spend(text_cost(each.string()->size() + (a.size() > 1 ? a[1].string()->size() : 0))))
      return Value();
  }
  return Value::text(std::move(out));
}

Value quote(Budget& budget, const Arguments& a) {
  TEXT_TARGET(text)
  std::string out = "\"";
  for (const char c : text) {
    constexpr std::string_view kEscaped = "\a\b\f\n\r\t\v\\\"";
    constexpr std::string_view kLetters = "abfnrtv\\\"";
    if (const std::size_t known = kEscaped.find(c); known != kEscaped.npos)
      (out += '\\') += kLetters[known];
    else
      out += c;
  }
  return Value::text(out + '"');
}

std::string formatted(const Value& value);

std::string formatted_parts(const Value& value) {
  std::vector<std::string> parts;
  if (const auto* list = value.part<List>()) {
    for (const Value& each : list->items) parts.push_back(formatted(each));
    return "[" + join(parts, ", ") + "]";
  }
  for (const auto& [key, each] : entries_of(value)) parts.push_back(formatted(key) + ": " + formatted(each));
  std::ranges::sort(parts);
  return "{" + join(parts, ", ") + "}";
}

std::string formatted(const Value& value) {
  if (value.string())
    return *value.string();
  if (value.is_null())
    return "null";
  if (const auto* truth = value.as<bool>())
    return *truth ? "true" : "false";
  if (const auto* number = value.as<std::int64_t>())
    return std::to_string(*number);
  if (const auto* number = value.as<std::uint64_t>())
    return std::to_string(*number);
  if (const auto* number = value.as<double>())
    return double_text(*number);
  if (const auto* bytes = value.part<Bytes>())
    return bytes->bytes;
  if (const auto* time = value.as<Moment>())
    return moment_text(*time);
  if (const auto* span = value.as<Span>())
    return span_text(*span);
  if (const auto* type = value.part<TypeName>())
    return type->name;
  if (value.part<List>() || value.is_map())
    return formatted_parts(value);
  return type_word(value);
}

std::string digits_of(std::uint64_t number, unsigned base, bool capital) {
  std::string out;
  do {
    const unsigned digit = number % base;
    out += static_cast<char>(digit < 10 ? '0' + digit : (capital ? 'A' : 'a') + digit - 10);
    number /= base;
  } while (number > 0);
  std::ranges::reverse(out);
  return out;
}

// "1.234500×10⁰³": how CEL writes %e.
std::string scientific(double number, int precision) {
  const std::string plain = format("{:.{}e}", number, precision);
  const std::size_t at = plain.find('e');
  std::string out = plain.substr(0, at) + "×10";
  constexpr const char* kDigits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  for (const char c : plain.substr(at + 1))
    if (c == '-')
      out += "⁻";
    else if (c >= '0' && c <= '9')
      out += kDigits[c - '0'];
  return out;
}

// One clause of "%s %d %f %e %b %x %X %o"; nullopt: the value does not suit it.
std::optional<std::string> format_clause(char verb, int precision, const Value& value) {
  if (verb == 's')
    return formatted(value);
  const auto* whole = value.as<std::int64_t>();
  const auto* natural = value.as<std::uint64_t>();
  if (verb == 'd')
    return whole || natural || value.as<double>() ? std::optional(formatted(value)) : std::nullopt;
  if (verb == 'f' || verb == 'e') {
    if (!value.is_number())
      return std::nullopt;
    const double number = value.as<double>() ? *value.as<double>()
                          : whole            ? static_cast<double>(*whole)
                                             : static_cast<double>(*natural);
    if (!std::isfinite(number))
      return std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
    return verb == 'f' ? format("{:.{}f}", number, precision) : scientific(number, precision);
  }
  if (verb == 'x' || verb == 'X') {
    const bool capital = verb == 'X';
    const std::string* text = value.string();
    if (text == nullptr && value.part<Bytes>())
      text = &value.part<Bytes>()->bytes;
    if (text != nullptr) {
      std::string out;
      for (const char c : *text)
        out +=
            capital ? format("{:02X}", static_cast<unsigned char>(c)) : format("{:02x}", static_cast<unsigned char>(c));
      return out;
    }
  }
  const unsigned base = verb == 'b' ? 2 : verb == 'o' ? 8 : 16;
  if (verb == 'b' && value.as<bool>())
    return *value.as<bool>() ? "1" : "0";
  if (natural != nullptr)
    return digits_of(*natural, base, verb == 'X');
  if (whole == nullptr)
    return std::nullopt;
  const std::uint64_t size = *whole < 0 ? 0 - static_cast<std::uint64_t>(*whole) : static_cast<std::uint64_t>(*whole);
  return (*whole < 0 ? "-" : "") + digits_of(size, base, verb == 'X');
}

Value format_text(Budget& budget, const Arguments& a) {
  TEXT_TARGET(text)
  const auto* list = a[1].part<List>();
  if (list == nullptr)
    return no_overload();
  std::string out;
  std::size_t used = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out += text[at];
      continue;
    }
    if (++at == text.size())
      return Value::fault("could not parse formatting clause: unexpected end of string");
    if (text[at] == '%') {
      out += '%';
      continue;
    }
    int precision = 6;
    if (text[at] == '.') {
      std::size_t end = at + 1;
      while (end < text.size() && text[end] >= '0' && text[end] <= '9' && end - at < 5) ++end;
      const auto said = parse_int(text.substr(at + 1, end - at - 1));
      if (!said || *said > 100 || end == text.size())
        return Value::fault("could not parse formatting clause: error parsing precision");
      precision = static_cast<int>(*said);
      at = end;
    }
    if (used == list->items.size())
      return Value::fault(format("index {} out of range", used));
    if (std::string_view("sdfebxXo").find(text[at]) == std::string_view::npos)
      return Value::fault(format("could not parse formatting clause: unrecognized formatting clause \"{}\"", text[at]));
    const auto clause = format_clause(text[at], precision, list->items[used++]);
    if (!clause)
      return Value::fault(
          format("error during formatting: %{} does not take a {}", text[at], type_word(list->items[used - 1])));
    out += *clause;
    if (!budget.spend(text_cost(clause->size())))
      return Value();
  }
  return Value::text(std::move(out));
}

}  // namespace

std::vector<FunctionRow> text_functions() {
  return {
      {"contains", contains, {"string.contains(string) bool"}},
      {"startsWith", starts_with, {"string.startsWith(string) bool"}},
      {"endsWith", ends_with, {"string.endsWith(string) bool"}},
      {"matches", matches, {"string.matches(string) bool", "@(string, string) bool"}},
      {"find", find_first, {"string.find(string) string"}},
      {"findAll", find_all, {"string.findAll(string) list(string)", "string.findAll(string, int) list(string)"}},
      {"charAt", char_at, {"string.charAt(int) string"}},
      {"indexOf",
       index_of,
       {"string.indexOf(string) int", "string.indexOf(string, int) int", "list(A).indexOf(A) int"}},
      {"lastIndexOf",
       last_index_of,
       {"string.lastIndexOf(string) int", "string.lastIndexOf(string, int) int", "list(A).lastIndexOf(A) int"}},
      {"lowerAscii", lower_ascii, {"string.lowerAscii() string"}},
      {"upperAscii", upper_ascii, {"string.upperAscii() string"}},
      {"trim", trimmed, {"string.trim() string"}},
      {"replace", replaced, {"string.replace(string, string) string", "string.replace(string, string, int) string"}},
      {"split", split_text, {"string.split(string) list(string)", "string.split(string, int) list(string)"}},
      {"substring", substring, {"string.substring(int) string", "string.substring(int, int) string"}},
      {"join", join_texts, {"list(string).join() string", "list(string).join(string) string"}},
      {"strings.quote", quote, {"@(string) string"}},
      {"format", format_text, {"string.format(list(dyn)) string"}},
  };
}

}  // namespace lockstep::kube::cel
