// nvidia-smi topo -m: how GPUs are joined to each other and to processors.
#include <stdio.h>

#include "base/text.h"
#include "gpus.h"

namespace lockstep::smi {

namespace {

// Links between two GPUs: direct ones, and those that both have to switches.
unsigned int links_between(const Gpus& g, nvmlDevice_t a, nvmlDevice_t b) {
  int status = 0;
  if (g.nvml.nvmlDeviceGetP2PStatus(a, b, NVML_P2P_CAPS_INDEX_NVLINK_, &status) != NVML_SUCCESS_ ||
      status != NVML_P2P_STATUS_OK_)
    return 0;
  const std::string other = bus_id_of(g.nvml, b);
  unsigned int direct = 0, switched = 0;
  for (unsigned int link = 0; link < NVML_NVLINK_MAX_LINKS_; ++link) {
    unsigned int active = 0;
    nvmlPciInfo_t remote{};
    if (g.nvml.nvmlDeviceGetNvLinkState(a, link, &active) != NVML_SUCCESS_ || active == 0)
      continue;
    if (g.nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2(a, link, &remote) == NVML_SUCCESS_ && remote.busId == other)
      ++direct;
    int type = NVML_NVLINK_DEVICE_TYPE_UNKNOWN_;
    if (g.nvml.nvmlDeviceGetNvLinkRemoteDeviceType(a, link, &type) == NVML_SUCCESS_ &&
        type == NVML_NVLINK_DEVICE_TYPE_SWITCH_)
      ++switched;
  }
  return direct > 0 ? direct : switched;
}

std::string cell(const Gpus& g, const Gpu& a, const Gpu& b) {
  if (a.index == b.index)
    return " X ";
  if (!a.device || !b.device)
    return "N/A";
  if (const unsigned int links = links_between(g, a.device, b.device); links > 0)
    return format("NV{}", links);
  int level = -1;
  g.nvml.nvmlDeviceGetTopologyCommonAncestor(a.device, b.device, &level);
  switch (level) {
    case NVML_TOPOLOGY_INTERNAL_: return "PSB";
    case NVML_TOPOLOGY_SINGLE_: return "PIX";
    case NVML_TOPOLOGY_MULTIPLE_: return "PXB";
    case NVML_TOPOLOGY_HOSTBRIDGE_: return "PHB";
    case NVML_TOPOLOGY_NODE_: return "NODE";
    case NVML_TOPOLOGY_SYSTEM_: return "SYS";
    default: return "N/A";
  }
}

// "0-55", "0-3,8-11"; "" where nothing is known.
std::string ranges(const unsigned long* words, unsigned int count) {
  constexpr unsigned int kBits = 8 * sizeof(unsigned long);
  std::string text;
  const auto has = [&](unsigned int bit) {
    return bit < count * kBits && (words[bit / kBits] >> bit % kBits & 1) != 0;
  };
  for (unsigned int bit = 0; bit < count * kBits; ++bit) {
    if (!has(bit))
      continue;
    const unsigned int from = bit;
    while (has(bit + 1)) ++bit;
    text += (text.empty() ? "" : ",") + (from == bit ? format("{}", from) : format("{}-{}", from, bit));
  }
  return text.empty() ? "N/A" : text;
}

}  // namespace

int show_topology(const Gpus& g) {
  for (const Gpu& gpu : g.chosen) printf("\tGPU%u", gpu.index);
  printf("\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n");
  int code = kFine;
  for (const Gpu& gpu : g.chosen) {
    printf("GPU%u", gpu.index);
    for (const Gpu& other : g.chosen) printf("\t%s", cell(g, gpu, other).c_str());
    unsigned long cpus[16]{}, nodes[16]{};
    if (gpu.device) {
      g.nvml.nvmlDeviceGetCpuAffinity(gpu.device, 16, cpus);
      g.nvml.nvmlDeviceGetMemoryAffinity(gpu.device, 16, nodes, 0);
    } else {
      code = exit_code_of(gpu.error);
    }
    printf("\t%s\t%s\t\tN/A\n", ranges(cpus, 16).c_str(), ranges(nodes, 16).c_str());
  }
  printf(
      "\nLegend:\n\n"
      "  X    = Self\n"
      "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)\n"
      "  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node\n"
      "  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)\n"
      "  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)\n"
      "  PIX  = Connection traversing at most a single PCIe bridge\n"
      "  NV#  = Connection traversing a bonded set of # NVLinks\n");
  return code;
}

}  // namespace lockstep::smi
