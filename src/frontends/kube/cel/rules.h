// The rules of a custom resource's definition (x-kubernetes-validations): compiled with it, applied to each object that
// is created or updated. What an object's rules cost together is bounded, so that no definition can stop the server.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontends/kube/cel/program.h"
#include "frontends/kube/machinery/field_error.h"
#include "frontends/kube/machinery/schema.h"

namespace lockstep::kube::cel {

inline constexpr std::int64_t kRuleCostMax = 1'000'000;    // of one rule on one value
inline constexpr std::int64_t kObjectCostMax = 1'000'000;  // of all rules of an object: a third of a second at worst
inline constexpr std::size_t kRulesMax = 1'000;            // of a definition's version
inline constexpr std::size_t kMessageMax = 5 << 10;        // bytes of what a messageExpression gives

struct Rule {
  Program program;
  std::string text;
  std::string message;  // "" = the rule itself is named
  std::optional<Program> message_program;
  FieldError::Type reason = FieldError::Type::kInvalid;
  std::string field_path;     // below the value: ".spec.replicas"
  bool uses_old = false;      // a transition rule: only for values that were there before
  bool optional_old = false;  // oldSelf is optional, so the rule holds for new values as well
};

class Rules {
 public:
  bool empty() const { return rules_.empty(); }

  // `old` is null where the object is new. Both are pruned and have their defaults. What fails a rule that looks at the
  // value alone, and is as it was, may stay so.
  FieldErrors validate(const json::value& object, const json::value* old, const Schema& root) const;

 private:
  friend struct RulesReader;

  std::unordered_map<const Schema*, std::vector<Rule>> rules_;
};

struct CompiledRules {
  Rules rules;
  FieldErrors errors;  // of the definition: rules that cannot be
};

// `path` leads to the root's schema in the definition ("spec.versions[0].schema.openAPIV3Schema").
CompiledRules compile_rules(const Schema& root, const std::string& path);

}  // namespace lockstep::kube::cel
