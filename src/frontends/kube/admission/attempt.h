// What is attempted, as rules about requests see it: policies and webhooks.
// Source: kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers (AdmissionRequest).
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontends/kube/machinery/status.h"
#include "model/tables.h"

namespace lockstep::kube {

namespace json = boost::json;

// A group and version in which a resource is served, and what it is called there.
struct ObjectForm {
  std::string group, version, kind, resource;
  bool operator==(const ObjectForm&) const = default;
};

struct AdmissionAttempt {
  std::string operation;  // "CREATE", "UPDATE", "DELETE", "CONNECT"
  std::string group, version, kind, resource, subresource;
  std::string ns, name;  // ns "" = it is the cluster's
  json::object user;     // {"username", "uid", "groups", "extra"}
  json::object options;  // CreateOptions and the like, with kind and apiVersion
  bool dry_run = false;
  const json::object* object = nullptr;  // as it is to be; null of a deletion
  const json::object* old = nullptr;     // null of a new one

  std::vector<ObjectForm> others = {};       // in which the same objects are served, too
  std::optional<ObjectForm> requested = {};  // the request's own, where the objects were converted from it

  Qualified resource_name() const { return {group, resource}; }
  ObjectForm form() const { return {group, version, kind, resource}; }
  // The same attempt on these objects, which are in that form.
  AdmissionAttempt in_form(const ObjectForm& form, const json::object* object_then, const json::object* old_then) const;
};

// {"operation", "kind": {"group", …}, "resource": …, "userInfo": …}: what an AdmissionReview asks, and what rules call
// `request`. Without the objects and the uid.
json::object request_tree(const AdmissionAttempt& attempt);

// Configurations of admission itself are never judged by it, so that nobody locks himself out.
bool is_exempt(const AdmissionAttempt& attempt);

// Whether matchConstraints of a policy, matchResources of a binding, or the rules and selectors of a webhook take it
// in. null takes everything in.
bool takes_in(const Tables& tables, const json::value& match, const AdmissionAttempt& attempt);
// The lists of rules alone: {"apiGroups", "apiVersions", "resources", "operations", "resourceNames", "scope"}.
bool rule_takes_in(const json::value& rule, const AdmissionAttempt& attempt, bool any_version);

}  // namespace lockstep::kube
