#include "frontends/kube/kinds/node_admission.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/kinds/node_pressure.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_placement.h"
#include "frontends/kube/kinds/pod_terms.h"
#include "frontends/kube/machinery/json_tree.h"
#include "model/job.h"
#include "model/node.h"
#include "rules/fit.h"
#include "rules/labels.h"
#include "rules/need.h"

namespace lockstep::kube {

namespace {

constexpr std::int64_t kBytesOfMegabyte = 1 << 20;
constexpr const char* kEveryAddress = "0.0.0.0";

// What runs on one node.
struct NodeUse {
  NodeLoad load;
  std::vector<const JobSpec*> jobs;
};

NodeUse use_of(const Tables& tables, NodeId node) {
  NodeUse out;
  for (const auto& [id, job] : tables.jobs) {
    if (!holds_allocation(job->state) || !job->allocation)
      continue;
    bool there = false;
    for (const Grant& grant : job->allocation->grants)
      if (grant.node == node) {
        add_grant(out.load, grant);
        there = true;
      }
    if (there && job->spec)
      out.jobs.push_back(job->spec.get());
  }
  return out;
}

NodeRefusal out_of(const std::string& resource, std::int64_t requested, std::int64_t left, std::int64_t capacity) {
  return {"OutOf" + resource, format("Node didn't have enough resource: {}, requested: {}, used: {}, capacity: {}",
                                     resource, requested, capacity - left, capacity)};
}

NodeRefusal lack_of(const Node& node, const NodeLoad& load, const GroupSpec& group) {
  const NodeNeed need = need_on_node(node, group, 1, 0);
  const std::int64_t milli_free = load.sole_occupants > 0 ? 0 : milli_left(node, load);
  if (const auto milli = static_cast<std::int64_t>(need.milli()); milli > milli_free)
    return out_of("cpu", milli, milli_free, std::int64_t{node.cores} * 1000);
  if (const std::int64_t free = memory_left(node, load); need.memory_mb > free)
    return out_of("memory", need.memory_mb * kBytesOfMegabyte, free * kBytesOfMegabyte,
                  node.memory_mb * kBytesOfMegabyte);
  for (const Counted& one : need.counted) {
    const std::int64_t has = count_of(node.counted, one.name), free = has - count_of(load.counted, one.name);
    const std::int64_t unit = one.name == kEphemeralStorage ? kBytesOfMegabyte : 1;
    if (one.count > free)
      return out_of(one.name, one.count * unit, free * unit, has * unit);
  }
  const DeviceSet free = free_devices(node, load);
  const auto whole = choose_devices(node, free, need.devices);
  if (!whole)
    return {"OutOfnvidia.com/gpu", "Node didn't have enough resource: nvidia.com/gpu"};
  if (!need.parts.empty() && !choose_parts(node, free.minus(*whole), load.parts, need.parts))
    return {"OutOfnvidia.com/mig-" + need.parts.front().mig,
            "Node didn't have enough resource: nvidia.com/mig-" + need.parts.front().mig};
  return {};
}

NodeRefusal predicate(const char* name, const std::string& why) {
  return {name, format("Predicate {} failed: {}", name, why)};
}

// Its labels, and the taints that drive out: cordons are the scheduler's business.
NodeRefusal mismatch(const Node& node, const json::object& pod) {
  json::object unbound = pod;
  unbound["spec"].as_object().erase("nodeName");
  Placement wanted;
  const auto no_names = [](const json::value&) { return std::vector<std::string>(); };
  if (set_terms(wanted, unbound, no_names).ok()) {
    wanted.minds_marks = false;
    if (const std::string why = node_keeps_off(wanted, node); !why.empty())
      return predicate("NodeAffinity", why);
  }
  for (const NodeMark& mark : node.marks)
    if (mark.effect == NodeMark::Effect::kDrives &&
        !tolerates(spec_of(pod), json::object{{"key", mark.key}, {"value", mark.value}, {"effect", "NoExecute"}}))
      return predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate");
  return {};
}

// What is short there: it takes none that would have to go again. Short of memory, it takes those that asked for some.
NodeRefusal under_pressure(const Node& node, const json::object& pod) {
  std::vector<std::string> types;
  for (const PressureCondition& one : pressures_of(node))
    if (one.is)
      types.emplace_back(one.type);
  if (types.empty() || is_critical(pod))
    return {};
  const bool memory_alone = types == std::vector<std::string>{"MemoryPressure"};
  if (memory_alone && (qos_class(pod) != "BestEffort" ||
                       tolerates(spec_of(pod), json::object{{"key", kMemoryTaint}, {"effect", "NoSchedule"}})))
    return {};
  return {"Evicted", format("The node had condition: [{}]. ", join(types, " "))};
}

bool ports_clash(const json::object& pod, const std::vector<const JobSpec*>& jobs) {
  for (const auto& [key, address] : labels_of_pod(pod)) {
    if (!key.starts_with(kPortLabel))
      continue;
    for (const JobSpec* job : jobs)
      if (const std::string* other = label_of(job->labels, key);
          other && (*other == address || *other == kEveryAddress || address == kEveryAddress))
        return true;
  }
  return false;
}

}  // namespace

NodeRefusal refused_by_node(const Tables& tables, const Node& node, const json::object& pod, const GroupSpec& group) {
  if (NodeRefusal pressed = under_pressure(node, pod); !pressed.reason.empty())
    return pressed;
  const NodeUse use = use_of(tables, node.id);
  if (NodeRefusal lack = lack_of(node, use.load, group); !lack.reason.empty())
    return lack;
  if (NodeRefusal other = mismatch(node, pod); !other.reason.empty())
    return other;
  if (ports_clash(pod, use.jobs))
    return predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports");
  return {};
}

}  // namespace lockstep::kube
