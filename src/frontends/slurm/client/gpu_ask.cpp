#include "frontends/slurm/client/gpu_ask.h"

#include <algorithm>

#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/key_rows.h"
#include "frontends/slurm/client/values.h"
#include "model/bounds.h"

namespace lockstep::slurm {

namespace {

constexpr const char* kInvalidGres = "Invalid generic resource (gres) specification";

Error disagree(std::string why) { return invalid(format("{}: {}", kInvalidGres, why), "devices"); }

Result<std::vector<DeviceAsk>> gpus_option(const OptionSet& options, std::string_view name) {
  const Given* given = options.find(name);
  if (!given)
    return std::vector<DeviceAsk>{};
  auto parsed = parse_gpus(given->text);
  if (!parsed)
    return invalid(format("Invalid {} specification: {}", where_given(name, *given), parsed.error().message),
                   "devices");
  return parsed;
}

// A share of a GPU stands alone among what is asked in the same place: GPUs beside it would be another ask.
Result<void> check_alone(const OptionSet& options, const Given& gres, const std::vector<DeviceAsk>& asks) {
  const auto items = items_of(lower(gres.text));
  const bool shares = std::any_of(items.begin(), items.end(), [](std::string_view item) {
    if (item.starts_with("gres/") || item.starts_with("gres:"))
      item.remove_prefix(5);
    return is_share_of_gpu(item.substr(0, item.find_first_of(":=")));
  });
  if (!shares || only_gpus(asks).empty())
    return {};
  for (const char* name : {"gpus", "gpus-per-node", "gpus-per-task"})
    if (const Given* other = options.find(name); other && other->origin == gres.origin)
      return invalid(format("{}={} is a share of one GPU: {} cannot be asked for beside it", where_given("gres", gres),
                            gres.text, where_given(name, *other)),
                     "devices");
  return {};
}

Result<void> read_gres(const OptionSet& options, Devices& out) {
  const Given* given = options.find("gres");
  if (!given)
    return {};
  auto parsed = parse_gres(given->text);
  if (!parsed)
    return invalid(format("Invalid {} specification: {}", where_given("gres", *given), parsed.error().message),
                   "devices");
  out.per_node = *parsed;
  out.none = lower(given->text) == "none";
  return check_alone(options, *given, out.per_node);
}

// GPUs that --gpus-per-node and --gres both name are those of the stronger origin, else of --gres, as in Slurm.
Result<void> read_gpus_of_node(const OptionSet& options, Devices& out) {
  const auto per_node = TRY(gpus_option(options, "gpus-per-node"));
  if (per_node.empty())
    return {};
  const auto named = only_gpus(out.per_node);
  if (!named.empty() && options.find("gpus-per-node")->origin <= options.find("gres")->origin)
    return {};
  std::erase_if(out.per_node, [](const DeviceAsk& ask) { return ask.kind == "gpu"; });
  out.per_node.insert(out.per_node.end(), per_node.begin(), per_node.end());
  return {};
}

bool are_same(const DeviceAsk& a, const DeviceAsk& b) {
  return a.kind == b.kind && a.type == b.type && a.mig == b.mig && a.milli == b.milli;
}

const DeviceAsk* find_ask(const std::vector<DeviceAsk>& asks, const DeviceAsk& like) {
  const auto at = std::find_if(asks.begin(), asks.end(), [&](const DeviceAsk& ask) { return are_same(ask, like); });
  return at == asks.end() ? nullptr : &*at;
}

std::uint64_t whole_gpus(const std::vector<DeviceAsk>& asks) {
  std::uint64_t sum = 0;
  for (const DeviceAsk& ask : asks)
    if (ask.kind == "gpu" && ask.whole())
      sum += ask.count;
  return sum;
}

std::string ask_words(const DeviceAsk& ask) {
  return format("{}{}{} GPU(s)", ask.count, ask.type.empty() ? "" : " ", ask.type);
}

// Asks with a type and asks without one cannot be told to be the same GPUs.
Result<void> check_types(const Devices& devices) {
  bool typed = false, untyped = false;
  for (const auto* asks : {&devices.per_node, &devices.per_task, &devices.total})
    for (const DeviceAsk& ask : *asks)
      if (ask.kind == "gpu" && ask.whole())
        (ask.type.empty() ? untyped : typed) = true;
  if (typed && untyped)
    return invalid(
        "Invalid GRES specification (with and without type identification): name the type wherever GPUs are asked "
        "for, or nowhere",
        "devices");
  return {};
}

// `of_more` GPUs are made of as many as `of_one`, a whole number of times.
Result<void> check_multiple(const DeviceAsk& of_more, std::string_view more, const DeviceAsk& of_one,
                            std::string_view one) {
  if (of_more.count % of_one.count == 0)
    return {};
  return disagree(format("{} {} are not a multiple of the {} {}", ask_words(of_more), more, ask_words(of_one), one));
}

Result<void> check_multiples(const Devices& devices) {
  for (const DeviceAsk& task : devices.per_task) {
    if (const DeviceAsk* node = find_ask(devices.per_node, task))
      TRY(check_multiple(*node, "of a node", task, "of a task"));
    if (const DeviceAsk* all = find_ask(devices.total, task))
      TRY(check_multiple(*all, "of --gpus", task, "of a task"));
  }
  for (const DeviceAsk& node : devices.per_node)
    if (const DeviceAsk* all = find_ask(devices.total, node))
      TRY(check_multiple(*all, "of --gpus", node, "of a node"));
  return {};
}

bool given_here(const OptionSet& options, std::string_view name) {
  return options.has(name) && !options.by(name, Origin::kEnvironment);
}

Result<void> check_exclusive(const OptionSet& options) {
  if (!given_here(options, "ntasks-per-gpu"))
    return {};
  for (const char* name : {"gpus-per-task", "ntasks-per-node"})
    if (given_here(options, name))
      return invalid(format("--{} is mutually exclusive with --ntasks-per-gpu", name), "tasks");
  return {};
}

}  // namespace

std::uint64_t sum_of(const std::vector<DeviceAsk>& asks) {
  std::uint64_t total = 0;
  for (const auto& ask : asks) total += ask.count;
  return total;
}

std::vector<DeviceAsk> only_gpus(const std::vector<DeviceAsk>& asks) {
  std::vector<DeviceAsk> out;
  for (const auto& ask : asks)
    if (ask.kind == "gpu")
      out.push_back(ask);
  return out;
}

Result<Devices> read_devices(const OptionSet& options) {
  Devices out;
  TRY(read_gres(options, out));
  TRY(read_gpus_of_node(options, out));
  out.per_task = TRY(gpus_option(options, "gpus-per-task"));
  const auto tres = TRY(tres_per_task(options));
  if (out.per_task.empty())
    out.per_task = tres.devices;
  out.total = TRY(gpus_option(options, "gpus"));
  return out;
}

Result<GpuCounts> counts_of_gpus(const OptionSet& options) {
  const Devices devices = TRY(read_devices(options));
  GpuCounts out;
  const auto quotient = [](const DeviceAsk& of, const DeviceAsk& by) {
    return of.count % by.count == 0 ? of.count / by.count : 0;
  };
  for (const DeviceAsk& task : devices.per_task) {
    if (task.count == 0)
      continue;
    if (const DeviceAsk* node = find_ask(devices.per_node, task); node && out.tasks_per_node == 0)
      out.tasks_per_node = quotient(*node, task);
    if (const DeviceAsk* all = find_ask(devices.total, task); all && out.tasks == 0)
      out.tasks = quotient(*all, task);
  }
  for (const DeviceAsk& node : devices.per_node)
    if (const DeviceAsk* all = find_ask(devices.total, node); all && node.count > 0 && out.nodes == 0)
      out.nodes = quotient(*all, node);
  if (out.tasks_per_node == 0 && options.has("ntasks-per-gpu") && devices.per_task.empty()) {
    const std::uint64_t each = TRY(count_of(options, "ntasks-per-gpu", 1));
    out.tasks_per_node =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(each * whole_gpus(devices.per_node), kTasksPerNodeMax));
  }
  return out;
}

Result<void> check_gpus_agree(const OptionSet& options, const Shape& shape) {
  const Devices devices = TRY(read_devices(options));
  TRY(check_types(devices));
  TRY(check_multiples(devices));
  TRY(check_exclusive(options));
  const GpuCounts counts = TRY(counts_of_gpus(options));
  if (counts.tasks && counts.tasks != shape.tasks.min)
    return disagree(format("--gpus={} at {} of a task are for {} task(s), and the job has {}: leave --gpus out",
                           options.text("gpus"), ask_words(devices.per_task.front()), counts.tasks, shape.tasks.min));
  if (counts.tasks_per_node && given_here(options, "ntasks-per-node") && !devices.per_task.empty() &&
      counts.tasks_per_node != shape.tasks_per_node)
    return disagree(format("{} of a node are enough for {} task(s) there, and --ntasks-per-node says {}",
                           ask_words(only_gpus(devices.per_node).front()), counts.tasks_per_node,
                           options.text("ntasks-per-node")));
  if (counts.nodes && (counts.nodes < shape.nodes.min || counts.nodes > std::max(1u, shape.nodes.max)))
    return disagree(format("--gpus={} are those of {} node(s), and --nodes says {}", options.text("gpus"), counts.nodes,
                           options.text("nodes", "otherwise")));
  return {};
}

void drop_described(std::vector<DeviceAsk>& asks, const std::vector<DeviceAsk>& others) {
  std::erase_if(asks, [&](const DeviceAsk& ask) { return ask.kind == "gpu" && find_ask(others, ask) != nullptr; });
}

Result<void> settle_tasks_of_gpus(const OptionSet& options, std::uint32_t tasks, Devices& devices) {
  if (!options.has("ntasks-per-gpu") || !devices.per_task.empty() || !only_gpus(devices.per_node).empty())
    return {};
  const std::uint32_t each = TRY(count_of(options, "ntasks-per-gpu", 1));
  if (devices.total.empty())
    devices.total.push_back({"gpu", "", tasks / each + (tasks % each != 0)});
  if (each == 1 && devices.total.size() == 1 && devices.total.front().count == tasks) {
    devices.per_task = std::move(devices.total);
    devices.per_task.front().count = 1;
    devices.total.clear();
  }
  return {};
}

}  // namespace lockstep::slurm
