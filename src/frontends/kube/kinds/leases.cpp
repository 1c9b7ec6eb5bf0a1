// Leases: how long they hold, and how often they went from hand to hand.
// Source: kubernetes.io/docs/concepts/architecture/leases.
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

class LeaseRules final : public KindRules {
 public:
  void validate(const json::object& tree, const json::object*, FieldErrors& out) const override {
    const Place spec(part(tree, "spec"), "spec", out), length = spec["leaseDurationSeconds"];
    if (const auto has = length.number(); has && *has <= 0)
      length.invalid("must be greater than 0");
    spec["leaseTransitions"].at_least(0);
  }
};

}  // namespace

const KindRules& lease_rules() {
  static const LeaseRules rules;
  return rules;
}

}  // namespace lockstep::kube
