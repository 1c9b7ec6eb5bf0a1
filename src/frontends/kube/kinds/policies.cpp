// ValidatingAdmissionPolicies and their bindings. An expression that cannot be would deny whatever the policy is for.
// Source: kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy.
#include <algorithm>
#include <set>

#include "base/text.h"
#include "frontends/kube/cel/admission_names.h"
#include "frontends/kube/kinds/expressions.h"
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kConditionsMost = 64, kAnnotationsMost = 20, kAnnotationBytes = 5 << 10;

bool is_name_of_variable(std::string_view text) {
  constexpr std::string_view kReserved[] = {"as",       "break",   "const",  "continue", "else", "false", "for",
                                            "function", "if",      "import", "in",       "let",  "loop",  "namespace",
                                            "null",     "package", "return", "true",     "var",  "void",  "while"};
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); }) &&
         std::ranges::find(kReserved, text) == std::end(kReserved);
}

bool is_blank(const Place& place) { return trim(place.text()).empty(); }

class PolicyChecks {
 public:
  explicit PolicyChecks(const Place& spec) : spec_(spec), params_(spec["paramKind"].there()) {}

  void check() {
    spec_["failurePolicy"].one_of({"Fail", "Ignore"});
    check_params();
    const Place match = spec_["matchConstraints"];
    if (!match.there())
      match.required();
    else if (match["resourceRules"].empty())
      match["resourceRules"].required();
    check_conditions();
    for (const Place& one : spec_["variables"].each()) check_variable(one);
    if (spec_["validations"].empty() && spec_["auditAnnotations"].empty())
      for (const char* list : {"validations", "auditAnnotations"})
        spec_[list].required("validations or auditAnnotations must contain at least one item");
    for (const Place& one : spec_["validations"].each()) check_validation(one);
    check_annotations();
  }

 private:
  std::vector<cel::Variable> names(bool authorizer) const {
    return cel::admission_names(
        {.params = params_, .authorizer = authorizer, .variables = variables_.empty() ? nullptr : &variables_});
  }

  void check_params() const {
    if (!params_)
      return;
    for (const char* part : {"apiVersion", "kind"})
      if (const Place place = spec_["paramKind"][part]; place.empty())
        place.required();
  }

  void check_conditions() const {
    const auto conditions = spec_["matchConditions"].each();
    if (conditions.size() > kConditionsMost)
      spec_.out().push_back(field_too_many(spec_["matchConditions"].path(), conditions.size(), kConditionsMost));
    const auto before = cel::admission_names({.params = params_, .authorizer = true});
    std::set<std::string> seen;
    for (const Place& one : conditions) {
      if (is_blank(one["expression"]))
        one["expression"].required();
      else
        check_expression(one["expression"], before, {"bool"});
      if (one["name"].empty())
        one["name"].required();
      else if (one["name"].qualified_name(); !seen.insert(one["name"].text()).second)
        one["name"].duplicate();
    }
  }

  void check_variable(const Place& one) {
    if (is_blank(one["name"]))
      one["name"].required("name is not specified");
    else if (!is_name_of_variable(one["name"].text()))
      one["name"].invalid("must be a valid CEL identifier");
    cel::TypeRef type;
    if (is_blank(one["expression"]))
      one["expression"].required("expression is not specified");
    else
      type = check_expression(one["expression"], names(true), {});
    variables_[one["name"].text()] = type ? type : cel::simple_type("dyn");
  }

  void check_validation(const Place& one) const {
    if (is_blank(one["expression"]))
      one["expression"].required("expression is not specified");
    else
      check_expression(one["expression"], names(true), {"bool"});
    const Place message = one["messageExpression"];
    if (!message.empty() && is_blank(message))
      message.invalid("must be non-empty if specified");
    else if (!message.empty())
      check_expression(message, names(false), {"string"});
    if (!one["message"].empty() && is_blank(one["message"]))
      one["message"].invalid("must be non-empty if specified");
    else if (trim(one["message"].text()).find_first_of("\r\n") != std::string_view::npos)
      one["message"].invalid("must not contain line breaks");
    one["reason"].one_of({"Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"});
  }

  void check_annotations() const {
    const auto annotations = spec_["auditAnnotations"].each();
    if (annotations.size() > kAnnotationsMost)
      spec_["auditAnnotations"].invalid(format("must not have more than {} auditAnnotations", kAnnotationsMost));
    std::set<std::string> seen;
    for (const Place& one : annotations) {
      if (one["key"].empty())
        one["key"].required();
      else if (!seen.insert(one["key"].text()).second)
        one["key"].duplicate();
      const Place value = one["valueExpression"];
      if (is_blank(value))
        value.required("valueExpression is not specified");
      else if (value.text().size() > kAnnotationBytes)
        value.required(format("must not exceed {} bytes in length", kAnnotationBytes));
      else
        check_expression(value, names(true), {"string", "null"});
    }
  }

  const Place& spec_;
  const bool params_;
  std::map<std::string, cel::TypeRef, std::less<>> variables_;
};

// Whether the part has just been said: what is stored already is not judged again.
bool is_said(const json::object& tree, const json::object* old, const char* name) {
  return !old || !same_json(part(tree, name), part(*old, name));
}

class PolicyRules final : public KindRules {
 public:
  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    if (!is_said(tree, old, "spec"))
      return;
    const Place spec(part(tree, "spec"), "spec", out);
    PolicyChecks(spec).check();
  }
};

void check_parameters(const Place& reference) {
  if (!reference.there())
    return;
  const bool named = !reference["name"].empty(), selected = reference["selector"].there();
  for (const char* one : {"name", "selector"})
    if (named && selected)
      reference[one].forbidden("name and selector are mutually exclusive");
  if (!named && !selected)
    reference.required("one of name or selector must be specified");
  if (reference["parameterNotFoundAction"].empty())
    reference["parameterNotFoundAction"].required();
  reference["parameterNotFoundAction"].one_of({"Deny", "Allow"});
}

class PolicyBindingRules final : public KindRules {
 public:
  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    if (!is_said(tree, old, "spec"))
      return;
    const Place spec(part(tree, "spec"), "spec", out);
    if (spec["policyName"].empty())
      spec["policyName"].required();
    else
      spec["policyName"].dns_subdomain();
    check_parameters(spec["paramRef"]);
    const Place actions = spec["validationActions"];
    std::set<std::string> seen;
    for (const Place& one : actions.each()) {
      one.one_of({"Audit", "Deny", "Warn"});
      if (!seen.insert(one.text()).second)
        one.duplicate();
    }
    if (seen.contains("Deny") && seen.contains("Warn"))
      actions.invalid(
          "must not contain both Deny and Warn (repeating the same validation failure information in the API response "
          "and headers serves no purpose)");
    if (seen.empty())
      actions.required("at least one validation action is required");
  }
};

}  // namespace

const KindRules& policy_rules() {
  static const PolicyRules rules;
  return rules;
}

const KindRules& policy_binding_rules() {
  static const PolicyBindingRules rules;
  return rules;
}

}  // namespace lockstep::kube
