// A new job: what is wrong with it, what holds it, its record.
#include <algorithm>
#include <set>
#include <unordered_set>

#include "base/text.h"
#include "core/accounting.h"
#include "core/completion.h"
#include "core/dependencies.h"
#include "core/directory.h"
#include "core/jobs.h"
#include "core/objects.h"
#include "core/reservations.h"
#include "core/timers.h"
#include "core/topology.h"
#include "model/bounds.h"
#include "model/job.h"
#include "model/request_name.h"
#include "rules/growth.h"
#include "rules/priority.h"
#include "rules/shared_cores.h"
#include "rules/topology.h"
#include "rules/user_words.h"

namespace lockstep {

namespace {

// How many tasks, and that they can lie on so many nodes: said before anything is worked out task by task.
Result<void> check_tasks(const GroupSpec& group, const std::string& field) {
  const bool has_records = group.launch == Launch::kTasks;
  const bool every_node = wants_every_node(group);
  const std::uint32_t most = has_records ? kTaskRecordsMax : kJobTasksMax;
  if (group.tasks.min > group.tasks.max || group.tasks.max == 0)
    return invalid(format("the task count {}-{} is no range", group.tasks.min, group.tasks.max), field);
  if (group.tasks.min == 0 && !has_records)
    return invalid("a job needs at least one task", field);
  if (every_node && !has_records)
    return invalid("only groups of tasks that the cluster starts have one on every node", field);
  if (group.tasks.min > most || (!every_node && group.tasks.max > most))
    return invalid(format("asks for {} tasks; {} are allowed", std::max(group.tasks.min, group.tasks.max), most),
                   field);
  if (group.nodes.max > 0 && group.tasks.min > std::uint64_t{kTasksPerNodeMax} * group.nodes.max)
    return invalid(format("asks for {} tasks on {} node(s); a node takes {} at most: ask for more nodes",
                          group.tasks.min, group.nodes.max, kTasksPerNodeMax),
                   field);
  return {};
}

Result<void> check_group_nodes(const GroupSpec& group, const std::string& field) {
  const bool every_node = wants_every_node(group);
  if (group.nodes.max != 0 && group.nodes.min > group.nodes.max)
    return invalid(format("the node count {}-{} is no range", group.nodes.min, group.nodes.max), field);
  if (!every_node && group.nodes.min > group.tasks.max)
    return invalid(format("{} tasks cannot run on {} nodes", group.tasks.max, group.nodes.min), field);
  return {};
}

bool is_dns_label(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= 63 && letter(name.front()) && letter(name.back()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || c == '-'; });
}

Result<void> check_names(const std::vector<std::string>& names, const char* what, const std::string& field) {
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (!is_dns_label(name))
      return invalid(format("\"{}\" is no name of a {}: up to 63 small letters, digits and \"-\" are", name, what),
                     field);
    if (!seen.insert(name).second)
      return invalid(format("two {}s are called {}", what, name), field);
  }
  return {};
}

Result<void> check_volumes_of(const SandboxContainer& one, const Sandbox& sandbox, const std::string& field) {
  for (const Mount& mount : one.container.mounts) {
    if (!mount.source.starts_with(kVolumePrefix))
      continue;
    const std::string_view path = std::string_view(mount.source).substr(kVolumePrefix.size());
    const std::string_view volume = path.substr(0, path.find('/'));
    const auto inside = split(path, '/');
    if (std::ranges::find(inside, "..") != inside.end())
      return invalid(format("container {} mounts {}, which leads out of the volume", one.name, mount.source), field);
    if (std::ranges::none_of(sandbox.volumes, [&](const SandboxVolume& known) { return known.name == volume; }))
      return invalid(format("container {} mounts volume {}, which the sandbox does not have", one.name, volume), field);
  }
  return {};
}

Result<void> check_sandbox(const GroupSpec& group, const std::string& field) {
  const Sandbox& sandbox = group.sandbox;
  if (!is_sandbox(sandbox) && sandbox.volumes.empty())
    return {};
  if (group.launch != Launch::kTasks)
    return invalid("only tasks that the cluster starts have sandboxes: \"launch\":\"tasks\"", field);
  std::vector<std::string> names;
  bool has_main = sandbox.containers.empty();
  for (const SandboxContainer& one : sandbox.containers) {
    names.push_back(one.name);
    has_main = has_main || one.kind == ContainerKind::kMain;
    if (one.argv.empty() && one.container.image.empty())
      return invalid(format("container {} has nothing to run", one.name), field);
    if (one.kind == ContainerKind::kAdded || !one.sees_processes_of.empty())
      return invalid(format("container {} can only be added to a sandbox that runs", one.name), field);
    if (!one.container.name.empty() || !one.container.save.empty() || !one.container.bundle.empty())
      return invalid(
          format("container {}: in a sandbox containers have no name, save and bundle of their own", one.name), field);
    if (one.container.image.empty() && !one.container.mounts.empty())
      return invalid(format("container {} has mounts and no image: on the node itself nothing is mounted", one.name),
                     field);
    TRY(check_volumes_of(one, sandbox, field));
  }
  if (!has_main)
    return invalid("a sandbox needs a container of kind main, with which it ends", field);
  TRY(check_names(names, "container", field));
  names.clear();
  for (const SandboxVolume& volume : sandbox.volumes) names.push_back(volume.name);
  return check_names(names, "volume", field);
}

// What a sandbox asks that its node does for root alone; "" = nothing.
std::string asked_of_root(const Sandbox& sandbox) {
  for (const SandboxVolume& volume : sandbox.volumes)
    if (volume.kind != SandboxVolume::Kind::kDisk)
      return format("volume {} is memory, files of its front end or of the node", volume.name);
  for (const SandboxContainer& one : sandbox.containers) {
    if (one.rights != ContainerRights())
      return format("container {} has rights of its own", one.name);
    if (one.milli_cores > 0 || one.cpu_weight > 0 || one.memory_bytes > 0 || one.disk_bytes > 0)
      return format("container {} has limits of its own", one.name);
    if (one.begun != ContainerHook() || one.ending != ContainerHook())
      return format("container {} has hooks", one.name);
    if (one.keeps_input || one.terminal || !one.message_file.empty() || !one.placed_env.empty())
      return format("container {} has a terminal, input, messages or variables of its place", one.name);
  }
  return sandbox.front_end_files                                                  ? "its front end gives files"
         : !sandbox.published.empty()                                             ? "ports of the node lead to it"
         : !sandbox.sysctls.empty()                                               ? "it has settings of the kernel"
         : sandbox.disk_bytes > 0                                                 ? "it has a limit of disk"
         : sandbox.files_group                                                    ? "its volumes have a group"
         : !sandbox.aliases.empty() || sandbox.lookup != NameLookup()             ? "it has names of its own"
         : sandbox.shared_processes || sandbox.node_processes || sandbox.node_ipc ? "it shares processes or IPC"
                                                                                  : "";
}

Result<void> check_rights_of_sandboxes(const Tables& tables, const JobSpec& spec) {
  const User* owner = tables.user(spec.user);
  if (owner && owner->uid == 0)
    return {};
  for (std::size_t g = 0; g < spec.groups.size(); ++g)
    if (const std::string why = asked_of_root(spec.groups[g].sandbox); !why.empty())
      return Error{Errc::kDenied, format("only sandboxes of root's may be so: {}", why),
                   format("groups[{}].sandbox", g)};
  return {};
}

Result<void> check_group(const JobSpec& spec, std::size_t g) {
  const GroupSpec& group = spec.groups[g];
  const auto field = [&](const char* name) { return format("groups[{}].{}", g, name); };
  TRY(check_tasks(group, field("tasks")));
  TRY(check_group_nodes(group, field("nodes")));
  for (const DeviceAsk& ask : group.per_job)
    if (!ask.whole())
      return invalid("parts of devices are asked for per task or per node", field("per_job"));
  if (group.launch == Launch::kScript && g != 0)
    return invalid("only the first component runs the script", field("launch"));
  if (group.launch == Launch::kScript && spec.script.empty())
    return invalid("a batch job needs a script", "script");
  TRY(check_sandbox(group, field("sandbox")));
  if (group.launch == Launch::kTasks && group.argv.empty() && group.container.image.empty() &&
      group.sandbox.containers.empty())
    return invalid("its tasks have nothing to run", field("argv"));
  if (group.switches_wait.us < 0 || group.switches_wait > kForever)
    return invalid("the wait for switches is out of range", field("switches_wait"));
  if (auto constraint = check_constraint(group.constraint); !constraint.ok())
    return invalid(constraint.error().message, field("constraint"));
  return {};
}

bool known_to_be_possible(const ClusterState::Inner& inner, const JobSpec& spec) {
  return std::any_of(inner.accepted.begin(), inner.accepted.end(), [&](const auto& known) {
    const JobSpec& s = *known.spec;
    return known.ground == inner.ground && s.time_limit == spec.time_limit && s.time_min == spec.time_min &&
           s.account == spec.account && s.qos == spec.qos && s.partitions == spec.partitions && s.groups == spec.groups;
  });
}

// The usual case on a large cluster: the first few nodes the job may use are enough, and more would not change that.
bool a_few_nodes_do(const Tables& tables, const JobSpec& spec, const Partition& partition,
                    std::span<const std::string> levels) {
  std::size_t enough = 0;
  for (const GroupSpec& group : spec.groups) enough += 2 * std::size_t{group.nodes.min} + 8;
  std::vector<Eligible> eligible_for;
  for (const GroupSpec& group : spec.groups) eligible_for.emplace_back(partition, group);
  const auto few = first_nodes_of(tables, partition, enough, [&](const Node& node) {
    return std::any_of(eligible_for.begin(), eligible_for.end(), [&](const Eligible& group) { return group(node); });
  });
  return !few.empty() && check_possible(spec, partition, few).ok() &&
         check_domains_possible(spec, partition, levels, few).ok();
}

std::string minutes_of(Duration span) { return span >= kForever ? "unlimited" : format("{}", span.seconds() / 60); }

// Those that the job names, else the default one.
Result<std::vector<const Partition*>> partitions_of(const Tables& tables, const JobSpec& spec) {
  if (spec.partitions.empty()) {
    const Partition* partition = tables.default_partition();
    if (!partition)
      return invalid("No partition specified and there is no default one", "partitions");
    return std::vector{partition};
  }
  std::vector<const Partition*> partitions;
  for (const std::string& name : spec.partitions) {
    const Partition* partition = tables.partition(name);
    if (!partition)
      return invalid(format("invalid partition specified: {}", name), "partitions");
    partitions.push_back(partition);
  }
  return partitions;
}

// A node that is there and that the partition does not have.
Result<void> check_named_are_in(const Tables& tables, const JobSpec& spec, const Partition& partition,
                                const std::vector<const Node*>& nodes) {
  const auto names_none = [](const GroupSpec& group) { return group.only_nodes.empty(); };
  if (std::all_of(spec.groups.begin(), spec.groups.end(), names_none))
    return {};
  const std::unordered_set<const Node*> inside(nodes.begin(), nodes.end());
  for (std::size_t g = 0; g < spec.groups.size(); ++g)
    for (const std::string& name : spec.groups[g].only_nodes)
      if (const Node* node = tables.node(name); node && !inside.contains(node))
        return Error{Errc::kImpossible, format("node {} is not in partition {}", name, partition.meta.name),
                     format("groups[{}].only_nodes", g)};
  return {};
}

Result<void> check_nodes_could_run(const Tables& tables, const JobSpec& spec, const Partition& partition) {
  const std::span<const std::string> levels = levels_of(tables);
  if (a_few_nodes_do(tables, spec, partition, levels))
    return {};
  const auto nodes = nodes_of(tables, partition);
  if (nodes.empty())
    return {};
  TRY(check_named_are_in(tables, spec, partition, nodes));
  TRY(check_possible(spec, partition, nodes));
  return check_domains_possible(spec, partition, levels, nodes);
}

// Whether this partition lets the job in. A submission waits for the partition to allow its limit (PartitionTimeLimit),
// as with Slurm's EnforcePartLimits=NO; a change of the limit does not.
Result<void> check_partition(const Txn& txn, const JobSpec& spec, const Partition& plain, bool enters,
                             bool changes_limit) {
  if (enters && plain.closed)
    return Error{Errc::kDenied, format("partition {} takes no new jobs", plain.meta.name), "partitions"};
  if (const auto word = partition_refuses(plain, spec.account, spec.qos)) {
    if (*word == "AccountNotAllowed")
      return Error{Errc::kDenied, format("account {} may not use partition {}", spec.account, plain.meta.name),
                   "account"};
    return Error{Errc::kDenied, format("QOS {} may not be used in partition {}", spec.qos, plain.meta.name), "qos"};
  }
  const std::optional<Partition> eased = eased_for(txn.tables(), plain, spec.qos);
  const Partition& partition = eased ? *eased : plain;
  const Duration shortest = spec.time_min.us != 0 ? spec.time_min : spec.time_limit;
  if (changes_limit && shortest > partition.time_max && !txn.caller().admin)
    return invalid(format("Requested time limit is invalid: {} minutes are more than the {} that partition {} allows",
                          minutes_of(shortest), minutes_of(partition.time_max), partition.meta.name),
                   "time_limit");
  return check_nodes_could_run(txn.tables(), spec, partition);
}

// Some partition lets the job in: its account, its time limit, and nodes that could ever run it.
Result<void> check_partitions(const Txn& txn, const JobSpec& spec, const JobSpec* as_before) {
  if (!as_before && known_to_be_possible(txn.inner(), spec))
    return {};
  const bool enters = !as_before || as_before->partitions != spec.partitions;
  const bool changes_limit =
      as_before && (enters || as_before->time_limit != spec.time_limit || as_before->time_min != spec.time_min);
  Result<void> last;
  for (const Partition* partition : TRY(partitions_of(txn.tables(), spec))) {
    last = check_partition(txn, spec, *partition, enters, changes_limit);
    if (last.ok())
      break;
  }
  return last;
}

// What the groups ask for together.
Result<void> check_groups(const JobSpec& spec) {
  if (spec.groups.empty())
    return invalid("a job needs at least one group of tasks", "groups");
  std::uint64_t tasks = 0, records = 0;
  for (std::size_t g = 0; g < spec.groups.size(); ++g) {
    TRY(check_group(spec, g));
    const GroupSpec& group = spec.groups[g];
    tasks += group.tasks.min;
    records += group.launch == Launch::kTasks && !wants_every_node(group) ? group.tasks.max : 0;
  }
  if (tasks > kJobTasksMax)
    return invalid(format("asks for {} tasks; {} are allowed", tasks, kJobTasksMax), "groups");
  if (records > kTaskRecordsMax)
    return invalid(format("asks for {} tasks; {} are allowed", records, kTaskRecordsMax), "groups");
  return {};
}

// Where it cannot have a node whatever its job is granted. Of a choice of nodes the last word is the layout's.
Result<void> check_first_step(const JobSpec& spec, const StepSpec& step) {
  if (step.group >= spec.groups.size())
    return invalid(format("the job has no component {}", step.group), "first_step.group");
  const GroupSpec& group = spec.groups[step.group];
  const std::uint32_t most = group.nodes.max > 0 ? group.nodes.max : group.tasks.max;
  if (step.relative > 0 && step.relative >= most)
    return invalid(
        format("the step is to begin at node {}, counted from 0, but its job has {} at most", step.relative, most),
        "first_step.relative");
  return {};
}

Result<void> check_array(const Txn& txn, UserId user, const ArrayAsk& ask) {
  if (ask.indices.empty())
    return invalid("Invalid job array specification: no element", "array");
  if (ask.indices.back() >= txn.settings().array_size_max)
    return invalid(
        format("Invalid job array specification: the highest index may be {}", txn.settings().array_size_max - 1),
        "array");
  const auto known = txn.inner().waiting_elements.find(user);
  const std::uint64_t waiting = known == txn.inner().waiting_elements.end() ? 0 : known->second;
  const std::uint64_t most = txn.settings().user_elements_max;
  if (waiting + ask.indices.size() > most)
    return Error{Errc::kExhausted,
                 format("{} elements of user {}'s arrays wait already; with {} more they would be over {}, the most "
                        "there may be: try again when some have started",
                        waiting, user_words(txn.tables(), user), ask.indices.size(), most),
                 "array"};
  return {};
}

}  // namespace

Result<void> check_spec(const Txn& txn, const JobSpec& spec, const JobSpec* as_before) {
  TRY(check_groups(spec));
  TRY(check_rights_of_sandboxes(txn.tables(), spec));
  const auto is_span = [](Duration d) { return d.us >= 0 && d <= kForever; };
  if (!is_span(spec.time_limit) || !is_span(spec.time_min) || !is_span(spec.signal_ahead.ahead))
    return invalid("Requested time limit is invalid (missing or exceeds some limit)", "time_limit");
  if (spec.time_min.us != 0 && spec.time_limit.us != 0 && spec.time_min > spec.time_limit)
    return invalid("the shortest time limit is longer than the time limit", "time_min");
  const auto is_date = [](WallTime t) { return t.us >= 0 && t.us < kNever.us / 2; };
  if (!is_date(spec.begin) || !is_date(spec.deadline))
    return invalid("a date is out of range", "begin");
  if (spec.deadline && txn.inner().of_wall(spec.deadline) <= txn.now() &&
      !(as_before && as_before->deadline == spec.deadline))
    return invalid("the deadline has passed already", "deadline");
  return check_partitions(txn, spec, as_before);
}

Duration planned_limit(const Txn& txn, const JobSpec& spec) {
  const Tables& tables = txn.tables();
  const Partition* partition =
      spec.partitions.empty() ? tables.default_partition() : tables.partition(spec.partitions[0]);
  return limit_of(spec, partition, txn.settings());
}

void place_among_equals(Txn& txn, Job& job) { txn.turns().place(job, planned_limit(txn, *job.spec)); }

namespace {

auto request_label(const JobSpec& spec) {
  return std::find_if(spec.labels->begin(), spec.labels->end(),
                      [](const auto& label) { return label.first == kRequestLabel; });
}

std::string request_name(const JobSpec& spec) {
  const auto label = request_label(spec);
  return label == spec.labels->end() ? std::string() : label->second;
}

// It would keep jobs that are alike from sharing their specs.
Ref<JobSpec> without_request_name(const Ref<JobSpec>& spec) {
  if (request_label(*spec) == spec->labels->end())
    return spec;
  auto out = std::make_shared<JobSpec>(*spec);
  auto labels = spec->labels.get();
  std::erase_if(labels, [](const auto& label) { return label.first == kRequestLabel; });
  out->labels = std::move(labels);
  return out;
}

}  // namespace

namespace {

Result<void> check_submission(const Txn& txn, const SubmitJob& ask, const JobSpec& spec) {
  if (!txn.caller().admin && (spec.priority || spec.nice < 0))
    return Error{Errc::kDenied, "only an administrator sets a priority or a negative nice value",
                 spec.nice < 0 ? "nice" : "priority"};
  if (!txn.caller().admin && std::ranges::any_of(spec.groups.get(), [](const GroupSpec& g) { return shares_cores(g); }))
    return denied("tasks without cores of their own are the cluster's to start: ask for a core");
  if (txn.tables().jobs.size() >= txn.settings().jobs_max)
    return Error{
        Errc::kExhausted,
        format("{} jobs are listed, the most there may be: try again when some have ended", txn.settings().jobs_max),
        {}};
  TRY(check_spec(txn, spec, nullptr));
  TRY(check_dependencies(txn, spec, {}));
  if (ask.array)
    TRY(check_array(txn, spec.user, *ask.array));
  TRY(check_submit_limits(txn, spec, ask.array ? static_cast<std::int64_t>(ask.array->indices.size()) : 1));
  if (ask.first_step && (ask.array || spec.groups.front().launch != Launch::kNothing))
    return invalid("only a job without a program of its own may have a first step", "first_step");
  if (ask.first_step)
    TRY(check_first_step(spec, *ask.first_step));
  return {};
}

// The front end's objects that the job is made for, written beside it: they show it and own it, the first as the one
// that controls it.
Result<std::vector<OwnerRef>> put_owners(Txn& txn, std::vector<Object> objects, JobId id) {
  std::vector<OwnerRef> owners;
  for (Object& object : objects) {
    for (Shown& shown : object.shows)
      if ((shown.kind == Kind::kJob || shown.kind == Kind::kTask) && !shown.job)
        shown.job = id;
    TRY(put_object(txn, {object, 0}));
    const auto it = txn.tables().objects.find({object.type, object.meta.ns, object.meta.name});
    if (it == txn.tables().objects.end() || (it->second->meta.extra && it->second->meta.extra->deleting))
      return conflict(format("{} {} is being deleted", object.type, object.meta.name));
    const Object& made = *it->second;
    owners.push_back({Kind::kObject, made.meta.uid, made.meta.name, owners.empty(), true});
  }
  return owners;
}

Ref<ArrayState> array_as_asked(const ArrayAsk& ask) {
  ArrayState array;
  array.asked = array.waiting = ask.indices;
  array.throttle = ask.throttle;
  array.step = ask.step;
  return std::make_shared<const ArrayState>(std::move(array));
}

}  // namespace

Result<Answer> submit_job(Txn& txn, const SubmitJob& ask) {
  if (ask.spec && !ask.spec->health_check.empty())
    return Error{Errc::kDenied,
                 "runs of health checks are the cluster's own: put a record of kind health_check instead",
                 "health_check"};
  return submit_run(txn, ask);
}

Result<Answer> submit_run(Txn& txn, const SubmitJob& ask) {
  if (!ask.spec)
    return invalid("a job needs a description");
  if (txn.caller().only_on)
    return denied("root of a compute node starts no jobs from there");
  if (!txn.caller().admin && txn.caller().user != ask.spec->user)
    return denied(format("user {} may not submit jobs for user {}", user_words(txn.tables(), txn.caller().user),
                         user_words(txn.tables(), ask.spec->user)));
  const Ref<JobSpec> wanted = completed(txn, TRY(with_standing(txn, without_request_name(ask.spec))));
  TRY(check_submission(txn, ask, *wanted));

  Job job;
  job.id = txn.new_job_id();
  job.meta.name = request_name(*ask.spec);
  if (std::vector<OwnerRef> owners = TRY(put_owners(txn, ask.objects, job.id)); !owners.empty()) {
    auto extra = std::make_shared<MetaExtra>();
    extra->owners = std::move(owners);
    job.meta.extra = std::move(extra);
    job.meta.ns = ask.objects.front().meta.ns;
  }
  job.spec = txn.share(wanted);
  job.priority = plain_priority(*wanted);
  job.submitted = txn.now();
  job.first_step = ask.first_step;
  if (ask.array)
    job.array = array_as_asked(*ask.array);
  job.hold = wanted->hold ? Hold::kUser : natural_hold(txn, job);
  if (job.hold == Hold::kNone)
    job.eligible = txn.now();
  place_among_equals(txn, job);
  const bool look_again = (job.hold == Hold::kDependency && job.array) || job.hold == Hold::kDependencyNever;
  const Ref<Job> made = txn.put(std::move(job));
  txn.event(*made, "Submitted");
  note_unused(txn, *made);
  if (look_again)
    settle_hold(txn, made->id);  // its elements' counterparts may have ended; or it can never start
  return Answer{.job = made->id, .seq = txn.job(made->id)->meta.seq};
}

}  // namespace lockstep
