// GPU numbers and bindings. Lists are short (at most 64 devices), so plain loops everywhere.
#include "frontends/slurm/server/gpus.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace lockstep::slurm {

namespace {

template <class F>
std::string number_list(const std::vector<NodeGpu>& gpus, F&& number) {
  std::string out;
  for (const NodeGpu& gpu : gpus) out += format("{}{}", out.empty() ? "" : ",", number(gpu));
  return out;
}

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
    if (std::none_of(out.begin(), out.end(), [&](const NodeGpu& g) { return g.index == gpu.index; }))
      out.push_back(gpu);
  }
  std::sort(out.begin(), out.end(), [](const NodeGpu& a, const NodeGpu& b) { return a.index < b.index; });
  return out;
}

}  // namespace

std::vector<NodeGpu> gpus_of(const Node& node, const DeviceSet& devices) {
  std::vector<NodeGpu> out;
  std::uint32_t index = 0;
  for (std::uint32_t i = 0; i < node.devices.size(); ++i) {
    const Device& device = node.devices[i];
    if (device.kind != "gpu")
      continue;
    if (devices.test(i))
      out.push_back({device.minor, index, device.type});
    ++index;
  }
  return out;
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
  return number_list(gpus, [](const NodeGpu& gpu) { return gpu.minor; });
}
std::string index_list(const std::vector<NodeGpu>& gpus) {
  return number_list(gpus, [](const NodeGpu& gpu) { return gpu.index; });
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
  const std::vector<std::string> parts = split(list, ',');
  if (parts.empty())
    return gpus;
  const std::string& mine = parts[local_rank % parts.size()];
  const std::uint64_t number = parse_uint(mine).value_or(64);
  const std::uint64_t mask = is_mask ? mask_of(mine) : number < 64 ? std::uint64_t{1} << number : 0;
  std::vector<NodeGpu> out;
  for (std::size_t i = 0; i < std::min<std::size_t>(gpus.size(), 64); ++i)
    if (mask >> i & 1)
      out.push_back(gpus[i]);
  return out.empty() ? gpus : out;
}

}  // namespace

std::vector<NodeGpu> bound_gpus(const std::vector<NodeGpu>& gpus, std::string_view binding, std::uint32_t gpus_per_task,
                                std::uint32_t local_rank) {
  if (binding.starts_with("verbose,"))
    binding.remove_prefix(8);
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
  if (how == "map_gpu" || how == "mask_gpu")
    return listed_gpus(gpus, how == "mask_gpu", list, local_rank);
  return gpus;
}

}  // namespace lockstep::slurm
