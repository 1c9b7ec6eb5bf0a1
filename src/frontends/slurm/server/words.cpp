// Completes launches: variables from environment.cpp, file names from patterns.cpp, GPU bindings from gpus.cpp.
#include "frontends/slurm/server/words.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "frontends/slurm/server/cpu_binding.h"
#include "frontends/slurm/server/environment.h"
#include "frontends/slurm/server/gpus.h"
#include "frontends/slurm/server/patterns.h"
#include "model/binding_note.h"
#include "model/job.h"
#include "model/spec.h"

namespace lockstep::slurm {

namespace {

constexpr std::size_t kMemoryBindMost = 16'384;  // bytes of --mem-bind

PatternFacts pattern_facts(const Tables& tables, const Job& job, const Node& node) {
  PatternFacts facts;
  facts.job = job.id;
  facts.array_job = job.array_job;
  facts.array_index = job.array_index;
  facts.node = node.meta.name.substr(0, node.meta.name.find('.'));
  facts.job_name = job.spec->name;
  if (const User* user = tables.user(job.spec->user))
    facts.user = user->meta.name;
  return facts;
}

// With --chdir the script runs elsewhere than it was submitted; the submitting shell's own variable remembers where.
std::string submit_dir(const JobSpec& spec, const std::vector<std::string>& env) {
  if (option_of(spec.options, "chdir"))
    for (const std::string& line : env)
      if (line.starts_with("PWD=/"))
        return line.substr(4);
  return spec.work_dir;
}

// The submitting environment's, or that of Slurm's daemon: programs are written to find one.
void set_temporary_folder(std::vector<std::string>& env) {
  constexpr std::string_view kName = "TMPDIR=";
  if (std::none_of(env.begin(), env.end(), [&](const std::string& line) { return line.starts_with(kName); }))
    env.push_back(std::string(kName) + "/tmp");
}

void expand_files(ProcessSpec& process, const PatternFacts& facts) {
  process.std_in = expand_path(process.std_in, facts, process.work_dir);
  process.std_out = expand_path(process.std_out, facts, process.work_dir);
  process.std_err = expand_path(process.std_err, facts, process.work_dir);
}

std::uint32_t gpus_per_task(const Job& job, const Step& step) {
  std::uint32_t count = 0;
  const auto& asks = step.spec->devices_per_task.empty() && step.spec->group < job.spec->groups.size()
                         ? job.spec->groups[step.spec->group].per_task.devices
                         : step.spec->devices_per_task;
  for (const DeviceAsk& ask : asks)
    if (ask.kind == "gpu")
      count += ask.count;
  return count;
}

// The programs of srun's user around its tasks.
void add_programs(std::vector<std::string>& out, const StepSpec& spec, std::string_view option,
                  const std::string& work_dir) {
  const std::string* path = option_of(spec.options, option);
  if (!path || path->empty() || *path == "none")
    return;
  out.push_back(path->starts_with('/') ? *path : work_dir + "/" + *path);
}

bool is_verbose(std::string_view binding) { return binding.starts_with("verbose,") || binding.starts_with("v,"); }

// What --gpu-bind=verbose says, in Slurm's words: which of the node's GPUs the task has, which the step.
std::string gpu_binding_text(const std::vector<NodeGpu>& all, const std::vector<NodeGpu>& own) {
  CoreSet usable, given;
  std::string local;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].index < CoreSet::kCapacity)
      given.set(all[i].index);
    const auto is_this = [&](const NodeGpu& gpu) { return gpu.index == all[i].index && gpu.slice == all[i].slice; };
    if (std::any_of(own.begin(), own.end(), is_this))
      local += format("{}{}", local.empty() ? "" : ",", i);
  }
  for (const NodeGpu& gpu : own)
    if (gpu.index < CoreSet::kCapacity)
      usable.set(gpu.index);
  return format("usable_gres={}; bit_alloc={}; local_inx={}; global_list={}; local_list={}", mask_text(usable),
                mask_text(given), own.size(), index_list(own), local);
}

// Each task's own GPUs, when a binding narrows them, and cores near them when nothing else is said of cores. The device
// files of all GPUs of the job stay open to all of its tasks: peers map each other's memory.
void bind_gpus(LaunchStep& launch, const Job& job, const Step& step, const StepPlace& place, const Node& node) {
  const Grant& grant = job.allocation->grants[place.grant];
  const std::vector<NodeGpu> gpus = gpus_of(node, grant, place);
  if (gpus.empty())
    return;
  std::vector<CoreSet> near_gpus;
  const auto place_near = [&](const std::vector<NodeGpu>& own) {
    const CoreSet close = place.cores & cores_near(node, own);
    near_gpus.push_back(close.any() ? close : place.cores);
  };
  const bool bound = option_of(step.spec->options, "cpu-bind") != nullptr;
  const std::string* binding = option_of(step.spec->options, "gpu-bind");
  if (!binding)
    binding = option_of(job.spec->options, "gpu-bind");
  const std::uint32_t each = gpus_per_task(job, step);
  for (std::uint32_t local = 0; local < place.ranks.size(); ++local) {
    std::vector<NodeGpu> own = gpus;
    if (binding || each > 0) {
      const CoreSet& cores = launch.cores_by_rank.empty() ? place.cores : launch.cores_by_rank[local];
      own = bound_gpus(gpus, binding ? std::string_view(*binding) : std::string_view{}, each, local,
                       memory_nodes_of(node, cores));
      launch.env_by_rank.push_back(visibility_env(own));
      if (binding && is_verbose(*binding))
        launch.env_by_rank.back().push_back(format("{}={}", kGpuBindingVariable, gpu_binding_text(gpus, own)));
    }
    place_near(own);
  }
  const auto narrows = [&place](const CoreSet& cores) { return cores != place.cores; };
  if (!bound && std::any_of(near_gpus.begin(), near_gpus.end(), narrows))
    launch.cores_by_rank = std::move(near_gpus);
}

// Where the memory of each task comes from, which the node settles, and what Slurm says of it to the tasks.
void bind_memory(LaunchStep& launch, LaunchVariables& variables, const Step& step) {
  const std::string* binding = option_of(step.spec->options, "mem-bind");
  if (!binding || binding->size() > kMemoryBindMost)
    return;
  launch.memory_bind = *binding;
  std::string kind = "none", list;
  bool verbose = false, prefer = false, sorted = false;
  for (const std::string& word : split(lower(*binding), ',')) {
    verbose |= word == "v" || word == "verbose";
    prefer |= word == "p" || word == "prefer";
    sorted |= word == "sort";
    if (!list.empty())
      list += "," + word;
    else if (const auto colon = word.find(':'); colon != word.npos)
      kind = word.substr(0, colon + 1), list = word.substr(colon + 1);
    else if (word == "local" || word == "rank")
      kind = word;
  }
  variables.set("SLURM_MEM_BIND_VERBOSE", verbose ? "verbose" : "quiet");
  variables.set("SLURM_MEM_BIND_TYPE", kind);
  variables.set("SLURM_MEM_BIND_LIST", list);
  variables.set_if("SLURM_MEM_BIND_PREFER", prefer ? "prefer" : "");
  variables.set_if("SLURM_MEM_BIND_SORT", sorted ? "sort" : "");
  variables.set("SLURM_MEM_BIND",
                format("{}{},{}{}", verbose ? "verbose" : "quiet", prefer ? ",prefer" : "", kind, list));
}

// Each task's own cores, when a binding narrows them, and what Slurm says of it to the tasks.
void bind_cores(LaunchStep& launch, LaunchVariables& variables, const Step& step, const StepPlace& here,
                const Node& node) {
  const std::string* binding = option_of(step.spec->options, "cpu-bind");
  if (!binding)
    return;
  const std::string* distribution = option_of(step.spec->options, "distribution");
  const auto tasks = static_cast<std::uint32_t>(here.ranks.size());
  BindingPlace place{here.cores,
                     node.cores,
                     node.sockets,
                     tasks,
                     step.spec->cores_per_task,
                     spreads_over_sockets(distribution ? std::string_view(*distribution) : std::string_view{})};
  place.fcyclic = distribution && distribution->find(":fcyclic") != std::string::npos;
  if (place.cores_per_task == 0)
    place.cores_per_task = std::max(1u, here.cores.count() / std::max(1u, tasks));
  launch.cores_by_rank = bound_cores(*binding, place);
  const bool verbose = binding->starts_with("v");
  std::string list;
  for (const CoreSet& cores : launch.cores_by_rank) list += (list.empty() ? "" : ",") + mask_text(cores);
  const std::string type = list.empty() ? "none" : "mask_cpu:";
  variables.set("SLURM_CPU_BIND_VERBOSE", verbose ? "verbose" : "quiet");
  variables.set("SLURM_CPU_BIND_TYPE", type);
  variables.set("SLURM_CPU_BIND_LIST", list);
  variables.set("SLURM_CPU_BIND", format("{},{}{}", verbose ? "verbose" : "quiet", type, list));
}

}  // namespace

void add_slurm_words(LaunchAttempt& launch, const Tables& tables, const Job& job, std::size_t grant,
                     const SlurmFacts& facts) {
  CHECK(job.allocation && grant < job.allocation->grants.size(), "a launch needs its grant");
  const Grant& held = job.allocation->grants[grant];
  const Node* node = tables.node(held.node);
  CHECK(node, "a grant names a registered node");
  ProcessSpec& process = launch.process;

  LaunchVariables variables;
  set_job_variables(variables, tables, job, facts);
  set_node_variables(variables, *node, held);
  set_gpu_variables(variables, gpus_of(*node, held.visible(), held.parts), held, gpu_sharing(*job.spec));
  variables.set("SLURM_SUBMIT_DIR", submit_dir(*job.spec, process.env));
  variables.set("SLURM_CPUS_ON_NODE", held.cores.count());
  variables.set("SLURM_NODEID", static_cast<std::int64_t>(grant));
  variables.set("SLURM_PROCID", "0");
  variables.set("SLURM_LOCALID", "0");
  variables.set("SLURM_GTIDS", "0");
  variables.set("SLURM_PRIO_PROCESS", "0");
  variables.set("SLURM_UMASK", format("{:04o}", job.spec->umask));
  variables.set("ENVIRONMENT", "BATCH");
  variables.set("HOSTNAME", node->meta.name);
  variables.merge_into(process.env);
  set_temporary_folder(process.env);
  process.task_env.emplace_back("SLURM_TASK_PID=\x01p");

  if (process.std_out.empty() && launch.has_script)
    process.std_out = default_output_pattern(job);
  PatternFacts names = pattern_facts(tables, job, *node);
  names.node_index = static_cast<std::uint32_t>(grant);
  expand_files(process, names);
  launch.checkpoint_file = expand_path(launch.checkpoint_file, names, process.work_dir);
}

void add_slurm_words(LaunchStep& launch, const Tables& tables, const Job& job, const Step& step, std::size_t place,
                     const SlurmFacts& facts) {
  CHECK(job.allocation && place < step.places.size(), "a step's launch needs its place");
  const StepPlace& here = step.places[place];
  CHECK(here.grant < job.allocation->grants.size(), "a step lives inside its allocation");
  const Node* node = tables.node(here.node);
  CHECK(node, "a place names a registered node");
  ProcessSpec& process = launch.process;

  LaunchVariables variables;
  set_job_variables(variables, tables, job, facts);
  set_node_variables(variables, *node, job.allocation->grants[here.grant]);
  // Srun's own environment knows where the job was submitted; a step made from the job's does not.
  bool knows_submit_dir = false;
  for (const std::string& line : process.env) knows_submit_dir |= line.starts_with("SLURM_SUBMIT_DIR=");
  if (!knows_submit_dir)
    variables.set("SLURM_SUBMIT_DIR", submit_dir(*job.spec, process.env));
  set_step_variables(variables, tables, job, step, place, facts);
  bind_cores(launch, variables, step, here, *node);
  bind_memory(launch, variables, step);
  variables.merge_into(process.env);
  set_temporary_folder(process.env);
  for (const char* line : {"SLURM_PROCID=\x01t", "SLURM_LOCALID=\x01l", "SLURM_TASK_PID=\x01p"})
    process.task_env.emplace_back(line);
  bind_gpus(launch, job, step, here, *node);
  add_programs(process.task_prologs, *step.spec, "task-prolog", process.work_dir);
  add_programs(process.task_epilogs, *step.spec, "task-epilog", process.work_dir);

  PatternFacts names = pattern_facts(tables, job, *node);
  names.step = step.number;
  names.node_index = static_cast<std::uint32_t>(place);
  expand_files(process, names);
}

std::string slurm_job_environment(const Tables& tables, const Job& job, const SlurmFacts& facts) {
  if (!job.allocation)
    return {};
  LaunchVariables variables;
  set_job_variables(variables, tables, job, facts);
  variables.set("SLURM_SUBMIT_DIR", job.spec->work_dir);
  std::string out;
  for (const std::string& line : variables.lines()) {
    out += line;
    out += '\0';
  }
  return out;
}

}  // namespace lockstep::slurm
