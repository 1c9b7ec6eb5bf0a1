#include "frontends/kube/server/role_book.h"

#include <algorithm>

#include "frontends/kube/store/stored_object.h"
#include "model/records.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kPartsMax = 100'000;  // of a role whose rights are compared with its giver's
constexpr std::string_view kRoles = "roles.rbac.authorization.k8s.io";
constexpr std::string_view kClusterRoles = "clusterroles.rbac.authorization.k8s.io";
constexpr std::string_view kBindings = "rolebindings.rbac.authorization.k8s.io";
constexpr std::string_view kClusterBindings = "clusterrolebindings.rbac.authorization.k8s.io";

std::string word_at(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

std::vector<std::string> texts_at(const json::object& object, std::string_view name) {
  std::vector<std::string> out;
  if (const json::value* value = object.if_contains(name); value && value->is_array())
    for (const json::value& one : value->get_array())
      if (one.is_string())
        out.emplace_back(one.get_string());
  return out;
}

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

bool has_or_all(const std::vector<std::string>& words, std::string_view word) {
  return has(words, "*") || has(words, word);
}

std::vector<PolicyRule> read_rules(const json::object& body) {
  std::vector<PolicyRule> out;
  if (const json::value* rules = body.if_contains("rules"); rules && rules->is_array())
    for (const json::value& one : rules->get_array())
      if (const json::object* rule = one.if_object())
        out.push_back({texts_at(*rule, "verbs"), texts_at(*rule, "apiGroups"), texts_at(*rule, "resources"),
                       texts_at(*rule, "resourceNames"), texts_at(*rule, "nonResourceURLs")});
  return out;
}

// "*" is everything, "pods/*" every subresource of pods, "*/scale" that subresource of everything.
bool names_resource(const std::vector<std::string>& resources, const Attempt& attempt) {
  const std::string whole =
      attempt.subresource.empty() ? attempt.resource : attempt.resource + "/" + attempt.subresource;
  return has_or_all(resources, whole) || (!attempt.subresource.empty() && has(resources, "*/" + attempt.subresource));
}

bool covers_path(const std::vector<std::string>& urls, std::string_view path) {
  return std::ranges::any_of(urls, [&](const std::string& url) {
    return url == "*" || url == path ||
           (url.ends_with('*') && path.starts_with(std::string_view(url).substr(0, url.size() - 1)));
  });
}

// Whether one rule allows at least what another one does, for single-worded parts of it.
bool rule_covers(const PolicyRule& has_rule, const PolicyRule& wants) {
  const auto all_in = [](const std::vector<std::string>& wanted, const std::vector<std::string>& had) {
    return has(had, "*") || std::ranges::all_of(wanted, [&](const std::string& word) { return has(had, word); });
  };
  if (!all_in(wants.verbs, has_rule.verbs))
    return false;
  if (!wants.urls.empty())
    return std::ranges::all_of(wants.urls, [&](const std::string& url) { return covers_path(has_rule.urls, url); });
  const bool resources = std::ranges::all_of(wants.resources, [&](const std::string& one) {
    const auto slash = one.find('/');
    return has_or_all(has_rule.resources, one) ||
           (slash != std::string::npos && has(has_rule.resources, "*" + one.substr(slash)));
  });
  const bool names = has_rule.names.empty() || (!wants.names.empty() && all_in(wants.names, has_rule.names));
  return resources && names && all_in(wants.groups, has_rule.groups);
}

// Each verb, group and resource by itself, since several rules together may cover what none does alone.
std::vector<PolicyRule> taken_apart(const PolicyRule& rule) {
  std::vector<PolicyRule> out;
  for (const std::string& verb : rule.verbs) {
    for (const std::string& url : rule.urls) out.push_back({{verb}, {}, {}, {}, {url}});
    for (const std::string& group : rule.groups)
      for (const std::string& resource : rule.resources) {
        if (rule.names.empty())
          out.push_back({{verb}, {group}, {resource}, {}, {}});
        for (const std::string& name : rule.names) out.push_back({{verb}, {group}, {resource}, {name}, {}});
      }
  }
  return out;
}

}  // namespace

std::vector<PolicyRule> rules_in(const json::object& role) { return read_rules(role); }

bool permits(const PolicyRule& rule, const Attempt& attempt) {
  if (!has_or_all(rule.verbs, attempt.verb))
    return false;
  if (!attempt.is_resource())
    return covers_path(rule.urls, attempt.path);
  return has_or_all(rule.groups, attempt.group) && names_resource(rule.resources, attempt) &&
         (rule.names.empty() || has(rule.names, attempt.name));
}

void RoleBook::begin(const Tables& tables) {
  for (const std::string_view type : {kRoles, kClusterRoles, kBindings, kClusterBindings})
    for (auto at = tables.objects.lower_bound({std::string(type), "", ""});
         at != tables.objects.end() && std::get<0>(at->first) == type; ++at)
      take(*at->second, true);
}

void RoleBook::change(const Tables&, const Change& change) {
  if (const auto* object = std::get_if<Ref<Object>>(&change.record))
    take(**object, !change.removed);
}

void RoleBook::take(const Object& object, bool there) {
  const bool is_role = object.type == kRoles || object.type == kClusterRoles;
  if (!is_role && object.type != kBindings && object.type != kClusterBindings)
    return;
  const Name name{object.meta.ns, object.meta.name};
  if (!there) {
    is_role ? void(roles_.erase(name)) : void(bindings_.erase(name));
    return;
  }
  const json::object body = parse_own(object.body.get()).as_object();
  if (is_role) {
    Role role{read_rules(body), {}, {}};
    if (object.meta.extra)
      role.labels.insert(object.meta.extra->labels.begin(), object.meta.extra->labels.end());
    if (const json::value* rule = body.if_contains("aggregationRule"); rule && rule->is_object())
      if (const json::value* selectors = rule->get_object().if_contains("clusterRoleSelectors");
          selectors && selectors->is_array())
        for (const json::value& one : selectors->get_array())
          if (const json::object* selector = one.if_object())
            if (const json::value* labels = selector->if_contains("matchLabels"); labels && labels->is_object()) {
              auto& gathers = role.gathers.emplace_back();
              for (const auto& [key, value] : labels->get_object())
                if (value.is_string())
                  gathers[key] = std::string(value.get_string());
            }
    roles_[name] = std::move(role);
    return;
  }
  Binding binding;
  if (const json::value* ref = body.if_contains("roleRef"); ref && ref->is_object()) {
    binding.role = word_at(ref->get_object(), "name");
    binding.cluster_role = word_at(ref->get_object(), "kind") == "ClusterRole";
  }
  if (const json::value* subjects = body.if_contains("subjects"); subjects && subjects->is_array())
    for (const json::value& one : subjects->get_array())
      if (const json::object* subject = one.if_object())
        binding.subjects.push_back(
            {word_at(*subject, "kind"), word_at(*subject, "name"), word_at(*subject, "namespace")});
  bindings_[name] = std::move(binding);
}

// Roles may gather each other in circles: each is seen once.
template <class Visit>
bool RoleBook::each_rule_of(const Role& role, Visit visit, std::set<const Role*>& seen) const {
  if (!seen.insert(&role).second)
    return false;
  for (const PolicyRule& rule : role.rules)
    if (visit(rule))
      return true;
  for (const auto& labels : role.gathers)
    for (const auto& [name, other] : roles_)
      if (name.first.empty() && std::ranges::all_of(labels, [&, &other = other](const auto& label) {
            const auto at = other.labels.find(label.first);
            return at != other.labels.end() && at->second == label.second;
          }))
        if (each_rule_of(other, visit, seen))
          return true;
  return false;
}

template <class Visit>
bool RoleBook::each_rule(const KubeUser& user, std::string_view ns, Visit visit) const {
  const auto is_meant = [&](const Subject& subject, const std::string& binding_ns) {
    if (subject.kind == "User")
      return subject.name == user.name;
    if (subject.kind == "Group")
      return has(user.groups, subject.name);
    const std::string& where = subject.ns.empty() ? binding_ns : subject.ns;
    return subject.kind == "ServiceAccount" && user.name == std::string(kAccountUser) + where + ":" + subject.name;
  };
  const auto walk = [&](const std::string& where) {
    for (auto at = bindings_.lower_bound({where, ""}); at != bindings_.end() && at->first.first == where; ++at) {
      const Binding& binding = at->second;
      if (!std::ranges::any_of(binding.subjects, [&](const Subject& one) { return is_meant(one, where); }))
        continue;
      const auto role = roles_.find({binding.cluster_role ? std::string() : where, binding.role});
      std::set<const Role*> seen;
      if (role != roles_.end() && each_rule_of(role->second, visit, seen))
        return true;
    }
    return false;
  };
  return walk("") || (!ns.empty() && walk(std::string(ns)));
}

bool RoleBook::allows(const KubeUser& user, const Attempt& attempt) const {
  return has(user.groups, kMasters) ||
         each_rule(user, attempt.ns, [&](const PolicyRule& rule) { return permits(rule, attempt); });
}

std::vector<PolicyRule> RoleBook::rules_of(const KubeUser& user, std::string_view ns) const {
  std::vector<PolicyRule> out;
  if (has(user.groups, kMasters))
    out = {{{"*"}, {"*"}, {"*"}, {}, {}}, {{"*"}, {}, {}, {}, {"*"}}};
  each_rule(user, ns, [&](const PolicyRule& rule) {
    out.push_back(rule);
    return false;
  });
  return out;
}

bool RoleBook::covers(const KubeUser& user, std::string_view ns, const std::vector<PolicyRule>& wanted) const {
  if (has(user.groups, kMasters))
    return true;
  std::size_t parts = 0;
  for (const PolicyRule& rule : wanted)
    parts += rule.verbs.size() * (rule.urls.size() + rule.groups.size() * rule.resources.size() *
                                                         std::max<std::size_t>(1, rule.names.size()));
  if (parts > kPartsMax)
    return false;
  const std::vector<PolicyRule> had = rules_of(user, ns);
  return std::ranges::all_of(wanted, [&](const PolicyRule& rule) {
    return std::ranges::all_of(taken_apart(rule), [&](const PolicyRule& one) {
      return std::ranges::any_of(had, [&](const PolicyRule& has_rule) { return rule_covers(has_rule, one); });
    });
  });
}

std::optional<std::vector<PolicyRule>> RoleBook::role(std::string_view ns, std::string_view name) const {
  const auto at = roles_.find({std::string(ns), std::string(name)});
  if (at == roles_.end())
    return std::nullopt;
  std::vector<PolicyRule> out;
  std::set<const Role*> seen;
  each_rule_of(
      at->second,
      [&](const PolicyRule& rule) {
        out.push_back(rule);
        return false;
      },
      seen);
  return out;
}

}  // namespace lockstep::kube
