#include "frontends/slurm/client/job_ask.h"

#include <unordered_set>

#include "base/hostlist.h"
#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/container_ask.h"
#include "frontends/slurm/client/key_rows.h"
#include "frontends/slurm/client/resource_ask.h"
#include "frontends/slurm/client/values.h"
#include "model/bounds.h"

namespace lockstep::slurm {

namespace {

// Options that speak of the client, not of the job.
bool is_about_client(std::string_view name) {
  static constexpr std::string_view kNames[] = {"help",  "usage", "version",   "quiet",     "verbose", "parsable",
                                                "wait",  "wrap",  "test-only", "no-shell",  "bell",    "no-bell",
                                                "jobid", "label", "pty",       "multi-prog"};
  for (const auto known : kNames)
    if (known == name)
      return true;
  return false;
}

Result<void> check_hint(const OptionSet& options, std::vector<std::string>& notes) {
  const Given* hint = options.find("hint");
  if (!hint)
    return {};
  const std::string word = lower(hint->text);
  if (is_among("multithread memory_bound", word))
    notes.push_back(format("{}={} is accepted as a wish: a task's CPUs are whole cores, with all their threads",
                           where_given("hint", *hint), word));
  else if (!is_among("nomultithread compute_bound", word))
    return bad_value(options, "hint");
  return {};
}

Result<void> check_gres_flags(const OptionSet& options) {
  for (const auto& flag : items_of(lower(options.text("gres-flags"))))
    if (!is_among("disable-binding allow-task-sharing multiple-tasks-per-sharing", flag))
      return unsupported(options, "gres-flags", format("\"{}\" is not supported yet", flag));
  return {};
}

// Options that say how tasks are to sit on cores and GPUs: what is not as they wish is said, or refused.
Result<void> wishes(const OptionSet& options, std::vector<std::string>& notes) {
  TRY(check_hint(options, notes));
  if (options.has("threads-per-core") && TRY(count_of(options, "threads-per-core", 1)) != 1)
    notes.push_back(format("{} is accepted as a wish: a task's CPUs are whole cores",
                           where_given("threads-per-core", *options.find("threads-per-core"))));
  if (options.has("ntasks-per-core"))
    TRY(count_of(options, "ntasks-per-core", 1));  // a core never has more than one task anyway
  return check_gres_flags(options);
}

Result<void> switches_into(const OptionSet& options, GroupSpec& group) {
  if (!options.has("switches"))
    return {};
  const std::string text = options.text("switches");
  const std::size_t at = text.find('@');
  const bool has_time = at != std::string::npos;
  const auto count = parse_count(text.substr(0, at));
  if (!count || *count == 0)
    return invalid(
        format("Invalid numeric value \"{}\" for {}.", text, where_given("switches", *options.find("switches"))),
        "switches");
  group.switches_max = *count;
  group.switches_wait = kForever;
  const char* named = has_time ? "switches" : "wait-for-switch";
  const std::string time = has_time ? text.substr(at + 1) : options.text(named);
  if (!has_time && time.empty())
    return {};
  const auto wait = time == "0" ? Duration{} : parse_time_limit(time);
  if (!wait)
    return bad_value(options, named);
  group.switches_wait = *wait;
  return {};
}

Result<void> level_into(const OptionSet& options, GroupSpec& group) {
  if (!options.has("topology"))
    return {};
  const std::string text = options.text("topology");
  const std::size_t colon = text.find(':');
  const std::string how = colon == std::string::npos ? "required" : lower(text.substr(colon + 1));
  const std::string level = text.substr(0, colon);
  if (level.empty() || level[0] == '!' || !is_among("required preferred", how))
    return bad_value(options, "topology");
  group.topology_level = (how == "required" ? "!" : "") + level;
  return {};
}

// --switches=N[@TIME], --segment=N, --topology=LEVEL[:preferred].
Result<void> topology_into(const OptionSet& options, GroupSpec& group) {
  TRY(switches_into(options, group));
  if (options.has("segment"))
    group.segment = TRY(count_of(options, "segment", 1));
  return level_into(options, group);
}

Result<Duration> time_of(const OptionSet& options, std::string_view name) {
  const Given* given = options.find(name);
  if (!given)
    return Duration{};
  const auto value = parse_time_limit(given->text);
  if (!value)
    return invalid(format("Invalid {} specification \"{}\"", where_given(name, *given), given->text), "time_limit");
  return whole_minutes(*value);
}

Result<WallTime> calendar_of(const OptionSet& options, std::string_view name, WallTime now) {
  const Given* given = options.find(name);
  if (!given)
    return WallTime{};
  const auto value = parse_wall_time(given->text, now);
  if (!value)
    return invalid(format("Invalid {} specification \"{}\"", where_given(name, *given), given->text),
                   std::string(name));
  return *value;
}

Result<void> read_times(const OptionSet& options, const Surroundings& around, JobSpec& spec) {
  spec.time_limit = TRY(time_of(options, "time"));
  spec.time_min = TRY(time_of(options, "time-min"));
  if (spec.time_min.us > 0 && spec.time_limit.us > 0 && spec.time_min > spec.time_limit)
    return invalid("--time-min is longer than --time", "time_min");
  spec.begin = TRY(calendar_of(options, "begin", around.now));
  if (spec.begin && spec.begin <= around.now)
    spec.begin = {};
  spec.deadline = TRY(calendar_of(options, "deadline", around.now));
  if (spec.deadline && spec.deadline <= around.now)
    return invalid(
        format("Requested time limit is invalid (missing or exceeds some limit): --deadline={} is in the past",
               options.text("deadline")),
        "deadline");
  if (spec.deadline && spec.begin && spec.deadline <= spec.begin)
    return invalid("Incompatible begin and deadline time specification", "deadline");
  return {};
}

Result<void> read_dependency(const OptionSet& options, JobSpec& spec) {
  const Given* given = options.find("dependency");
  if (!given || given->text.empty())
    return {};
  auto parsed = parse_dependencies(given->text);
  if (!parsed) {
    Error error = parsed.error();
    error.message = format("Invalid {} specification: {}", where_given("dependency", *given), error.message);
    if (error.field.empty())
      error.field = "dependencies";
    return error;
  }
  spec.dependencies = parsed->all;
  spec.dependency_any = parsed->any;
  return {};
}

Result<void> read_nice(const OptionSet& options, JobSpec& spec) {
  const Given* given = options.find("nice");
  if (!given)
    return {};
  const auto value = given->text.empty() ? std::optional<std::int64_t>(100) : parse_int(given->text);
  if (!value || *value > 2147483645 || *value < -2147483645)
    return bad_value(options, "nice");
  spec.nice = static_cast<std::int32_t>(*value);
  return {};
}

Result<void> read_signal(const OptionSet& options, JobSpec& spec) {
  const Given* given = options.find("signal");
  if (!given)
    return {};
  const auto value = parse_signal_ahead(given->text);
  if (!value)
    return invalid(format("Invalid {} specification \"{}\"", where_given("signal", *given), given->text),
                   "signal_ahead");
  spec.signal_ahead = *value;
  spec.checkpoint_signal = value->signal;  // PreemptParameters=send_user_signal
  return {};
}

Result<void> read_rules(const OptionSet& options, JobSpec& spec) {
  TRY(read_dependency(options, spec));
  spec.kill_on_invalid_dependency = false;  // as in Slurm it waits, so that its owner sees it
  if (const Given* given = options.find("kill-on-invalid-dep")) {
    const auto value = parse_yes_no(given->text);
    if (!value)
      return bad_value(options, "kill-on-invalid-dep");
    spec.kill_on_invalid_dependency = *value;
  }
  spec.hold = options.has("hold");
  TRY(read_nice(options, spec));
  if (const Given* given = options.find("priority"))
    spec.priority = lower(given->text) == "top" ? 0xfffffffd : TRY(count_of(options, "priority", 0));
  if (options.has("requeue") || options.has("no-requeue")) {
    spec.requeue = options.has("requeue");
    spec.requeue_set = true;
  }
  if (const Given* given = options.find("no-kill"))
    spec.survive_node_loss = !is_among("off no", lower(given->text));
  return read_signal(options, spec);
}

Result<void> read_files(const OptionSet& options, const Surroundings& around, JobSpec& spec) {
  spec.work_dir = absolute_path(options.text("chdir", around.work_dir), around.work_dir);
  spec.std_in = options.text("input");
  spec.std_out = options.text("output");
  spec.std_err = options.text("error");
  if (options.command() == SlurmCommand::kSbatch) {
    for (auto* path : {&spec.std_in, &spec.std_out, &spec.std_err})
      if (*path == "none")
        *path = "/dev/null";
  }
  if (const Given* given = options.find("open-mode")) {
    const std::string word = lower(given->text);
    if (word != "append" && word != "truncate" && word != "a" && word != "t")
      return invalid(format("Invalid {} specification \"{}\"", where_given("open-mode", *given), given->text),
                     "open_mode");
    spec.append = word[0] == 'a';
  }
  return {};
}

// "SRC:DST"; the last colon parts them.
StagedPath parted_path(const std::string& text) {
  const auto mark = text.rfind(':');
  return mark == text.npos ? StagedPath{text, {}} : StagedPath{text.substr(0, mark), text.substr(mark + 1)};
}

Error bad_staging(const OptionSet& options, std::string_view name, const std::string& text, std::string_view why) {
  return invalid(format("Invalid {} specification \"{}\": {}", where_given(name, *options.find(name)), text, why),
                 std::string(name == "stage-in" ? "stage_in" : "stage_out"));
}

std::string last_part(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') == path.npos ? 0 : path.rfind('/') + 1));
}

constexpr const char* kInScratch = "that one lies in the job's scratch: a relative path without \"..\"";

Result<void> read_staging(const OptionSet& options, JobSpec& spec) {
  std::vector<StagedPath> in, out;
  if (const Given* given = options.find("stage-in"))
    for (const std::string& text : split(given->text, '\n')) {
      StagedPath path = parted_path(text);
      if (text.find(':') == text.npos)
        path.to = last_part(path.from);
      if (path.from.empty() || path.to.empty())
        return bad_staging(options, "stage-in", text, "SRC or SRC:DST is wanted");
      if (!stays_below(path.to))
        return bad_staging(options, "stage-in", text, format("DST is {}; {}", path.to, kInScratch));
      path.from = absolute_path(path.from, spec.work_dir);
      in.push_back(std::move(path));
    }
  if (const Given* given = options.find("stage-out"))
    for (const std::string& text : split(given->text, '\n')) {
      StagedPath path = parted_path(text);
      if (path.from.empty() || path.to.empty())
        return bad_staging(options, "stage-out", text, "SRC:DST is wanted");
      if (!stays_below(path.from))
        return bad_staging(options, "stage-out", text, format("SRC is {}; {}", path.from, kInScratch));
      path.to = absolute_path(path.to, spec.work_dir);
      out.push_back(std::move(path));
    }
  for (const auto* list : {&in, &out})
    if (list->size() > kStagedPathsMax)
      return invalid(format("--stage-in and --stage-out may be given {} times each", kStagedPathsMax));
  spec.stage_in = std::move(in);
  spec.stage_out = std::move(out);
  spec.checkpoint_file = options.text("checkpoint-file");
  spec.checkpoint_line = options.text("checkpoint-line");
  return {};
}

Result<void> read_names(const OptionSet& options, JobSpec& spec) {
  spec.name = options.text("job-name");
  spec.account = options.text("account");
  spec.qos = options.text("qos");
  spec.reservation = options.text("reservation");
  spec.comment = options.text("comment");
  spec.wckey = options.text("wckey");
  spec.licenses = join(items_of(options.text("licenses")), ",");
  for (const auto& item : items_of(spec.licenses)) {
    const auto at = item.find_first_of(":=");
    const auto count =
        at == std::string::npos ? std::optional<std::uint32_t>(1) : parse_count(std::string_view(item).substr(at + 1));
    if (at == 0 || !count)
      return invalid(
          format("Invalid {} specification \"{}\"", where_given("licenses", *options.find("licenses")), spec.licenses),
          "licenses");
  }
  spec.partitions = items_of(options.text("partition"));
  if (spec.partitions.empty() && !options.text("partition").empty())
    return bad_value(options, "partition");
  return {};
}

}  // namespace

std::string absolute_path(const std::string& path, const std::string& work_dir) {
  if (path.empty() || path[0] == '/')
    return path;
  if (path == ".")
    return work_dir;
  return work_dir == "/" ? "/" + path : work_dir + "/" + path;
}

namespace {

Result<void> sharing_into(const OptionSet& options, GroupSpec& group) {
  const Given* given = options.find("exclusive");
  if (!given)
    return {};
  const std::string word = lower(given->text);
  if (is_among("mcs topo", word))
    return unsupported(options, "exclusive", format("\"{}\" is not supported yet", word));
  if (!word.empty() && word != "user")
    return bad_value(options, "exclusive");
  group.sharing = word.empty() ? Sharing::kExclusive : Sharing::kExclusiveUser;
  group.all_cores |= word.empty();
  return {};
}

// Nodes named one by one are at least so many nodes.
Result<void> count_named_nodes(const OptionSet& options, GroupSpec& group) {
  if (group.only_nodes.size() <= group.nodes.min)
    return {};
  const auto named = static_cast<std::uint32_t>(group.only_nodes.size());
  if (group.nodes.max && named > group.nodes.max)
    return invalid(format("Required nodelist includes more nodes than permitted by max-node count ({} > {}).", named,
                          group.nodes.max),
                   "nodes");
  group.nodes = {named, std::max(named, group.nodes.max)};
  if (!options.has("ntasks") && !options.has("nodes")) {
    const std::uint32_t each = std::max<std::uint32_t>(1, group.tasks_per_node);
    group.tasks = {named * each, named * each};
  }
  return {};
}

}  // namespace

namespace {

// Distribution "arbitrary": as many tasks as nodes are named, one after the other, on all of those nodes.
Result<void> put_listed_nodes(const OptionSet& options, const Surroundings& around, GroupSpec& group) {
  const auto names = TRY(nodes_by_task(options, around));
  const auto tasks = static_cast<std::uint32_t>(names.size());
  group.only_nodes.clear();
  std::unordered_set<std::string_view> known;
  for (const std::string& name : names)
    if (known.insert(name).second)
      group.only_nodes.push_back(name);
  const auto nodes = static_cast<std::uint32_t>(group.only_nodes.size());
  group.tasks = {tasks, tasks};
  group.nodes = {nodes, nodes};
  group.tasks_per_node = 0;
  group.tasks_per_node_exact = false;
  return {};
}

}  // namespace

Result<GroupSpec> group_of(const OptionSet& options, const Surroundings& around, std::vector<std::string>& notes) {
  TRY(wishes(options, notes));
  const std::string distribution = TRY(distribution_of(options));
  const Shape shape = TRY(shape_of(options, notes));
  const NodeChoice choice = TRY(node_choice_of(options, around));
  GroupSpec group;
  group.name = options.text("job-name");
  group.tasks = shape.tasks;
  group.nodes = shape.nodes;
  group.tasks_per_node = shape.tasks_per_node;
  group.tasks_per_node_exact = shape.tasks_per_node_exact;
  TRY(devices_into(options, shape, group));
  TRY(memory_into(options, group));
  group.overcommit = options.has("overcommit");
  TRY(sharing_into(options, group));
  TRY(topology_into(options, group));
  group.constraint = options.text("constraint");
  if (options.has("constraint") && trim(group.constraint).empty())
    return bad_value(options, "constraint");
  group.only_nodes = choice.only;
  group.exclude_nodes = choice.exclude;
  if (options.has("mincpus"))
    group.contiguous_cores_min = TRY(count_of(options, "mincpus", 1));
  if (const Given* given = options.find("tmp")) {
    const auto mb = parse_memory_mb(given->text);
    if (!mb)
      return bad_value(options, "tmp");
    group.tmp_disk_mb = *mb;
  }
  if (distribution == "arbitrary")
    TRY(put_listed_nodes(options, around, group));
  else
    TRY(count_named_nodes(options, group));
  if (options.command() == SlurmCommand::kSbatch)
    group.container =
        TRY(container_of(options, absolute_path(options.text("chdir", around.work_dir), around.work_dir), notes));
  return group;
}

namespace {

Result<void> read_array(const OptionSet& options, SubmitRequest& request) {
  const Given* given = options.find("array");
  if (!given)
    return {};
  auto parsed = parse_array(given->text);
  if (!parsed)
    return invalid(format("Invalid {} specification: {}", where_given("array", *given), parsed.error().message),
                   "array");
  request.array = *parsed;
  return {};
}

// What a component behind the first may say of the job, which they share.
Result<void> join_component(const OptionSet& component, std::size_t i, const OptionSet& first, JobSpec& spec) {
  for (const char* name : {"partition", "account", "qos", "reservation"})
    if (component.has(name) && component.text(name) != first.text(name))
      return Error{Errc::kUnsupported,
                   format("component {}: --{} different from the first component's is not supported yet", i, name),
                   name};
  spec.time_limit = std::max(spec.time_limit, TRY(time_of(component, "time")));
  if (component.has("array"))
    return invalid("Job arrays are not supported for heterogeneous jobs", "array");
  return {};
}

}  // namespace

Result<SubmitRequest> job_request(const std::vector<OptionSet>& components, const Surroundings& around,
                                  std::vector<std::string>& notes) {
  CHECK(!components.empty());
  const OptionSet& first = components.front();
  SubmitRequest request;
  JobSpec& spec = request.spec;
  spec.front_end = "slurm";
  spec.umask = around.umask;
  spec.submit_host = around.host_name;
  TRY(read_names(first, spec));
  TRY(read_times(first, around, spec));
  TRY(read_rules(first, spec));
  TRY(read_files(first, around, spec));
  TRY(read_staging(first, spec));
  TRY(read_array(first, request));
  if (first.has("array") && components.size() > 1)
    return invalid("Job arrays are not supported for heterogeneous jobs", "array");
  for (std::size_t i = 0; i < components.size(); ++i) {
    spec.groups.push_back(TRY(group_of(components[i], around, notes)));
    if (i > 0)
      TRY(join_component(components[i], i, first, spec));
    const bool is_listed = TRY(distribution_of(components[i])) == "arbitrary";
    const std::string list = is_listed ? join(TRY(nodes_by_task(components[i], around)), ",") : std::string();
    for (auto& [name, text] : components[i].verbatim())
      if (!is_about_client(name))
        spec.options.emplace_back(i == 0 ? name : format("het-{}/{}", i, name),
                                  is_listed && name == "nodelist" ? list : text);
  }
  std::sort(spec.options.begin(), spec.options.end());
  for (const OptionSet& component : components)
    for (const auto& text : component.notes()) notes.push_back(text);
  return request;
}

}  // namespace lockstep::slurm
