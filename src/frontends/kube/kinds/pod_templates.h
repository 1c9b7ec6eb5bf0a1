// What workloads say of the pods they make: a selector that picks them, and a template that could be a pod.
#pragma once

#include "frontends/kube/kinds/place.h"

namespace lockstep::kube {

// Where the pod stands in an object of that type, step by step; empty: nowhere.
std::vector<std::string> path_to_pod(std::string_view type);

// The template's pod, with the volumes that `claims` (a StatefulSet's volumeClaimTemplates) add to it.
void check_template(const Place& template_place, const json::value* claims = nullptr);

struct PodsOf {
  const char* kind;             // "deployment": in messages
  const char* in_messages;      // "ReplicaSet": of what must not have a deadline
  bool plain_selector = false;  // a map of labels: ReplicationController
};
// Both parts of a workload whose pods run for ever: `spec.selector` and `spec.template`.
void check_pods_of(const Place& spec, const PodsOf& what);

// Whether the template's labels are what the selector (a LabelSelector, or a plain map) picks.
void check_labels_match(const Place& selector, const Place& template_place, bool plain_selector);

}  // namespace lockstep::kube
