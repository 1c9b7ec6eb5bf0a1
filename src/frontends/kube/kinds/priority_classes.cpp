// A priority class is what its name promised when pods took it: its value never changes.
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

class PriorityClassRules final : public KindRules {
 public:
  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    for (const char* fixed : {"value", "preemptionPolicy"}) {
      const json::value* now = tree.if_contains(fixed);
      const json::value* was = old ? old->if_contains(fixed) : nullptr;
      if (old && !same_json(now ? *now : json::value(), was ? *was : json::value()))
        out.push_back(field_forbidden(fixed, "may not be changed in an update."));
    }
    const json::value* metadata = tree.if_contains("metadata");
    const json::value* name = metadata ? member(*metadata, "name") : nullptr;
    const json::value* value = tree.if_contains("value");
    constexpr double kHighest = 1'000'000'000;
    const bool system = name && text_of(*name).starts_with("system-");
    if (!system && value && is_number(*value) && number_of(*value) > kHighest)
      out.push_back(field_forbidden("value", "maximum allowed value of a user defined priority is 1000000000"));
    if (!old && system && text_of(*name) != "system-cluster-critical" && text_of(*name) != "system-node-critical")
      out.push_back(field_forbidden("metadata.name",
                                    "priority class names with 'system-' prefix are reserved for system use only"));
  }
};

}  // namespace

const KindRules& priority_class_rules() {
  static const PriorityClassRules rules;
  return rules;
}

}  // namespace lockstep::kube
