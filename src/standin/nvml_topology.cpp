// NVML's calls, played by a simulated machine: how GPUs are joined to each other and to processors.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "standin/machine.h"

using namespace standin;

namespace {

unsigned int numa_of(const Hold& hold, unsigned int gpu) {
  const unsigned int each = std::max(1u, (hold->count + hold->numa_nodes - 1) / hold->numa_nodes);
  return std::min(gpu / each, hold->numa_nodes - 1);
}

// Two GPUs of a server share a PCIe switch, as in NVIDIA's HGX servers with PCIe switches.
int level_between(const Hold& hold, unsigned int a, unsigned int b) {
  if (a == b)
    return NVML_TOPOLOGY_INTERNAL_;
  if (numa_of(hold, a) != numa_of(hold, b))
    return NVML_TOPOLOGY_SYSTEM_;
  return a / 2 == b / 2 ? NVML_TOPOLOGY_MULTIPLE_ : NVML_TOPOLOGY_NODE_;
}

// Where a link goes that is no link to a switch: DGX-1's cube mesh, in which a pair has one link or two.
unsigned int mesh_peer(unsigned int gpu, unsigned int link) {
  static constexpr unsigned int kSteps[] = {1, 2, 2, 3, 4, 4};
  return gpu ^ kSteps[link % 6];
}

struct LinkEnd {
  bool exists = false, is_switch = false;
  unsigned int gpu = 0, nvswitch = 0;
};

LinkEnd end_of(const Hold& hold, unsigned int gpu, unsigned int link) {
  LinkEnd end;
  if (hold->links == Links::kNone || link >= hold->model->link_count)
    return end;
  if (hold->links == Links::kSwitch) {
    const unsigned int switches = std::max(1u, hold->model->switches);
    end.exists = end.is_switch = true;
    end.nvswitch = gpu / hold->island * switches + link * switches / hold->model->link_count;
    return end;
  }
  end.gpu = mesh_peer(gpu, link);
  end.exists = end.gpu < hold->count && end.gpu / hold->island == gpu / hold->island;
  return end;
}

bool is_up(const Hold& hold, unsigned int gpu, unsigned int link) {
  const LinkEnd end = end_of(hold, gpu, link);
  return end.exists && (hold->gpus[gpu].links_down >> link & 1) == 0 && (end.is_switch || !hold->gpus[end.gpu].lost);
}

// How many links join two GPUs, directly or through switches.
unsigned int links_between(const Hold& hold, unsigned int a, unsigned int b) {
  unsigned int links = 0;
  for (unsigned int link = 0; link < hold->model->link_count; ++link) {
    const LinkEnd end = end_of(hold, a, link);
    const bool leads = end.is_switch ? a / hold->island == b / hold->island : end.gpu == b;
    links += is_up(hold, a, link) && leads ? 1 : 0;
  }
  return links;
}

nvmlReturn_t check_link(const Hold& hold, unsigned int link) {
  if (link >= NVML_NVLINK_MAX_LINKS_)
    return NVML_ERROR_INVALID_ARGUMENT_;
  return hold->links == Links::kNone || link >= hold->model->link_count ? NVML_ERROR_NOT_SUPPORTED_ : NVML_SUCCESS_;
}

void set_bits(unsigned long* words, unsigned int count, unsigned int from, unsigned int end) {
  constexpr unsigned int kBits = 8 * sizeof(unsigned long);
  for (unsigned int bit = from; bit < end && bit / kBits < count; ++bit) words[bit / kBits] |= 1ul << bit % kBits;
}

}  // namespace

#define ENTER_LINK(device, link)                                                     \
  ENTER(device);                                                                     \
  if (const nvmlReturn_t no_link = check_link(hold, link); no_link != NVML_SUCCESS_) \
  return no_link

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, unsigned int* active) {
  ENTER_LINK(device, link);
  NEED(active);
  *active = is_up(hold, device->gpu, link);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link, unsigned int* version) {
  ENTER_LINK(device, link);
  NEED(version);
  *version = hold->model->link_version;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link, int capability,
                                                  unsigned int* result) {
  ENTER_LINK(device, link);
  if (!result || capability < 0 || capability >= NVML_NVLINK_CAP_COUNT_)
    return NVML_ERROR_INVALID_ARGUMENT_;
  *result = capability != 4;  // all but an SLI bridge
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t* pci) {
  ENTER_LINK(device, link);
  NEED(pci);
  const LinkEnd end = end_of(hold, device->gpu, link);
  if (!is_up(hold, device->gpu, link))
    return NVML_ERROR_NOT_SUPPORTED_;
  if (end.is_switch)
    describe_bus(pci, 0xc0 + end.nvswitch % 0x40, 0, 0x22A310DE);
  else
    describe_bus(pci, bus_of(end.gpu), 0, hold->model->pci_device);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link, int* type) {
  ENTER_LINK(device, link);
  NEED(type);
  const LinkEnd end = end_of(hold, device->gpu, link);
  *type = !is_up(hold, device->gpu, link) ? NVML_NVLINK_DEVICE_TYPE_UNKNOWN_
          : end.is_switch                 ? NVML_NVLINK_DEVICE_TYPE_SWITCH_
                                          : NVML_NVLINK_DEVICE_TYPE_GPU_;
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link, int counter,
                                                    unsigned long long* errors) {
  ENTER_LINK(device, link);
  if (!errors || counter < 0 || counter >= NVML_NVLINK_ERROR_COUNT_)
    return NVML_ERROR_INVALID_ARGUMENT_;
  *errors = counter < 2 && link == 0 ? gpu_of(hold, device).link_errors : 0;  // replays and recoveries
  return NVML_SUCCESS_;
}

EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, int* level) {
  ENTER(a);
  if (const nvmlReturn_t other = check(hold, b); other != NVML_SUCCESS_)
    return other;
  NEED(level);
  *level = level_between(hold, a->gpu, b->gpu);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, int level, unsigned int* count,
                                                     nvmlDevice_t* devices) {
  ENTER(device);
  NEED(count);
  std::vector<nvmlDevice_t> found;
  for (const unsigned int gpu : present(hold))
    if (gpu != device->gpu && !hold->gpus[gpu].lost && level_between(hold, device->gpu, gpu) <= level)
      found.push_back(handle_of(hold, gpu));
  const unsigned int room = devices ? *count : 0;
  *count = static_cast<unsigned int>(found.size());
  for (unsigned int i = 0; i < std::min(room, *count); ++i) devices[i] = found[i];
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, int capability, int* status) {
  ENTER(a);
  if (const nvmlReturn_t other = check(hold, b); other != NVML_SUCCESS_)
    return other;
  if (!status || capability < 0 || capability >= NVML_P2P_CAPS_INDEX_UNKNOWN_)
    return NVML_ERROR_INVALID_ARGUMENT_;
  const bool fine = capability == NVML_P2P_CAPS_INDEX_NVLINK_ ? links_between(hold, a->gpu, b->gpu) > 0
                                                              : !gpu_of(hold, a).mig && !gpu_of(hold, b).mig;
  *status = fine ? NVML_P2P_STATUS_OK_ : NVML_P2P_STATUS_NOT_SUPPORTED_;
  return NVML_SUCCESS_;
}

// Each NUMA node has its share of the processors in one piece.
EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int words, unsigned long* cpus,
                                                        unsigned int) {
  ENTER_(device, Takes::kMigToo);
  if (!cpus || words == 0)
    return NVML_ERROR_INVALID_ARGUMENT_;
  std::fill(cpus, cpus + words, 0ul);
  const auto all = static_cast<unsigned int>(std::max(1l, sysconf(_SC_NPROCESSORS_CONF)));
  const unsigned int node = numa_of(hold, device->gpu), nodes = hold->numa_nodes;
  if (all < nodes)
    set_bits(cpus, words, 0, all);
  else
    set_bits(cpus, words, all * node / nodes, all * (node + 1) / nodes);
  return NVML_SUCCESS_;
}
EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words, unsigned long* cpus) {
  return nvmlDeviceGetCpuAffinityWithinScope(device, words, cpus, 0);
}
EXPORT nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int words, unsigned long* nodes,
                                                unsigned int) {
  ENTER_(device, Takes::kMigToo);
  if (!nodes || words == 0)
    return NVML_ERROR_INVALID_ARGUMENT_;
  std::fill(nodes, nodes + words, 0ul);
  const unsigned int node = numa_of(hold, device->gpu);
  set_bits(nodes, words, node, node + 1);
  return NVML_SUCCESS_;
}
