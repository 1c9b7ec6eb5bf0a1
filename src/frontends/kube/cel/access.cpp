#include "frontends/kube/cel/access.h"

#include "frontends/kube/cel/functions.h"

namespace lockstep::kube::cel {
namespace {

using AccessKind = Access::Kind;

Value access_step(const Access& from, AccessKind kind, AccessQuestion question) {
  Access out = from;
  out.kind = kind;
  out.question = std::move(question);
  return Value(std::make_shared<const Access>(std::move(out)));
}

const Access* access_in(const Arguments& a, AccessKind kind) {
  const auto* access = a[0].part<Access>();
  return access != nullptr && access->kind == kind ? access : nullptr;
}

// One more text for the question.
template <AccessKind kFrom, AccessKind kTo, std::string AccessQuestion::*kField>
Value with_text(Budget& budget, const Arguments& a) {
  const Access* access = access_in(a, kFrom);
  if (access == nullptr || a[1].string() == nullptr)
    return no_overload();
  const std::string& text = *a[1].string();
  if (!budget.spend(text_cost(text.size())))
    return Value();
  AccessQuestion question = access->question;
  question.*kField = text;
  return access_step(*access, kTo, std::move(question));
}

// RBAC knows no selectors: they narrow nothing.
Value with_selector(Budget&, const Arguments& a) {
  const Access* access = access_in(a, AccessKind::kResource);
  return access == nullptr || a[1].string() == nullptr ? no_overload() : a[0];
}

Value of_account(Budget& budget, const Arguments& a) {
  const Access* access = access_in(a, AccessKind::kAuthorizer);
  if (access == nullptr || a[1].string() == nullptr || a[2].string() == nullptr)
    return no_overload();
  if (!budget.spend(text_cost(a[1].string()->size() + a[2].string()->size())))
    return Value();
  if (a[1].string()->empty() || a[2].string()->empty())
    return Value::fault("Invalid service account: a namespace and a name are needed");
  return access_step(*access, AccessKind::kAuthorizer, {.account_ns = *a[1].string(), .account = *a[2].string()});
}

Value check_access(Budget& budget, const Arguments& a) {
  const auto* access = a[0].part<Access>();
  if (access == nullptr || (access->kind != AccessKind::kPath && access->kind != AccessKind::kResource) ||
      a[1].string() == nullptr)
    return no_overload();
  if (!budget.spend(kCheckCost))
    return Value();
  Access out = *access;
  out.kind = AccessKind::kDecision;
  out.question.verb = *a[1].string();
  out.allowed = out.judge && (*out.judge)(out.question);
  return Value(std::make_shared<const Access>(std::move(out)));
}

Value is_allowed(Budget&, const Arguments& a) {
  const Access* access = access_in(a, AccessKind::kDecision);
  return access == nullptr ? no_overload() : Value(access->allowed);
}
Value has_erred(Budget&, const Arguments& a) {
  return access_in(a, AccessKind::kDecision) == nullptr ? no_overload() : Value(false);
}
Value no_words(Budget&, const Arguments& a) {
  return access_in(a, AccessKind::kDecision) == nullptr ? no_overload() : Value::text("");
}

}  // namespace

Value authorizer(AccessJudge judge, AccessQuestion request) {
  Access out;
  if (judge)
    out.judge = std::make_shared<const AccessJudge>(std::move(judge));
  out.own = std::move(request);
  return Value(std::make_shared<const Access>(std::move(out)));
}

std::optional<Value> access_field(const Access& access, std::string_view name) {
  if (access.kind != AccessKind::kAuthorizer || name != "requestResource")
    return std::nullopt;
  return access_step(access, AccessKind::kResource, access.own);
}

std::vector<FunctionRow> access_functions() {
  using Q = AccessQuestion;
  return {
      {"path", with_text<AccessKind::kAuthorizer, AccessKind::kPath, &Q::path>, {"authorizer.path(string) path_check"}},
      {"group",
       with_text<AccessKind::kAuthorizer, AccessKind::kGroup, &Q::group>,
       {"authorizer.group(string) group_check"}},
      {"serviceAccount", of_account, {"authorizer.serviceAccount(string, string) authorizer"}},
      {"resource",
       with_text<AccessKind::kGroup, AccessKind::kResource, &Q::resource>,
       {"group_check.resource(string) resource_check"}},
      {"subresource",
       with_text<AccessKind::kResource, AccessKind::kResource, &Q::subresource>,
       {"resource_check.subresource(string) resource_check"}},
      {"namespace",
       with_text<AccessKind::kResource, AccessKind::kResource, &Q::ns>,
       {"resource_check.namespace(string) resource_check"}},
      {"name",
       with_text<AccessKind::kResource, AccessKind::kResource, &Q::name>,
       {"resource_check.name(string) resource_check"}},
      {"fieldSelector", with_selector, {"resource_check.fieldSelector(string) resource_check"}},
      {"labelSelector", with_selector, {"resource_check.labelSelector(string) resource_check"}},
      {"check", check_access, {"path_check.check(string) decision", "resource_check.check(string) decision"}},
      {"allowed", is_allowed, {"decision.allowed() bool"}},
      {"errored", has_erred, {"decision.errored() bool"}},
      {"error", no_words, {"decision.error() string"}},
      {"reason", no_words, {"decision.reason() string"}},
  };
}

}  // namespace lockstep::kube::cel
