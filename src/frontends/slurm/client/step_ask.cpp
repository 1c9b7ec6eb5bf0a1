// step_of: what srun asks for inside an allocation.
#include "base/text.h"
#include "frontends/slurm/client/container_ask.h"
#include "frontends/slurm/client/gpu_ask.h"
#include "frontends/slurm/client/job_ask.h"
#include "frontends/slurm/client/key_rows.h"
#include "frontends/slurm/client/resource_ask.h"
#include "frontends/slurm/client/values.h"

namespace lockstep::slurm {

namespace {

bool are_digits(std::string_view text, std::string_view digits) {
  return !text.empty() && text.find_first_not_of(digits) == text.npos;
}

// "3", "0x1f", and either with "*4" behind it, which stands for four of them. A mask is hexadecimal without "0x", too.
bool is_binding_item(std::string_view item, bool is_mask) {
  constexpr std::string_view kDecimal = "0123456789", kHexadecimal = "0123456789abcdef";
  if (const auto star = item.find('*'); star != item.npos) {
    if (parse_uint(item.substr(star + 1)).value_or(0) == 0)
      return false;
    item = item.substr(0, star);
  }
  if (item.starts_with("0x"))
    return are_digits(item.substr(2), kHexadecimal);
  return are_digits(item, is_mask ? kHexadecimal : kDecimal);
}

// The whole list, which begins at the first colon and goes on to the end: map_cpu:0,1*2,5.
Result<void> check_binding_list(std::string_view list, const std::string& kind, const std::string& where) {
  if (list.empty())
    return invalid(format("missing list for \"{}={}:<list>\"", where, kind), where);
  for (const auto& item : split(list, ','))
    if (!is_binding_item(item, kind.starts_with("mask_")))
      return invalid(format("Unable to satisfy cpu bind request: \"{}\" in {}={} is no {}", item, where, kind,
                            kind.starts_with("mask_") ? "mask, such as 0x3" : "number, such as 2"),
                     where);
  return {};
}

// Binding tasks is done by the node: to cores (server/cpu_binding.h) where its cores are a machine's, to memory by the
// kernel's own numbers (shim/memory_policy.h).
Result<void> check_binding(const OptionSet& options, std::string_view name, std::vector<std::string>& notes) {
  constexpr std::string_view kQuiet = "none no q quiet v verbose local sort nosort prefer p";
  constexpr std::string_view kDoneMemory = "rank map_mem mask_mem";
  constexpr std::string_view kDone =
      "rank rank_ldom core cores thread threads socket sockets ldom ldoms map_cpu mask_cpu map_ldom mask_ldom";
  const bool to_cores = name == "cpu-bind";
  const Given* given = options.find(name);
  if (!given)
    return {};
  const auto note = [&] {
    if (given->origin == Origin::kCommandLine)
      notes.push_back(format("{}={} is accepted as a wish: tasks share the cores of their step on a node",
                             where_given(name, *given), given->text));
  };
  const std::string whole = lower(given->text);
  for (const auto& part : split(whole, ',')) {
    const std::string word = part.substr(0, part.find(':'));
    const bool lists = word.starts_with("map_") || word.starts_with("mask_");
    if (lists && word == part)
      return invalid(format("missing list for \"{}={}:<list>\"", where_given(name, *given), word), std::string(name));
    if (!is_among(kQuiet, word) && !is_among(to_cores ? kDone : kDoneMemory, word))
      note();
    if (lists)  // what follows is the list
      return check_binding_list(std::string_view(whole).substr(whole.find(':') + 1), word, where_given(name, *given));
  }
  return {};
}

// What a step's own command line says of GPUs replaces what its job's variables say: the two were written for different
// things, and contradict each other more often than not.
bool replaces_gpus_of_job(OptionSet& own) {
  constexpr std::string_view kWords[] = {"gres", "gpus", "gpus-per-node", "gpus-per-task", "tres-per-task"};
  const auto is_own = [&](std::string_view name) {
    return own.by(name, Origin::kCommandLine) &&
           (name != "tres-per-task" || own.text(name).find("gres/") != std::string::npos);
  };
  const bool speaks = std::any_of(std::begin(kWords), std::end(kWords), is_own);
  if (!speaks && !(own.by("ntasks-per-gpu", Origin::kCommandLine) && own.has("ntasks")))
    return false;
  for (const auto name : kWords)
    if (own.by(name, Origin::kEnvironment))
      own.unset(name);
  return speaks;
}

// The job's variables speak of its first component. A step of a component that the command line names has the shape
// that this one was planned with.
void forget_first_component(OptionSet& own) {
  constexpr std::string_view kWords[] = {
      "nodes",         "ntasks",        "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task", "cpus-per-gpu",   "gpus",
      "gpus-per-node", "gpus-per-task", "tres-per-task",   "gres",           "gpu-bind",      "ntasks-per-core"};
  if (!own.by("het-group", Origin::kCommandLine))
    return;
  for (const auto name : kWords)
    if (own.by(name, Origin::kEnvironment) && !own.find(name)->variable.starts_with("SRUN_"))
      own.unset(name);
}

std::uint64_t count_of_all(const Devices& devices) {
  std::uint64_t count = 0;
  for (const auto* asks : {&devices.per_node, &devices.per_task, &devices.total})
    for (const DeviceAsk& ask : *asks) count += ask.count;
  return count;
}

// A type of all GPUs of the step is said by an ask for none on a node.
void put_total(const std::vector<DeviceAsk>& total, StepSpec& step) {
  for (const DeviceAsk& ask : total) step.devices_total += ask.count;
  if (total.size() == 1 && !total.front().type.empty() && total.front().count > 0)
    step.devices_per_node.push_back({total.front().kind, total.front().type, 0});
}

// --ntasks-per-gpu binds: so many tasks after one another share a GPU.
Result<void> bind_by_gpu(const OptionSet& own, StepSpec& step) {
  if (!own.has("ntasks-per-gpu") || own.has("gpu-bind") || !step.devices_per_task.empty())
    return {};
  step.options.emplace_back("gpu-bind", format("single:{}", TRY(count_of(own, "ntasks-per-gpu", 1))));
  return {};
}

// --accel-bind=g is --gpu-bind=closest, where nothing else binds.
Result<void> bind_by_accel(OptionSet& own) {
  const Given* given = own.find("accel-bind");
  if (!given)
    return {};
  const std::string flags = lower(given->text);
  if (flags.empty() || flags.find_first_not_of("gmnv") != std::string::npos)
    return invalid(format("Invalid {} specification", where_given("accel-bind", *given)), "accel-bind");
  if (flags.find('g') != std::string::npos && !own.has("gpu-bind"))
    return own.set("gpu-bind", {"closest", given->origin, given->line, given->variable});
  return {};
}

// Fewer tasks on the command line than nodes in the environment is ordinary: the step is a part of the job.
void fit_nodes_to_tasks(OptionSet& own, std::vector<std::string>& notes) {
  if (!own.by("ntasks", Origin::kCommandLine) || !own.by("nodes", Origin::kEnvironment))
    return;
  const auto nodes = parse_node_range(own.text("nodes"));
  const auto tasks = parse_count(own.text("ntasks"));
  const bool are_fewer = nodes && tasks && *tasks < nodes->min;
  if (are_fewer)
    notes.push_back(format("can't run {} processes on {} nodes, setting nnodes to {}", *tasks, nodes->min, *tasks));
  if (!nodes || !tasks || are_fewer || own.has("nodelist"))
    own.unset("nodes");
}

// --gpu-bind=per_task:N says how many each task has.
Result<void> put_bound_gpus(const OptionSet& own, StepSpec& step) {
  constexpr std::string_view kPerTask = "per_task:";
  const Given* bind = own.find("gpu-bind");
  if (!bind || !step.devices_per_task.empty())
    return {};
  const auto at = bind->text.find(kPerTask);
  if (at == std::string::npos)
    return {};
  const auto count = parse_count(std::string_view(bind->text).substr(at + kPerTask.size()));
  if (!count)
    return bad_value(own, "gpu-bind");
  step.devices_per_task = {DeviceAsk{"gpu", "", *count}};
  return {};
}

Result<void> put_devices(const OptionSet& own, const Devices& devices, bool own_gpus, StepSpec& step) {
  step.devices_per_node = devices.per_node;
  drop_described(step.devices_per_node, devices.per_task);  // each task sees its own
  step.devices_per_task = devices.per_task;
  if (devices.none || (own_gpus && count_of_all(devices) == 0)) {
    step.devices_per_node = {DeviceAsk{"gpu", "", 0}};
    step.devices_per_task.clear();
  }
  put_total(devices.total, step);
  return put_bound_gpus(own, step);
}

// What the step's own command line says of memory; its job's variables say what the job has, which the step shares.
Result<void> put_memory(const OptionSet& own, const Shape& shape, StepSpec& step) {
  const bool is_of_node = own.by("mem", Origin::kCommandLine);
  if (!is_of_node && !own.by("mem-per-cpu", Origin::kCommandLine))
    return {};
  const std::string_view name = is_of_node ? "mem" : "mem-per-cpu";
  const auto mb = parse_memory_mb(own.text(name));
  if (!mb)
    return bad_value(own, name);
  if (is_of_node) {
    step.memory_mb = *mb == 0 ? -1 : *mb;  // 0: all that the job has there
    return {};
  }
  // As many as a node has where they are shared evenly; where it is not known how many nodes, one.
  const std::uint32_t nodes = step.nodes.max;
  const std::uint32_t shared = nodes > 0 ? (step.tasks + nodes - 1) / nodes : 1;
  const std::uint64_t tasks = std::max({1u, shape.tasks_per_node, shape.tasks_per_node > 0 ? 0u : shared});
  const std::uint64_t cores = tasks * std::max<std::uint64_t>(1, step.cores_per_task);
  const std::uint64_t total = static_cast<std::uint64_t>(*mb) * cores;
  if (total > 0 && total < (std::uint64_t{1} << 42))
    step.memory_mb = static_cast<std::int64_t>(total);
  return {};
}

Result<void> put_group(const OptionSet& own, StepSpec& step) {
  const Given* given = own.find("het-group");
  if (!given)
    return {};
  const auto group = parse_count(given->text);
  if (!group && given->text.find_first_of(",-") != std::string::npos)
    return unsupported(own, "het-group", "one step over several components is not supported yet");
  if (!group || *group > 0xffff)
    return bad_value(own, "het-group");
  step.group = static_cast<std::uint16_t>(*group);
  return {};
}

Result<void> put_distribution(const OptionSet& own, const Surroundings& around, StepSpec& step) {
  step.distribution = TRY(distribution_of(own));
  if (step.distribution != "arbitrary")
    return {};
  step.only_nodes = TRY(nodes_by_task(own, around));
  step.tasks = static_cast<std::uint32_t>(step.only_nodes.size());
  step.nodes = {};
  return {};
}

// How the tasks start, end and write.
Result<void> put_conduct(const OptionSet& own, StepSpec& step) {
  step.overlap = own.has("overlap");
  step.overcommit = own.has("overcommit");
  const bool own_cores = own.has("cpus-per-task") || own.has("tres-per-task");
  step.exact = own.has("exact") || own.has("exclusive") || (own_cores && !own.has("whole"));
  step.whole = !step.exact;
  step.immediate = own.has("immediate");
  step.label = own.has("label");
  step.unbuffered = own.has("unbuffered");
  if (const Given* given = own.find("kill-on-bad-exit")) {
    const auto value = given->text.empty() ? std::optional<bool>(true) : parse_yes_no(given->text);
    if (!value)
      return bad_value(own, "kill-on-bad-exit");
    step.kill_on_bad_exit = *value;
  }
  if (own.has("wait"))
    step.wait_after_first = seconds(TRY(count_of(own, "wait", 0)));
  if (const Given* given = own.find("open-mode")) {
    const std::string word = lower(given->text);
    if (!is_among("append truncate a t", word))
      return bad_value(own, "open-mode");
    step.append = word[0] == 'a';
  }
  return {};
}

}  // namespace

Result<StepSpec> step_of(const OptionSet& options, const Surroundings& around, std::vector<std::string>& notes) {
  StepSpec step;
  OptionSet own = options;
  forget_first_component(own);
  fit_nodes_to_tasks(own, notes);
  TRY(bind_by_accel(own));
  const bool own_gpus = replaces_gpus_of_job(own);
  const Shape shape = TRY(shape_of(own, notes));
  const NodeChoice choice = TRY(node_choice_of(own, around));
  const Devices devices = TRY(devices_of(own, shape));
  step.nodes = shape.nodes;
  step.tasks = shape.tasks_given || shape.nodes.max ? shape.tasks.min : 0;
  step.tasks_per_node = shape.tasks_per_node;
  step.only_nodes = choice.only;
  step.exclude_nodes = choice.exclude;
  step.cores_per_task = TRY(cores_per_task_of(own));
  TRY(put_devices(own, devices, own_gpus, step));
  TRY(put_memory(own, shape, step));
  if (own.has("relative"))
    step.relative = TRY(count_of(own, "relative", 0));
  TRY(put_group(own, step));
  TRY(put_distribution(own, around, step));
  TRY(check_binding(own, "cpu-bind", notes));
  TRY(check_binding(own, "mem-bind", notes));
  if (const Given* given = own.find("time"); given && !parse_time_limit(given->text))
    return bad_value(own, "time");
  step.umask = around.umask;
  step.work_dir = absolute_path(own.text("chdir", around.work_dir), around.work_dir);
  TRY(put_conduct(own, step));
  step.container = TRY(container_of(own, step.work_dir, notes));
  step.options = own.verbatim();
  TRY(bind_by_gpu(own, step));
  std::sort(step.options.begin(), step.options.end());
  return step;
}

}  // namespace lockstep::slurm
