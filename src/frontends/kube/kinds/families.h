// The rules of families of kinds, one file each.
#pragma once

#include "frontends/kube/kinds/rules.h"

namespace lockstep::kube {

const KindRules& namespace_rules();       // namespaces.cpp
const KindRules& priority_class_rules();  // priority_classes.cpp
const KindRules& definition_rules();      // custom resource definitions: definitions.cpp
const KindRules& volume_rules();          // persistent volumes and claims: volumes.cpp
const KindRules& pod_rules();             // pods.cpp
const KindRules& data_rules();            // secrets and config maps: data_kinds.cpp

}  // namespace lockstep::kube
