// The part of job_ask.h and step_ask.cpp that both share: how many tasks on how many nodes, which nodes, what for each.
#pragma once

#include "frontends/slurm/client/job_ask.h"

namespace lockstep::slurm {

// "Invalid --nodes specification …", with the place it was given.
Error bad_value(const OptionSet& options, std::string_view name);
Error unsupported(const OptionSet& options, std::string_view name, std::string_view why);
// The option's value as a count of at least `least`. Only for options that were given.
Result<std::uint32_t> count_of(const OptionSet& options, std::string_view name, std::uint32_t least);

struct Shape {
  CountRange tasks{1, 1};
  CountRange nodes{0, 0};  // 0 = as tasks need
  std::uint32_t tasks_per_node = 0;
  bool tasks_per_node_exact = false;
  bool tasks_given = false;  // the user said how many tasks, in one way or another
};
Result<Shape> shape_of(const OptionSet& options, std::vector<std::string>& notes);

struct NodeChoice {
  std::vector<std::string> only, exclude;
};
Result<NodeChoice> node_choice_of(const OptionSet& options, const Surroundings& around);
// SLURM_HOSTFILE: a node for every task, one a line, unless --nodelist says where they run. In a job of distribution
// "arbitrary" the list that this one was made with.
Result<void> place_by_hostfile(OptionSet& options, const Surroundings& around, const OptionSet::GetVariable& variable);
// Distribution "arbitrary": the node of every task, in their order, from --nodelist or its file.
Result<std::vector<std::string>> nodes_by_task(const OptionSet& options, const Surroundings& around);

struct Devices {
  std::vector<DeviceAsk> per_node, per_task, total;
  bool none = false;  // --gres=none: not even what the job has
};
std::uint64_t sum_of(const std::vector<DeviceAsk>& asks);
std::vector<DeviceAsk> only_gpus(const std::vector<DeviceAsk>& asks);

struct TresPerTask {
  std::uint32_t cores = 0;
  std::vector<DeviceAsk> devices;
};
Result<TresPerTask> tres_per_task(const OptionSet& options);

// Without what is told twice, but for GPUs of a node that the tasks' own are part of (gpu_ask.h).
Result<Devices> devices_of(const OptionSet& options, const Shape& shape);
Result<std::uint32_t> cores_per_task_of(const OptionSet& options);  // 0 = not given

// "block", "cyclic", "plane=N" or "arbitrary"; "" = not given.
Result<std::string> distribution_of(const OptionSet& options);

Result<void> devices_into(const OptionSet& options, const Shape& shape, GroupSpec& group);
Result<void> memory_into(const OptionSet& options, GroupSpec& group);

}  // namespace lockstep::slurm
