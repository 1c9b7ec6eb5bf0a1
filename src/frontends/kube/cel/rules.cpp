#include "frontends/kube/cel/rules.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <unordered_set>

#include "base/text.h"
#include "frontends/kube/machinery/custom_validation.h"
#include "frontends/kube/machinery/field_set.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube::cel {
namespace {

std::string said_text(const json::value& rule, std::string_view key) {
  const json::value* value = member(rule, key);
  return value == nullptr ? std::string() : std::string(text_of(*value));
}

std::string schema_type_word(const Schema& schema) {
  switch (schema.type) {
    case Schema::Type::kBoolean: return "boolean";
    case Schema::Type::kInteger: return "integer";
    case Schema::Type::kNumber: return "number";
    case Schema::Type::kString: return "string";
    case Schema::Type::kList: return "array";
    case Schema::Type::kObject:
    case Schema::Type::kMap: return "object";
    default: return "";
  }
}

std::optional<FieldError::Type> reason_of(std::string_view word) {
  if (word.empty() || word == "FieldValueInvalid")
    return FieldError::Type::kInvalid;
  if (word == "FieldValueForbidden")
    return FieldError::Type::kForbidden;
  if (word == "FieldValueRequired")
    return FieldError::Type::kRequired;
  if (word == "FieldValueDuplicate")
    return FieldError::Type::kDuplicate;
  return std::nullopt;
}

bool has_newline(std::string_view text) { return text.find_first_of("\r\n") != text.npos; }

// Walks an object beside the one that was there before, and applies each part's rules.
class RuleWalk {
 public:
  RuleWalk(const std::unordered_map<const Schema*, std::vector<Rule>>& rules) : rules_(rules) {}

  // The nearest part of the object around a value, or the value itself, that is known to go on from an older one.
  struct Twins {
    const json::value *now = nullptr, *then = nullptr;
  };
  void walk(const json::value& value, const json::value* old, const Twins& twins, const Schema& schema,
            const std::string& path);
  FieldErrors errors;

 private:
  void say(FieldError error) {
    if (errors.size() < kCustomErrorsMax)
      errors.push_back(std::move(error));
  }
  void apply(const Rule& rule, const json::value& value, const json::value* old, const Twins& twins,
             const Schema& schema, const std::string& path);
  bool is_as_it_was(const Twins& twins);
  std::string message_of(const Rule& rule, const std::vector<Value>& values);
  Value run(const Program& program, const std::vector<Value>& values) {
    Budget budget(std::min(kRuleCostMax, left_));
    Value value = program.evaluate(values, budget);
    left_ -= std::min(budget.spent(), left_);
    return value;
  }

  const std::unordered_map<const Schema*, std::vector<Rule>>& rules_;
  std::unordered_map<const json::value*, bool> same_;  // by the newer one of twins
  std::int64_t left_ = kObjectCostMax;
  bool stopped_ = false;
};

std::string RuleWalk::message_of(const Rule& rule, const std::vector<Value>& values) {
  if (rule.message_program) {
    const Value made = run(*rule.message_program, values);
    if (const std::string* text = made.string())
      if (const std::string_view message = trim(*text);
          !message.empty() && message.size() <= kMessageMax && !has_newline(message))
        return std::string(message);
  }
  return rule.message.empty() ? "failed rule: " + std::string(trim(rule.text)) : rule.message;
}

bool RuleWalk::is_as_it_was(const Twins& twins) {
  if (twins.then == nullptr)
    return false;
  const auto known = same_.find(twins.now);
  return known != same_.end() ? known->second
                              : same_.emplace(twins.now, same_json(*twins.now, *twins.then)).first->second;
}

void RuleWalk::apply(const Rule& rule, const json::value& value, const json::value* old, const Twins& twins,
                     const Schema& schema, const std::string& path) {
  if (rule.uses_old && old == nullptr && !rule.optional_old)
    return;
  const json::value type(schema_type_word(schema));
  if (left_ <= 0) {
    stopped_ = true;
    return say(field_invalid(
        path, type, "validation failed due to running out of cost budget, no further validation rules will be run"));
  }
  Value before = old == nullptr ? Value() : from_json(*old, &schema);
  if (rule.optional_old)
    before = old == nullptr ? Value::none() : Value::some(std::move(before));
  const std::vector<Value> values = {from_json(value, &schema), std::move(before)};
  const Value result = run(rule.program, values);
  if (const auto* fault = result.part<Fault>()) {
    if (fault->message.starts_with("operation cancelled")) {
      stopped_ = true;
      return say(field_invalid(
          path, type,
          format("'{}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                 fault->message, trim(rule.text))));
    }
    if (fault->message.starts_with("no such overload"))
      return say(field_invalid(
          path, type,
          format("'{}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                 fault->message, trim(rule.text))));
    return say(field_invalid(path, type, format("{} evaluating rule: {}", fault->message, trim(rule.text))));
  }
  if (result.is_true() || (!rule.uses_old && is_as_it_was(twins)))
    return;
  const std::string where = rule.field_path.empty() ? path
                            : path.empty()          ? rule.field_path.substr(rule.field_path.starts_with('.') ? 1 : 0)
                                                    : path + rule.field_path;
  const std::string message = message_of(rule, values);
  switch (rule.reason) {
    case FieldError::Type::kForbidden: return say(field_forbidden(where, message));
    case FieldError::Type::kRequired: return say(field_required(where, message));
    case FieldError::Type::kDuplicate: return say(field_duplicate(where, type));
    default: return say(field_invalid(where, type, message));
  }
}

void RuleWalk::walk(const json::value& value, const json::value* old, const Twins& twins, const Schema& schema,
                    const std::string& path) {
  if (stopped_ || value.is_null())
    return;
  if (old != nullptr && (old->is_null() || old->kind() != value.kind()))
    old = old->is_null() || value.is_structured() || old->is_structured() ? nullptr : old;
  if (const auto found = rules_.find(&schema); found != rules_.end())
    for (const Rule& rule : found->second)
      if (!stopped_)
        apply(rule, value, old, twins, schema, path);
  if (const json::object* object = value.if_object()) {
    const json::object* before = old == nullptr || schema.atomic ? nullptr : old->if_object();
    for (const auto& entry : *object) {
      const Field* field = schema.type == Schema::Type::kObject ? schema.field(entry.key()) : nullptr;
      const Schema* below = schema.type == Schema::Type::kMap ? schema.element
                            : field == nullptr                ? nullptr
                                                              : field->schema;
      if (below == nullptr)
        continue;
      const json::value* other = before == nullptr ? nullptr : before->if_contains(entry.key());
      const json::value* then =
          twins.now == &value && twins.then != nullptr ? member(*twins.then, entry.key()) : nullptr;
      const bool map = schema.type == Schema::Type::kMap;
      walk(entry.value(), other, then == nullptr ? twins : Twins{&entry.value(), then}, *below,
           map            ? format("{}[{}]", path, std::string_view(entry.key()))
           : path.empty() ? std::string(entry.key())
                          : format("{}.{}", path, std::string_view(entry.key())));
    }
  }
  const json::array* list = value.if_array();
  if (list == nullptr || schema.element == nullptr)
    return;
  const PastElements past(old, schema), past_twins(twins.now == &value ? twins.then : nullptr, schema);
  std::size_t at = 0;
  for (const json::value& each : *list) {
    const json::value* then = past_twins.of(each);
    walk(each, past.of(each), then == nullptr ? twins : Twins{&each, then}, *schema.element,
         format("{}[{}]", path, at++));
  }
}

}  // namespace

struct RulesReader {
  CompiledRules out;
  std::size_t count = 0;
  std::unordered_set<const Schema*> seen;

  void say(FieldError error) {
    if (out.errors.size() < kCustomErrorsMax)
      out.errors.push_back(std::move(error));
  }

  // A definition's mistake leaves the rule out.
  void read_rule(const json::value& said, const Schema& schema, bool correlated, const std::string& path) {
    Rule rule;
    rule.text = said_text(said, "rule");
    rule.message = std::string(trim(said_text(said, "message")));
    rule.field_path = said_text(said, "fieldPath");
    const json::value* optional = member(said, "optionalOldSelf");
    rule.optional_old = optional != nullptr && optional->is_bool() && optional->get_bool();
    if (trim(rule.text).empty())
      return say(field_required(path + ".rule", "rule is not specified"));
    if (has_newline(rule.text) && rule.message.empty() && said_text(said, "messageExpression").empty())
      say(field_required(path + ".message", "message must be specified if rule contains line breaks"));
    if (has_newline(rule.message))
      say(field_invalid(path + ".message", json::value(rule.message), "message must not contain line breaks"));
    const auto reason = reason_of(said_text(said, "reason"));
    if (!reason)
      return say(field_not_supported(path + ".reason", json::value(said_text(said, "reason")),
                                     std::vector<std::string>{"FieldValueDuplicate", "FieldValueForbidden",
                                                              "FieldValueInvalid", "FieldValueRequired"}));
    rule.reason = *reason;
    const TypeRef self = type_of_schema(schema);
    if (self == nullptr)
      return say(
          field_invalid(path, json::value(rule.text), "rules are not allowed where the schema does not say a type"));
    const TypeRef old = rule.optional_old ? composed_type("optional", {self}) : self;
    const std::vector<Variable> variables = {{"self", self}, {"oldSelf", old}};
    Result<Program> program = compile(rule.text, variables);
    if (!program)
      return say(
          field_invalid(path + ".rule", json::value(rule.text), "compilation failed: " + program.error().message));
    if (program->result()->name != "bool" && program->result()->name != "dyn")
      return say(field_invalid(path + ".rule", json::value(rule.text), "cel expression must evaluate to a bool"));
    rule.program = std::move(*program);
    rule.uses_old = rule.program.uses("oldSelf");
    if (rule.uses_old && !correlated)
      return say(field_invalid(path + ".rule", json::value(rule.text),
                               "oldSelf cannot be used on the uncorrelatable portion of the schema"));
    if (rule.optional_old && !rule.uses_old)
      return say(field_invalid(path + ".optionalOldSelf", true, "may not be set if oldSelf is not used in rule"));
    if (const std::string text = said_text(said, "messageExpression"); !trim(text).empty()) {
      Result<Program> message = compile(text, variables);
      if (!message)
        return say(field_invalid(path + ".messageExpression", json::value(text),
                                 "messageExpression compilation failed: " + message.error().message));
      if (message->result()->name != "string" && message->result()->name != "dyn")
        return say(field_invalid(path + ".messageExpression", json::value(text),
                                 "messageExpression must evaluate to a string"));
      rule.message_program = std::move(*message);
    }
    out.rules.rules_[&schema].push_back(std::move(rule));
  }

  void read(const Schema& schema, bool correlated, const std::string& path) {
    if (!seen.insert(&schema).second)
      return;
    if (const json::array* list = member_array(schema.rules, "x-kubernetes-validations")) {
      std::size_t at = 0;
      for (const json::value& each : *list) {
        if (++count > kRulesMax)
          return say(field_too_many(path + ".x-kubernetes-validations", count, kRulesMax));
        read_rule(each, schema, correlated, format("{}.x-kubernetes-validations[{}]", path, at++));
      }
    }
    for (const Field& field : schema.fields)
      if (field.schema != nullptr)
        read(*field.schema, correlated && !schema.atomic, format("{}.properties[{}]", path, field.name));
    if (schema.element != nullptr && schema.type == Schema::Type::kMap)
      read(*schema.element, correlated && !schema.atomic, path + ".additionalProperties");
    else if (schema.element != nullptr)
      read(*schema.element, correlated && schema.list == ListKind::kMap, path + ".items");
  }
};

FieldErrors Rules::validate(const json::value& object, const json::value* old, const Schema& root) const {
  if (rules_.empty())
    return {};
  RuleWalk walk(rules_);
  walk.walk(object, old, {&object, old}, root, {});
  return std::move(walk.errors);
}

CompiledRules compile_rules(const Schema& root, const std::string& path) {
  RulesReader reader;
  reader.read(root, true, path);
  return std::move(reader.out);
}

}  // namespace lockstep::kube::cel
