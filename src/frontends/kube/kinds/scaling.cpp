// HorizontalPodAutoscalers and PodDisruptionBudgets.
// Sources: kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale, …/configure-pdb; messages are those of
// k8s.io/kubernetes pkg/apis/autoscaling/validation and pkg/apis/policy/validation.
#include <array>

#include "base/text.h"
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/kinds/place.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/names.h"

namespace lockstep::kube {

namespace {

constexpr std::int64_t kStabilizationMax_s = 3600, kPeriodMax_s = 1800;

void check_reference(const Place& ref) {
  ref["kind"].needed();
  ref["name"].needed();
  for (const char* key : {"kind", "name"})
    if (const Place word = ref[key]; !word.empty())
      word.faults(path_segment_faults(word.text()));
  if (ref["apiVersion"].empty() || ref["apiVersion"].text().find('/') == std::string::npos)
    if (!ref["apiVersion"].is("v1"))
      ref.out().push_back(field_invalid(ref["apiVersion"].path(), json::value(ref["apiVersion"].text()),
                                        "apiVersion must specify API group"));
}

void check_positive(const Place& holder, std::string_view key) {
  if (const auto amount = quantity_in(holder.value(), key); amount && amount->sign() <= 0)
    holder[key].invalid("must be positive");
}

void check_target(const Place& target) {
  for (const char* key : {"value", "averageValue"}) check_positive(target, key);
  if (const auto share = target["averageUtilization"].number(); share && *share < 1)
    target["averageUtilization"].invalid("must be greater than 0");
}

struct MetricKind {
  const char *type, *field;
};
constexpr std::array<MetricKind, 5> kMetrics{{{"Object", "object"},
                                              {"Pods", "pods"},
                                              {"Resource", "resource"},
                                              {"ContainerResource", "containerResource"},
                                              {"External", "external"}}};

void check_resource_metric(const Place& source) {
  const Place name = source["name"], target = source["target"];
  if (name.empty())
    name.required("must specify a resource name");
  check_target(target);
  const bool share = target["averageUtilization"].there(), raw = target["averageValue"].there();
  if (!share && !raw)
    target["averageUtilization"].required("must set either a target raw value or a target utilization");
  if (share && raw)
    target["averageValue"].forbidden("may not set both a target raw value and a target utilization");
}

void check_named_metric(const Place& source, bool average_only) {
  const Place name = source["metric"]["name"], target = source["target"];
  if (name.empty())
    name.required("must specify a metric name");
  check_selector(source["metric"]["selector"]);
  check_target(target);
  if (average_only) {
    if (const auto amount = quantity_in(target.value(), "averageValue"); !amount || amount->sign() <= 0)
      target["averageValue"].required("must specify a positive target averageValue");
  } else if (!target["value"].there() && !target["averageValue"].there()) {
    target["averageValue"].required("must set either a target value for metric or a per-pod target");
  }
}

void check_metric(const Place& metric) {
  const std::string type = metric["type"].text();
  const char* field = nullptr;
  for (const MetricKind& kind : kMetrics)
    if (type == kind.type)
      field = kind.field;
  if (type.empty())
    return metric["type"].required("must specify a metric source type");
  if (!field)
    return metric["type"].not_supported({"ContainerResource", "External", "Object", "Pods", "Resource"});
  for (const MetricKind& kind : kMetrics)
    if (metric[kind.field].there() && std::string_view(kind.field) != field)
      metric[kind.field].forbidden("must populate the given metric source only");
  const Place source = metric[field];
  if (!source.there())
    return source.required("must populate information for the given metric source");
  if (type.ends_with("Resource")) {
    if (type == "ContainerResource")
      source["container"].needed();
    check_resource_metric(source);
  } else {
    if (type == "Object")
      check_reference(source["describedObject"]);
    check_named_metric(source, type == "Pods");
  }
}

void check_scaling(const Place& rules) {
  const Place window = rules["stabilizationWindowSeconds"], policies = rules["policies"];
  window.at_least(0);
  window.at_most(kStabilizationMax_s);
  if (rules.there() && policies.empty())
    policies.required("must specify at least one Policy");
  if (const Place select = rules["selectPolicy"]; select.there())
    select.one_of({"Disabled", "Max", "Min"});
  for (const Place& one : policies.each()) {
    one["type"].one_of({"Percent", "Pods"});
    if (one["value"].number().value_or(0) <= 0)
      one["value"].invalid("must be greater than zero");
    if (one["periodSeconds"].number().value_or(0) <= 0)
      one["periodSeconds"].invalid("must be greater than zero");
    one["periodSeconds"].at_most(kPeriodMax_s);
  }
}

class AutoscalerRules final : public KindRules {
 public:
  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const Place spec(part(tree, "spec"), "spec", out);
    if (old && same_json(spec.value(), part(*old, "spec")))
      return;
    const std::int64_t least = spec["minReplicas"].number().value_or(1),
                       most = spec["maxReplicas"].number().value_or(0);
    spec["minReplicas"].at_least(1);
    if (most < 1)
      spec["maxReplicas"].invalid("must be greater than 0");
    if (most < least)
      spec["maxReplicas"].invalid("must be greater than or equal to `minReplicas`");
    check_reference(spec["scaleTargetRef"]);
    for (const Place& metric : spec["metrics"].each()) check_metric(metric);
    for (const char* way : {"scaleUp", "scaleDown"}) check_scaling(spec["behavior"][way]);
  }
};

class DisruptionBudgetRules final : public KindRules {
 public:
  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const Place spec(part(tree, "spec"), "spec", out);
    if (old && same_json(spec.value(), part(*old, "spec")))
      return;
    if (spec["minAvailable"].there() && spec["maxUnavailable"].there())
      spec.invalid("minAvailable and maxUnavailable cannot be both set");
    for (const char* key : {"minAvailable", "maxUnavailable"})
      if (const Place one = spec[key]; one.there()) {
        check_count_or_percent(one);
        if (percent_of(one).value_or(0) > 100)
          one.invalid("must not be greater than 100%");
      }
    check_selector(spec["selector"]);
  }
};

}  // namespace

const KindRules& autoscaler_rules() {
  static const AutoscalerRules rules;
  return rules;
}
const KindRules& disruption_budget_rules() {
  static const DisruptionBudgetRules rules;
  return rules;
}

}  // namespace lockstep::kube
