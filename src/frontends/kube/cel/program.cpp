#include "frontends/kube/cel/program.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/cel/access.h"
#include "frontends/kube/cel/checker.h"

namespace lockstep::kube::cel {
namespace {

using Kind = Node::Kind;

constexpr const char* kCancelled = "operation cancelled: actual cost limit exceeded";

std::string key_text(const Value& key) {
  if (key.string())
    return *key.string();
  Budget budget(1'000'000);
  const Value text = find_function("string")->handler(budget, {key});
  return text.string() ? *text.string() : type_word(key);
}

class Evaluation {
 public:
  Evaluation(const std::vector<Variable>& variables, const std::vector<Value>& values, Budget& budget)
      : variables_(variables), values_(values), budget_(budget) {}

  Value evaluate(const Node& node);

 private:
  Value name_value(const Node& node) const;
  Value field(const Node& node);
  Value index(const Node& node);
  Value call(const Node& node);
  Value logic(const Node& node, bool decides);
  Value list(const Node& node);
  Value map(const Node& node);
  Value loop(const Node& node);
  Value quantify(const Node& node, const std::vector<std::pair<Value, Value>>& range);
  Value collect(const Node& node, const std::vector<std::pair<Value, Value>>& range);
  Value optional_map(const Node& node);
  Value key_in(const Value& target, const Value& key, bool optional);
  Value taken(Value value);
  Value inside(const Node& node, const Node& loop_node, const std::pair<Value, Value>& element);

  const std::vector<Variable>& variables_;
  const std::vector<Value>& values_;
  Budget& budget_;
  std::vector<std::pair<std::string_view, Value>> scope_;  // of loops, the innermost last
};

Value Evaluation::name_value(const Node& node) const {
  for (auto each = scope_.rbegin(); each != scope_.rend(); ++each)
    if (each->first == node.name)
      return each->second;
  for (std::size_t at = 0; at < variables_.size(); ++at)
    if (variables_[at].name == node.name)
      return values_[at];
  return Value::type(node.name);
}

// Element or member; where it may be absent, an optional value.
Value Evaluation::key_in(const Value& target, const Value& key, bool optional) {
  if (const auto* inner = target.part<Optional>())
    return inner->value.empty() ? Value::none() : key_in(inner->value.front(), key, true);
  const auto wrapped = [&](std::optional<Value> found, std::string missing) {
    if (optional)
      return found ? Value::some(std::move(*found)) : Value::none();
    return found ? std::move(*found) : Value::fault(std::move(missing));
  };
  if (const auto* list = target.part<List>()) {
    std::int64_t at = -1;
    if (const auto* number = key.as<std::int64_t>())
      at = *number;
    else if (const auto* natural = key.as<std::uint64_t>())
      at = *natural > INT64_MAX ? -1 : static_cast<std::int64_t>(*natural);
    else if (const auto* real = key.as<double>();
             real && *real == static_cast<double>(static_cast<std::int32_t>(*real)))
      at = static_cast<std::int64_t>(*real);
    else
      return no_overload();
    const bool there = at >= 0 && static_cast<std::size_t>(at) < list->items.size();
    return wrapped(there ? std::optional(list->items[static_cast<std::size_t>(at)]) : std::nullopt,
                   format("index out of bounds: {}", at));
  }
  if (target.is_map())
    return wrapped(find_key(target, key), format("no such key: {}", key_text(key)));
  if (const auto* access = target.part<Access>(); access && key.string())
    return wrapped(access_field(*access, *key.string()), format("no such key: {}", *key.string()));
  return no_overload();
}

// Texts and lists of an object are copied when they are reached: that costs by their size.
std::size_t copying_cost(const Value& value) {
  if (const std::string* text = value.string())
    return text_cost(text->size());
  std::size_t cost = 1;
  if (const auto* list = value.part<List>())
    for (const Value& each : list->items) cost += copying_cost(each);
  return cost;
}

Value Evaluation::taken(Value value) {
  return budget_.spend(copying_cost(value)) ? std::move(value) : Value::fault(kCancelled);
}

Value Evaluation::field(const Node& node) {
  const Value target = evaluate(*node.parts[0]);
  if (target.is_fault())
    return target;
  const Value name = Value::text(node.name);
  if (!node.test)
    return taken(key_in(target, name, node.optional));
  if (const auto* optional = target.part<Optional>())
    return Value(!optional->value.empty() && find_key(optional->value.front(), name).has_value());
  return Value(target.is_map() && find_key(target, name).has_value());
}

Value Evaluation::index(const Node& node) {
  const Value target = evaluate(*node.parts[0]);
  if (target.is_fault())
    return target;
  const Value key = evaluate(*node.parts[1]);
  return key.is_fault() ? key : taken(key_in(target, key, node.optional));
}

Value Evaluation::call(const Node& node) {
  // An optional value decides whether what stands for it is needed at all.
  if (node.method && node.parts.size() == 2 && (node.name == "or" || node.name == "orValue")) {
    const Value first = evaluate(*node.parts[0]);
    const auto* optional = first.part<Optional>();
    if (optional == nullptr)
      return first.is_fault() ? first : no_overload();
    if (optional->value.empty())
      return evaluate(*node.parts[1]);
    return node.name == "or" ? first : optional->value.front();
  }
  const Function* function = find_function(node.name);
  if (function == nullptr || function->handler == nullptr)
    return no_overload();
  Arguments arguments;
  arguments.reserve(node.parts.size());
  for (const auto& part : node.parts) {
    arguments.push_back(evaluate(*part));
    if (arguments.back().is_fault())
      return std::move(arguments.back());
  }
  const bool known = std::ranges::any_of(
      function->signatures, [&](const Signature& each) { return each.arguments.size() == arguments.size(); });
  return known ? function->handler(budget_, arguments) : no_overload();
}

// A part that decides wins over faults of the others.
Value Evaluation::logic(const Node& node, bool decides) {
  std::optional<Value> fault;
  for (const auto& part : node.parts) {
    Value value = evaluate(*part);
    if (budget_.exhausted())
      return Value::fault(kCancelled);
    if (const auto* truth = value.as<bool>()) {
      if (*truth == decides)
        return value;
    } else if (!fault) {
      fault = value.is_fault() ? std::move(value) : no_overload();
    }
  }
  return fault ? std::move(*fault) : Value(!decides);
}

Value Evaluation::list(const Node& node) {
  std::vector<Value> items;
  for (std::size_t at = 0; at < node.parts.size(); ++at) {
    Value value = evaluate(*node.parts[at]);
    if (value.is_fault())
      return value;
    if (!node.optional_parts[at]) {
      items.push_back(std::move(value));
      continue;
    }
    const auto* optional = value.part<Optional>();
    if (optional == nullptr)
      return no_overload();
    if (!optional->value.empty())
      items.push_back(optional->value.front());
  }
  return Value::list(std::move(items));
}

Value Evaluation::map(const Node& node) {
  std::vector<std::pair<Value, Value>> entries;
  for (std::size_t at = 0; at < node.parts.size(); at += 2) {
    Value key = evaluate(*node.parts[at]);
    Value value = key.is_fault() ? Value() : evaluate(*node.parts[at + 1]);
    if (key.is_fault() || value.is_fault())
      return key.is_fault() ? key : value;
    if (!key.string() && !key.as<bool>() && !key.as<std::int64_t>() && !key.as<std::uint64_t>())
      return Value::fault("unsupported key type: " + type_word(key));
    if (!budget_.spend(entries.size()))
      return Value::fault(kCancelled);
    std::erase_if(entries, [&](const auto& entry) { return equal(entry.first, key); });  // the last one counts
    if (node.optional_parts[at / 2]) {
      const auto* optional = value.part<Optional>();
      if (optional == nullptr)
        return no_overload();
      if (optional->value.empty())
        continue;
      value = Value(optional->value.front());
    }
    entries.emplace_back(std::move(key), std::move(value));
  }
  return Value::map(std::move(entries));
}

Value Evaluation::inside(const Node& node, const Node& loop_node, const std::pair<Value, Value>& element) {
  const std::size_t before = scope_.size();
  const bool two = !loop_node.second.empty();
  scope_.emplace_back(loop_node.first, two ? element.first : element.second);
  if (two)
    scope_.emplace_back(loop_node.second, element.second);
  Value value = evaluate(node);
  scope_.resize(before);
  return value;
}

Value Evaluation::loop(const Node& node) {
  const Value target = evaluate(*node.parts[0]);
  if (target.is_fault())
    return target;
  // A loop with one variable runs over the keys of a map.
  std::vector<std::pair<Value, Value>> range;
  if (const auto* list = target.part<List>()) {
    for (std::size_t at = 0; at < list->items.size(); ++at)
      range.emplace_back(Value(static_cast<std::int64_t>(at)), list->items[at]);
  } else if (target.is_map()) {
    for (auto& [key, value] : entries_of(target)) range.emplace_back(key, node.second.empty() ? key : value);
  } else {
    return no_overload();
  }
  if (!budget_.spend(range.size()))
    return Value::fault(kCancelled);
  const bool quantifier = node.name == "all" || node.name == "exists" || node.name == "exists_one";
  return quantifier ? quantify(node, range) : collect(node, range);
}

Value Evaluation::quantify(const Node& node, const std::vector<std::pair<Value, Value>>& range) {
  const bool all = node.name == "all", one = node.name == "exists_one";
  std::size_t count = 0;
  std::optional<Value> fault;
  for (const auto& element : range) {
    Value value = inside(*node.parts[1], node, element);
    if (budget_.exhausted())
      return Value::fault(kCancelled);
    const auto* truth = value.as<bool>();
    if (truth == nullptr) {
      if (one)
        return value.is_fault() ? value : no_overload();
      if (!fault)
        fault = value.is_fault() ? std::move(value) : no_overload();
    } else if (one) {
      count += *truth ? 1 : 0;
    } else if (*truth != all) {
      return value;
    }
  }
  if (one)
    return Value(count == 1);
  return fault ? std::move(*fault) : Value(all);
}

Value Evaluation::collect(const Node& node, const std::vector<std::pair<Value, Value>>& range) {
  std::vector<Value> items;
  std::vector<std::pair<Value, Value>> entries;
  const bool filters = node.name == "filter" || node.parts.size() == 3;
  const bool merges = node.name == "transformMapEntry";
  for (const auto& element : range) {
    if (filters) {
      const Value chosen = inside(*node.parts[1], node, element);
      if (chosen.is_fault())
        return chosen;
      if (!chosen.as<bool>())
        return no_overload();
      if (!chosen.is_true())
        continue;
    }
    if (node.name == "filter") {
      items.push_back(element.second);
      continue;
    }
    Value made = inside(*node.parts.back(), node, element);
    if (made.is_fault())
      return made;
    if (node.name == "map" || node.name == "transformList") {
      items.push_back(std::move(made));
    } else if (merges) {
      for (auto& entry : entries_of(made)) {
        if (!budget_.spend(entries.size() + 1))
          return Value::fault(kCancelled);
        for (const auto& [other, held] : entries)
          if (equal(other, entry.first))
            return Value::fault(format("insert failed: key {} already exists", key_text(entry.first)));
        entries.push_back(std::move(entry));
      }
    } else {
      entries.emplace_back(element.first, std::move(made));
    }
  }
  const bool map = node.name == "transformMap" || merges;
  return map ? Value::map(std::move(entries)) : Value::list(std::move(items));
}

Value Evaluation::optional_map(const Node& node) {
  const Value target = evaluate(*node.parts[0]);
  const auto* optional = target.part<Optional>();
  if (optional == nullptr)
    return target.is_fault() ? target : no_overload();
  if (optional->value.empty())
    return Value::none();
  Value value = inside(*node.parts[1], node, {Value(), optional->value.front()});
  return value.is_fault() || node.name == "optFlatMap" ? value : Value::some(std::move(value));
}

Value Evaluation::evaluate(const Node& node) {
  if (!budget_.spend(1))
    return Value::fault(kCancelled);
  switch (node.kind) {
    case Kind::kLiteral: return node.literal;
    case Kind::kName: return name_value(node);
    case Kind::kField: return field(node);
    case Kind::kIndex: return index(node);
    case Kind::kCall: {
      Value value = call(node);
      return budget_.exhausted() ? Value::fault(kCancelled) : value;
    }
    case Kind::kAnd: return logic(node, false);
    case Kind::kOr: return logic(node, true);
    case Kind::kChoice: {
      const Value condition = evaluate(*node.parts[0]);
      if (condition.is_fault())
        return condition;
      return condition.as<bool>() ? evaluate(*node.parts[condition.is_true() ? 1 : 2]) : no_overload();
    }
    case Kind::kList: return list(node);
    case Kind::kMap: return map(node);
    case Kind::kLoop: return loop(node);
    case Kind::kOptional: return optional_map(node);
  }
  return no_overload();
}

bool names_it(const Node& node, std::string_view name) {
  return (node.kind == Kind::kName && node.name == name) ||
         std::ranges::any_of(node.parts, [&](const auto& part) { return names_it(*part, name); });
}

}  // namespace

bool Program::uses(std::string_view variable) const { return names_it(*root_, variable); }

Value Program::evaluate(const std::vector<Value>& values, Budget& budget) const {
  return Evaluation(variables_, values, budget).evaluate(*root_);
}

Result<Program> compile(std::string_view text, std::vector<Variable> variables) {
  Program program;
  program.root_ = TRY(parse_expression(text));
  Checked checked = check_types(text, *program.root_, variables);
  if (!checked.faults.empty())
    return invalid(join(checked.faults, "\n"));
  program.variables_ = std::move(variables);
  program.result_ = std::move(checked.type);
  return program;
}

}  // namespace lockstep::kube::cel
