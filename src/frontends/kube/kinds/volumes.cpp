// Volumes and claims begin their lives with a phase.
#include "frontends/kube/kinds/families.h"

namespace lockstep::kube {

namespace {

class VolumeRules final : public KindRules {
 public:
  void prepare_create(json::object& tree) const override { tree["status"] = {{"phase", "Pending"}}; }
};

}  // namespace

const KindRules& volume_rules() {
  static const VolumeRules rules;
  return rules;
}

}  // namespace lockstep::kube
