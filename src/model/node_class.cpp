#include <algorithm>

#include "base/text.h"
#include "model/node.h"

namespace lockstep {

std::vector<std::string> shortfalls(const NodeClass& expected, const Node& node) {
  std::vector<std::string> out;
  const auto compare = [&](std::int64_t has, std::int64_t wanted, std::string_view what) {
    if (has < wanted)
      out.push_back(format("has {} {}; its class {} expects {}", has, what, expected.meta.name, wanted));
  };
  compare(node.cores, expected.cores, "cores");
  compare(node.memory_mb, expected.memory_mb, "MB of memory");
  const std::string& type = expected.gpu_type;
  const auto gpus = std::count_if(node.devices.begin(), node.devices.end(), [&](const Device& device) {
    return device.kind == "gpu" && device.healthy && (type.empty() || device.type == type);
  });
  compare(gpus, expected.gpus, type.empty() ? "GPUs that work" : type + " GPUs that work");
  return out;
}

}  // namespace lockstep
