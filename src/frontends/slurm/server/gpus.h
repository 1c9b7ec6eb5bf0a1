// Which GPUs a process sees: numbers for SLURM_JOB_GPUS and CUDA_VISIBLE_DEVICES, and --gpu-bind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/records.h"

namespace lockstep::slurm {

enum class GpuMaker : unsigned char { kNvidia, kAmd, kIntel };

struct NodeGpu {
  std::uint32_t minor = 0;  // /dev/nvidia<minor>
  std::uint32_t index = 0;  // among the node's GPUs: what CUDA counts
  std::string type;
};

// The GPUs of a device set, by index. Other kinds of device are left out.
std::vector<NodeGpu> gpus_of(const Node& node, const DeviceSet& devices);
GpuMaker gpu_maker(std::string_view type);

std::string minor_list(const std::vector<NodeGpu>& gpus);  // "0,1,2"
std::string index_list(const std::vector<NodeGpu>& gpus);

// The NAME=value that make a process see exactly these; none for an empty list.
std::vector<std::string> visibility_env(const std::vector<NodeGpu>& gpus);

// --gpu-bind, for the task of this local rank among `tasks`. What is not understood, "closest" and "none" leave every
// GPU visible: CUDA's peer access between ranks needs that. gpus_per_task > 0 without a binding binds that many each.
std::vector<NodeGpu> bound_gpus(const std::vector<NodeGpu>& gpus, std::string_view binding, std::uint32_t gpus_per_task,
                                std::uint32_t local_rank);

}  // namespace lockstep::slurm
