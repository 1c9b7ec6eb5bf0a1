// The variables Slurm gives to a job's processes, from records. Present only when Slurm sets them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontends/slurm/server/gpus.h"
#include "frontends/slurm/server/words.h"

namespace lockstep::slurm {

// NAME=value lines in the order they were set.
class LaunchVariables {
 public:
  void set(std::string_view name, std::string_view value);
  void set(std::string_view name, std::int64_t value);
  void set_if(std::string_view name, std::string_view value) {
    if (!value.empty())
      set(name, value);
  }
  void add(std::vector<std::string> lines);
  const std::vector<std::string>& lines() const { return lines_; }

  // Into an inherited environment: ours win, and variables that describe some other job or task are dropped.
  void merge_into(std::vector<std::string>& env) const;

 private:
  std::vector<std::string> lines_;
};

// {2,2,1} -> "2(x2),1".
std::string run_lengths(const std::vector<std::uint32_t>& counts);

// The value of a submit option, or null. Options are kept verbatim under their long names.
const std::string* option_of(const std::vector<std::pair<std::string, std::string>>& options, std::string_view name);

// -n, --ntasks-per-node or --ntasks-per-gpu was given: only then does a batch script see SLURM_NTASKS.
bool tasks_were_asked(const JobSpec& spec);

// The grants of one group, in rank order, with what Slurm says of them.
struct GroupLayout {
  std::string node_list;
  std::uint32_t nodes = 0;
  std::uint32_t tasks = 0;
  std::string tasks_per_node, cpus_per_node;
};
GroupLayout group_layout(const Tables& tables, const Job& job, std::uint16_t group);

// A step's nodes in the order of its ranks.
struct StepLayout {
  std::string node_list, tasks_per_node;
  std::int64_t nodes = 0, tasks = 0;
};
StepLayout step_layout(const Tables& tables, const Step& step);

// The layouts asked for last. All launches of an attempt or of a step name the same nodes: worked out for each of them
// they would cost the square of their number.
class LayoutMemory {
 public:
  const GroupLayout& of(const Tables& tables, const Job& job, std::uint16_t group);
  const StepLayout& of(const Tables& tables, const Step& step);
  std::uint64_t worked_out() const { return worked_out_; }

 private:
  Ref<Allocation> allocation_;
  Ref<JobSpec> spec_;
  std::map<std::uint16_t, GroupLayout> groups_;
  Ref<StepSpec> step_spec_;
  JobId step_job_;
  StepNo step_number_ = 0;
  AttemptNo step_attempt_ = 0;
  StepLayout step_;
  std::uint64_t worked_out_ = 0;
};

// Everything that is the same for all processes of the job's attempt.
void set_job_variables(LaunchVariables& out, const Tables& tables, const Job& job, const SlurmFacts& facts);
// What differs by node.
void set_node_variables(LaunchVariables& out, const Node& node, const Grant& grant);
// How a job uses its share of a GPU: beside others by NVIDIA's Multi-Process Service (--gres=mps), or in turns with
// them (--gres=shard).
enum class GpuSharing : unsigned char { kMps, kTimeSlices };
GpuSharing gpu_sharing(const JobSpec& spec);
// The GPUs a process may use.
void set_gpu_variables(LaunchVariables& out, const std::vector<NodeGpu>& gpus, const Grant& grant, GpuSharing sharing);
// What differs by step and by the step's node.
void set_step_variables(LaunchVariables& out, const Tables& tables, const Job& job, const Step& step, std::size_t place,
                        const SlurmFacts& facts);

}  // namespace lockstep::slurm
