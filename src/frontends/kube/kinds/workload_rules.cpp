// Deployments, ReplicaSets, ReplicationControllers, StatefulSets and DaemonSets: numbers within bounds, selectors that
// pick what the templates make, and what may not change.
// Source: kubernetes.io/docs/concepts/workloads/controllers; messages are those of k8s.io/kubernetes
// pkg/apis/apps/validation.
#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/kinds/pod_templates.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

void check_surge(const Place& rolling, const char* zero_is) {
  const Place away = rolling["maxUnavailable"], more = rolling["maxSurge"];
  const auto few = check_count_or_percent(away), many = check_count_or_percent(more);
  if (percent_of(away).value_or(0) > 100)
    away.invalid("must not be greater than 100%");
  if (few == 0 && many == 0)
    away.invalid(zero_is);
}

void check_deployment(const Place& spec) {
  spec["replicas"].at_least(0);
  check_pods_of(spec, {"deployment", "ReplicaSet"});
  const Place strategy = spec["strategy"], rolling = strategy["rollingUpdate"];
  if (strategy["type"].is("Recreate") && rolling.there())
    rolling.forbidden("may not be specified when strategy `type` is 'Recreate'");
  else if (strategy["type"].is("RollingUpdate"))
    check_surge(rolling, "may not be 0 when `maxSurge` is 0");
  spec["minReadySeconds"].at_least(0);
  spec["revisionHistoryLimit"].at_least(0);
  const Place deadline = spec["progressDeadlineSeconds"];
  deadline.at_least(0);
  if (const auto has = deadline.number(); has && *has <= spec["minReadySeconds"].number().value_or(0))
    deadline.invalid("must be greater than minReadySeconds");
}

void check_replica_set(const Place& spec) {
  spec["replicas"].at_least(0);
  spec["minReadySeconds"].at_least(0);
  check_pods_of(spec, {"deployment", "ReplicaSet"});
}

void check_replication_controller(const Place& spec) {
  spec["minReadySeconds"].at_least(0);
  spec["replicas"].at_least(0);
  check_pods_of(spec, {"deployment", "ReplicationController", true});
  if (!spec["template"].there())
    spec["template"].required();
}

void check_daemon_set(const Place& spec) {
  check_pods_of(spec, {"daemonset", "DaemonSet"});
  const Place strategy = spec["updateStrategy"], rolling = strategy["rollingUpdate"];
  if (strategy["type"].is("RollingUpdate") && rolling.there()) {
    const Place away = rolling["maxUnavailable"], more = rolling["maxSurge"];
    const auto few = check_count_or_percent(away), many = check_count_or_percent(more);
    if (few.value_or(0) > 0 && many.value_or(0) > 0)
      more.invalid("may not be set when maxUnavailable is non-zero");
    else if (few == 0 && many.value_or(0) == 0)
      away.required("cannot be 0 when maxSurge is 0");
    for (const Place& one : {away, more})
      if (percent_of(one).value_or(0) > 100)
        one.invalid("must not be greater than 100%");
  }
  spec["minReadySeconds"].at_least(0);
  spec["revisionHistoryLimit"].at_least(0);
}

void check_stateful_set(const Place& spec) {
  if (const Place policy = spec["podManagementPolicy"];
      policy.there() && !policy.is("OrderedReady") && !policy.is("Parallel"))
    policy.invalid("must be 'OrderedReady' or 'Parallel'");
  const Place strategy = spec["updateStrategy"], rolling = strategy["rollingUpdate"];
  if (strategy["type"].is("OnDelete") && rolling.there())
    rolling.invalid("only allowed for updateStrategy 'RollingUpdate'");
  else
    rolling["partition"].at_least(0);
  spec["replicas"].at_least(0);
  spec["minReadySeconds"].at_least(0);
  spec["ordinals"]["start"].at_least(0);
  if (const Place name = spec["serviceName"]; !name.empty())
    name.dns_label();
  for (const char* when : {"whenDeleted", "whenScaled"})
    spec["persistentVolumeClaimRetentionPolicy"][when].one_of({"Retain", "Delete"});
  const Place selector = spec["selector"], made = spec["template"];
  if (selector.there()) {
    const bool good = check_selector(selector);
    if (selector["matchLabels"].empty() && selector["matchExpressions"].empty())
      selector.invalid("empty selector is invalid for statefulset");
    else if (good)
      check_labels_match(selector, made, false);
  } else {
    check_labels_match(selector, made, false);
  }
  check_template(made, &spec["volumeClaimTemplates"].value());
  for (const Place& claim : spec["volumeClaimTemplates"].each()) check_claim_spec(claim["spec"]);
  if (const Place policy = made["spec"]["restartPolicy"]; policy.there() && !policy.is("Always"))
    policy.not_supported({"Always"});
  if (const Place deadline = made["spec"]["activeDeadlineSeconds"]; deadline.there())
    deadline.forbidden("activeDeadlineSeconds in StatefulSet is not Supported");
}

// A StatefulSet's pods and claims outlive what it says: most of it is fixed.
void check_stateful_change(const Place& spec, const Place& before) {
  json::value kept = spec.value();
  if (!kept.is_object())
    return;
  for (const char* free : {"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
                           "persistentVolumeClaimRetentionPolicy", "minReadySeconds"})
    if (const Place was = before[free]; was.there())
      kept.get_object()[free] = was.value();
    else
      kept.get_object().erase(free);
  if (!same_json(kept, before.value()))
    spec.forbidden(
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
        "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden");
}

using Check = void (*)(const Place& spec);

class WorkloadRules : public KindRules {
 public:
  explicit WorkloadRules(Check check, bool fixed_selector = true, bool stateful = false)
      : check_(check), fixed_selector_(fixed_selector), stateful_(stateful) {}

  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const Place spec(part(tree, "spec"), "spec", out);
    if (old && same_json(spec.value(), part(*old, "spec")))
      return;
    check_(spec);
    if (!old)
      return;
    const Place before(part(*old, "spec"), "spec", out);
    if (stateful_)
      check_stateful_change(spec, before);
    else if (fixed_selector_)
      spec["selector"].same_as(before["selector"]);
  }

 private:
  Check check_;
  bool fixed_selector_, stateful_;
};

// Which of its templates a DaemonSet has, counted in an annotation that is the server's own.
class DaemonSetRules final : public WorkloadRules {
 public:
  DaemonSetRules() : WorkloadRules(check_daemon_set) {}
  void prepare_create(json::object& tree) const override { put(tree, 1); }
  void prepare_update(json::object& tree, const json::object& old, std::string_view) const override {
    const auto before = parse_int(text_in(part(part(old, "metadata"), "annotations"), kTemplateNumber)).value_or(1);
    const bool other = !same_json(part(part(tree, "spec"), "template"), part(part(old, "spec"), "template"));
    put(tree, before + other);
  }

 private:
  static constexpr const char* kTemplateNumber = "deprecated.daemonset.template.generation";
  static void put(json::object& tree, std::int64_t number) {
    json::value& metadata = tree["metadata"];
    json::value& notes = (metadata.is_object() ? metadata.get_object() : metadata.emplace_object())["annotations"];
    (notes.is_object() ? notes.get_object() : notes.emplace_object())[kTemplateNumber] = std::to_string(number);
  }
};

}  // namespace

const KindRules& deployment_rules() {
  static const WorkloadRules rules(check_deployment);
  return rules;
}
const KindRules& replica_set_rules() {
  static const WorkloadRules rules(check_replica_set);
  return rules;
}
const KindRules& replication_controller_rules() {
  static const WorkloadRules rules(check_replication_controller, false);
  return rules;
}
const KindRules& daemon_set_rules() {
  static const DaemonSetRules rules;
  return rules;
}
const KindRules& stateful_set_rules() {
  static const WorkloadRules rules(check_stateful_set, false, true);
  return rules;
}

}  // namespace lockstep::kube
