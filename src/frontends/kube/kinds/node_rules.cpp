// Taints of nodes: what they may be called, and each of a key and an effect once.
// Source: kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration; messages are those of k8s.io/kubernetes
// pkg/apis/core/validation (validateNodeTaints).
#include <set>

#include "frontends/kube/kinds/families.h"
#include "frontends/kube/kinds/place.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/names.h"

namespace lockstep::kube {

namespace {

class NodeRules final : public KindRules {
 public:
  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const Place taints = Place(part(tree, "spec"), "spec", out)["taints"];
    if (old && same_json(taints.value(), part(part(*old, "spec"), "taints")))
      return;
    std::set<std::pair<std::string, std::string>> seen;
    for (const Place& one : taints.each()) {
      if (one["key"].empty())
        one["key"].required();
      else
        one["key"].qualified_name();
      one["value"].faults(label_value_faults(one["value"].text()));
      if (one["effect"].empty())
        one["effect"].required();
      else
        one["effect"].one_of({"NoSchedule", "PreferNoSchedule", "NoExecute"});
      if (!seen.emplace(one["key"].text(), one["effect"].text()).second) {
        FieldError doubled = field_duplicate(one.path(), one.value());
        doubled.detail = "taints must be unique by key and effect pair";
        out.push_back(std::move(doubled));
      }
    }
  }
};

}  // namespace

const KindRules& node_rules() {
  static const NodeRules rules;
  return rules;
}

}  // namespace lockstep::kube
