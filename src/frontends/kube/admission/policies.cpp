#include "frontends/kube/admission/policies.h"

#include <algorithm>
#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/cel/functions.h"
#include "frontends/kube/cel/program.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/selectors.h"
#include "frontends/kube/store/stored_object.h"
#include "model/records.h"

namespace lockstep::kube {

namespace {

constexpr const char* kPolicies = "validatingadmissionpolicies.admissionregistration.k8s.io";
constexpr const char* kBindings = "validatingadmissionpolicybindings.admissionregistration.k8s.io";
constexpr std::size_t kPoliciesKept = 1'000;  // programs of others are made again when they are wanted
constexpr std::size_t kSaidMax = 5 << 10;     // bytes of what a messageExpression gives

// What expressions may name, in this order.
std::vector<cel::Variable> names_of_policies() {
  std::vector<cel::Variable> out;
  for (const char* name : {"object", "oldObject", "request", "params", "namespaceObject", "variables", "authorizer"})
    out.push_back({name, cel::simple_type("dyn")});
  return out;
}
constexpr std::size_t kVariables = 5;  // the place of `variables`

struct Expression {
  std::string text;
  std::optional<cel::Program> program;
  std::string fault;  // why it cannot be
};

Expression read_expression(const json::value& of, std::string_view field) {
  Expression out{text_in(of, field), std::nullopt, ""};
  auto made = cel::compile(out.text, names_of_policies());
  if (made.ok())
    out.program = std::move(*made);
  else
    out.fault = made.error().message;
  return out;
}

struct Validation {
  Expression rule;
  std::string message;
  std::optional<Expression> message_rule;
  std::string reason;
};

struct Named {
  std::string name;
  Expression rule;
};

}  // namespace

struct PolicyBook::Compiled {
  Seq seq = 0;
  json::value body;
  std::vector<Named> conditions, variables, annotations;
  std::vector<Validation> validations;

  const json::value& spec() const { return part(body, "spec"); }
  bool fails_closed() const { return text_in(spec(), "failurePolicy") != "Ignore"; }
};

namespace {

Status denied(const AdmissionAttempt& attempt, const std::string& message, const std::string& reason) {
  Status out = Status::forbidden(attempt.resource_name(), attempt.name, message);
  out.reason = reason.empty() ? "Invalid" : reason;
  out.code = out.reason == "Unauthorized"            ? 401
             : out.reason == "Forbidden"             ? 403
             : out.reason == "RequestEntityTooLarge" ? 413
                                                     : 422;
  out.causes.push_back({"", message, ""});
  return out;
}

// One policy with one binding and one parameter.
class Judgement {
 public:
  Judgement(std::vector<cel::Value> values, cel::Budget& budget) : values_(std::move(values)), budget_(budget) {}

  cel::Value run(const Expression& expression) {
    if (!expression.program)
      return cel::Value::fault("compilation error: " + expression.fault);
    return expression.program->evaluate(values_, budget_);
  }

  // Each may name those before it. What fails is a fault for those alone who name it.
  void set_variables(const std::vector<Named>& variables) {
    std::vector<std::pair<cel::Value, cel::Value>> entries;
    for (const Named& one : variables) {
      entries.emplace_back(cel::Value::text(one.name), run(one.rule));
      values_[kVariables] = cel::Value::map(entries);
    }
  }

 private:
  std::vector<cel::Value> values_;
  cel::Budget& budget_;
};

struct Finding {
  std::string message, reason;
  bool always = false;  // denied whatever the binding wants done: the policy could not be asked at all
};

std::string fault_text(const Expression& rule, const cel::Value& value) {
  const auto* fault = value.part<cel::Fault>();
  return format("expression '{}' resulted in error: {}", rule.text,
                fault ? fault->message : "it gives no truth value but " + cel::type_word(value));
}

}  // namespace

PolicyBook::PolicyBook(MayUser may) : may_(std::move(may)) {}
PolicyBook::~PolicyBook() = default;

cel::Value PolicyBook::authorizer_of(const AdmissionAttempt& attempt) const {
  cel::AccessJudge judge;
  if (may_)
    judge = [may = may_, user = attempt.user](const cel::AccessQuestion& asked) { return may(user, asked); };
  return cel::authorizer(std::move(judge), {.group = attempt.group,
                                            .resource = attempt.resource,
                                            .subresource = attempt.subresource,
                                            .ns = attempt.ns,
                                            .name = attempt.name});
}

const PolicyBook::Compiled& PolicyBook::compiled(const Object& policy) {
  const ObjectKey key{policy.type, "", policy.meta.name};
  auto& kept = compiled_[key];
  if (kept && kept->seq == policy.meta.seq)
    return *kept;
  auto made = std::make_shared<Compiled>();
  made->seq = policy.meta.seq;
  made->body = parse_own(policy.body.get());
  for (const auto& [list, into] :
       {std::pair{"matchConditions", &made->conditions}, std::pair{"variables", &made->variables}})
    for (const json::value& one : list_in(made->spec(), list))
      into->push_back({text_in(one, "name"), read_expression(one, "expression")});
  for (const json::value& one : list_in(made->spec(), "auditAnnotations"))
    made->annotations.push_back({text_in(one, "key"), read_expression(one, "valueExpression")});
  for (const json::value& one : list_in(made->spec(), "validations")) {
    Validation validation{read_expression(one, "expression"), text_in(one, "message"), std::nullopt,
                          text_in(one, "reason")};
    if (!text_in(one, "messageExpression").empty())
      validation.message_rule = read_expression(one, "messageExpression");
    made->validations.push_back(std::move(validation));
  }
  kept = std::move(made);
  return *kept;
}

namespace {

// What the binding's parameters are: one that is null where the policy has none.
struct Parameters {
  std::vector<json::object> found;
  bool none_wanted = false;
  std::string fault;
};

Parameters parameters_of(const Tables& tables, const json::value& policy, const json::value& binding,
                         const AdmissionAttempt& attempt, const KindOf& kind_of) {
  Parameters out;
  const json::value &wanted = part(policy, "paramKind"), &reference = part(binding, "paramRef");
  if (!wanted.is_object() || !reference.is_object()) {
    out.none_wanted = true;
    return out;
  }
  const std::string version = text_in(wanted, "apiVersion"), kind = text_in(wanted, "kind");
  const auto slash = version.find('/');
  const auto of = kind_of(slash == version.npos ? "" : version.substr(0, slash),
                          slash == version.npos ? version : version.substr(slash + 1), kind);
  if (!of) {
    out.fault = format("failed to find resource referenced by paramKind: '{}, Kind={}'", version, kind);
    return out;
  }
  std::string ns = text_in(reference, "namespace");
  if (of->namespaced && ns.empty())
    ns = attempt.ns;
  if (!of->namespaced)
    ns.clear();
  const auto add = [&](const Object& object) { out.found.push_back(tree_of(object, {version, kind}, {})); };
  if (const std::string name = text_in(reference, "name"); !name.empty()) {
    if (const auto at = tables.objects.find({of->type, ns, name}); at != tables.objects.end())
      add(*at->second);
  } else if (const auto selector = read_label_selector(part(reference, "selector")); selector.ok()) {
    for (auto at = tables.objects.lower_bound({of->type, ns, ""});
         at != tables.objects.end() && std::get<0>(at->first) == of->type && std::get<1>(at->first) == ns; ++at) {
      json::object labels;
      if (at->second->meta.extra)
        for (const auto& [key, value] : at->second->meta.extra->labels) labels[key] = value;
      if (selector->matches(labels))
        add(*at->second);
    }
  }
  if (out.found.empty()) {
    if (text_in(reference, "parameterNotFoundAction") == "Deny")
      out.fault = "no params found for policy binding with `Deny` parameterNotFoundAction";
    return out;
  }
  return out;
}

// What the conditions say: one that is false leaves the request out, whatever is wrong with others.
enum class Concern : unsigned char { kNo, kYes, kUnknown };
Concern concern_of(const std::vector<Named>& conditions, Judgement& judge, std::string& fault) {
  Concern out = Concern::kYes;
  for (const Named& condition : conditions) {
    const cel::Value holds = judge.run(condition.rule);
    if (holds.is_true())
      continue;
    if (holds.as<bool>())
      return Concern::kNo;
    fault += (fault.empty() ? "" : ", ") + fault_text(condition.rule, holds);
    out = Concern::kUnknown;
  }
  return out;
}

std::string message_of(const Validation& validation, Judgement& judge) {
  if (validation.message_rule) {
    const cel::Value said = judge.run(*validation.message_rule);
    if (const std::string* text = said.string();
        text && !trim(*text).empty() && text->size() <= kSaidMax && trim(*text).find_first_of("\r\n") == text->npos)
      return std::string(trim(*text));
  }
  return validation.message.empty() ? "failed expression: " + std::string(trim(validation.rule.text))
                                    : std::string(trim(validation.message));
}

// What cannot be evaluated is found wrong, unless the policy ignores its failures.
template <class Rules>  // PolicyBook::Compiled
void judge_by(const Rules& rules, Judgement& judge, std::vector<Finding>& findings) {
  const bool closed = rules.fails_closed();
  std::string fault;
  const Concern concern = concern_of(rules.conditions, judge, fault);
  if (concern == Concern::kUnknown && closed)
    findings.push_back({std::move(fault), "", false});
  if (concern != Concern::kYes)
    return;
  judge.set_variables(rules.variables);
  for (const Validation& validation : rules.validations) {
    const cel::Value holds = judge.run(validation.rule);
    if (holds.is_true())
      continue;
    if (holds.as<bool>())
      findings.push_back({message_of(validation, judge), validation.reason, false});
    else if (closed)
      findings.push_back({fault_text(validation.rule, holds), "", false});
  }
  // Nothing keeps what they give; but a policy may be there for their sake alone.
  for (const Named& one : rules.annotations)
    if (const cel::Value given = judge.run(one.rule); given.is_fault() && closed)
      findings.push_back({fault_text(one.rule, given), "", true});
}

}  // namespace

std::optional<Status> PolicyBook::check(const Tables& tables, const AdmissionAttempt& attempt, const KindOf& kind_of,
                                        std::vector<std::string>& warnings) {
  const std::string type(kBindings);
  auto at = tables.objects.lower_bound({type, "", ""});
  if (at == tables.objects.end() || std::get<0>(at->first) != type || is_exempt(attempt))
    return std::nullopt;
  if (compiled_.size() > kPoliciesKept)
    compiled_.clear();
  cel::Budget budget(kPolicyCostMax);
  std::optional<Status> refused;
  const json::value request(request_tree(attempt));
  json::value room;
  if (const auto found = tables.objects.find({"namespaces", "", attempt.ns}); found != tables.objects.end())
    room = tree_of(*found->second, {"v1", "Namespace"}, {});
  const cel::Value authorizer = authorizer_of(attempt);
  const json::value object = attempt.object ? json::value(*attempt.object) : json::value();
  const json::value old = attempt.old ? json::value(*attempt.old) : json::value();

  for (; at != tables.objects.end() && std::get<0>(at->first) == type; ++at) {
    const json::value binding = parse_own(at->second->body.get());
    const json::value& bound = part(binding, "spec");
    const auto policy = tables.objects.find({kPolicies, "", text_in(bound, "policyName")});
    if (policy == tables.objects.end())
      continue;
    const Compiled& rules = compiled(*policy->second);
    if (!part(rules.spec(), "matchConstraints").is_object() ||
        !takes_in(tables, part(rules.spec(), "matchConstraints"), attempt) ||
        !takes_in(tables, part(bound, "matchResources"), attempt))
      continue;
    std::vector<Finding> findings;
    Parameters parameters = parameters_of(tables, rules.spec(), bound, attempt, kind_of);
    if (!parameters.fault.empty() && rules.fails_closed())
      findings.push_back({"failed to configure binding: " + parameters.fault, "", true});
    std::vector<json::value> each;
    if (parameters.none_wanted)
      each.emplace_back();
    for (json::object& one : parameters.found) each.emplace_back(std::move(one));
    for (const json::value& parameter : each) {
      Judgement judge(
          {cel::from_json(object, nullptr), cel::from_json(old, nullptr), cel::from_json(request, nullptr),
           cel::from_json(parameter, nullptr), cel::from_json(room, nullptr), cel::Value::map({}), authorizer},
          budget);
      judge_by(rules, judge, findings);
    }
    const auto actions = texts_in(bound, "validationActions");
    const auto has = [&](std::string_view action) { return std::ranges::find(actions, action) != actions.end(); };
    for (const Finding& finding : findings) {
      const std::string whose =
          format("ValidatingAdmissionPolicy '{}' with binding '{}'", policy->second->meta.name, at->second->meta.name);
      if (!refused && (finding.always || has("Deny")))
        refused = denied(attempt, format("{} denied request: {}", whose, finding.message), finding.reason);
      if (!finding.always && has("Warn"))
        warnings.push_back(format("Validation failed for {}: {}", whose, finding.message));
    }
  }
  return refused;
}

}  // namespace lockstep::kube
