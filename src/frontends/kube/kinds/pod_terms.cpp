#include "frontends/kube/kinds/pod_terms.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/kinds/node_pressure.h"
#include "frontends/kube/kinds/node_view.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_placement.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/selectors.h"
#include "model/bounds.h"
#include "model/node.h"
#include "rules/labels.h"

namespace lockstep::kube {

namespace {

using Wish = NeighbourTerm::Wish;

constexpr std::string_view kHostName = "kubernetes.io/hostname";
constexpr const char* kOwnerLabel = "";  // no label of a user's: the pod's controller
constexpr const char* kAnyAddress = "0.0.0.0";
constexpr std::uint32_t kSomewhat = 1;  // weight of what is only preferred and has none of its own

const json::value& required_of(const json::value& affinity, std::string_view kind) {
  return part(part(affinity, kind), "requiredDuringSchedulingIgnoredDuringExecution");
}
const json::array& preferred_of(const json::value& affinity, std::string_view kind) {
  return list_in(part(affinity, kind), "preferredDuringSchedulingIgnoredDuringExecution");
}

Labels labels_in(const json::value& labels) {
  Labels out;
  if (const json::object* all = labels.if_object())
    for (const auto& [key, value] : *all)
      if (value.is_string())
        out.emplace_back(std::string(key), std::string(text_of(value)));
  std::ranges::sort(out);
  return out;
}

// The controller's uid; "": the pod is nobody's.
std::string owner_of(const json::object& pod) {
  for (const json::value& one : list_in(part(pod, "metadata"), "ownerReferences"))
    if (flag_in(one, "controller"))
      return text_in(one, "uid");
  return {};
}

std::uint32_t weight_in(const json::value& term) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(integer_in(term, "weight").value_or(1), 1, 100));
}

// --- nodes ---

LabelRule rule_of(const json::value& expression, bool by_field) {
  using enum LabelRule::Is;
  const std::string how = text_in(expression, "operator");
  LabelRule out{.key = by_field ? "" : text_in(expression, "key"), .values = texts_in(expression, "values")};
  out.is = how == "In"             ? kOneOf
           : how == "NotIn"        ? kNoneOf
           : how == "Exists"       ? kThere
           : how == "DoesNotExist" ? kAbsent
           : how == "Gt"           ? kAbove
                                   : kBelow;
  return out;
}

std::vector<LabelRule> rules_of_term(const json::value& term) {
  std::vector<LabelRule> out;
  for (const json::value& one : list_in(term, "matchExpressions")) out.push_back(rule_of(one, false));
  for (const json::value& one : list_in(term, "matchFields")) out.push_back(rule_of(one, true));
  if (out.empty())  // matches no node
    out.push_back({.key = "", .is = LabelRule::Is::kOneOf, .values = {}});
  return out;
}

void set_node_rules(Placement& group, const json::value& spec) {
  std::vector<LabelRule> always;
  if (const json::object* selector = part(spec, "nodeSelector").if_object())
    for (const auto& [key, value] : *selector)
      always.push_back({.key = std::string(key), .is = LabelRule::Is::kOneOf, .values = {std::string(text_of(value))}});
  const json::value& affinity = part(spec, "affinity");
  if (const json::value& required = required_of(affinity, "nodeAffinity"); required.is_object()) {
    for (const json::value& term : list_in(required, "nodeSelectorTerms")) {
      NodeWish wish{.rules = always};
      for (LabelRule& rule : rules_of_term(term)) wish.rules.push_back(std::move(rule));
      group.node_rules.push_back(std::move(wish));
    }
  } else if (!always.empty()) {
    group.node_rules.push_back({.rules = std::move(always)});
  }
  for (const json::value& one : preferred_of(affinity, "nodeAffinity"))
    if (const json::value& term = part(one, "preference"); term.is_object())
      group.node_wishes.push_back({weight_in(one), rules_of_term(term)});
}

NodeMark::Effect effect_of(std::string_view effect) {
  return effect == "NoExecute"          ? NodeMark::Effect::kDrives
         : effect == "PreferNoSchedule" ? NodeMark::Effect::kPutsOff
                                        : NodeMark::Effect::kKeepsOff;
}

void set_tolerations(Placement& group, const json::object& pod) {
  const json::value& spec = spec_of(pod);
  group.minds_marks = true;
  for (const json::value& one : list_in(spec, "tolerations")) {
    const std::string effect = text_in(one, "effect");
    group.bears.push_back({.key = text_in(one, "key"),
                           .value = text_in(one, "value"),
                           .any_value = text_in(one, "operator") == "Exists",
                           .any_effect = effect.empty(),
                           .effect = effect_of(effect)});
  }
  // Who asked for memory has what was asked for, also where it runs short.
  // Source: kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration, "Taint Nodes by Condition".
  if (qos_class(pod) != "BestEffort")
    group.bears.push_back({.key = kMemoryTaint, .any_value = true, .effect = NodeMark::Effect::kKeepsOff});
}

// --- neighbours ---

Result<std::vector<LabelRule>> rules_of_selector(const json::value& selector) {
  const LabelSelector read = TRY(read_label_selector(selector));
  if (read.nothing)  // means nobody
    return std::vector<LabelRule>{{.key = kOwnerLabel, .is = LabelRule::Is::kOneOf, .values = {}}};
  std::vector<LabelRule> out;
  for (const Requirement& one : read.requirements) {
    using enum Requirement::Is;
    LabelRule rule{.key = one.key, .values = one.values};
    switch (one.is) {
      case kIn: rule.is = LabelRule::Is::kOneOf; break;
      case kNotIn: rule.is = LabelRule::Is::kNoneOf; break;
      case kExists: rule.is = LabelRule::Is::kThere; break;
      case kAbsent: rule.is = LabelRule::Is::kAbsent; break;
      case kGreater:
      case kLess:
        rule.is = one.is == kGreater ? LabelRule::Is::kAbove : LabelRule::Is::kBelow;
        rule.values = {std::to_string(one.bound)};
        break;
    }
    out.push_back(std::move(rule));
  }
  return out;
}

std::string level_of(const json::value& term) {
  const std::string key = text_in(term, "topologyKey");
  return key == kHostName ? "" : key;
}

// Keys whose values in the pod's own labels are asked of the others too.
void add_keys(std::vector<LabelRule>& rules, const json::value& term, const char* list, LabelRule::Is is,
              const Labels& own) {
  for (const std::string& key : texts_in(term, list))
    if (const std::string* value = label_of(own, key))
      rules.push_back({.key = key, .is = is, .values = {*value}});
}

// Ports of the node that the pod's containers take there. They are labels, of which two that clash keep apart.
struct NodePort {
  std::string key;      // no label of a user's: " port:TCP:8080"
  std::string address;  // of the node; "0.0.0.0": all of them
};

std::vector<NodePort> node_ports_of(const json::object& pod) {
  std::vector<NodePort> out;
  for (const char* list : {"initContainers", "containers"})
    for (const json::value& container : containers_in(pod, list))
      for (const json::value& one : list_in(container, "ports")) {
        const std::int64_t port = integer_in(one, "hostPort").value_or(0);
        const std::string protocol = text_in(one, "protocol"), address = text_in(one, "hostIP");
        if (port > 0)
          out.push_back({format("{}{}:{}", kPortLabel, protocol.empty() ? "TCP" : protocol, port),
                         address.empty() || address == "::" ? kAnyAddress : address});
      }
  return out;
}

NeighbourTerm clash_of(const NodePort& port) {
  NeighbourTerm out{.wish = Wish::kApart, .weight = 0, .level = "", .every_scope = true};
  LabelRule rule{.key = port.key, .is = LabelRule::Is::kThere, .values = {}};
  if (port.address != kAnyAddress)
    rule = {.key = port.key, .is = LabelRule::Is::kOneOf, .values = {port.address, kAnyAddress}};
  out.jobs = {std::move(rule)};
  return out;
}

class NeighbourTerms {
 public:
  NeighbourTerms(const json::object& pod, const NamespacesOf& namespaces)
      : namespaces_(namespaces),
        own_(labels_in(part(part(pod, "metadata"), "labels"))),
        ns_(text_in(part(pod, "metadata"), "namespace")) {}

  Result<NeighbourTerm> affinity(const json::value& term, Wish wish, std::uint32_t weight) const {
    NeighbourTerm out{.wish = wish, .weight = weight, .level = level_of(term)};
    out.jobs = TRY(rules_of_selector(part(term, "labelSelector")));
    add_keys(out.jobs, term, "matchLabelKeys", LabelRule::Is::kOneOf, own_);
    add_keys(out.jobs, term, "mismatchLabelKeys", LabelRule::Is::kNoneOf, own_);
    out.scopes = texts_in(term, "namespaces");
    const json::value& selector = part(term, "namespaceSelector");
    if (selector.is_object()) {
      out.every_scope = TRY(read_label_selector(selector)).everything();
      if (!out.every_scope)
        for (std::string& name : namespaces_(selector)) out.scopes.push_back(std::move(name));
    } else if (out.scopes.empty()) {
      out.scopes = {ns_};
    }
    if (out.every_scope)
      out.scopes.clear();
    tidy(out.scopes);
    return out;
  }

  Result<NeighbourTerm> spread(const json::value& constraint) const {
    const bool required = text_in(constraint, "whenUnsatisfiable") != "ScheduleAnyway";
    NeighbourTerm out{.wish = Wish::kEven, .weight = required ? 0 : kSomewhat, .level = level_of(constraint)};
    out.scopes = {ns_};
    out.jobs = TRY(rules_of_selector(part(constraint, "labelSelector")));
    add_keys(out.jobs, constraint, "matchLabelKeys", LabelRule::Is::kOneOf, own_);
    const auto bounded = [&](const char* key, std::int64_t otherwise) {
      return static_cast<std::uint32_t>(
          std::clamp<std::int64_t>(integer_in(constraint, key).value_or(otherwise), otherwise, INT32_MAX));
    };
    out.skew_max = bounded("maxSkew", 1);
    out.places_min = bounded("minDomains", 0);
    out.all_nodes = text_in(constraint, "nodeAffinityPolicy") == "Ignore";
    out.heeds_marks = text_in(constraint, "nodeTaintsPolicy") == "Honor";
    return out;
  }

  // What every controller's pods are given that say nothing of it.
  NeighbourTerm of_one_owner(const std::string& owner) const {
    NeighbourTerm out{.wish = Wish::kEven, .weight = kSomewhat, .level = ""};
    out.scopes = {ns_};
    out.jobs = {{.key = kOwnerLabel, .is = LabelRule::Is::kOneOf, .values = {owner}}};
    return out;
  }

 private:
  static void tidy(std::vector<std::string>& names) {
    std::ranges::sort(names);
    names.erase(std::ranges::unique(names).begin(), names.end());
  }

  const NamespacesOf& namespaces_;
  const Labels own_;
  const std::string ns_;
};

Result<void> set_neighbours(Placement& group, const json::object& pod, const NamespacesOf& namespaces) {
  const NeighbourTerms terms(pod, namespaces);
  const json::value &spec = spec_of(pod), &affinity = part(spec, "affinity");
  for (const auto& [kind, wish] : {std::pair{"podAffinity", Wish::kNear}, {"podAntiAffinity", Wish::kApart}}) {
    if (const json::array* required = required_of(affinity, kind).if_array())
      for (const json::value& one : *required) group.neighbours.push_back(TRY(terms.affinity(one, wish, 0)));
    for (const json::value& one : preferred_of(affinity, kind))
      group.neighbours.push_back(TRY(terms.affinity(part(one, "podAffinityTerm"), wish, weight_in(one))));
  }
  for (const NodePort& port : node_ports_of(pod)) group.neighbours.push_back(clash_of(port));
  const json::array& spread = list_in(spec, "topologySpreadConstraints");
  for (const json::value& one : spread) group.neighbours.push_back(TRY(terms.spread(one)));
  if (const std::string owner = owner_of(pod); spread.empty() && !owner.empty() && group.spread)
    group.neighbours.push_back(terms.of_one_owner(owner));
  return {};
}

}  // namespace

Labels labels_of_pod(const json::object& pod) {
  Labels out = labels_in(part(part(pod, "metadata"), "labels"));
  if (std::string owner = owner_of(pod); !owner.empty())
    out.emplace_back(kOwnerLabel, std::move(owner));
  for (NodePort& port : node_ports_of(pod)) out.emplace_back(std::move(port.key), std::move(port.address));
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out, {}, [](const auto& label) { return label.first; }).begin(), out.end());
  return out;
}

Result<void> set_terms(Placement& group, const json::object& pod, const NamespacesOf& namespaces) {
  const json::value& spec = spec_of(pod);
  // What needs no device is spread over the nodes; the others are packed, so that whole nodes stay whole.
  group.spread = group.per_task.devices.empty();
  if (!text_in(spec, "nodeName").empty())
    return {};  // bound by whoever named it: nothing else is asked any more
  set_node_rules(group, spec);
  set_tolerations(group, pod);
  TRY(set_neighbours(group, pod, namespaces));
  if (group.neighbours.size() > kNeighbourTermsMax)
    return invalid(format("affinities and spread constraints have {} terms: {} are allowed", group.neighbours.size(),
                          kNeighbourTermsMax),
                   "spec.affinity");
  return {};
}

Result<void> keep_near(Placement& group, const json::value& selector) {
  std::vector<NodeWish> both;
  if (group.node_rules.empty())
    group.node_rules.emplace_back();
  for (const NodeWish& own : group.node_rules)
    for (const json::value& term : list_in(selector, "nodeSelectorTerms")) {
      if (both.size() == kRulesMax)
        return invalid(format("what the pod and its volumes ask of nodes has more than {} terms", kRulesMax),
                       "spec.affinity");
      NodeWish& wish = both.emplace_back(own);
      for (LabelRule& rule : rules_of_term(term)) wish.rules.push_back(std::move(rule));
    }
  group.node_rules = std::move(both);
  return {};
}

Labels labels_of_node(const json::object& node) { return labels_in(part(part(node, "metadata"), "labels")); }

std::vector<NodeMark> marks_of_node(const json::object& node) {
  std::vector<NodeMark> out;
  for (const json::value& one : list_in(part(node, "spec"), "taints"))
    if (const std::string key = text_in(one, "key"); !follows_from_record(key))
      out.push_back({key, text_in(one, "value"), effect_of(text_in(one, "effect"))});
  return out;
}

std::string node_keeps_off(const Placement& group, const Node& node) {
  for (const NodeMark& mark : node.marks)
    if (group.minds_marks && mark.effect != NodeMark::Effect::kPutsOff && !bears(group, mark))
      return format("node(s) had untolerated taint {{{}: {}}}", mark.key, mark.value);
  if (!group.only_nodes.empty() && std::ranges::find(group.only_nodes, node.meta.name) == group.only_nodes.end())
    return "node(s) didn't match the requested node name";
  return node_rules_hold(group, node) ? "" : "node(s) didn't match Pod's node affinity/selector";
}

}  // namespace lockstep::kube
