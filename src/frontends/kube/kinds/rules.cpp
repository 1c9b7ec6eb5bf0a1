#include "frontends/kube/kinds/rules.h"

#include <string>

#include "frontends/kube/kinds/families.h"

namespace lockstep::kube {

const KindRules& rules_of(std::string_view type) {
  static const KindRules plain;
  if (type == "namespaces")
    return namespace_rules();
  if (type == "secrets" || type == "configmaps")
    return data_rules();
  if (type == "pods")
    return pod_rules();
  if (type == "persistentvolumeclaims" || type == "persistentvolumes")
    return volume_rules();
  if (type == "customresourcedefinitions.apiextensions.k8s.io")
    return definition_rules();
  if (type == "priorityclasses.scheduling.k8s.io")
    return priority_class_rules();
  return plain;
}

}  // namespace lockstep::kube
