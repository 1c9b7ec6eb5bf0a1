#include "frontends/kube/server/reviews.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/server/body.h"

namespace lockstep::kube {

namespace {

json::array texts(const std::vector<std::string>& words) {
  json::array out;
  for (const std::string& word : words) out.emplace_back(word);
  return out;
}

json::object user_object(const KubeUser& user) {
  json::object out{{"username", user.name}};
  if (!user.uid.empty())
    out["uid"] = user.uid;
  if (!user.groups.empty())
    out["groups"] = texts(user.groups);
  if (!user.extra.empty()) {
    json::object extra;
    for (const auto& [key, values] : user.extra) extra[key] = texts(values);
    out["extra"] = std::move(extra);
  }
  return out;
}

Attempt attempt_of(const json::value& spec, std::string_view ns) {
  Attempt out;
  if (const json::value* resource = member(spec, "resourceAttributes")) {
    out = {text_in(*resource, "verb"),        text_in(*resource, "group"),
           text_in(*resource, "version"),     text_in(*resource, "resource"),
           text_in(*resource, "subresource"), text_in(*resource, "namespace"),
           text_in(*resource, "name"),        ""};
    if (!ns.empty())
      out.ns = ns;
  } else if (const json::value* other = member(spec, "nonResourceAttributes")) {
    out.verb = text_in(*other, "verb");
    out.path = text_in(*other, "path");
  }
  return out;
}

KubeUser user_of(const json::value& spec) {
  KubeUser out;
  out.name = text_in(spec, "user");
  out.uid = text_in(spec, "uid");
  out.groups = texts_in(spec, "groups");
  return out;
}

// One thing is asked about, and somebody is named who wants it.
std::vector<Cause> faults_of(const json::value& spec, bool of_self) {
  const bool resource = member_object(spec, "resourceAttributes"), path = member_object(spec, "nonResourceAttributes");
  std::vector<Cause> out;
  if (resource && path)
    out.push_back({"FieldValueInvalid", "Invalid value: cannot be specified in combination with resourceAttributes",
                   "spec.nonResourceAttributes"});
  if (!resource && !path)
    out.push_back({"FieldValueInvalid",
                   "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
                   "spec.resourceAttributes"});
  if (!of_self && text_in(spec, "user").empty() && texts_in(spec, "groups").empty())
    out.push_back(
        {"FieldValueInvalid", "Invalid value: \"\": at least one of user or group must be specified", "spec.user"});
  return out;
}

json::object verdict(const RoleBook& roles, const KubeUser& user, const Attempt& attempt) {
  if (roles.allows(user, attempt))
    return {{"allowed", true}, {"reason", "RBAC: allowed by a role that is bound to the user or a group of theirs"}};
  return {{"allowed", false}};
}

json::object rules_status(const RoleBook& roles, const KubeUser& user, std::string_view ns) {
  json::array resources, paths;
  for (const PolicyRule& rule : roles.rules_of(user, ns)) {
    if (!rule.urls.empty())
      paths.push_back({{"verbs", texts(rule.verbs)}, {"nonResourceURLs", texts(rule.urls)}});
    if (rule.resources.empty())
      continue;
    json::object one{
        {"verbs", texts(rule.verbs)}, {"apiGroups", texts(rule.groups)}, {"resources", texts(rule.resources)}};
    if (!rule.names.empty())
      one["resourceNames"] = texts(rule.names);
    resources.push_back(std::move(one));
  }
  return {{"resourceRules", std::move(resources)}, {"nonResourceRules", std::move(paths)}, {"incomplete", false}};
}

json::object token_status(const Request& request, const TokenPowers& tokens, const json::value& spec) {
  const auto reading = request.visit->read();
  const std::int64_t now = (reading->now + reading->wall_offset).us / 1'000'000;
  const auto holder = holder_of(tokens, reading->tables, text_in(spec, "token"), now);
  std::vector<std::string> wanted = texts_in(spec, "audiences"), met;
  if (wanted.empty())
    wanted.emplace_back(kIssuer);
  if (holder)
    for (const std::string& audience : wanted)
      if (std::ranges::find(holder->audiences, audience) != holder->audiences.end())
        met.push_back(audience);
  if (met.empty())
    return {{"user", json::object()}, {"error", holder ? "the token is for somebody else" : "invalid bearer token"}};
  return {{"authenticated", true}, {"user", user_object(holder->user)}, {"audiences", texts(met)}};
}

void answer_review(const Asked& request, json::object tree, const RoleBook& roles, const TokenPowers& tokens) {
  tree["kind"] = request->kind->kind;
  tree["apiVersion"] = request->api_version;
  if (!tree["metadata"].is_object())
    tree["metadata"].emplace_object();
  const json::value spec = tree["spec"];
  const std::string& kind = request->kind->kind;
  if (kind.ends_with("AccessReview"))
    if (auto faults = faults_of(spec, kind == "SelfSubjectAccessReview"); !faults.empty())
      return answer_status(*request, Status::invalid({request->kind->group, kind}, "", std::move(faults)));
  if (kind == "SelfSubjectRulesReview" && text_in(spec, "namespace").empty())
    return answer_status(*request, Status::bad_request("no namespace on request"));
  if (kind == "TokenReview" && text_in(spec, "token").empty())
    return answer_status(*request, Status::bad_request("token is required for TokenReview in authentication"));
  if (kind == "SelfSubjectReview") {
    tree.erase("spec");
    tree["status"] = {{"userInfo", user_object(request->user)}};
  } else if (kind == "SelfSubjectAccessReview") {
    tree["status"] = verdict(roles, request->user, attempt_of(spec, ""));
  } else if (kind == "SelfSubjectRulesReview") {
    tree["status"] = rules_status(roles, request->user, text_in(spec, "namespace"));
  } else if (kind == "TokenReview") {
    tree["status"] = token_status(*request, tokens, spec);
  } else {
    tree["status"] =
        verdict(roles, user_of(spec), attempt_of(spec, request->kind->namespaced ? request->target.ns : ""));
  }
  answer_tree(*request, tree, 201);
}

}  // namespace

bool is_review(const Kind& kind) {
  return !kind.stored() && (kind.group == "authorization.k8s.io" || kind.group == "authentication.k8s.io");
}

void create_review(const Asked& request, const RoleBook& roles, const TokenPowers& tokens) {
  if (request->accepted.form != Accepted::Form::kWhole)
    return answer_status(*request, Status::not_acceptable({"application/json", "application/yaml"}));
  read_body_then(request, [request, &roles, tokens](json::object tree) {
    answer_review(request, std::move(tree), roles, tokens);
  });
}

}  // namespace lockstep::kube
