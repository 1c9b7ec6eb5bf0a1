// step_of: what srun asks for inside an allocation.
#include "base/text.h"
#include "frontends/slurm/client/job_ask.h"
#include "frontends/slurm/client/resource_ask.h"
#include "frontends/slurm/client/values.h"

namespace lockstep {

namespace {

// Binding tasks to cores or memory within the step is a wish; a mask is an order.
Result<void> check_binding(const OptionSet& options, std::string_view name, std::vector<std::string>& notes) {
  const Given* given = options.find(name);
  if (!given)
    return {};
  for (const auto& part : split(lower(given->text), ',')) {
    const std::string word = part.substr(0, part.find(':'));
    if (word.starts_with("map_") || word.starts_with("mask_"))
      return unsupported(options, name, format("\"{}\" is not supported yet", word));
    const bool quiet = word == "none" || word == "no" || word == "q" || word == "quiet" || word == "v" ||
                       word == "verbose" || word == "local" || word == "sort" || word == "nosort" || word == "prefer";
    if (!quiet && given->origin == Origin::kCommandLine)
      notes.push_back(format("{}={} is accepted as a wish: tasks share the cores of their step on a node",
                             where_given(name, *given), given->text));
  }
  return {};
}

}  // namespace

Result<StepSpec> step_of(const OptionSet& options, const Surroundings& around, std::vector<std::string>& notes) {
  StepSpec step;
  OptionSet own = options;
  // Fewer tasks on the command line than nodes in the environment is ordinary: the step is a part of the job.
  if (own.by("ntasks", Origin::kCommandLine) && own.by("nodes", Origin::kEnvironment)) {
    const auto nodes = parse_node_range(own.text("nodes"));
    const auto tasks = parse_count(own.text("ntasks"));
    if (nodes && tasks && *tasks < nodes->min)
      notes.push_back(format("can't run {} processes on {} nodes, setting nnodes to {}", *tasks, nodes->min, *tasks));
    if (!nodes || !tasks || *tasks < nodes->min || own.has("nodelist"))
      own.unset("nodes");
  }
  const Shape shape = TRY(shape_of(own, notes));
  const NodeChoice choice = TRY(node_choice_of(own, around));
  const Devices devices = TRY(devices_of(own, shape));
  step.nodes = shape.nodes;
  step.tasks = shape.tasks_given || shape.nodes.max ? shape.tasks.min : 0;
  step.tasks_per_node = shape.tasks_per_node;
  step.only_nodes = choice.only;
  step.exclude_nodes = choice.exclude;
  step.cores_per_task = TRY(cores_per_task_of(own));
  step.devices_per_node = devices.per_node;
  step.devices_per_task = devices.per_task;
  if (devices.none)
    step.devices_per_node = {DeviceAsk{"gpu", "", 0}};
  for (const auto& ask : devices.total) step.devices_total += ask.count;
  if (const Given* bind = own.find("gpu-bind"); bind && step.devices_per_task.empty()) {
    const auto at = bind->text.find("per_task:");
    const auto count =
        at == std::string::npos ? std::nullopt : parse_count(std::string_view(bind->text).substr(at + 9));
    if (at != std::string::npos && !count)
      return bad_value(own, "gpu-bind");
    if (count)
      step.devices_per_task = {DeviceAsk{"gpu", "", *count}};
  }
  if (own.by("mem", Origin::kCommandLine)) {
    const auto mb = parse_memory_mb(own.text("mem"));
    if (!mb)
      return bad_value(own, "mem");
    step.memory_mb = *mb == 0 ? -1 : *mb;  // 0: all that the job has there
  } else if (own.by("mem-per-cpu", Origin::kCommandLine)) {
    const auto mb = parse_memory_mb(own.text("mem-per-cpu"));
    const std::uint64_t cores =
        std::max<std::uint64_t>(1, step.cores_per_task) * std::max<std::uint32_t>(1, shape.tasks_per_node);
    if (!mb)
      return bad_value(own, "mem-per-cpu");
    if (*mb > 0 && static_cast<std::uint64_t>(*mb) * cores < (std::uint64_t{1} << 42))
      step.memory_mb = static_cast<std::int64_t>(static_cast<std::uint64_t>(*mb) * cores);
  }
  if (own.has("relative"))
    step.relative = TRY(count_of(own, "relative", 0));
  if (const Given* given = own.find("het-group")) {
    const auto group = parse_count(given->text);
    if (!group && (given->text.find(',') != std::string::npos || given->text.find('-') != std::string::npos))
      return unsupported(own, "het-group", "one step over several components is not supported yet");
    if (!group || *group > 0xffff)
      return bad_value(own, "het-group");
    step.group = static_cast<std::uint16_t>(*group);
  }
  step.distribution = TRY(distribution_of(own));
  TRY(check_binding(own, "cpu-bind", notes));
  TRY(check_binding(own, "mem-bind", notes));
  step.overlap = own.has("overlap");
  step.overcommit = own.has("overcommit");
  const bool own_cores = own.has("cpus-per-task") || own.has("tres-per-task");
  step.exact = own.has("exact") || own.has("exclusive") || (own_cores && !own.has("whole"));
  step.whole = !step.exact;
  step.immediate = own.has("immediate");
  step.umask = around.umask;
  step.work_dir = absolute_path(own.text("chdir", around.work_dir), around.work_dir);
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
    if (word != "append" && word != "truncate" && word != "a" && word != "t")
      return bad_value(own, "open-mode");
    step.append = word[0] == 'a';
  }
  step.options = own.verbatim();
  std::sort(step.options.begin(), step.options.end());
  return step;
}

}  // namespace lockstep
