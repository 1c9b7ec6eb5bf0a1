#include "frontends/kube/kinds/versions.h"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kEvents = "events", kScalers = "horizontalpodautoscalers.autoscaling";
constexpr std::string_view kNewEvents = "events.k8s.io/v1", kOldScalers = "autoscaling/v1";
constexpr const char* kMetricsNote = "autoscaling.alpha.kubernetes.io/metrics";
constexpr const char* kCurrent = "autoscaling.alpha.kubernetes.io/current-metrics";

struct Renamed {
  const char *stored, *shown;
};
constexpr Renamed kOfEvents[] = {{"involvedObject", "regarding"},
                                 {"message", "note"},
                                 {"source", "deprecatedSource"},
                                 {"firstTimestamp", "deprecatedFirstTimestamp"},
                                 {"lastTimestamp", "deprecatedLastTimestamp"},
                                 {"count", "deprecatedCount"},
                                 {"reportingComponent", "reportingController"}};

void rename(json::object& tree, const char* from, const char* to) {
  const auto at = tree.find(from);
  if (at == tree.end())
    return;
  json::value value = std::move(at->value());
  tree.erase(at);
  tree[to] = std::move(value);
}

bool is_cpu(const json::value& metric) {
  const json::object* resource = member_object(metric, "resource");
  const json::value* name = resource ? resource->if_contains("name") : nullptr;
  return name && text_of(*name) == "cpu";
}

// The number under metric.resource.WHERE.averageUtilization of the metric "cpu", which is taken out of the list.
json::value take_cpu(json::object& part, const char* list, const char* where) {
  json::value* metrics = part.if_contains(list);
  if (!metrics || !metrics->is_array())
    return {};
  json::array kept;
  json::value found;
  for (json::value& one : metrics->get_array()) {
    const json::object* at = is_cpu(one) ? member_object(one.get_object()["resource"], where) : nullptr;
    const json::value* number = at ? at->if_contains("averageUtilization") : nullptr;
    if (number && found.is_null())
      found = *number;
    else
      kept.push_back(std::move(one));
  }
  *metrics = std::move(kept);
  return found;
}

json::object cpu_metric(const char* where, json::value number) {
  json::object at{{"averageUtilization", std::move(number)}};
  if (std::string_view(where) == "target")
    at["type"] = "Utilization";
  return {{"type", "Resource"}, {"resource", {{"name", "cpu"}, {where, std::move(at)}}}};
}

// What v1 has no place for stands in annotations.
void put_rest(json::object& tree, json::object& part, const char* list, const char* annotation) {
  const json::value* rest = part.if_contains(list);
  if (rest && rest->is_array() && !rest->get_array().empty())
    object_at(object_at(tree, "metadata"), "annotations")[annotation] = json::serialize(*rest);
  part.erase(list);
}

void take_rest(json::object& tree, json::object& part, const char* list, const char* annotation) {
  json::object& metadata = object_at(tree, "metadata");
  json::value* annotations = metadata.if_contains("annotations");
  json::value* text =
      annotations && annotations->is_object() ? annotations->get_object().if_contains(annotation) : nullptr;
  if (!text)
    return;
  auto given = parse_given(text_of(*text));
  json::value rest = given.ok() ? std::move(*given) : json::value();
  if (rest.is_array()) {
    json::value& metrics = part[list];
    if (!metrics.is_array())
      metrics.emplace_array();
    for (json::value& one : rest.get_array())
      if (one.is_object())
        metrics.get_array().push_back(std::move(one));
  }
  annotations->get_object().erase(annotation);
  if (annotations->get_object().empty())
    metadata.erase("annotations");
}

}  // namespace

bool is_converted(std::string_view type, std::string_view api_version) {
  return (type == kEvents && api_version == kNewEvents) || (type == kScalers && api_version == kOldScalers);
}

void to_stored(std::string_view type, std::string_view api_version, json::object& tree) {
  if (!is_converted(type, api_version))
    return;
  if (type == kEvents) {
    for (const auto& [stored, shown] : kOfEvents) rename(tree, shown, stored);
    return;
  }
  json::object& spec = object_at(tree, "spec");
  if (json::value* number = spec.if_contains("targetCPUUtilizationPercentage")) {
    spec["metrics"] = json::array{cpu_metric("target", std::move(*number))};
    spec.erase("targetCPUUtilizationPercentage");
  }
  take_rest(tree, spec, "metrics", kMetricsNote);
  if (!tree.contains("status"))
    return;
  json::object& status = object_at(tree, "status");
  if (json::value* number = status.if_contains("currentCPUUtilizationPercentage")) {
    status["currentMetrics"] = json::array{cpu_metric("current", std::move(*number))};
    status.erase("currentCPUUtilizationPercentage");
  }
  take_rest(tree, status, "currentMetrics", kCurrent);
}

void from_stored(std::string_view type, std::string_view api_version, json::object& tree) {
  if (!is_converted(type, api_version))
    return;
  if (type == kEvents) {
    for (const auto& [stored, shown] : kOfEvents) rename(tree, stored, shown);
    return;
  }
  json::object& spec = object_at(tree, "spec");
  if (json::value number = take_cpu(spec, "metrics", "target"); !number.is_null())
    spec["targetCPUUtilizationPercentage"] = std::move(number);
  put_rest(tree, spec, "metrics", kMetricsNote);
  if (!tree.contains("status"))
    return;
  json::object& status = object_at(tree, "status");
  if (json::value number = take_cpu(status, "currentMetrics", "current"); !number.is_null())
    status["currentCPUUtilizationPercentage"] = std::move(number);
  put_rest(tree, status, "currentMetrics", kCurrent);
  status.erase("conditions");
}

std::string stored_path(std::string_view type, std::string_view api_version, std::string_view path) {
  if (type == kEvents && is_converted(type, api_version))
    for (const auto& [stored, shown] : kOfEvents)
      if (path == shown || (path.starts_with(shown) && path[std::string_view(shown).size()] == '.'))
        return stored + std::string(path.substr(std::string_view(shown).size()));
  return std::string(path);
}

}  // namespace lockstep::kube
