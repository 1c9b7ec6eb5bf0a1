// GPU numbers and bindings. Lists are short (at most 64 devices), so plain loops everywhere.
#include "frontends/slurm/server/gpus.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace lockstep::slurm {

namespace {

bool is_same(const NodeGpu& a, const NodeGpu& b) { return a.index == b.index && a.slice == b.slice; }

// "0x3" or "3", hexadecimal either way, as Slurm reads masks.
std::uint64_t mask_of(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X"))
    text.remove_prefix(2);
  std::uint64_t mask = 0;
  std::from_chars(text.data(), text.data() + text.size(), mask, 16);
  return mask;
}

std::vector<NodeGpu> chunk(const std::vector<NodeGpu>& gpus, std::size_t first, std::size_t count) {
  std::vector<NodeGpu> out;
  for (std::size_t i = 0; i < count && !gpus.empty(); ++i) {
    const NodeGpu& gpu = gpus[(first + i) % gpus.size()];
    if (std::none_of(out.begin(), out.end(), [&](const NodeGpu& g) { return is_same(g, gpu); }))
      out.push_back(gpu);
  }
  std::stable_sort(out.begin(), out.end(), [](const NodeGpu& a, const NodeGpu& b) { return a.index < b.index; });
  return out;
}

// "0*2,1" stands for "0,0,1".
std::vector<std::string> spread(std::string_view list) {
  constexpr std::size_t kMost = 4096;  // tasks of a step on a node
  std::vector<std::string> out;
  for (const std::string& item : split(list, ',')) {
    const auto star = item.find('*');
    const std::uint64_t times = star == item.npos ? 1 : parse_uint(std::string_view(item).substr(star + 1)).value_or(1);
    for (std::uint64_t i = 0; i < times && out.size() < kMost; ++i) out.push_back(item.substr(0, star));
  }
  return out;
}

}  // namespace

std::vector<NodeGpu> gpus_of(const Node& node, const DeviceSet& devices, const std::vector<DevicePart>& parts) {
  std::vector<NodeGpu> out;
  std::uint32_t index = 0;
  for (std::uint32_t i = 0; i < node.devices.size(); ++i) {
    const Device& device = node.devices[i];
    if (device.kind != "gpu")
      continue;
    bool in_slices = false;
    for (const DevicePart& part : parts)
      if (part.device == i && !part.mig.empty() && devices.test(i)) {
        out.push_back({device.minor, index, device.type, format("MIG:{}:{}:{}", i, part.mig, part.slice), device.numa});
        in_slices = true;
      }
    if (devices.test(i) && !in_slices)
      out.push_back({device.minor, index, device.type, {}, device.numa});
    ++index;
  }
  return out;
}

std::vector<NodeGpu> gpus_of(const Node& node, const Grant& grant, const StepPlace& place) {
  DeviceSet devices = place.devices;
  for (const DevicePart& part : grant.parts)
    if (part.mig.empty())
      devices.set(part.device);
  for (const DevicePart& slice : place.slices) devices.set(slice.device);
  return gpus_of(node, devices, place.slices);
}

GpuMaker gpu_maker(std::string_view type) {
  const std::string name = lower(type);
  if ((name.starts_with("mi") && name.size() > 2 && name[2] >= '0' && name[2] <= '9') || name.starts_with("gfx"))
    return GpuMaker::kAmd;
  if (name.starts_with("max1") || name.starts_with("pvc"))
    return GpuMaker::kIntel;
  return GpuMaker::kNvidia;
}

std::string minor_list(const std::vector<NodeGpu>& gpus) {
  std::vector<std::string> out;
  for (const NodeGpu& gpu : gpus)
    if (std::string minor = format("{}", gpu.minor); out.empty() || out.back() != minor)  // slices stand side by side
      out.push_back(std::move(minor));
  return join(out, ",");
}
std::string index_list(const std::vector<NodeGpu>& gpus) {
  std::vector<std::string> out;
  for (const NodeGpu& gpu : gpus) out.push_back(gpu.slice.empty() ? format("{}", gpu.index) : gpu.slice);
  return join(out, ",");
}

std::vector<std::string> visibility_env(const std::vector<NodeGpu>& gpus) {
  if (gpus.empty())
    return {};
  const std::string list = index_list(gpus);
  switch (gpu_maker(gpus.front().type)) {
    case GpuMaker::kAmd: return {"ROCR_VISIBLE_DEVICES=" + list, "GPU_DEVICE_ORDINAL=" + list};
    case GpuMaker::kIntel: return {"ZE_AFFINITY_MASK=" + list};
    case GpuMaker::kNvidia: break;
  }
  return {"CUDA_VISIBLE_DEVICES=" + list, "GPU_DEVICE_ORDINAL=" + list};
}

namespace {

// map_gpu names one by its number, mask_gpu several by a mask; tasks take the parts of the list in turn.
std::vector<NodeGpu> listed_gpus(const std::vector<NodeGpu>& gpus, bool is_mask, std::string_view list,
                                 std::uint32_t local_rank) {
  const std::vector<std::string> parts = spread(list);
  if (parts.empty())
    return gpus;
  const std::string& mine = parts[local_rank % parts.size()];
  const bool is_hex = mine.starts_with("0x") || mine.starts_with("0X");
  const std::uint64_t number = is_hex ? mask_of(mine) : parse_uint(mine).value_or(64);
  const std::uint64_t mask = is_mask ? mask_of(mine) : number < 64 ? std::uint64_t{1} << number : 0;
  std::vector<NodeGpu> out;
  for (std::size_t i = 0; i < std::min<std::size_t>(gpus.size(), 64); ++i)
    if (mask >> i & 1)
      out.push_back(gpus[i]);
  return out.empty() ? gpus : out;
}

}  // namespace

std::vector<NodeGpu> bound_gpus(const std::vector<NodeGpu>& gpus, std::string_view binding, std::uint32_t gpus_per_task,
                                std::uint32_t local_rank, const std::vector<std::int32_t>& near) {
  for (const std::string_view prefix : {"verbose,", "v,", "quiet,", "q,"})
    if (binding.starts_with(prefix))
      binding.remove_prefix(prefix.size());
  const auto colon = binding.find(':');
  const std::string_view how = binding.substr(0, colon);
  const std::string_view list = colon == std::string_view::npos ? std::string_view{} : binding.substr(colon + 1);
  if (how == "per_task" || (how.empty() && gpus_per_task > 0)) {
    const std::uint64_t each = how.empty() ? gpus_per_task : parse_uint(list).value_or(0);
    return each == 0 ? gpus : chunk(gpus, local_rank * each, std::min<std::uint64_t>(each, gpus.size()));
  }
  if (how == "single") {  // single:N: N consecutive tasks share one GPU
    const std::uint64_t tasks_each = std::max<std::uint64_t>(parse_uint(list).value_or(1), 1);
    return chunk(gpus, local_rank / tasks_each, 1);
  }
  if (how == "closest") {
    std::vector<NodeGpu> close;
    for (const NodeGpu& gpu : gpus)
      if (gpu.numa >= 0 && std::find(near.begin(), near.end(), gpu.numa) != near.end())
        close.push_back(gpu);
    return close.empty() ? gpus : close;
  }
  if (how == "map_gpu" || how == "mask_gpu")
    return listed_gpus(gpus, how == "mask_gpu", list, local_rank);
  return gpus;
}

std::vector<std::int32_t> memory_nodes_of(const Node& node, const CoreSet& cores) {
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < node.numa.size(); ++i)
    if ((node.numa[i] & cores).any())
      out.push_back(static_cast<std::int32_t>(i));
  return out;
}

CoreSet cores_near(const Node& node, const std::vector<NodeGpu>& gpus) {
  CoreSet out;
  for (const NodeGpu& gpu : gpus)
    if (gpu.numa >= 0 && static_cast<std::size_t>(gpu.numa) < node.numa.size())
      out = out | node.numa[static_cast<std::size_t>(gpu.numa)];
  return out;
}

}  // namespace lockstep::slurm
