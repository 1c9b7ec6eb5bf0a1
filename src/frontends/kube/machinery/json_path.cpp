#include "frontends/kube/machinery/json_path.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>

#include "base/text.h"
#include "frontends/kube/machinery/field_set.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {
namespace {

constexpr std::size_t kTextMax = 4096;
constexpr std::size_t kResultsMax = 10'000;
constexpr int kFiltersInside = 2;  // filters within filters
constexpr int kDescentsMax = 1;

}  // namespace

class JsonPathParser {
 public:
  using Step = JsonPath::Step;
  using Filter = JsonPath::Filter;

  JsonPathParser(std::string_view text, int depth) : text_(text), depth_(depth) {}

  // Up to the end, or to what no step begins with.
  Result<std::vector<Step>> steps() {
    std::vector<Step> steps;
    while (!text_.empty()) {
      if (text_.starts_with("..")) {
        text_.remove_prefix(2);
        if (text_.starts_with("."))
          return invalid("invalid multiple recursive descent");
        // Each one below another multiplies what a search visits.
        if (++descents_ > kDescentsMax)
          return invalid(format("a path may descend (\"..\") {} times at most", kDescentsMax));
        steps.push_back({.kind = Step::Kind::kBelow});
        if (!text_.empty() && text_.front() != '[')
          steps.push_back(TRY(named()));
      } else if (text_.front() == '.') {
        text_.remove_prefix(1);
        if (text_.empty())
          break;  // "." alone is the whole
        if (text_.front() != '[')
          steps.push_back(TRY(named()));
      } else if (text_.front() == '[') {
        text_.remove_prefix(1);
        steps.push_back(TRY(bracket()));
      } else {
        break;
      }
    }
    return steps;
  }
  std::string_view rest() const { return text_; }

 private:
  Result<Step> named() {
    Step step;
    while (!text_.empty() && std::string_view(".[]{}()= \t\n<>!&|,").find(text_.front()) == std::string_view::npos) {
      if (text_.front() == '\\' && text_.size() > 1)
        text_.remove_prefix(1);
      step.name += text_.front();
      text_.remove_prefix(1);
    }
    if (step.name.empty())
      return invalid("unrecognized character in path: a name is missing behind \".\"");
    if (step.name == "*")
      step.kind = Step::Kind::kEvery;
    return step;
  }

  Result<Step> bracket() {
    skip_blanks();
    if (text_.starts_with("?("))
      return filter();
    if (text_.starts_with("'") || text_.starts_with("\"")) {
      Step step;
      step.name = TRY(quoted_text());
      skip_blanks();
      return closed(std::move(step));
    }
    const std::size_t end = text_.find(']');
    if (end == text_.npos)
      return invalid("unterminated array");
    const std::string inside(trim(text_.substr(0, end)));
    text_.remove_prefix(end + 1);
    if (inside == "*")
      return Step{.kind = Step::Kind::kEvery};
    Step step{.kind = Step::Kind::kSlice};
    std::vector<std::string> parts(1);
    for (const char c : inside)
      if (c == ':')
        parts.emplace_back();
      else
        parts.back() += c;
    if (parts.size() > 3 || (parts.size() == 1 && parts[0].empty()))
      return invalid(format("invalid array index [{}]", inside));
    for (std::size_t at = 0; at < parts.size(); ++at) {
      if (parts[at].empty())
        continue;
      const auto number = parse_int(trim(parts[at]));
      if (!number || *number > INT32_MAX || *number < INT32_MIN)
        return invalid(format("invalid array index [{}]: {} is not a number", inside, parts[at]));
      (at == 0 ? step.from : at == 1 ? step.to : step.step) = *number;
      (at == 0 ? step.has_from : at == 1 ? step.has_to : step.single) = true;
    }
    if (step.step <= 0)
      return invalid("step must be > 0");
    step.single = parts.size() == 1;
    return step;
  }

  Result<Step> filter() {
    if (depth_ >= kFiltersInside)
      return invalid(format("filters may stand in each other {} deep", kFiltersInside));
    text_.remove_prefix(2);
    Filter filter;
    filter.left = TRY(side());
    skip_blanks();
    for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"})
      if (filter.op.empty() && text_.starts_with(op)) {
        filter.op = op;
        text_.remove_prefix(op.size());
      }
    skip_blanks();
    if (!filter.op.empty()) {
      filter.right_is_path = text_.starts_with("@");
      if (filter.right_is_path)
        filter.right_path = TRY(side());
      else
        filter.right = TRY(literal());
      skip_blanks();
    }
    if (!text_.starts_with(")"))
      return invalid("unterminated filter");
    text_.remove_prefix(1);
    skip_blanks();
    Step step{.kind = Step::Kind::kFilter};
    step.filters.push_back(std::move(filter));
    return closed(std::move(step));
  }

  Result<std::vector<Step>> side() {
    skip_blanks();
    if (!text_.starts_with("@"))
      return invalid("a filter compares \"@\" and what is below it");
    text_.remove_prefix(1);
    JsonPathParser inner(text_, depth_ + 1);
    auto steps = inner.steps();
    text_ = inner.rest();
    return steps;
  }

  Result<json::value> literal() {
    if (text_.starts_with("'") || text_.starts_with("\""))
      return json::value(TRY(quoted_text()));
    const std::size_t end = std::min(text_.find_first_of(" )"), text_.size());
    const std::string_view word = text_.substr(0, end);
    text_.remove_prefix(end);
    if (word == "true" || word == "false")
      return json::value(word == "true");
    if (const auto whole = parse_int(word))
      return json::value(*whole);
    double number = 0;
    const auto [at, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (word.empty() || error != std::errc() || at != word.data() + word.size())
      return invalid(format("cannot parse number {}", word));
    return json::value(number);
  }

  Result<std::string> quoted_text() {
    const char quote = text_.front();
    text_.remove_prefix(1);
    std::string out;
    while (!text_.empty() && text_.front() != quote) {
      if (text_.front() == '\\' && text_.size() > 1)
        text_.remove_prefix(1);
      out += text_.front();
      text_.remove_prefix(1);
    }
    if (text_.empty())
      return invalid("unterminated quoted string");
    text_.remove_prefix(1);
    return out;
  }

  Result<Step> closed(Step step) {
    if (!text_.starts_with("]"))
      return invalid("unclosed array expect ]");
    text_.remove_prefix(1);
    return step;
  }

  void skip_blanks() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\t')) text_.remove_prefix(1);
  }

  std::string_view text_;
  int depth_;
  int descents_ = 0;
};

Result<JsonPath> parse_json_path(std::string_view text) {
  if (text.size() > kTextMax)
    return invalid(format("a path may have {} characters at most", kTextMax));
  const std::string_view whole = text;
  if (text.starts_with("{") && text.ends_with("}"))
    text = text.substr(1, text.size() - 2);
  if (text.starts_with("$"))
    text.remove_prefix(1);
  std::string dotted;  // kubectl takes "metadata.name" for ".metadata.name"
  if (!text.empty() && text.front() != '.' && text.front() != '[')
    dotted = "." + std::string(text);
  JsonPathParser parser(dotted.empty() ? text : std::string_view(dotted), 0);
  JsonPath path;
  path.steps_ = TRY(parser.steps());
  if (!parser.rest().empty())
    return invalid(format("unrecognized character in path {}: {}", whole, parser.rest()));
  return path;
}

bool JsonPath::holds(const Filter& filter, const json::value& value) {
  std::vector<const json::value*> left;
  walk(filter.left, 0, value, left);
  if (filter.op.empty())
    return !left.empty();
  std::vector<const json::value*> right;
  if (filter.right_is_path)
    walk(filter.right_path, 0, value, right);
  else
    right.push_back(&filter.right);
  if (left.size() != 1 || right.size() != 1)
    return false;
  const json::value &a = *left[0], &b = *right[0];
  if (filter.op == "==")
    return same_json(a, b);
  if (filter.op == "!=")
    return !same_json(a, b);
  if (a.is_string() != b.is_string() || (!a.is_string() && (!is_number(a) || !is_number(b))))
    return false;
  const int order = a.is_string() ? text_of(a).compare(text_of(b))
                                  : (number_of(a) > number_of(b) ? 1 : 0) - (number_of(a) < number_of(b) ? 1 : 0);
  return filter.op == "<" ? order < 0 : filter.op == "<=" ? order <= 0 : filter.op == ">" ? order > 0 : order >= 0;
}

void JsonPath::walk(const std::vector<Step>& steps, std::size_t at, const json::value& value,
                    std::vector<const json::value*>& out) {
  if (out.size() >= kResultsMax)
    return;
  if (at == steps.size()) {
    out.push_back(&value);
    return;
  }
  const Step& step = steps[at];
  const json::array* list = value.if_array();
  const json::object* object = value.if_object();
  switch (step.kind) {
    case Step::Kind::kName:
      if (const json::value* found = object == nullptr ? nullptr : object->if_contains(step.name))
        walk(steps, at + 1, *found, out);
      return;
    case Step::Kind::kEvery:
      if (list != nullptr)
        for (const json::value& each : *list) walk(steps, at + 1, each, out);
      if (object != nullptr)
        for (const auto& entry : *object) walk(steps, at + 1, entry.value(), out);
      return;
    case Step::Kind::kBelow:
      walk(steps, at + 1, value, out);
      if (list != nullptr)
        for (const json::value& each : *list) walk(steps, at, each, out);
      if (object != nullptr)
        for (const auto& entry : *object) walk(steps, at, entry.value(), out);
      return;
    case Step::Kind::kSlice: {
      if (list == nullptr)
        return;
      const auto size = static_cast<std::int64_t>(list->size());
      std::int64_t from = step.has_from ? step.from : 0, to = step.has_to ? step.to : size;
      if (from < 0)
        from += size;
      if (step.single)
        to = from + 1;
      else if (to < 0)
        to += size;
      for (std::int64_t index = std::max<std::int64_t>(from, step.single ? from : 0); index < std::min(to, size);
           index += step.step)
        if (index >= 0)
          walk(steps, at + 1, (*list)[static_cast<std::size_t>(index)], out);
      return;
    }
    case Step::Kind::kFilter:
      if (list != nullptr)
        for (const json::value& each : *list)
          if (holds(step.filters.front(), each))
            walk(steps, at + 1, each, out);
      return;
  }
}

std::vector<const json::value*> JsonPath::find(const json::value& root) const {
  std::vector<const json::value*> out;
  walk(steps_, 0, root, out);
  return out;
}

const json::value* JsonPath::first(const json::value& root) const {
  const auto found = find(root);
  return found.empty() ? nullptr : found.front();
}

std::optional<std::vector<std::string>> JsonPath::names() const {
  std::vector<std::string> names;
  for (const Step& step : steps_) {
    if (step.kind != Step::Kind::kName)
      return std::nullopt;
    names.push_back(step.name);
  }
  return names;
}

std::string json_path_text(const std::vector<const json::value*>& results) {
  std::string out;
  bool first = true;
  for (const json::value* value : results) {
    if (!first)
      out += ' ';
    first = false;
    if (value->is_string())
      out += text_of(*value);
    else if (is_number(*value))
      out += number_text(*value);
    else if (value->is_null())
      out += "<nil>";
    else
      out += canonical_text(*value);
  }
  return out;
}

}  // namespace lockstep::kube
