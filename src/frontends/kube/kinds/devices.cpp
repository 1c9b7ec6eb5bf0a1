// Classes of devices and claims on some: the expressions that select them.
// Source: kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation.
#include "frontends/kube/cel/admission_names.h"
#include "frontends/kube/kinds/expressions.h"
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kSelectorsMost = 32, kExpressionBytes = 10 << 10;

void check_selectors(const Place& selectors) {
  const auto each = selectors.each();
  if (each.size() > kSelectorsMost)
    selectors.out().push_back(field_too_many(selectors.path(), each.size(), kSelectorsMost));
  for (const Place& one : each) {
    const Place expression = one["cel"]["expression"];
    if (!one["cel"].there())
      one["cel"].required();
    else if (expression.text().size() > kExpressionBytes)
      selectors.out().push_back(field_too_long(expression.path(), kExpressionBytes));
    else
      check_expression(expression, cel::device_names(), {"bool", "dyn"});
  }
}

void check_device_requests(const Place& devices) {
  for (const Place& request : devices["requests"].each()) {
    check_selectors(request["exactly"]["selectors"]);
    for (const Place& one : request["firstAvailable"].each()) check_selectors(one["selectors"]);
  }
}

class DeviceClassRules final : public KindRules {
 public:
  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    if (!old || !same_json(part(tree, "spec"), part(*old, "spec")))
      check_selectors(Place(part(tree, "spec"), "spec", out)["selectors"]);
  }
};

// Of a claim and of a template that makes some: what is wanted stays.
class DeviceClaimRules final : public KindRules {
 public:
  explicit DeviceClaimRules(bool is_template) : is_template_(is_template) {}

  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const Place spec(part(tree, "spec"), "spec", out);
    if (old)
      return spec.same_as(Place(part(*old, "spec"), "spec", out));
    check_device_requests((is_template_ ? spec["spec"] : spec)["devices"]);
  }

 private:
  const bool is_template_;
};

}  // namespace

const KindRules& device_class_rules() {
  static const DeviceClassRules rules;
  return rules;
}

const KindRules& device_claim_rules() {
  static const DeviceClaimRules rules(false);
  return rules;
}

const KindRules& device_claim_template_rules() {
  static const DeviceClaimRules rules(true);
  return rules;
}

}  // namespace lockstep::kube
