#include "frontends/kube/cel/checker.h"

#include <algorithm>

#include "base/text.h"

namespace lockstep::kube::cel {
namespace {

using Kind = Node::Kind;
constexpr std::size_t kFaultsMax = 20;

TypeRef type_of_literal(const Value& value) {
  const std::string word = type_word(value);
  return simple_type(word == "null_type" ? "null" : word);
}

class Checker {
 public:
  Checker(std::string_view text, const std::vector<Variable>& variables) : text_(text), scope_(variables) {}

  TypeRef check(const Node& node);
  std::vector<std::string> faults;

 private:
  TypeRef fail(const Node& node, std::string_view why) {
    if (faults.size() < kFaultsMax)
      faults.push_back(fault_at(text_, node.position, why));
    return simple_type("dyn");
  }
  TypeRef check_name(const Node& node);
  TypeRef check_field(const Node& node);
  TypeRef check_index(const Node& node);
  TypeRef check_call(const Node& node);
  void check_constant(const Node& node);
  TypeRef check_loop(const Node& node);
  TypeRef check_inside(const Node& node, const std::vector<Variable>& more);
  TypeRef check_elements(const Node& node, std::size_t first, std::size_t step);
  void want_bool(const Node& node, const TypeRef& type) {
    if (type->name != "bool" && type->name != "dyn")
      fail(node, format("expected type 'bool' but found '{}'", type_text(type)));
  }

  std::string_view text_;
  std::vector<Variable> scope_;
  bool mixed_lists_ = false;
};

TypeRef unwrapped(const TypeRef& type) { return type->name == "optional" ? type->parts[0] : type; }

TypeRef Checker::check_name(const Node& node) {
  for (auto each = scope_.rbegin(); each != scope_.rend(); ++each)
    if (each->name == node.name)
      return each->type;
  for (const char* type : {"int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"})
    if (node.name == type)
      return simple_type("type");
  return fail(node, format("undeclared reference to '{}' (in container '')", node.name));
}

TypeRef Checker::check_field(const Node& node) {
  const TypeRef target = check(*node.parts[0]);
  const bool wraps = node.optional || target->name == "optional";
  const TypeRef inner = unwrapped(target);
  TypeRef type = simple_type("dyn");
  if (inner->name == "object") {
    const Field* field = inner->schema->field(unescaped_name(node.name));
    type = field == nullptr || field->schema == nullptr ? nullptr : type_of_schema(*field->schema);
    if (type == nullptr)
      return fail(node, format("undefined field '{}'", node.name));
  } else if (!inner->fields.empty()) {
    const auto field = inner->fields.find(node.name);
    if (field == inner->fields.end())
      return fail(node, format("undefined field '{}'", node.name));
    type = field->second;
  } else if (inner->name == "map") {
    type = inner->parts[1];
  } else if (inner->name != "dyn") {
    return fail(node, format("type '{}' does not support field selection", type_text(inner)));
  }
  if (node.test)
    return simple_type("bool");
  return wraps ? composed_type("optional", {type}) : type;
}

TypeRef Checker::check_index(const Node& node) {
  const TypeRef target = check(*node.parts[0]), key = check(*node.parts[1]);
  const TypeRef inner = unwrapped(target);
  const bool wraps = node.optional || target->name == "optional";
  TypeRef type = simple_type("dyn");
  Bindings none;
  if (inner->name == "list" &&
      (key->name == "int" || key->name == "uint" || key->name == "double" || key->name == "dyn"))
    type = inner->parts[0];
  else if (inner->name == "map" && assignable(key, inner->parts[0], none))
    type = inner->parts[1];
  else if (inner->name != "dyn")
    return fail(
        node, format("found no matching overload for '_[_]' applied to '({}, {})'", type_text(target), type_text(key)));
  return wraps ? composed_type("optional", {type}) : type;
}

// Texts that stand in the expression and can be no time, or no pattern, are found before it runs.
void Checker::check_constant(const Node& node) {
  if ((node.name != "duration" && node.name != "timestamp" && node.name != "matches") || node.parts.empty())
    return;
  const Node& said = *node.parts.back();
  if (said.kind != Kind::kLiteral || said.literal.string() == nullptr)
    return;
  Budget budget(100'000);
  const bool pattern = node.name == "matches";
  const Arguments arguments = pattern ? Arguments{Value::text(""), said.literal} : Arguments{said.literal};
  if (find_function(node.name)->handler(budget, arguments).is_fault())
    fail(said, format("invalid {} argument", node.name));
}

TypeRef Checker::check_call(const Node& node) {
  std::vector<TypeRef> given;
  const bool outside = mixed_lists_;
  mixed_lists_ = outside || node.name == "format";  // takes what it writes as one list
  for (const auto& part : node.parts) given.push_back(check(*part));
  mixed_lists_ = outside;
  const Function* function = find_function(node.name);
  if (function == nullptr)
    return fail(node, format("undeclared reference to '{}' (in container '')", node.name));
  TypeRef result;
  bool settled = true;
  for (const Signature& signature : function->signatures) {
    if (signature.method != node.method || signature.arguments.size() != given.size())
      continue;
    Bindings bindings;
    bool fits = true;
    for (std::size_t at = 0; fits && at < given.size(); ++at)
      fits = assignable(given[at], signature.arguments[at], bindings);
    if (!fits)
      continue;
    const TypeRef one = substituted(signature.result, bindings);
    if (result != nullptr && type_text(result) != type_text(one))
      settled = false;
    result = one;
  }
  if (result != nullptr) {
    check_constant(node);
    return settled ? result : simple_type("dyn");
  }
  std::vector<std::string> words;
  for (const TypeRef& type : given) words.push_back(type_text(type));
  std::string applied;
  if (node.method) {
    applied = words.front() + ".";
    words.erase(words.begin());
  }
  return fail(node,
              format("found no matching overload for '{}' applied to '{}({})'", node.name, applied, join(words, ", ")));
}

TypeRef Checker::check_inside(const Node& node, const std::vector<Variable>& more) {
  const std::size_t before = scope_.size();
  scope_.insert(scope_.end(), more.begin(), more.end());
  TypeRef type = check(node);
  scope_.resize(before);
  return type;
}

TypeRef Checker::check_loop(const Node& node) {
  const TypeRef dyn = simple_type("dyn");
  const TypeRef range = unwrapped(check(*node.parts[0]));
  const bool map = range->name == "map" || range->name == "object";
  TypeRef key = map ? (range->name == "map" ? range->parts[0] : simple_type("string")) : simple_type("int");
  TypeRef value = range->name == "list" ? range->parts[0] : range->name == "map" ? range->parts[1] : dyn;
  if (range->name == "dyn")
    key = dyn;
  else if (range->name != "list" && !map)
    return fail(*node.parts[0],
                format("expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                       type_text(range)));
  std::vector<Variable> variables = {{node.first, node.second.empty() ? (map ? key : value) : key}};
  if (!node.second.empty())
    variables.push_back({node.second, value});
  TypeRef last = dyn;
  for (std::size_t at = 1; at < node.parts.size(); ++at) {
    last = check_inside(*node.parts[at], variables);
    const bool condition = (node.name != "map" && !node.name.starts_with("transform")) || at + 1 < node.parts.size();
    if (condition)
      want_bool(*node.parts[at], last);
  }
  if (node.name == "filter")
    return composed_type("list", {map ? key : value});
  if (node.name == "map" || node.name == "transformList")
    return composed_type("list", {last});
  if (node.name == "transformMap")
    return composed_type("map", {key, last});
  return node.name == "transformMapEntry" ? last : simple_type("bool");
}

TypeRef Checker::check_elements(const Node& node, std::size_t first, std::size_t step) {
  TypeRef type;
  for (std::size_t at = first; at < node.parts.size(); at += step) {
    TypeRef each = check(*node.parts[at]);
    const bool optional =
        node.optional_parts.size() > at / step && node.optional_parts[at / step] && (first == 1 || step == 1);
    if (optional)
      each = unwrapped(each);
    if (type == nullptr) {
      type = each;
      continue;
    }
    // A list of Kubernetes' rules holds one type, unless something of it is dynamic.
    Bindings none;
    if (!mixed_lists_ && !assignable(each, type, none) && !assignable(type, each, none))
      fail(*node.parts[at], format("expected type '{}' but found '{}'", type_text(type), type_text(each)));
    type = joined(type, each);
  }
  return type == nullptr ? simple_type("dyn") : type;
}

TypeRef Checker::check(const Node& node) {
  switch (node.kind) {
    case Kind::kLiteral: return type_of_literal(node.literal);
    case Kind::kName: return check_name(node);
    case Kind::kField: return check_field(node);
    case Kind::kIndex: return check_index(node);
    case Kind::kCall: return check_call(node);
    case Kind::kAnd:
    case Kind::kOr:
      for (const auto& part : node.parts) want_bool(*part, check(*part));
      return simple_type("bool");
    case Kind::kChoice: {
      const TypeRef condition = check(*node.parts[0]);
      const TypeRef yes = check(*node.parts[1]), no = check(*node.parts[2]);
      Bindings none;
      const bool same = assignable(yes, no, none) || assignable(no, yes, none);
      if ((condition->name != "bool" && condition->name != "dyn") || !same)
        return fail(node, format("found no matching overload for '_?_:_' applied to '({}, {}, {})'",
                                 type_text(condition), type_text(yes), type_text(no)));
      return joined(yes, no);
    }
    case Kind::kList: return composed_type("list", {check_elements(node, 0, 1)});
    case Kind::kMap: {
      const TypeRef keys = check_elements(node, 0, 2);
      return composed_type("map", {keys, check_elements(node, 1, 2)});
    }
    case Kind::kLoop: return check_loop(node);
    case Kind::kOptional: {
      const TypeRef target = check(*node.parts[0]);
      if (target->name != "optional" && target->name != "dyn")
        return fail(node, format("expected an optional value but found '{}'", type_text(target)));
      const TypeRef type = check_inside(*node.parts[1], {{node.first, unwrapped(target)}});
      return node.name == "optFlatMap" ? type : composed_type("optional", {type});
    }
  }
  return simple_type("dyn");
}

}  // namespace

Checked check_types(std::string_view text, const Node& root, const std::vector<Variable>& variables) {
  Checker checker(text, variables);
  Checked checked;
  checked.type = checker.check(root);
  checked.faults = std::move(checker.faults);
  return checked;
}

}  // namespace lockstep::kube::cel
