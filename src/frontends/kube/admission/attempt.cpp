#include "frontends/kube/admission/attempt.h"

#include <algorithm>
#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/selectors.h"
#include "model/records.h"

namespace lockstep::kube {

namespace {

bool names(const json::value& rule, std::string_view list, std::string_view word) {
  const auto all = texts_in(rule, list);
  return std::ranges::any_of(all, [&](const std::string& one) { return one == "*" || one == word; });
}

// "pods", "pods/status", "pods/*", "*/status", "*" (no subresource), "*/*".
bool names_resource(const json::value& rule, const AdmissionAttempt& attempt) {
  for (const std::string& one : texts_in(rule, "resources")) {
    const auto slash = one.find('/');
    const std::string resource = one.substr(0, slash), sub = slash == one.npos ? "" : one.substr(slash + 1);
    if ((resource == "*" || resource == attempt.resource) && (sub == attempt.subresource || sub == "*"))
      return true;
  }
  return false;
}

const json::object no_labels;

bool selects(const json::value& selector, const json::object* labels) {
  const auto read = read_label_selector(selector);
  return read.ok() && read->matches(labels ? *labels : no_labels);
}

const json::object* labels_of(const json::object* tree) {
  return tree ? member_object(part(*tree, "metadata"), "labels") : nullptr;
}

bool selects_namespace(const Tables& tables, const json::value& selector, const AdmissionAttempt& attempt) {
  if (!selector.is_object() || selector.get_object().empty())
    return true;
  if (attempt.group.empty() && attempt.resource == "namespaces")  // by what it says of itself
    return selects(selector, labels_of(attempt.object ? attempt.object : attempt.old));
  if (attempt.ns.empty())
    return true;
  const auto at = tables.objects.find({"namespaces", "", attempt.ns});
  if (at == tables.objects.end())
    return false;
  json::object labels;
  if (at->second->meta.extra)
    for (const auto& [key, value] : at->second->meta.extra->labels) labels[key] = value;
  return selects(selector, &labels);
}

bool selects_object(const json::value& selector, const AdmissionAttempt& attempt) {
  if (!selector.is_object() || selector.get_object().empty())
    return true;
  return (attempt.object && selects(selector, labels_of(attempt.object))) ||
         (attempt.old && selects(selector, labels_of(attempt.old)));
}

}  // namespace

AdmissionAttempt AdmissionAttempt::in_form(const ObjectForm& form, const json::object* object_then,
                                           const json::object* old_then) const {
  AdmissionAttempt out = *this;
  if (!out.requested)
    out.requested = this->form();
  out.group = form.group;
  out.version = form.version;
  out.kind = form.kind;
  out.resource = form.resource;
  out.object = object_then;
  out.old = old_then;
  return out;
}

json::object request_tree(const AdmissionAttempt& attempt) {
  const auto kind_in = [](const ObjectForm& form) {
    return json::object{{"group", form.group}, {"version", form.version}, {"kind", form.kind}};
  };
  const auto resource_in = [](const ObjectForm& form) {
    return json::object{{"group", form.group}, {"version", form.version}, {"resource", form.resource}};
  };
  const ObjectForm form = attempt.form(), requested = attempt.requested.value_or(form);
  json::object out{{"kind", kind_in(form)},
                   {"resource", resource_in(form)},
                   {"requestKind", kind_in(requested)},
                   {"requestResource", resource_in(requested)},
                   {"name", attempt.name},
                   {"operation", attempt.operation},
                   {"userInfo", attempt.user},
                   {"dryRun", attempt.dry_run},
                   {"options", attempt.options}};
  if (!attempt.ns.empty())
    out["namespace"] = attempt.ns;
  if (!attempt.subresource.empty())
    out["subResource"] = out["requestSubResource"] = attempt.subresource;
  return out;
}

bool is_exempt(const AdmissionAttempt& attempt) {
  constexpr std::string_view kOwn[] = {"validatingwebhookconfigurations", "mutatingwebhookconfigurations",
                                       "validatingadmissionpolicies",     "validatingadmissionpolicybindings",
                                       "mutatingadmissionpolicies",       "mutatingadmissionpolicybindings"};
  return attempt.group == "admissionregistration.k8s.io" && std::ranges::find(kOwn, attempt.resource) != std::end(kOwn);
}

bool rule_takes_in(const json::value& rule, const AdmissionAttempt& attempt, bool any_version) {
  const std::string scope = text_in(rule, "scope");
  const bool inside = !attempt.ns.empty() && !(attempt.group.empty() && attempt.resource == "namespaces");
  if ((scope == "Namespaced" && !inside) || (scope == "Cluster" && inside))
    return false;
  const auto only = texts_in(rule, "resourceNames");
  if (!only.empty() && std::ranges::find(only, attempt.name) == only.end())
    return false;
  return names(rule, "operations", attempt.operation) && names(rule, "apiGroups", attempt.group) &&
         (any_version || names(rule, "apiVersions", attempt.version)) && names_resource(rule, attempt);
}

bool takes_in(const Tables& tables, const json::value& match, const AdmissionAttempt& attempt) {
  if (!match.is_object())
    return true;
  const bool any_version = text_in(match, "matchPolicy") != "Exact";
  for (const json::value& rule : list_in(match, "excludeResourceRules"))
    if (rule_takes_in(rule, attempt, any_version))
      return false;
  const json::array& rules = list_in(match, "resourceRules");
  if (!rules.empty() &&
      std::ranges::none_of(rules, [&](const json::value& rule) { return rule_takes_in(rule, attempt, any_version); }))
    return false;
  return selects_namespace(tables, part(match, "namespaceSelector"), attempt) &&
         selects_object(part(match, "objectSelector"), attempt);
}

}  // namespace lockstep::kube
