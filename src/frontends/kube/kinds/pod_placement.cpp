#include "frontends/kube/kinds/pod_placement.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/selectors.h"

namespace lockstep::kube {

namespace {

constexpr const char* kWrongNode = "node(s) didn't match the requested node name";
constexpr const char* kWrongLabels = "node(s) didn't match Pod's node affinity/selector";
constexpr const char* kUnschedulableTaint = "node.kubernetes.io/unschedulable";

std::optional<std::string> text_of_label(const json::object& node, std::string_view key) {
  const json::value& value = part(part(part(node, "metadata"), "labels"), key);
  return value.is_string() ? std::optional(std::string(text_of(value))) : std::nullopt;
}

bool holds(const json::value& expression, const std::optional<std::string>& value) {
  const std::string how = text_in(expression, "operator");
  const std::vector<std::string> values = texts_in(expression, "values");
  const bool among = value && std::ranges::find(values, *value) != values.end();
  if (how == "In")
    return among;
  if (how == "NotIn")
    return !among;
  if (how == "Exists")
    return value.has_value();
  if (how == "DoesNotExist")
    return !value;
  const auto bound = values.size() == 1 ? parse_int(values[0]) : std::nullopt;
  const auto number = value ? parse_int(*value) : std::nullopt;
  if (!bound || !number)
    return false;
  return how == "Gt" ? *number > *bound : how == "Lt" && *number < *bound;
}

// All of a term's expressions; a term without any matches nothing.
bool term_matches(const json::value& term, const json::object& node) {
  const json::array &labels = list_in(term, "matchExpressions"), &fields = list_in(term, "matchFields");
  const std::string name = text_in(part(node, "metadata"), "name");
  return !(labels.empty() && fields.empty()) && std::ranges::all_of(labels, [&](const json::value& one) {
    return holds(one, text_of_label(node, text_in(one, "key")));
  }) && std::ranges::all_of(fields, [&](const json::value& one) {
    return text_in(one, "key") == "metadata.name" && holds(one, name);
  });
}

bool labels_match(const json::value& spec, const json::object& node) {
  if (const json::object* selector = part(spec, "nodeSelector").if_object())
    for (const auto& [key, value] : *selector)
      if (text_of_label(node, key) != std::string(text_of(value)))
        return false;
  const json::value& required =
      part(part(part(spec, "affinity"), "nodeAffinity"), "requiredDuringSchedulingIgnoredDuringExecution");
  return !required.is_object() || std::ranges::any_of(list_in(required, "nodeSelectorTerms"),
                                                      [&](const json::value& t) { return term_matches(t, node); });
}

}  // namespace

bool tolerates(const json::value& pod_spec, const json::value& taint) {
  return std::ranges::any_of(list_in(pod_spec, "tolerations"), [&](const json::value& one) {
    const std::string effect = text_in(one, "effect"), key = text_in(one, "key");
    if (!effect.empty() && effect != text_in(taint, "effect"))
      return false;
    const bool exists = text_in(one, "operator") == "Exists";
    if (key.empty())
      return exists;
    return key == text_in(taint, "key") && (exists || text_in(one, "value") == text_in(taint, "value"));
  });
}

std::string node_refuses(const json::object& pod, const json::object& node) {
  const json::value& spec = spec_of(pod);
  const std::string named = text_in(spec, "nodeName");
  if (!named.empty())  // bound by whoever named it: selectors and taints are not asked any more
    return named == text_in(part(node, "metadata"), "name") ? "" : kWrongNode;
  for (const json::value& taint : list_in(part(node, "spec"), "taints")) {
    const std::string effect = text_in(taint, "effect");
    if (effect == "PreferNoSchedule" || tolerates(spec, taint))
      continue;
    return text_in(taint, "key") == kUnschedulableTaint
               ? "node(s) were unschedulable"
               : format("node(s) had untolerated taint {{{}: {}}}", text_in(taint, "key"), text_in(taint, "value"));
  }
  return labels_match(spec, node) ? "" : kWrongLabels;
}

std::string unschedulable_words(std::size_t nodes, std::vector<std::string> why) {
  std::map<std::string, int> counts;
  for (std::string& one : why) ++counts[std::move(one)];
  if (nodes == 0)
    return "no nodes available to schedule pods";
  std::string out = format("0/{} nodes are available:", nodes);
  const char* before = " ";
  for (const auto& [words, count] : counts) {
    out += format("{}{} {}", before, count, words);
    before = ", ";
  }
  return out + ".";
}

}  // namespace lockstep::kube
