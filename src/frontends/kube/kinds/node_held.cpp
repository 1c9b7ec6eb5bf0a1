#include "frontends/kube/kinds/node_held.h"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/node_pressure.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/quantity.h"
#include "rules/need.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kPages = "hugepages-";

std::string milli_text(std::int64_t milli) {
  return milli % 1000 == 0 ? std::to_string(milli / 1000) : format("{}m", milli);
}

std::size_t whole_gpus(const Node& node, const DeviceSet& which) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < node.devices.size(); ++i)
    count += node.devices[i].kind == "gpu" && node.devices[i].healthy && which.test(i);
  return count;
}

}  // namespace

json::object held_on(const Node& node, const NodeLoad& others) {
  json::object out;
  const bool alone = others.sole_occupants > 0;  // what it does not use is nobody else's either
  const std::int64_t milli = std::int64_t{node.cores} * 1000 - (alone ? 0 : milli_left(node, others));
  const std::int64_t memory = node.memory_mb - (alone ? 0 : memory_left(node, others));
  if (milli > 0)
    out["cpu"] = milli_text(milli);
  if (memory > 0)
    out["memory"] = format("{}Mi", memory);
  const DeviceSet free = free_devices(node, others), all = free_devices(node, NodeLoad{});
  if (const std::size_t gpus = whole_gpus(node, all) - (alone ? 0 : whole_gpus(node, free)); gpus > 0)
    out["nvidia.com/gpu"] = std::to_string(gpus);
  for (const Counted& one : alone ? node.counted : others.counted)
    if (one.name.starts_with(kPages) || one.name == kEphemeralStorage)
      out[one.name] = format("{}Mi", one.count);
    else if (one.name.find('/') != one.name.npos)
      out[one.name] = std::to_string(one.count);
  return out;
}

void show_held(json::object& tree) {
  const std::string text = text_in(part(part(tree, "metadata"), "annotations"), kHeldNote);
  if (text.empty())
    return;
  boost::system::error_code failed;
  const json::value held = json::parse(text, failed);
  json::value* allocatable = failed ? nullptr : tree["status"].as_object().if_contains("allocatable");
  if (!allocatable || !allocatable->is_object() || !held.is_object())
    return;
  for (auto& [key, value] : allocatable->get_object()) {
    const json::value* said = held.get_object().if_contains(key);
    const auto has = parse_quantity(text_of(value)), gone = said ? parse_quantity(text_of(*said)) : parse_quantity("");
    if (!said || !has.ok() || !gone.ok())
      continue;
    const std::string_view name(key);
    const std::int64_t left = std::max<std::int64_t>(0, has->thousandths() - gone->thousandths());
    value = name == "cpu" ? milli_text(left)
            : name == "memory" || name == kEphemeralStorage || name.starts_with(kPages)
                ? format("{}Mi", left / 1000 >> 20)
                : std::to_string(left / 1000);
  }
}

}  // namespace lockstep::kube
