#include "frontends/kube/kinds/pod_templates.h"

#include <algorithm>
#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/selectors.h"

namespace lockstep::kube {

void check_template(const Place& template_place, const json::value* claims) {
  template_place["metadata"]["labels"].label_keys();
  const Place spec = template_place["spec"];
  if (!spec.value().is_object())
    return;
  json::object pod{{"spec", spec.value()}};
  if (claims && claims->is_array() && !claims->get_array().empty()) {
    json::value& volumes = pod["spec"].get_object()["volumes"];
    json::array& list = volumes.is_array() ? volumes.get_array() : volumes.emplace_array();
    for (const json::value& claim : claims->get_array()) {
      const std::string name = text_in(part(claim, "metadata"), "name");
      list.erase(std::remove_if(list.begin(), list.end(),
                                [&](const json::value& one) { return text_in(one, "name") == name; }),
                 list.end());
      list.push_back({{"name", name}, {"persistentVolumeClaim", {{"claimName", "from-a-template"}}}});
    }
  }
  FieldErrors found;
  pod_rules().validate(pod, nullptr, found);
  for (FieldError& one : found) {
    if (one.path.starts_with("spec.ephemeralContainers"))
      continue;
    one.path = template_place.path() + "." + one.path;
    template_place.out().push_back(std::move(one));
  }
  if (!spec["ephemeralContainers"].empty())
    spec["ephemeralContainers"].forbidden("ephemeral containers not allowed in pod template");
}

void check_labels_match(const Place& selector, const Place& template_place, bool plain_selector) {
  static const json::object none;
  const Place labels = template_place["metadata"]["labels"];
  const json::object& has = labels.value().is_object() ? labels.value().get_object() : none;
  bool matches = false;
  if (plain_selector) {
    matches = selector.value().is_object() && select_labels(selector.value().get_object()).matches(has);
  } else if (const auto read = read_label_selector(selector.value()); read.ok()) {
    matches = read->everything() || read->matches(has);
  } else {
    return;
  }
  if (!matches)
    labels.invalid("`selector` does not match template `labels`");
}

void check_pods_of(const Place& spec, const PodsOf& what) {
  const Place selector = spec["selector"], made = spec["template"];
  bool good = true;
  if (!selector.there() || (what.plain_selector && selector.empty())) {
    if (what.plain_selector)  // the schema says nothing of it
      selector.required();
  } else if (!what.plain_selector) {
    good = check_selector(selector);
    if (selector["matchLabels"].empty() && selector["matchExpressions"].empty())
      selector.invalid(format("empty selector is invalid for {}", what.kind));
    else if (!read_label_selector(selector.value()).ok())
      selector.invalid("invalid label selector");
  }
  if (good)
    check_labels_match(selector, made, what.plain_selector);
  check_template(made);
  if (const Place policy = made["spec"]["restartPolicy"]; policy.there() && !policy.is("Always"))
    policy.not_supported({"Always"});
  if (const Place deadline = made["spec"]["activeDeadlineSeconds"]; deadline.there())
    deadline.forbidden(format("activeDeadlineSeconds in {} is not Supported", what.in_messages));
}

std::vector<std::string> path_to_pod(std::string_view type) {
  if (type == "cronjobs.batch")
    return {"spec", "jobTemplate", "spec", "template"};
  if (type == "podtemplates")
    return {"template"};
  for (const std::string_view one : {"deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps",
                                     "jobs.batch", "replicationcontrollers"})
    if (type == one)
      return {"spec", "template"};
  return {};
}

}  // namespace lockstep::kube
