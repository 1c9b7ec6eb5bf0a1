#include "frontends/kube/kinds/node_view.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cctype>
#include <map>

#include "base/text.h"
#include "frontends/kube/kinds/node_held.h"
#include "frontends/kube/kinds/node_lease.h"
#include "frontends/kube/kinds/node_pressure.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/names.h"
#include "frontends/kube/machinery/quantity.h"
#include "frontends/kube/machinery/timestamps.h"
#include "model/bounds.h"
#include "rules/fit.h"

namespace lockstep::kube {

namespace {

constexpr const char* kUnschedulable = "node.kubernetes.io/unschedulable";
constexpr const char* kNotReady = "node.kubernetes.io/not-ready";
constexpr const char* kUnreachable = "node.kubernetes.io/unreachable";
constexpr std::string_view kPagesPrefix = "hugepages-", kDevices = "nvidia.com/";
constexpr const char *kGpuProduct = "nvidia.com/gpu.product", *kGpuCount = "nvidia.com/gpu.count",
                     *kGpuMemory = "nvidia.com/gpu.memory", *kMigCapable = "nvidia.com/mig.capable",
                     *kMigStrategy = "nvidia.com/mig.strategy";
constexpr const char* kFoundNote = "lockstep.io/found-labels";
constexpr const char* kReason = "lockstep.io/reason";  // annotation: why the node is drained or away

struct Shows {
  Instant now;
  Duration wall_offset;
};

std::string time_of(Instant at, Duration wall_offset) { return timestamp_text(WallTime{(at + wall_offset).us}); }

json::object capacity_of(const Node& node) {
  std::size_t gpus = 0;
  for (const Device& device : node.devices) gpus += device.kind == "gpu" && device.healthy;
  json::object out{{"cpu", std::to_string(node.cores)},
                   {"memory", format("{}Mi", node.memory_mb)},
                   {"ephemeral-storage", format("{}Mi", node.tmp_disk_mb)},
                   {"pods", std::to_string(kAddressedMax)}};
  if (gpus > 0)
    out["nvidia.com/gpu"] = std::to_string(gpus);
  for (const Counted& one : node.counted)
    if (one.name.starts_with(kPagesPrefix))
      out[one.name] = format("{}Mi", one.count);
    else if (one.name.find('/') != one.name.npos)
      out[one.name] = std::to_string(one.count);
  return out;
}

const char* word_of(NodeMark::Effect effect) {
  switch (effect) {
    case NodeMark::Effect::kKeepsOff: break;
    case NodeMark::Effect::kPutsOff: return "PreferNoSchedule";
    case NodeMark::Effect::kDrives: return "NoExecute";
  }
  return "NoSchedule";
}

// A tenth stays free, below which pods would be driven out. In coarse steps, so that nodes which are alike but for a
// few blocks stay alike for the planner.
std::int64_t disk_for_pods(const Node& node) {
  const std::int64_t megabytes = std::max<std::int64_t>(0, node.tmp_disk_mb) / 10 * 9;
  std::int64_t step = 1;
  while (megabytes / step >= 64) step *= 2;
  return megabytes / step * step;
}

json::object condition(const char* type, bool is, const Node& node, const Shows& shows, std::string_view reason,
                       std::string_view message) {
  const bool heard = node.link == NodeLink::kUp;
  const std::string since = time_of(heard ? node.boot_at : node.seen_at, shows.wall_offset);
  return {{"type", type},
          {"status", !heard ? "Unknown"
                     : is   ? "True"
                            : "False"},
          {"lastHeartbeatTime", time_of(heard_at(node, shows.now, shows.wall_offset), shows.wall_offset)},
          {"lastTransitionTime", since},
          {"reason", reason},
          {"message", message}};
}

json::array conditions_of(const Node& node, const Shows& shows) {
  if (node.link != NodeLink::kUp)
    return {condition("Ready", false, node, shows, "NodeStatusUnknown", "Its agent is not heard.")};
  json::array out;
  for (const PressureCondition& one : pressures_of(node)) {
    json::object& shown =
        out.emplace_back(condition(one.type, one.is, node, shows, one.reason, one.message)).as_object();
    if (one.is)
      shown["lastTransitionTime"] = time_of(one.since, shows.wall_offset);
  }
  const bool fit = !node.unfit;
  out.push_back(condition("Ready", fit, node, shows, fit ? "KubeletReady" : "NodeUnfit",
                          fit ? std::string_view("its agent is connected") : std::string_view(node.word)));
  return out;
}

// Whether the condition is the bad one of its type.
bool is_bad(const json::value& condition) {
  const std::string status = text_in(condition, "status");
  return text_in(condition, "type") == "Ready" ? status != "True" : status != "False";
}

// Conditions of others (a problem detector's) stay. One of the agent's that somebody has made worse stays as well: the
// controller of nodes takes it off when the agent's next word is due. Of a node that is not heard the record is right.
json::array with_written(json::array ours, const json::value& written, const Node& node) {
  if (!written.is_array())
    return ours;
  for (const json::value& one : written.get_array()) {
    const std::string type = text_in(one, "type");
    const auto own = std::ranges::find_if(ours, [&](const json::value& o) { return text_in(o, "type") == type; });
    if (own == ours.end() && !is_own_condition(type))
      ours.push_back(one);
    else if (own != ours.end() && node.link == NodeLink::kUp && is_bad(one) && !is_bad(*own))
      *own = one;
  }
  return ours;
}

std::string ready_status(const json::array& conditions) {
  for (const json::value& one : conditions)
    if (text_in(one, "type") == "Ready")
      return text_in(one, "status");
  return {};
}

// Taints that follow from the record stand beside those that users set, each once.
void show_taints(json::object& spec, const Node& node, const std::string& ready) {
  json::array taints;
  if (const json::value* own = spec.if_contains("taints"); own && own->is_array())
    for (const json::value& one : own->get_array()) {
      const json::value* key = member(one, "key");
      const std::string_view name = key ? text_of(*key) : "";
      const auto same = [&](const json::value& other) {
        return text_in(other, "key") == name && text_in(other, "effect") == text_in(one, "effect");
      };
      if (!follows_from_record(name) && std::ranges::none_of(taints, same))
        taints.push_back(one);
    }
  const auto add = [&](const char* key, const char* effect) { taints.push_back({{"key", key}, {"effect", effect}}); };
  if (node_drained(node))
    add(kUnschedulable, "NoSchedule");
  if (node.link != NodeLink::kUp || ready == "Unknown")
    add(kUnreachable, "NoSchedule");
  else if (node.unfit || ready == "False")
    add(kNotReady, "NoSchedule");
  for (const PressureCondition& one : pressures_of(node))
    if (one.is)
      add(one.taint, "NoSchedule");
  if (taints.empty())
    spec.erase("taints");
  else
    spec["taints"] = std::move(taints);
  if (node_drained(node))
    spec["unschedulable"] = true;
  else
    spec.erase("unschedulable");
}

}  // namespace

bool follows_from_record(std::string_view taint) {
  return taint == kUnschedulable || taint == kNotReady || taint == kUnreachable || is_pressure_taint(taint);
}

std::optional<Counted> disk_of_node(const Node& node) {
  const bool says_itself = std::ranges::any_of(node.counted, [&](const Counted& one) {
    return one.name == kEphemeralStorage && std::ranges::find(node.added_counted, one) == node.added_counted.end();
  });
  const std::int64_t megabytes = disk_for_pods(node);
  return says_itself || megabytes <= 0 ? std::nullopt : std::optional(Counted{kEphemeralStorage, megabytes});
}

std::vector<Counted> counted_of_node(const json::object& tree, const Node& node) {
  std::vector<Counted> out;
  if (const std::optional<Counted> disk = disk_of_node(node))
    out.push_back(*disk);
  const json::object* capacity = part(part(tree, "status"), "capacity").if_object();
  if (!capacity)
    return out;
  for (const auto& [key, value] : *capacity) {
    const std::string name(key);
    const bool pages = name.starts_with(kPagesPrefix);
    const bool own = std::ranges::any_of(node.counted, [&](const Counted& one) {
      return one.name == name && std::ranges::find(node.added_counted, one) == node.added_counted.end();
    });
    if (own || name == kEphemeralStorage || name.starts_with(kDevices) || (!pages && name.find('/') == name.npos) ||
        out.size() >= kAsksMax)
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
  for (const auto& [key, value] : node.labels) labels[key] = value;
  json::object tree{{"metadata", {{"name", node.meta.name}, {"labels", std::move(labels)}}}, {"spec", json::object()}};
  put_found_labels(tree, node);
  json::array taints;
  for (const NodeMark& mark : node.marks)
    if (!follows_from_record(mark.key)) {
      json::object taint{{"key", mark.key}, {"effect", word_of(mark.effect)}};
      if (!mark.value.empty())
        taint["value"] = mark.value;
      taints.push_back(std::move(taint));
    }
  if (!taints.empty())
    tree["spec"].as_object()["taints"] = std::move(taints);
  json::object capacity;
  for (const Counted& one : node.added_counted)
    if (one.name.starts_with(kPagesPrefix))
      capacity[one.name] = format("{}Mi", one.count);
    else if (one.name != kEphemeralStorage)
      capacity[one.name] = std::to_string(one.count);
  if (!capacity.empty())
    tree["status"] = json::object{{"capacity", std::move(capacity)}};
  return tree;
}

bool put_found_labels(json::object& tree, const Node& node) {
  std::size_t count = 0;
  const Device* first = nullptr;
  for (const Device& device : node.devices)
    if (device.kind == "gpu") {
      ++count;
      first = first ? first : &device;
    }
  json::object found;
  if (first) {
    found[kGpuCount] = std::to_string(count);
    found[kGpuMemory] = std::to_string(first->memory_mb);
    std::string product = "NVIDIA-" + first->type;
    for (char& c : product) c = std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::toupper(c)) : '-';
    if (!first->type.empty() && label_value_faults(product).empty())
      found[kGpuProduct] = product;
    const bool slices = std::ranges::any_of(node.devices, &Device::mig);
    found[kMigCapable] = slices ? "true" : "false";
    if (slices)
      found[kMigStrategy] = "mixed";  // each profile is a resource of its own
  }
  json::object& metadata = object_at(tree, "metadata");
  json::object& labels = object_at(metadata, "labels");
  const std::string noted = text_in(part(metadata, "annotations"), kFoundNote);
  boost::system::error_code failed;
  const json::value read = noted.empty() ? json::value() : json::parse(noted, failed);
  const json::value before = failed ? json::value() : read;
  json::object ours;
  for (const char* key : {kGpuCount, kGpuMemory, kGpuProduct, kMigCapable, kMigStrategy}) {
    const json::value *had = labels.if_contains(key), *now = found.if_contains(key);
    if (had && text_of(*had) != text_in(before, key) && !(now && same_json(*had, *now)))
      continue;  // another's
    if (now)
      ours[key] = labels[key] = *now;
    else if (had)
      labels.erase(key);
  }
  json::object& notes = object_at(metadata, "annotations");
  const bool changes = before.is_object() ? !same_json(before, ours) : !ours.empty();
  if (changes && ours.empty())
    notes.erase(kFoundNote);
  else if (changes)
    notes[kFoundNote] = json::serialize(ours);
  if (notes.empty())
    metadata.erase("annotations");
  return changes;
}

bool is_own_condition(std::string_view type) {
  return type == "Ready" || type == "MemoryPressure" || type == "DiskPressure" || type == "PIDPressure";
}

void show_node(json::object& tree, const Node& node, Instant now, Duration wall_offset) {
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
  json::object& status = object_at(tree, "status");
  const json::value* written = status.if_contains("conditions");
  json::array conditions =
      with_written(conditions_of(node, {now, wall_offset}), written ? *written : json::value(), node);
  show_taints(spec, node, ready_status(conditions));
  status["capacity"] = capacity_of(node);
  status["allocatable"] = capacity_of(node);
  if (node.tmp_disk_mb > 0)
    status["allocatable"].as_object()[kEphemeralStorage] = format("{}Mi", disk_for_pods(node));
  show_held(tree);
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
