// RoleBook: what roles and bindings allow, read from their objects as they change.
// Source: kubernetes.io/docs/reference/access-authn-authz/rbac.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "frontends/kube/server/user.h"
#include "routes/front_end.h"

namespace lockstep::kube {

namespace json = boost::json;

struct PolicyRule {
  std::vector<std::string> verbs, groups, resources, names, urls;
};

class RoleBook final : public FrontReader {
 public:
  void begin(const Tables& tables) override;
  void change(const Tables& before, const Change& change) override;

  bool allows(const KubeUser& user, const Attempt& attempt) const;
  // Every rule that the user has in the namespace ("" = in the whole cluster).
  std::vector<PolicyRule> rules_of(const KubeUser& user, std::string_view ns) const;
  // Whether the user already may do all that these rules allow there: who gives rights away must have them.
  bool covers(const KubeUser& user, std::string_view ns, const std::vector<PolicyRule>& wanted) const;
  // The rules of a role; ns "" = of a cluster role. Nothing: there is none.
  std::optional<std::vector<PolicyRule>> role(std::string_view ns, std::string_view name) const;

 private:
  struct Subject {
    std::string kind, name, ns;
  };
  struct Role {
    std::vector<PolicyRule> rules;
    std::map<std::string, std::string> labels;
    std::vector<std::map<std::string, std::string>> gathers;  // the labels of the roles whose rules it has, too
  };
  struct Binding {
    std::string role;
    bool cluster_role = false;
    std::vector<Subject> subjects;
  };
  using Name = std::pair<std::string, std::string>;  // namespace, name

  void take(const Object& object, bool there);
  template <class Visit>
  bool each_rule(const KubeUser& user, std::string_view ns, Visit visit) const;  // until visit says true
  template <class Visit>
  bool each_rule_of(const Role& role, Visit visit, std::set<const Role*>& seen) const;

  std::map<Name, Role> roles_;
  std::map<Name, Binding> bindings_;
};

// Reads the rules of a Role or ClusterRole.
std::vector<PolicyRule> rules_in(const json::object& role);
bool permits(const PolicyRule& rule, const Attempt& attempt);

}  // namespace lockstep::kube
