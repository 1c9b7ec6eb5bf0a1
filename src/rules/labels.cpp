#include "rules/labels.h"

#include <algorithm>

#include "base/text.h"
#include "model/node.h"
#include "model/placement.h"

namespace lockstep {

namespace {

// Of the two, in numbers; nullopt: one is none.
std::optional<std::pair<std::int64_t, std::int64_t>> numbers(const LabelRule& rule, const std::string& value) {
  const auto bound = rule.values.size() == 1 ? parse_int(rule.values.front()) : std::nullopt;
  const auto number = parse_int(value);
  if (!bound || !number)
    return std::nullopt;
  return std::pair(*number, *bound);
}

bool holds(const LabelRule& rule, const std::string* value) {
  using enum LabelRule::Is;
  const auto among = [&] { return value && std::ranges::find(rule.values, *value) != rule.values.end(); };
  switch (rule.is) {
    case kOneOf: return among();
    case kNoneOf: return !among();
    case kThere: return value != nullptr;
    case kAbsent: return value == nullptr;
    case kAbove:
    case kBelow: break;
  }
  const auto both = value ? numbers(rule, *value) : std::nullopt;
  return both && (rule.is == kAbove ? both->first > both->second : both->first < both->second);
}

}  // namespace

const std::string* label_of(const Labels& labels, std::string_view key) {
  const auto at =
      std::ranges::lower_bound(labels, key, {}, [](const auto& label) -> std::string_view { return label.first; });
  return at != labels.end() && at->first == key ? &at->second : nullptr;
}

bool rules_hold(const std::vector<LabelRule>& rules, const Labels& labels, std::string_view name) {
  return std::ranges::all_of(rules, [&](const LabelRule& rule) {
    if (!rule.key.empty() || name.empty())
      return holds(rule, label_of(labels, rule.key));
    const std::string own(name);
    return holds(rule, &own);
  });
}

bool bears(const Placement& group, const NodeMark& mark) {
  return std::ranges::any_of(group.bears, [&](const BornMark& one) {
    return (one.key.empty() || one.key == mark.key) && (one.any_value || one.value == mark.value) &&
           (one.any_effect || one.effect == mark.effect);
  });
}

bool kept_off(const Placement& group, const Node& node) {
  return group.minds_marks && std::ranges::any_of(node.marks, [&](const NodeMark& mark) {
           return mark.effect != NodeMark::Effect::kPutsOff && !bears(group, mark);
         });
}

bool node_rules_hold(const Placement& group, const Node& node) {
  return group.node_rules.empty() || std::ranges::any_of(group.node_rules, [&](const NodeWish& wish) {
           return rules_hold(wish.rules, node.labels, node.meta.name);
         });
}

}  // namespace lockstep
