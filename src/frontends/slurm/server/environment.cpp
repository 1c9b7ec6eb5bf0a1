// One function per circle: the job, its het groups, a node, a step. The texts follow Slurm 22.05 to 24.11.
#include "frontends/slurm/server/environment.h"

#include <algorithm>
#include <array>

#include "base/hostlist.h"
#include "base/text.h"
#include "frontends/slurm/server/gpus.h"
#include "frontends/slurm/server/job_facts.h"
#include "rules/fit.h"
#include "rules/growth.h"

namespace lockstep::slurm {

namespace {

// LaunchVariables that describe one job, step or task. Inherited from a shell inside another job they would mislead.
constexpr std::array kDescribing = {
    "SLURM_ARBITRARY_NODELIST",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_COUNT",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_ARRAY_TASK_MAX",
    "SLURM_ARRAY_TASK_MIN",
    "SLURM_ARRAY_TASK_STEP",
    "SLURM_CPUS_ON_NODE",
    "SLURM_CPUS_PER_GPU",
    "SLURM_CPUS_PER_TASK",
    "SLURM_GPUS",
    "SLURM_GPUS_ON_NODE",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_SOCKET",
    "SLURM_GPUS_PER_TASK",
    "SLURM_GTIDS",
    "SLURM_HET_SIZE",
    "SLURM_JOB_ACCOUNT",
    "SLURM_JOB_DEPENDENCY",
    "SLURM_JOB_END_TIME",
    "SLURM_JOB_GPUS",
    "SLURM_JOB_LICENSES",
    "SLURM_JOB_QOS",
    "SLURM_JOB_RESERVATION",
    "SLURM_JOB_START_TIME",
    "SLURM_LAUNCH_NODE_IPADDR",
    "SLURM_LOCALID",
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_GPU",
    "SLURM_MEM_PER_NODE",
    "SLURM_NODEID",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_GPU",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_PROCID",
    "SLURM_RESTART_COUNT",
    "SLURM_STEPID",
    "SLURM_STEP_GPUS",
    "SLURM_STEP_ID",
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_TASK_PID",
};

// Options that are echoed to the job under a name of their own, verbatim.
struct Echo {
  std::string_view option, variable;
};
constexpr std::array kEchoes = {
    Echo{"acctg-freq", "SLURM_ACCTG_FREQ"},
    Echo{"core-spec", "SLURM_CORE_SPEC"},
    Echo{"cpus-per-gpu", "SLURM_CPUS_PER_GPU"},
    Echo{"distribution", "SLURM_DISTRIBUTION"},
    Echo{"export", "SLURM_EXPORT_ENV"},
    Echo{"gpu-bind", "SLURM_GPU_BIND"},
    Echo{"gpu-freq", "SLURM_GPU_FREQ"},
    Echo{"gpus", "SLURM_GPUS"},
    Echo{"gpus-per-node", "SLURM_GPUS_PER_NODE"},
    Echo{"gpus-per-socket", "SLURM_GPUS_PER_SOCKET"},
    Echo{"gpus-per-task", "SLURM_GPUS_PER_TASK"},
    Echo{"hint", "SLURM_HINT"},
    Echo{"ntasks-per-core", "SLURM_NTASKS_PER_CORE"},
    Echo{"ntasks-per-gpu", "SLURM_NTASKS_PER_GPU"},
    Echo{"ntasks-per-node", "SLURM_NTASKS_PER_NODE"},
    Echo{"ntasks-per-socket", "SLURM_NTASKS_PER_SOCKET"},
    Echo{"profile", "SLURM_PROFILE"},
    Echo{"threads-per-core", "SLURM_THREADS_PER_CORE"},
    Echo{"tres-per-task", "SLURM_TRES_PER_TASK"},
};

constexpr Duration kNoLimitShown = hours(24 * 365);  // Slurm's projected end of a job without a limit

std::string_view name_of(std::string_view line) { return line.substr(0, line.find('=')); }

std::string dependency_text(const JobSpec& spec) {
  if (const std::string* asked = option_of(spec.options, "dependency"))
    return *asked;
  return {};
}

void set_memory(LaunchVariables& out, const GroupSpec& group, const Grant& grant) {
  if (group.all_memory)
    out.set("SLURM_MEM_PER_NODE", grant.memory_mb);
  else if (group.per_node.memory_mb > 0)
    out.set("SLURM_MEM_PER_NODE", group.per_node.memory_mb);
  if (group.memory_per_core_mb > 0)
    out.set("SLURM_MEM_PER_CPU", group.memory_per_core_mb);
  if (group.memory_per_device_mb > 0)
    out.set("SLURM_MEM_PER_GPU", group.memory_per_device_mb);
}

// Seconds from the start until the limit strikes; Slurm projects a year when there is none.
std::int64_t limit_seconds(const Tables& tables, const Job& job) {
  Duration limit = job.spec->time_limit;
  const Partition* partition = job.allocation ? tables.partition(job.allocation->partition) : nullptr;
  if (limit.us == 0 && partition)
    limit = partition->time_default.us > 0 ? partition->time_default : partition->time_max;
  return (limit.us == 0 || limit >= kForever ? kNoLimitShown : limit).seconds();
}

void set_times(LaunchVariables& out, const Tables& tables, const Job& job, const SlurmFacts& facts) {
  const std::int64_t start = job.started ? (job.started + facts.wall_offset).us / 1'000'000 : facts.now.seconds();
  if (start <= 0)
    return;
  const bool strikes = job.started && job.limit_end && job.limit_end < kNever;
  out.set("SLURM_JOB_START_TIME", start);
  out.set("SLURM_JOB_END_TIME",
          strikes ? (job.limit_end + facts.wall_offset).us / 1'000'000 : start + limit_seconds(tables, job));
}

void set_array_variables(LaunchVariables& out, const Tables& tables, const Job& job) {
  if (!job.array_job)
    return;
  out.set("SLURM_ARRAY_JOB_ID", static_cast<std::int64_t>(job.array_job.value));
  out.set("SLURM_ARRAY_TASK_ID", job.array_index);
  const Job* parent = tables.job(job.array_job);
  if (!parent || !parent->array || parent->array->asked.empty())
    return;
  const ArrayState& array = *parent->array;
  out.set("SLURM_ARRAY_TASK_COUNT", static_cast<std::int64_t>(array.asked.size()));
  out.set("SLURM_ARRAY_TASK_MAX", array.asked.back());
  out.set("SLURM_ARRAY_TASK_MIN", array.asked.front());
  out.set("SLURM_ARRAY_TASK_STEP", array.step);
}

GroupLayout layout_of(const Tables& tables, const Job& job, std::uint16_t group, const SlurmFacts& facts) {
  return facts.layouts ? facts.layouts->of(tables, job, group) : group_layout(tables, job, group);
}

void set_het_variables(LaunchVariables& out, const Tables& tables, const Job& job, const SlurmFacts& facts) {
  const std::size_t groups = job.spec->groups.size();
  if (groups < 2)
    return;
  out.set("SLURM_HET_SIZE", static_cast<std::int64_t>(groups));
  for (std::uint16_t g = 0; g < groups; ++g) {
    const GroupLayout layout = layout_of(tables, job, g, facts);
    const auto set = [&](std::string_view name, std::string_view value) {
      out.set(format("{}_HET_GROUP_{}", name, g), value);
    };
    set("SLURM_JOB_ID", std::to_string(job.id.value));
    set("SLURM_JOB_NAME", job.spec->name);
    set("SLURM_JOB_NODELIST", layout.node_list);
    set("SLURM_JOB_NUM_NODES", std::to_string(layout.nodes));
    set("SLURM_JOB_PARTITION", job.allocation->partition);
    set("SLURM_JOB_CPUS_PER_NODE", layout.cpus_per_node);
    set("SLURM_TASKS_PER_NODE", layout.tasks_per_node);
    set("SLURM_NTASKS", std::to_string(layout.tasks));
    if (const std::uint32_t cores = job.spec->groups[g].per_task.cores; cores > 1)
      set("SLURM_CPUS_PER_TASK", std::to_string(cores));
    if (const std::int64_t memory = job.spec->groups[g].per_node.memory_mb; memory > 0)
      set("SLURM_MEM_PER_NODE", std::to_string(memory));
    if (const std::int64_t memory = job.spec->groups[g].memory_per_core_mb; memory > 0)
      set("SLURM_MEM_PER_CPU", std::to_string(memory));
  }
}

}  // namespace

void LaunchVariables::set(std::string_view name, std::string_view value) {
  for (std::string& line : lines_)
    if (name_of(line) == name) {
      line = format("{}={}", name, value);
      return;
    }
  lines_.push_back(format("{}={}", name, value));
}
void LaunchVariables::set(std::string_view name, std::int64_t value) { set(name, std::to_string(value)); }
void LaunchVariables::add(std::vector<std::string> lines) {
  for (const std::string& line : lines) set(name_of(line), std::string_view(line).substr(name_of(line).size() + 1));
}

void LaunchVariables::merge_into(std::vector<std::string>& env) const {
  std::vector<std::string_view> names(kDescribing.begin(), kDescribing.end());
  for (const std::string& line : lines_) names.push_back(name_of(line));
  std::sort(names.begin(), names.end());
  std::erase_if(env, [&](const std::string& line) {
    const std::string_view name = name_of(line);
    return std::binary_search(names.begin(), names.end(), name) || name.find("_HET_GROUP_") != std::string_view::npos;
  });
  env.insert(env.end(), lines_.begin(), lines_.end());
}

std::string run_lengths(const std::vector<std::uint32_t>& counts) {
  std::string out;
  for (std::size_t i = 0; i < counts.size();) {
    std::size_t same = i;
    while (same < counts.size() && counts[same] == counts[i]) ++same;
    if (!out.empty())
      out += ',';
    out += std::to_string(counts[i]);
    if (same - i > 1)
      out += format("(x{})", same - i);
    i = same;
  }
  return out;
}

const std::string* option_of(const std::vector<std::pair<std::string, std::string>>& options, std::string_view name) {
  for (const auto& [key, value] : options)
    if (key == name)
      return &value;
  return nullptr;
}

// In numbers, by GPUs of a task and of others, or by a node for each.
bool tasks_were_asked(const JobSpec& spec) {
  const auto has = [&](std::string_view name) { return option_of(spec.options, name) != nullptr; };
  if (has("ntasks") || has("ntasks-per-node") || has("ntasks-per-gpu"))
    return true;
  if (has("gpus-per-task") && (has("gpus") || has("gres") || has("gpus-per-node")))
    return true;
  const std::string* distribution = option_of(spec.options, "distribution");
  return distribution && lower(*distribution).starts_with("arbitrary");
}

GroupLayout group_layout(const Tables& tables, const Job& job, std::uint16_t group) {
  GroupLayout out;
  if (!job.allocation)
    return out;
  const bool asked = tasks_were_asked(*job.spec), may_grow = stacks(job.spec->groups[group]);
  const std::uint32_t cores_per_task = std::max(1u, job.spec->groups[group].per_task.cores);
  std::vector<std::string> names;
  std::map<NodeId, std::size_t> there;  // of a group that may have grown on a node
  std::vector<std::uint32_t> tasks, cpus;
  for (const Grant& grant : job.allocation->grants) {
    if (grant.group != group || !occupies(grant))
      continue;
    const Node* node = tables.node(grant.node);
    out.tasks += grant.tasks;
    if (may_grow)
      if (const auto [known, fresh] = there.try_emplace(grant.node, names.size()); !fresh) {
        cpus[known->second] += grant.cores.count();
        tasks[known->second] += grant.tasks;
        continue;
      }
    names.push_back(node ? node->meta.name : format("node-{}", grant.node.value));
    cpus.push_back(grant.cores.count());
    // Without a wish for tasks Slurm plans one per share of processors.
    tasks.push_back(asked ? grant.tasks : std::max(1u, cpus.back() / cores_per_task));
  }
  out.nodes = static_cast<std::uint32_t>(names.size());
  // In rank order, not sorted again: the first host listed must be the one of rank 0.
  out.node_list = compress_hostlist(names);
  out.tasks_per_node = run_lengths(tasks);
  out.cpus_per_node = run_lengths(cpus);
  return out;
}

StepLayout step_layout(const Tables& tables, const Step& step) {
  StepLayout out;
  std::vector<std::string> names;
  std::vector<std::uint32_t> counts;
  for (const StepPlace& p : step.places) {
    const Node* node = tables.node(p.node);
    names.push_back(node ? node->meta.name : format("node-{}", p.node.value));
    counts.push_back(static_cast<std::uint32_t>(p.ranks.size()));
    out.tasks += counts.back();
  }
  out.node_list = compress_hostlist(names);
  out.tasks_per_node = run_lengths(counts);
  out.nodes = static_cast<std::int64_t>(names.size());
  return out;
}

const GroupLayout& LayoutMemory::of(const Tables& tables, const Job& job, std::uint16_t group) {
  if (allocation_ != job.allocation || spec_ != job.spec) {
    allocation_ = job.allocation;
    spec_ = job.spec;
    groups_.clear();
  }
  const auto known = groups_.find(group);
  if (known != groups_.end())
    return known->second;
  ++worked_out_;
  return groups_.emplace(group, group_layout(tables, job, group)).first->second;
}

// Where a step runs is settled when it starts.
const StepLayout& LayoutMemory::of(const Tables& tables, const Step& step) {
  if (step_spec_ == step.spec && step_job_ == step.job && step_number_ == step.number && step_attempt_ == step.attempt)
    return step_;
  step_spec_ = step.spec;
  step_job_ = step.job;
  step_number_ = step.number;
  step_attempt_ = step.attempt;
  ++worked_out_;
  return step_ = step_layout(tables, step);
}

namespace {

// Those that Slurm sets only where an option asks for what they say.
void set_asked_variables(LaunchVariables& out, const Job& job, const GroupLayout& layout) {
  const JobSpec& spec = *job.spec;
  if (tasks_were_asked(spec)) {
    out.set("SLURM_NTASKS", layout.tasks);
    out.set("SLURM_NPROCS", layout.tasks);
  }
  if (option_of(spec.options, "cpus-per-task"))
    out.set("SLURM_CPUS_PER_TASK", spec.groups[0].per_task.cores);
  if (job.allocation && !job.allocation->grants.empty())
    set_memory(out, spec.groups[0], job.allocation->grants[0]);
  for (const Echo& echo : kEchoes)
    if (const std::string* value = option_of(spec.options, echo.option))
      out.set(echo.variable, *value);
  if (const std::string* how = option_of(spec.options, "distribution"); how && lower(*how).starts_with("arbitrary"))
    if (const std::string* nodes = option_of(spec.options, "nodelist"))
      out.set("SLURM_ARBITRARY_NODELIST", *nodes);
  if (option_of(spec.options, "open-mode"))  // srun inside opens its files likewise
    out.set("SLURM_OPEN_MODE", spec.append ? "a" : "t");
  if (spec.groups[0].overcommit)
    out.set("SLURM_OVERCOMMIT", "1");
}

}  // namespace

void set_job_variables(LaunchVariables& out, const Tables& tables, const Job& job, const SlurmFacts& facts) {
  const JobSpec& spec = *job.spec;
  const User* user = tables.user(spec.user);
  const GroupLayout layout = layout_of(tables, job, 0, facts);
  const auto id = static_cast<std::int64_t>(job.id.value);
  out.set("SLURM_CLUSTER_NAME", facts.cluster_name);
  out.set("SLURM_JOB_ID", id);
  out.set("SLURM_JOBID", id);
  out.set("SLURM_JOB_NAME", spec.name);
  out.set("SLURM_JOB_NUM_NODES", layout.nodes);
  out.set("SLURM_NNODES", layout.nodes);
  out.set("SLURM_JOB_NODELIST", layout.node_list);
  out.set("SLURM_NODELIST", layout.node_list);
  out.set("SLURM_JOB_PARTITION", job.allocation ? job.allocation->partition : std::string());
  out.set("SLURM_JOB_CPUS_PER_NODE", layout.cpus_per_node);
  out.set("SLURM_TASKS_PER_NODE", layout.tasks_per_node);
  set_asked_variables(out, job, layout);
  out.set_if("SLURM_JOB_ACCOUNT", spec.account.empty() && user ? user->account : spec.account.get());
  out.set_if("SLURM_JOB_QOS", spec.qos);
  out.set_if("SLURM_JOB_RESERVATION", spec.reservation);
  out.set_if("SLURM_JOB_LICENSES", spec.licenses);
  out.set_if("SLURM_JOB_DEPENDENCY", dependency_text(spec));
  if (user) {
    out.set("SLURM_JOB_USER", user->meta.name);
    out.set("SLURM_JOB_UID", user->uid);
    out.set("SLURM_JOB_GID", user->gid);
  }
  out.set_if("SLURM_SUBMIT_HOST", spec.submit_host);
  set_times(out, tables, job, facts);
  if (const std::uint32_t again = restarts_of(job))
    out.set("SLURM_RESTART_COUNT", again);
  set_array_variables(out, tables, job);
  if (job.allocation)
    set_het_variables(out, tables, job, facts);
}

void set_node_variables(LaunchVariables& out, const Node& node, const Grant& grant) {
  out.set("SLURMD_NODENAME", node.meta.name);
  out.set("SLURM_TOPOLOGY_ADDR",
          node.domains.empty() ? node.meta.name : join(node.domains, ".") + "." + node.meta.name);
  std::string pattern;
  for (std::size_t i = 0; i < node.domains.size(); ++i) pattern += "switch.";
  out.set("SLURM_TOPOLOGY_ADDR_PATTERN", pattern + "node");
  out.set_if("SLURM_JOB_GPUS", minor_list(gpus_of(node, grant.visible(), grant.parts)));
}

namespace {

// NVIDIA MPS: what one client may use, in hundredths of a GPU's threads and in memory of each GPU that it sees.
void set_mps_variables(LaunchVariables& out, const Grant& grant) {
  std::uint16_t milli = 0;
  std::string memory;
  std::size_t place = 0;
  for (const DevicePart& part : grant.parts) {
    if (part.milli == 0)
      continue;
    milli = milli == 0 ? part.milli : std::min(milli, part.milli);
    memory += format("{}{}={}M", memory.empty() ? "" : ",", place++, part.memory_mb);
  }
  if (milli == 0)
    return;
  out.set("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", std::max(1, milli / 10));
  out.set("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", memory);
}

void set_shard_variable(LaunchVariables& out, const Grant& grant) {
  std::int64_t milli = 0;
  for (const DevicePart& part : grant.parts) milli += part.mig.empty() ? part.milli : 0;
  if (milli > 0)
    out.set("SLURM_SHARDS_ON_NODE", milli * kShardsOfGpu / kWholeDevice);
}

}  // namespace

GpuSharing gpu_sharing(const JobSpec& spec) {
  for (const char* option : {"gres", "tres-per-task"})
    if (const std::string* text = option_of(spec.options, option);
        text && lower(*text).find("shard") != std::string::npos)
      return GpuSharing::kTimeSlices;
  return GpuSharing::kMps;
}

void set_gpu_variables(LaunchVariables& out, const std::vector<NodeGpu>& gpus, const Grant& grant, GpuSharing sharing) {
  if (gpus.empty())
    return;
  if (sharing == GpuSharing::kMps)
    set_mps_variables(out, grant);
  else
    set_shard_variable(out, grant);
  out.set("SLURM_GPUS_ON_NODE", static_cast<std::int64_t>(gpus.size()));
  out.add(visibility_env(gpus));
}

void set_step_variables(LaunchVariables& out, const Tables& tables, const Job& job, const Step& step, std::size_t place,
                        const SlurmFacts& facts) {
  const StepPlace& here = step.places[place];
  const StepLayout layout = facts.layouts ? facts.layouts->of(tables, step) : step_layout(tables, step);
  out.set("SLURM_STEP_ID", step.number);
  out.set("SLURM_STEPID", step.number);
  out.set("SLURM_STEP_NODELIST", layout.node_list);
  out.set("SLURM_STEP_NUM_NODES", layout.nodes);
  out.set("SLURM_STEP_NUM_TASKS", layout.tasks);
  out.set("SLURM_STEP_TASKS_PER_NODE", layout.tasks_per_node);
  out.set("SLURM_NNODES", layout.nodes);
  out.set("SLURM_NTASKS", layout.tasks);
  out.set("SLURM_NPROCS", layout.tasks);
  out.set("SLURM_TASKS_PER_NODE", layout.tasks_per_node);
  out.set("SLURM_NODEID", static_cast<std::int64_t>(place));
  out.set("SLURM_CPUS_ON_NODE", here.cores.count());
  if (option_of(step.spec->options, "cpus-per-task") && step.spec->cores_per_task > 0)
    out.set("SLURM_CPUS_PER_TASK", step.spec->cores_per_task);
  if (step.spec->tasks_per_node > 0)
    out.set("SLURM_NTASKS_PER_NODE", step.spec->tasks_per_node);
  if (const std::string* type = option_of(step.spec->options, "mpi"); type && step.spec->pmi != Pmi::kNone)
    out.set("SLURM_MPI_TYPE", *type);
  std::string ranks;
  for (const std::uint32_t rank : here.ranks) ranks += format("{}{}", ranks.empty() ? "" : ",", rank);
  out.set("SLURM_GTIDS", ranks);
  const Node* first = tables.node(job.allocation->grants[0].node);
  if (first)
    out.set_if("SLURM_LAUNCH_NODE_IPADDR", first->address);
  if (const Node* node = tables.node(here.node)) {
    const Grant& grant = job.allocation->grants[here.grant];
    const std::vector<NodeGpu> gpus = gpus_of(*node, grant, here);
    out.set_if("SLURM_STEP_GPUS", minor_list(gpus));
    set_gpu_variables(out, gpus, grant, gpu_sharing(*job.spec));
  }
}

}  // namespace lockstep::slurm
