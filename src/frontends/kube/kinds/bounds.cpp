// ResourceQuotas and LimitRanges: amounts that fit together.
// Source: kubernetes.io/docs/concepts/policy; messages are those of k8s.io/kubernetes pkg/apis/core/validation.
#include <algorithm>
#include <set>

#include "base/text.h"
#include "frontends/kube/kinds/container_checks.h"
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

class QuotaRules final : public KindRules {
 public:
  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const Place spec(part(tree, "spec"), "spec", out), hard = spec["hard"];
    if (old && same_json(spec.value(), part(*old, "spec")))
      return;
    for (const auto& [name, place] : hard.map()) {
      if (name.find('/') == name.npos && !is_standard_resource(name) && !is_counted(name))
        out.push_back(field_invalid(place.path(), json::value(name), "must be a standard resource for quota"));
      if (const auto amount = quantity_in(hard.value(), name); amount && amount->sign() < 0)
        place.invalid("must be greater than or equal to 0");
      else if (amount && !amount->is_whole() && is_counted(name))
        place.invalid("must be an integer");
    }
    std::set<std::string> scopes;
    for (const Place& one : spec["scopes"].each()) {
      scopes.insert(one.text());
      check_scope(one.text(), spec["scopes"], spec["scopes"], hard);
    }
    refuse_conflicts(scopes, spec["scopes"]);
    const Place selector = spec["scopeSelector"], terms = selector["matchExpressions"];
    std::set<std::string> named;
    for (const Place& one : terms.each()) {
      const std::string scope = one["scopeName"].text();
      named.insert(scope);
      check_scope(scope, Place(one["scopeName"].value(), terms.path() + ".scopeName", out),
                  Place(selector.value(), terms.path(), out), hard);
      if (scope != "PriorityClass" && scope != kAttributesScope && is_scope(scope) && !one["operator"].is("Exists"))
        Place(one["operator"].value(), terms.path() + ".operator", out)
            .invalid(
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, "
                "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
                "ResourceQuotaScopeCrossNamespacePodAffinity");
      const bool lists = one["operator"].is("In") || one["operator"].is("NotIn");
      if (lists && one["values"].empty())
        terms["values"].required("must be at least one value when `operator` is 'In' or 'NotIn' for scope selector");
      if (!lists && !one["values"].empty())
        terms["values"].invalid("must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector");
    }
    refuse_conflicts(named, Place(selector.value(), terms.path(), out));
    if (old && !same_json(spec["scopes"].value(), part(part(*old, "spec"), "scopes")))
      spec["scopes"].invalid("field is immutable");
  }

 private:
  static constexpr std::string_view kAttributesScope = "VolumeAttributesClass";

  static bool is_scope(std::string_view scope) {
    constexpr std::string_view kScopes[] = {"Terminating",   "NotTerminating", "BestEffort",
                                            "NotBestEffort", "PriorityClass",  "CrossNamespacePodAffinity",
                                            kAttributesScope};
    return std::ranges::find(kScopes, scope) != std::end(kScopes);
  }
  // Whether what the scope takes in can be counted so.
  static bool fits(std::string_view scope, std::string_view resource) {
    constexpr std::string_view kAmounts[] = {"cpu",           "memory",       "limits.cpu",
                                             "limits.memory", "requests.cpu", "requests.memory"};
    if (scope == kAttributesScope)
      return resource == "persistentvolumeclaims" || resource == "requests.storage";
    return resource == "pods" || (scope != "BestEffort" && std::ranges::find(kAmounts, resource) != std::end(kAmounts));
  }
  // Of what is counted for what it is, not by names that others give: "count/pods", "requests.nvidia.com/gpu".
  static bool is_standard(const std::string& name) {
    return name.find('/') == name.npos || name.starts_with("hugepages-") || name.starts_with("requests.hugepages-");
  }
  static void check_scope(const std::string& scope, const Place& name, const Place& whole, const Place& hard) {
    if (!is_scope(scope))
      return name.invalid("unsupported scope");
    for (const auto& [resource, amount] : hard.map())
      if (is_standard(resource) && !fits(scope, resource))
        whole.invalid("unsupported scope applied to resource");
  }
  static void refuse_conflicts(const std::set<std::string>& scopes, const Place& place) {
    for (const auto& [a, b] : {std::pair{"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"}})
      if (scopes.contains(a) && scopes.contains(b))
        place.invalid("conflicting scopes");
  }

  // Of things, not of bytes or cores.
  static bool is_counted(const std::string& name) {
    return name == "pods" || name == "services" || name == "secrets" || name == "configmaps" ||
           name == "persistentvolumeclaims" || name == "replicationcontrollers" || name == "resourcequotas" ||
           name.starts_with("count/") || name.starts_with("services.");
  }
};

class LimitRangeRules final : public KindRules {
 public:
  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const Place spec(part(tree, "spec"), "spec", out);
    if (old && same_json(spec.value(), part(*old, "spec")))
      return;
    std::set<std::string> types;
    for (const Place& limit : spec["limits"].each()) {
      if (const Place type = limit["type"]; !types.insert(type.text()).second)
        type.duplicate();
      if (const std::string type = limit["type"].text();
          type.find('/') == type.npos && type != "Pod" && type != "Container" && type != "PersistentVolumeClaim")
        limit["type"].invalid("must be a standard limit type or fully qualified");
      if (limit["type"].is("Pod"))
        for (const char* not_there : {"default", "defaultRequest"})
          if (!limit[not_there].empty())
            limit[not_there].forbidden("may not be specified when `type` is 'Pod'");
      if (limit["type"].is("PersistentVolumeClaim") && !limit["min"]["storage"].there() &&
          !limit["max"]["storage"].there())
        limit["limits"].required("either minimum or maximum storage value is required, but neither was provided");
      check_limit(limit);
    }
  }

 private:
  static void check_limit(const Place& limit) {
    struct Order {
      const char *low, *high, *low_word, *high_word;
    };
    constexpr Order kOrders[] = {{"min", "max", "min", "max"},
                                 {"min", "defaultRequest", "min", "default request"},
                                 {"min", "default", "min", "default"},
                                 {"defaultRequest", "max", "default request", "max"},
                                 {"defaultRequest", "default", "default request", "default limit"},
                                 {"default", "max", "default", "max"}};
    for (const Order& order : kOrders)
      for (const auto& [name, place] : limit[order.low].map()) {
        const auto low = quantity_in(limit[order.low].value(), name),
                   high = quantity_in(limit[order.high].value(), name);
        if (low && high && *high < *low)
          place.invalid(format("{} value {} is greater than {} value {}", order.low_word, low->text(), order.high_word,
                               high->text()));
      }
    const Place ratios = limit["maxLimitRequestRatio"];
    for (const auto& [name, place] : ratios.map())
      if (const auto ratio = quantity_in(ratios.value(), name); ratio && *ratio < Quantity(1))
        place.invalid(format("ratio {} is less than 1", ratio->text()));
  }
};

}  // namespace

const KindRules& quota_rules() {
  static const QuotaRules rules;
  return rules;
}
const KindRules& limit_range_rules() {
  static const LimitRangeRules rules;
  return rules;
}

}  // namespace lockstep::kube
