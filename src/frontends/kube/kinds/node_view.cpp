#include "frontends/kube/kinds/node_view.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <map>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/quantity.h"
#include "frontends/kube/machinery/timestamps.h"
#include "model/bounds.h"

namespace lockstep::kube {

namespace {

constexpr const char* kUnschedulable = "node.kubernetes.io/unschedulable";
constexpr const char* kNotReady = "node.kubernetes.io/not-ready";
constexpr const char* kUnreachable = "node.kubernetes.io/unreachable";
constexpr const char* kPodsMost = "110";
constexpr int kLeaseSeconds = 40;
constexpr Duration kRenewedEvery = seconds(10);
constexpr std::string_view kHugePages = "hugepages-", kDevices = "nvidia.com/";
constexpr const char* kReason = "lockstep.io/reason";  // annotation: why the node is drained or away

json::object& object_at(json::object& tree, std::string_view name) {
  json::value& value = tree[name];
  return value.is_object() ? value.get_object() : value.emplace_object();
}

std::string time_of(Instant at, Duration wall_offset) { return timestamp_text(WallTime{(at + wall_offset).us}); }

json::object capacity_of(const Node& node) {
  std::size_t gpus = 0;
  for (const Device& device : node.devices) gpus += device.kind == "gpu" && device.healthy;
  json::object out{{"cpu", std::to_string(node.cores)},
                   {"memory", format("{}Mi", node.memory_mb)},
                   {"ephemeral-storage", format("{}Mi", node.tmp_disk_mb)},
                   {"pods", kPodsMost}};
  if (gpus > 0)
    out["nvidia.com/gpu"] = std::to_string(gpus);
  for (const Counted& one : node.counted)
    if (one.name.starts_with(kHugePages))
      out[one.name] = format("{}Mi", one.count);
    else if (one.name.find('/') != one.name.npos)
      out[one.name] = std::to_string(one.count);
  return out;
}

json::object condition(const char* type, bool is, const Node& node, Duration wall_offset, std::string_view reason,
                       std::string_view message) {
  const bool heard = node.link == NodeLink::kUp;
  const std::string since = time_of(heard ? node.boot_at : node.seen_at, wall_offset);
  return {{"type", type},
          {"status", !heard ? "Unknown"
                     : is   ? "True"
                            : "False"},
          {"lastHeartbeatTime", since},
          {"lastTransitionTime", since},
          {"reason", reason},
          {"message", message}};
}

json::array conditions_of(const Node& node, Duration wall_offset) {
  if (node.link != NodeLink::kUp)
    return {condition("Ready", false, node, wall_offset, "NodeStatusUnknown", "Its agent is not heard.")};
  const bool fit = !node.unfit;
  return {
      condition("MemoryPressure", false, node, wall_offset, "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available"),
      condition("DiskPressure", false, node, wall_offset, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
      condition("PIDPressure", false, node, wall_offset, "KubeletHasSufficientPID",
                "kubelet has sufficient PID available"),
      condition("Ready", fit, node, wall_offset, fit ? "KubeletReady" : "NodeUnfit",
                fit ? std::string_view("its agent is connected") : std::string_view(node.word))};
}

// Taints that follow from the record stand beside those that users set.
void show_taints(json::object& spec, const Node& node) {
  json::array taints;
  if (const json::value* own = spec.if_contains("taints"); own && own->is_array())
    for (const json::value& one : own->get_array()) {
      const json::value* key = member(one, "key");
      const std::string_view name = key ? text_of(*key) : "";
      if (!follows_from_record(name))
        taints.push_back(one);
    }
  const auto add = [&](const char* key, const char* effect) { taints.push_back({{"key", key}, {"effect", effect}}); };
  if (node.drain)
    add(kUnschedulable, "NoSchedule");
  if (node.link != NodeLink::kUp)
    add(kUnreachable, "NoSchedule");
  else if (node.unfit)
    add(kNotReady, "NoSchedule");
  if (taints.empty())
    spec.erase("taints");
  else
    spec["taints"] = std::move(taints);
  if (node.drain)
    spec["unschedulable"] = true;
  else
    spec.erase("unschedulable");
}

}  // namespace

bool follows_from_record(std::string_view taint) {
  return taint == kUnschedulable || taint == kNotReady || taint == kUnreachable;
}

std::vector<Counted> counted_of_node(const json::object& tree, const Node& node) {
  std::vector<Counted> out;
  const json::object* capacity = part(part(tree, "status"), "capacity").if_object();
  if (!capacity)
    return out;
  for (const auto& [key, value] : *capacity) {
    const std::string name(key);
    const bool pages = name.starts_with(kHugePages);
    const bool own = std::ranges::any_of(node.counted, [&](const Counted& one) {
      return one.name == name && std::ranges::find(node.added_counted, one) == node.added_counted.end();
    });
    if (own || name.starts_with(kDevices) || (!pages && name.find('/') == name.npos) || out.size() >= kAsksMax)
      continue;
    const auto amount = parse_quantity(text_of(value));
    const std::int64_t count = amount.ok() ? amount->whole() / (pages ? 1 << 20 : 1) : 0;
    if (count > 0)
      out.push_back({name, std::min(count, kMegabytesMax)});
  }
  std::ranges::sort(out);
  return out;
}

json::object new_node_tree(const Node& node) {
  json::object labels{{"kubernetes.io/hostname", node.meta.name},
                      {"kubernetes.io/os", "linux"},
                      {"kubernetes.io/arch", "amd64"},
                      {"beta.kubernetes.io/os", "linux"},
                      {"beta.kubernetes.io/arch", "amd64"}};
  return {{"metadata", {{"name", node.meta.name}, {"labels", std::move(labels)}}}, {"spec", json::object()}};
}

json::object new_lease_tree(const Node& node) {
  return {{"metadata",
           {{"name", node.meta.name}, {"namespace", json::string_view(kLeasesOfNodes.data(), kLeasesOfNodes.size())}}},
          {"spec", {{"holderIdentity", node.meta.name}, {"leaseDurationSeconds", kLeaseSeconds}}}};
}

void show_lease(json::object& tree, const Node& node, Instant now, Duration wall_offset) {
  const Instant heard = node.link == NodeLink::kUp ? now : node.seen_at;
  const std::int64_t wall_us = (heard + wall_offset).us;
  const std::string second = timestamp_text(WallTime{wall_us - wall_us % kRenewedEvery.us});
  object_at(tree, "spec")["renewTime"] = second.substr(0, second.find_first_of(".Z")) + ".000000Z";
}

void show_node(json::object& tree, const Node& node, Duration wall_offset) {
  json::object& annotations = object_at(object_at(tree, "metadata"), "annotations");
  annotations.erase(kReason);
  if (const NodeReason reason = reason_of(node); !reason.words.empty())
    annotations[kReason] = reason.words;
  if (annotations.empty())
    tree["metadata"].as_object().erase("annotations");
  json::object& spec = object_at(tree, "spec");
  if (!node.task_range.empty()) {
    spec["podCIDR"] = node.task_range;
    spec["podCIDRs"] = json::array{json::string_view(node.task_range)};
  }
  spec["providerID"] = "lockstep://" + node.meta.name;
  show_taints(spec, node);
  json::object& status = object_at(tree, "status");
  status["capacity"] = capacity_of(node);
  status["allocatable"] = capacity_of(node);
  // Conditions of others (a problem detector's) stay.
  json::array conditions = conditions_of(node, wall_offset);
  if (const json::value* own = status.if_contains("conditions"); own && own->is_array())
    for (const json::value& one : own->get_array()) {
      const json::value* type = member(one, "type");
      const bool ours = type && std::ranges::any_of(conditions, [&](const json::value& other) {
                          return text_of(other.as_object().at("type")) == text_of(*type);
                        });
      if (!ours)
        conditions.push_back(one);
    }
  status["conditions"] = std::move(conditions);
  json::array addresses;
  if (!node.address.empty())
    addresses.push_back({{"type", "InternalIP"}, {"address", node.address.substr(0, node.address.rfind(':'))}});
  addresses.push_back({{"type", "Hostname"}, {"address", node.meta.name}});
  status["addresses"] = std::move(addresses);
  status["daemonEndpoints"] = {{"kubeletEndpoint", {{"Port", 0}}}};
  status["nodeInfo"] = {{"machineID", node.boot_id},
                        {"systemUUID", node.boot_id},
                        {"bootID", node.boot_id},
                        {"kernelVersion", ""},
                        {"osImage", ""},
                        {"containerRuntimeVersion", "lockstep://" + node.version},
                        {"kubeletVersion", "v1.34.4"},
                        {"kubeProxyVersion", "v1.34.4"},
                        {"operatingSystem", "linux"},
                        {"architecture", "amd64"}};
}

}  // namespace lockstep::kube
