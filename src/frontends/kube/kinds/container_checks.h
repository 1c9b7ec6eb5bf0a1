// What every container of a pod keeps to besides what follows from its pod: variables, ports, probes, hooks, amounts.
#pragma once

#include "frontends/kube/kinds/place.h"

namespace lockstep::kube {

struct ContainerIn {
  bool keeps_running = true;  // probes and hooks are for it: not of an init container that ends
  bool ephemeral = false;
  std::int64_t grace_s = 30;  // the pod's
};
// spec: the pod's.
void check_container_fields(const Place& container, const Place& spec, const ContainerIn& in);

// Amounts of a container or a pod: names of resources, and what must be whole, equal or not alone.
void check_resource_names(const Place& resources);

// Of a container or of a whole namespace: "cpu", "requests.memory", "pods", "hugepages-2Mi".
bool is_standard_resource(std::string_view name);

// Fields of a pod that variables and files may show.
void check_shown_field(const Place& field_ref, bool as_variable);
void check_shown_resource(const Place& resource_ref);

}  // namespace lockstep::kube
