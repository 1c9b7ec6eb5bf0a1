// Which GPUs a process sees: numbers for SLURM_JOB_GPUS and CUDA_VISIBLE_DEVICES, and --gpu-bind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/records.h"

namespace lockstep::slurm {

enum class GpuMaker : unsigned char { kNvidia, kAmd, kIntel };

// A GPU, or a MIG slice of one.
struct NodeGpu {
  std::uint32_t minor = 0;  // /dev/nvidia<minor>
  std::uint32_t index = 0;  // among the node's GPUs: what CUDA counts
  std::string type;
  std::string slice = {};  // "MIG:0:1g.10gb:4": the node puts its UUID there, when it has made it. "" = the whole GPU
  std::int32_t numa = -1;  // node of memory that it lies at; -1: not known
};

// The GPUs of a device set, by index. Other kinds of device are left out. Of those in MIG mode there are the slices
// among `parts` instead.
std::vector<NodeGpu> gpus_of(const Node& node, const DeviceSet& devices, const std::vector<DevicePart>& parts = {});
// Those of one place of a step: its own, its slices, and what its job shares with others.
std::vector<NodeGpu> gpus_of(const Node& node, const Grant& grant, const StepPlace& place);
GpuMaker gpu_maker(std::string_view type);

std::string minor_list(const std::vector<NodeGpu>& gpus);  // "0,1,2"
std::string index_list(const std::vector<NodeGpu>& gpus);

// The NAME=value that make a process see exactly these; none for an empty list.
std::vector<std::string> visibility_env(const std::vector<NodeGpu>& gpus);

// --gpu-bind, for the task of this local rank: [verbose|quiet,] and none, closest, per_task:N, single:N, map_gpu:LIST
// or mask_gpu:LIST, where "1*3" stands for "1,1,1". What is not understood and "none" leave every GPU visible. near:
// the memory nodes of the task's cores, for "closest"; where no GPU lies at one, all are as close. gpus_per_task > 0
// without a binding binds that many each.
std::vector<NodeGpu> bound_gpus(const std::vector<NodeGpu>& gpus, std::string_view binding, std::uint32_t gpus_per_task,
                                std::uint32_t local_rank, const std::vector<std::int32_t>& near = {});

// The memory nodes that these cores lie at, and the cores that lie at the memory nodes of these GPUs; empty where the
// node does not tell.
std::vector<std::int32_t> memory_nodes_of(const Node& node, const CoreSet& cores);
CoreSet cores_near(const Node& node, const std::vector<NodeGpu>& gpus);

}  // namespace lockstep::slurm
