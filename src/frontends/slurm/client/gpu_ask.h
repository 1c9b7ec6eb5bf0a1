// The ways to ask for GPUs. As in Slurm they describe the same ones: all of them (--gpus), those of a node (--gres,
// --gpus-per-node), those of a task (--gpus-per-task, --tres-per-task), and the tasks of one (--ntasks-per-gpu). What
// two of them say is never added up; a third number follows from it.
#pragma once

#include "frontends/slurm/client/resource_ask.h"

namespace lockstep::slurm {

// What is asked for where, each as it is written. Of --gres and --gpus-per-node one speaks for the GPUs.
Result<Devices> read_devices(const OptionSet& options);

// Numbers that follow from GPUs; 0 = none does.
struct GpuCounts {
  std::uint32_t tasks = 0;           // --gpus and --gpus-per-task
  std::uint32_t tasks_per_node = 0;  // GPUs of a node, and --gpus-per-task or --ntasks-per-gpu
  std::uint32_t nodes = 0;           // --gpus, and GPUs of a node
};
Result<GpuCounts> counts_of_gpus(const OptionSet& options);

// Whether what a job's options say of GPUs, tasks and nodes can hold together.
Result<void> check_gpus_agree(const OptionSet& options, const Shape& shape);

// Takes those out of `asks` that `others` describe, too.
void drop_described(std::vector<DeviceAsk>& asks, const std::vector<DeviceAsk>& others);

// --ntasks-per-gpu=1 is a GPU for each task, which then are where their GPUs are. `tasks`: of all, 0 = not known.
Result<void> settle_tasks_of_gpus(const OptionSet& options, std::uint32_t tasks, Devices& devices);

}  // namespace lockstep::slurm
