#include "frontends/slurm/client/resource_ask.h"

#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "base/hostlist.h"
#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/gpu_ask.h"
#include "frontends/slurm/client/key_rows.h"
#include "frontends/slurm/client/values.h"

namespace lockstep::slurm {

namespace {

constexpr std::uint64_t kTasksMax = 0x7fffffff;

Result<std::uint32_t> product(std::uint64_t a, std::uint64_t b, std::string_view of) {
  if (a * b > kTasksMax)
    return invalid(format("{} times {} {} are too many", a, b, of), "tasks");
  return static_cast<std::uint32_t>(a * b);
}

// GPUs and NICs are devices; whatever else --gres names is counted.
void put_devices(Resources& resources, const std::vector<DeviceAsk>& asks) {
  for (const DeviceAsk& ask : asks) {
    if (ask.kind == "gpu" || ask.kind == "nic")
      resources.devices.push_back(ask);
    else
      resources.counted.push_back({ask.type.empty() ? ask.kind : ask.kind + ":" + ask.type, ask.count});
  }
  std::sort(resources.counted.begin(), resources.counted.end());
}

// A value from the command line beats one that a job put into the environment of its steps, also where the two are
// different options that say how many tasks there are.
bool overrides(const OptionSet& options, std::string_view strong, std::string_view weak) {
  return options.by(strong, Origin::kCommandLine) && options.by(weak, Origin::kEnvironment);
}

}  // namespace

Error bad_value(const OptionSet& options, std::string_view name) {
  const Given* given = options.find(name);
  CHECK(given, name);
  return invalid(format("Invalid {} specification \"{}\"", where_given(name, *given), given->text), std::string(name));
}

Error unsupported(const OptionSet& options, std::string_view name, std::string_view why) {
  return {Errc::kUnsupported, format("{}: {}", where_given(name, *options.find(name)), why), std::string(name)};
}

Result<std::uint32_t> count_of(const OptionSet& options, std::string_view name, std::uint32_t least) {
  const Given* given = options.find(name);
  CHECK(given, name);
  const auto value = parse_count(given->text);
  if (!value || *value < least)
    return invalid(format("Invalid numeric value \"{}\" for {}.", given->text, where_given(name, *given)),
                   std::string(name));
  return *value;
}

Result<TresPerTask> tres_per_task(const OptionSet& options) {
  TresPerTask out;
  const Given* given = options.find("tres-per-task");
  if (!given)
    return out;
  std::string devices;
  for (const auto& item : items_of(given->text)) {
    const auto at = item.find_first_of(":=");
    if (at != std::string::npos && lower(item.substr(0, at)) == "cpu") {
      const auto count = parse_count(std::string_view(item).substr(at + 1));
      if (!count || *count == 0)
        return bad_value(options, "tres-per-task");
      out.cores = *count;
    } else if (item.starts_with("gres/")) {
      devices += (devices.empty() ? "" : ",") + item;
    } else {
      return bad_value(options, "tres-per-task");
    }
  }
  if (devices.empty())
    return out;
  auto parsed = parse_gres(devices);
  if (!parsed)
    return bad_value(options, "tres-per-task");
  out.devices = std::move(*parsed);
  return out;
}

namespace {

// How many tasks there are, as far as options say so.
struct TaskWords {
  std::optional<std::uint64_t> all;  // of --ntasks, or as GPUs need them
  std::optional<std::uint32_t> each_node;
};

// GPUs that --gpus, --gpus-per-node or --gres ask for in all; 0 = none.
Result<std::uint64_t> gpus_of(const OptionSet& options, std::uint32_t nodes) {
  const Devices devices = TRY(read_devices(options));
  const std::uint64_t gpus = sum_of(devices.total), on_node = sum_of(only_gpus(devices.per_node));
  if (gpus > 0 || on_node == 0)
    return gpus;
  return TRY(product(on_node, std::max<std::uint32_t>(1, nodes), "GPUs"));
}

Result<std::uint64_t> tasks_of_gpus(const OptionSet& options, std::uint32_t nodes) {
  const std::uint32_t for_each = TRY(count_of(options, "ntasks-per-gpu", 1));
  const std::uint64_t gpus = TRY(gpus_of(options, nodes));
  if (gpus == 0)
    return invalid("--ntasks-per-gpu needs --gpus, --gpus-per-node or --ntasks", "tasks");
  return TRY(product(gpus, for_each, "tasks"));
}

Result<TaskWords> task_words_of(const OptionSet& options, const GpuCounts& gpus, std::uint32_t nodes) {
  TaskWords out;
  if (options.has("ntasks"))
    out.all = TRY(count_of(options, "ntasks", 1));
  if (options.has("ntasks-per-node"))
    out.each_node = TRY(count_of(options, "ntasks-per-node", 1));
  if (out.each_node && overrides(options, "ntasks-per-node", "ntasks"))
    out.all.reset();
  if (out.all || (out.each_node && (nodes > 0 || gpus.tasks == 0)))
    return out;
  if (options.has("ntasks-per-gpu"))
    out.all = TRY(tasks_of_gpus(options, nodes));
  else if (gpus.tasks)
    out.all = gpus.tasks;
  else if (gpus.tasks_per_node)
    out.each_node = gpus.tasks_per_node;
  return out;
}

// --ntasks and --ntasks-per-node together: the second is the most that a node may have.
Result<void> spread(Shape& shape, std::uint32_t tasks, std::uint32_t each, bool is_of_job) {
  shape.tasks_per_node = each;
  const std::uint32_t needed = tasks / each + (tasks % each != 0);
  if (shape.nodes.max && shape.nodes.max < needed) {
    if (!is_of_job)
      return invalid(format("{} tasks do not fit on {} nodes with {} tasks per node", tasks, shape.nodes.max, each),
                     "tasks");
    shape.tasks_per_node = 0;  // a job's own variables may say more per node than a smaller step has
  } else if (needed > shape.nodes.min) {
    shape.nodes.min = needed;
    shape.nodes.max = std::max(shape.nodes.max, needed);
  }
  if (shape.nodes.min > tasks) {
    shape.nodes.min = tasks;
    shape.nodes.max = std::max(shape.nodes.min, std::min(shape.nodes.max, tasks));
  }
  return {};
}

// Whether a job's own variables say how many GPUs its nodes and tasks have.
bool gpus_are_of_job(const OptionSet& options) {
  for (const char* name : {"gpus-per-node", "gpus-per-task", "tres-per-task", "ntasks-per-gpu"})
    if (options.by(name, Origin::kEnvironment))
      return true;
  return false;
}

// No node stays without a task.
void bound_nodes(CountRange& nodes, std::uint32_t tasks, bool may_shrink, std::vector<std::string>& notes) {
  if (nodes.min > tasks && may_shrink) {
    notes.push_back(format("can't run {} processes on {} nodes, setting nnodes to {}", tasks, nodes.min, tasks));
    nodes.min = tasks;
  }
  if (nodes.max > tasks)
    nodes.max = std::max(tasks, nodes.min);
}

}  // namespace

Result<Shape> shape_of(const OptionSet& options, std::vector<std::string>& notes) {
  Shape shape;
  if (const Given* given = options.find("nodes")) {
    const auto range = parse_node_range(given->text);
    if (!range)
      return invalid(format("\"{}\" is not a valid node count: {}", given->text, where_given("nodes", *given)),
                     "nodes");
    shape.nodes = *range;
  }
  const GpuCounts gpus = TRY(counts_of_gpus(options));
  if (gpus.nodes && (shape.nodes.max == 0 || (shape.nodes.min < gpus.nodes && gpus.nodes < shape.nodes.max)))
    shape.nodes = {gpus.nodes, gpus.nodes};
  TaskWords words = TRY(task_words_of(options, gpus, shape.nodes.min));
  shape.tasks_given = words.all || words.each_node;
  if (words.all) {
    const auto tasks = static_cast<std::uint32_t>(*words.all);
    bound_nodes(shape.nodes, tasks, !words.each_node, notes);
    shape.tasks = {tasks, tasks};
    const bool by_gpus = !words.each_node && gpus.tasks_per_node;
    if (by_gpus)
      words.each_node = gpus.tasks_per_node;
    if (words.each_node)
      TRY(spread(shape, tasks, *words.each_node,
                 by_gpus ? gpus_are_of_job(options) : options.by("ntasks-per-node", Origin::kEnvironment)));
  } else if (words.each_node) {
    if (shape.nodes.max == 0)
      shape.nodes = {1, 1};
    shape.tasks_per_node = *words.each_node;
    shape.tasks_per_node_exact = true;
    shape.tasks = {TRY(product(shape.nodes.min, *words.each_node, "tasks")),
                   TRY(product(shape.nodes.max, *words.each_node, "tasks"))};
  } else if (shape.nodes.max) {
    shape.tasks = shape.nodes;
  }
  return shape;
}

namespace {

// "n1,n2", or a file of such words when a slash is in it.
Result<std::string> host_words(std::string text, const Surroundings& around) {
  if (text.find('/') != std::string::npos)
    text = TRY(around.read_file(absolute_path(text, around.work_dir)));
  std::string list;
  for (const auto& word : split_words(text)) list += (list.empty() || list.back() == ',' ? "" : ",") + word;
  return list;
}

}  // namespace

Result<void> place_by_hostfile(OptionSet& options, const Surroundings& around, const OptionSet::GetVariable& variable) {
  if (options.has("nodelist"))
    return {};
  const char* name = "SLURM_HOSTFILE";
  const char* value = variable(name);
  const bool is_file = value && *value;
  if (!is_file) {
    name = "SLURM_ARBITRARY_NODELIST";
    value = options.by("distribution", Origin::kEnvironment) && lower(options.text("distribution")) == "arbitrary"
                ? variable(name)
                : nullptr;
  }
  if (!value || !*value)
    return {};
  const std::string list =
      is_file && std::string_view(value).find('/') == std::string_view::npos ? std::string("./") + value : value;
  const auto names = host_words(list, around);
  if (!names)
    return Error{names.error().code, format("Failure getting NodeNames from hostfile: {}", names.error().message), {}};
  const auto from_there = [&](std::string text) { return Given{std::move(text), Origin::kEnvironment, 0, name}; };
  TRY(options.set("nodelist", from_there(*names)));
  options.unset("distribution");
  TRY(options.set("distribution", from_there("arbitrary")));
  if (options.has("ntasks") && !options.by("ntasks", Origin::kEnvironment))
    return {};
  options.unset("ntasks");
  options.unset("nodes");
  return options.set("ntasks", from_there(std::to_string(TRY(expand_hostlist(*names)).size())));
}

Result<std::vector<std::string>> nodes_by_task(const OptionSet& options, const Surroundings& around) {
  const Given* given = options.find("nodelist");
  if (!given)
    return invalid("With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option",
                   "distribution");
  auto names = expand_hostlist(TRY(host_words(given->text, around)));
  if (!names || names->empty())
    return bad_value(options, "nodelist");
  if (options.has("ntasks")) {
    const std::uint32_t tasks = TRY(count_of(options, "ntasks", 1));
    if (tasks > names->size() && !options.by("ntasks", Origin::kEnvironment))
      return invalid(
          format("Asked for {0} tasks have {1} in the nodelist.  Check your nodelist, or set the -n option to "
                 "be {1}",
                 tasks, names->size()),
          "tasks");
    if (tasks < names->size())
      names->resize(tasks);
  }
  return std::move(*names);
}

namespace {

// Adds the nodes of a list that an option gives, each once.
Result<void> add_nodes(const OptionSet& options, std::string_view name, const std::string& list,
                       std::vector<std::string>& into) {
  auto names = expand_hostlist(list);
  if (!names || names->empty())
    return invalid(format("Invalid {} specification \"{}\"{}{}", where_given(name, *options.find(name)), list,
                          names ? "" : ": ", names ? "" : names.error().message),
                   name == "exclude" ? "exclude_nodes" : "only_nodes");
  std::unordered_set<std::string> known(into.begin(), into.end());
  for (auto& node : *names)
    if (known.insert(node).second)
      into.push_back(std::move(node));
  return {};
}

}  // namespace

Result<NodeChoice> node_choice_of(const OptionSet& options, const Surroundings& around) {
  NodeChoice out;
  if (options.has("nodefile")) {
    std::string text = TRY(around.read_file(absolute_path(options.text("nodefile"), around.work_dir)));
    TRY(add_nodes(options, "nodefile", TRY(host_words(std::move(text), around)), out.only));
  }
  for (const auto& [name, into] : {std::pair("nodelist", &out.only), std::pair("exclude", &out.exclude)})
    if (options.has(name))
      TRY(add_nodes(options, name, TRY(host_words(options.text(name), around)), *into));
  const std::unordered_set<std::string_view> excluded(out.exclude.begin(), out.exclude.end());
  for (const auto& node : out.only)
    if (excluded.contains(node))
      return invalid(format("node {} is both in --nodelist and in --exclude", node), "exclude_nodes");
  return out;
}

Result<std::uint32_t> cores_per_task_of(const OptionSet& options) {
  const auto tres = TRY(tres_per_task(options));
  if (!options.has("cpus-per-task"))
    return tres.cores;
  const std::uint32_t cores = TRY(count_of(options, "cpus-per-task", 1));
  if (tres.cores && overrides(options, "tres-per-task", "cpus-per-task"))
    return tres.cores;
  if (tres.cores && tres.cores != cores && !overrides(options, "cpus-per-task", "tres-per-task"))
    return invalid("--cpus-per-task and --tres-per-task=cpu: contradict each other", "cores");
  return cores;
}

namespace {

// GPUs of all that others describe are said by those.
Result<void> settle_total(const Shape& shape, Devices& out) {
  const std::uint64_t total = sum_of(out.total);
  if (shape.nodes.min > std::max<std::uint64_t>(total, 1) && total > 0)
    return invalid(format("{} GPUs cannot be spread over {} nodes", total, shape.nodes.min), "devices");
  drop_described(out.total, out.per_task);
  drop_described(out.total, out.per_node);
  return {};
}

}  // namespace

namespace {

constexpr std::uint64_t kBoundGpusMost = 64;  // of a node: GPUs are numbered below it

// "3" of map_gpu, "0xc" of mask_gpu; behind it "*2" says for how many tasks.
bool names_gpus(std::string_view item, bool is_mask) {
  const auto star = item.find('*');
  if (star != item.npos && parse_uint(item.substr(star + 1)).value_or(0) == 0)
    return false;
  item = item.substr(0, star);
  if (!is_mask && !item.starts_with("0x") && !item.starts_with("0X")) {
    const auto number = parse_uint(item);
    return number && *number < kBoundGpusMost;
  }
  if (item.starts_with("0x") || item.starts_with("0X"))
    item.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), value, 16);
  return !item.empty() && error == std::errc() && end == item.data() + item.size() &&
         (is_mask ? value != 0 : value < kBoundGpusMost);
}

bool is_gpu_binding(std::string_view word) {
  for (const std::string_view prefix : {"verbose,", "v,", "quiet,", "q,"})
    if (word.starts_with(prefix))
      word.remove_prefix(prefix.size());
  const auto colon = word.find(':');
  const std::string_view how = word.substr(0, colon);
  if (colon == word.npos)
    return is_among("none closest", how);
  const std::string_view list = word.substr(colon + 1);
  if (is_among("per_task single", how)) {
    const auto count = parse_count(list);
    return count && *count > 0;
  }
  if (!is_among("map_gpu mask_gpu", how) || list.empty() || list.ends_with(','))
    return false;
  const auto items = items_of(list);
  return std::all_of(items.begin(), items.end(), [&](const auto& item) { return names_gpus(item, how == "mask_gpu"); });
}

Result<void> check_gpu_bind(const OptionSet& options) {
  const Given* bind = options.find("gpu-bind");
  if (!bind || is_gpu_binding(bind->text))
    return {};
  return invalid(format("Invalid {} argument: {}", where_given("gpu-bind", *bind), bind->text), "gpu-bind");
}

}  // namespace

Result<Devices> devices_of(const OptionSet& options, const Shape& shape) {
  TRY(check_gpu_bind(options));
  Devices out = TRY(read_devices(options));
  TRY(settle_tasks_of_gpus(options, shape.tasks.min, out));
  TRY(settle_total(shape, out));
  return out;
}

Result<std::string> distribution_of(const OptionSet& options) {
  const Given* given = options.find("distribution");
  if (!given)
    return std::string();
  std::string word = lower(given->text);
  word = word.substr(0, word.find_first_of(":,"));
  if (word == "block" || word == "*")
    return std::string("block");
  if (word == "cyclic" || word == "arbitrary")
    return word;
  if (const std::string_view size = word; size.starts_with("plane=")) {
    const auto count = parse_count(size.substr(6));
    if (count && *count > 0)
      return word;
  }
  return bad_value(options, "distribution");
}

Result<void> devices_into(const OptionSet& options, const Shape& shape, GroupSpec& group) {
  TRY(check_gpus_agree(options, shape));
  Devices devices = TRY(devices_of(options, shape));
  drop_described(devices.per_task, devices.per_node);
  put_devices(group.per_node, devices.per_node);
  put_devices(group.per_task, devices.per_task);
  group.per_job = devices.total;
  const bool any_gpu = !only_gpus(devices.per_node).empty() || !devices.per_task.empty() || !devices.total.empty();
  if (options.has("cpus-per-gpu")) {
    if (options.has("cpus-per-task") && !overrides(options, "cpus-per-gpu", "cpus-per-task"))
      return invalid("--cpus-per-task and --cpus-per-gpu are mutually exclusive", "cores");
    if (!any_gpu)
      return invalid("--cpus-per-gpu needs GPUs: --gpus, --gpus-per-node, --gpus-per-task or --gres=gpu", "cores");
    group.cores_per_device = TRY(count_of(options, "cpus-per-gpu", 1));
    return {};
  }
  const std::uint32_t cores = TRY(cores_per_task_of(options));
  group.per_task.cores = cores ? cores : 1;
  return {};
}

Result<void> memory_into(const OptionSet& options, GroupSpec& group) {
  const auto read = [&](std::string_view name) -> Result<std::int64_t> {
    const auto mb = parse_memory_mb(options.text(name));
    if (!mb)
      return bad_value(options, name);
    return *mb;
  };
  if (options.has("mem")) {
    group.per_node.memory_mb = TRY(read("mem"));
    group.all_memory = group.per_node.memory_mb == 0;
  }
  if (options.has("mem-per-cpu")) {
    group.memory_per_core_mb = TRY(read("mem-per-cpu"));
    group.all_memory = group.memory_per_core_mb == 0;
  }
  if (options.has("mem-per-gpu"))
    group.memory_per_device_mb = TRY(read("mem-per-gpu"));
  return {};
}

}  // namespace lockstep::slurm
