// Pure readings of a job's record, its allocation and the planner's note.
#include "frontends/slurm/server/job_facts.h"

#include <algorithm>
#include <array>
#include <set>
#include <unordered_set>

#include "base/hostlist.h"
#include "base/text.h"
#include "frontends/slurm/server/environment.h"
#include "frontends/slurm/server/show_text.h"
#include "rules/fit.h"
#include "rules/growth.h"
#include "rules/topology.h"
#include "rules/tres.h"

namespace lockstep::slurm {

namespace {

bool ran(const Job& job) { return job.allocation != nullptr; }

std::string_view dependency_word(Dependency::Type type) {
  switch (type) {
    case Dependency::Type::kAfter: return "after";
    case Dependency::Type::kAfterAny: return "afterany";
    case Dependency::Type::kAfterOk: return "afterok";
    case Dependency::Type::kAfterNotOk: return "afternotok";
    case Dependency::Type::kAfterCorr: return "aftercorr";
    case Dependency::Type::kSingleton: return "singleton";
  }
  return "afterany";
}

void add_gpus(JobCounts& counts, const std::vector<DeviceAsk>& asks, std::uint32_t times) {
  for (const DeviceAsk& ask : asks)
    if (ask.kind == "gpu" && ask.count > 0 && ask.mig.empty() && !ask.whole()) {
      counts.shared_milli += ask.milli * ask.count * times;
    } else if (ask.kind == "gpu" && ask.count > 0) {
      counts.gpus += ask.count * times;
      counts.gpu_type = ask.mig.empty() ? ask.type : ask.mig;
    }
}

}  // namespace

JobLine job_line(const ReadContext& context, const Job& job) {
  JobLine line;
  line.context = &context;
  line.job = &job;
  line.asker = sees_job_as(context.viewer(), job);
  if (job.state == JobState::kPending) {
    line.note = context.notes.of(job.id);
    line.expected_start = context.notes.expected_start(job.id);
  }
  return line;
}

std::string indices_text(const IntervalSet& set) {
  constexpr std::size_t kShown = kIndicesShown / 2;  // intervals that could fit: a digit and a comma each
  if (set.intervals().size() <= kShown)
    if (std::string whole = set.text(); whole.size() <= kIndicesShown)
      return whole;
  IntervalSet first;
  for (std::size_t i = 0; i < std::min(kShown, set.intervals().size()); ++i)
    first.insert(set.intervals()[i].low, set.intervals()[i].high);
  std::string text = first.text().substr(0, kIndicesShown);
  text.resize(text.rfind(',') + 1);
  return text + "...";
}

std::string array_indices(const JobLine& line) {
  const Job& job = *line.job;
  if (line.one_waiting)
    return std::to_string(line.waiting_index);
  if (job.array_job)
    return std::to_string(job.array_index);
  if (!job.array)
    return "N/A";
  const std::string waiting = !line.waiting_rest.empty()
                                  ? std::string(line.waiting_rest)
                                  : indices_text(job.array->waiting.empty() ? job.array->asked : job.array->waiting);
  return job.array->throttle ? format("{}%{}", waiting, job.array->throttle) : waiting;
}

std::string array_label(const JobLine& line) {
  const bool is_list = line.job->array && !line.job->array_job && !line.one_waiting;
  return is_list ? format("[{}]", array_indices(line)) : array_indices(line);
}

std::string job_label(const JobLine& line) {
  const Job& job = *line.job;
  if (job.array_job)
    return format("{}_{}", job.array_job.value, job.array_index);
  if (job.array || line.one_waiting)
    return format("{}_{}", job.id.value, array_label(line));
  if (job.spec->groups.size() > 1)
    return format("{}+{}", job.id.value, line.group);
  return std::to_string(job.id.value);
}

JobCounts asked_counts(const JobSpec& spec, const GroupSpec& group) {
  JobCounts counts;
  counts.in_turns = gpu_sharing(spec) == GpuSharing::kTimeSlices;
  counts.tasks = std::max(1u, group.tasks.min);
  const std::uint32_t by_tasks =
      group.tasks_per_node ? (counts.tasks + group.tasks_per_node - 1) / group.tasks_per_node : 1;
  counts.nodes = std::max({1u, group.nodes.min, by_tasks});
  add_gpus(counts, group.per_job, 1);
  add_gpus(counts, group.per_node.devices, counts.nodes);
  add_gpus(counts, group.per_task.devices, counts.tasks);
  counts.cpus = std::max({counts.nodes, counts.tasks * std::max(1u, group.per_task.cores),
                          counts.nodes * group.per_node.cores, counts.gpus * group.cores_per_device});
  counts.memory_mb = group.per_node.memory_mb * counts.nodes + group.per_task.memory_mb * counts.tasks +
                     group.memory_per_core_mb * counts.cpus + group.memory_per_device_mb * counts.gpus;
  return counts;
}

JobCounts job_counts(const JobLine& line) {
  if (!ran(*line.job))
    return asked_counts(line.spec(), line.group_spec());
  JobCounts counts;
  counts.in_turns = gpu_sharing(line.spec()) == GpuSharing::kTimeSlices;
  bool one_type = true;
  counts.nodes = size_of(line.job->allocation->grants, line.group).nodes;
  for (const Grant& grant : line.job->allocation->grants) {
    if (grant.group != line.group)
      continue;
    counts.cpus += grant.cores.count();
    counts.tasks += grant.tasks;
    counts.memory_mb += grant.memory_mb;
    const Node* node = line.context->tables.node(grant.node);
    grant.devices.for_each([&](std::uint32_t i) {
      if (!node || i >= node->devices.size() || node->devices[i].kind != "gpu")
        return;
      one_type &= counts.gpus == 0 || counts.gpu_type == node->devices[i].type;
      counts.gpu_type = node->devices[i].type;
      ++counts.gpus;
    });
    for (const DevicePart& part : grant.parts) {
      counts.shared_milli += part.mig.empty() ? part.milli : 0;
      if (part.mig.empty())
        continue;
      one_type &= counts.gpus == 0 || counts.gpu_type == part.mig;
      counts.gpu_type = part.mig;
      ++counts.gpus;
    }
  }
  if (!one_type)
    counts.gpu_type.clear();
  return counts;
}

std::string partition_text(const JobLine& line) {
  if (line.job->allocation)
    return line.job->allocation->partition;
  if (!line.spec().partitions.empty())
    return join(line.spec().partitions, ",");
  const Partition* partition = line.context->tables.default_partition();
  return partition ? partition->meta.name : std::string();
}

std::string expected_node_list(const JobLine& line) {
  std::vector<std::string> names;
  const auto add = [&](NodeId id) {
    if (const Node* node = line.context->tables.node(id))
      names.push_back(node->meta.name);
  };
  if (line.job->state == JobState::kPending && line.job->promise)
    for (const Grant& grant : line.job->promise->grants) add(grant.node);
  else if (line.note)
    for (const NodeId id : line.note->expected_nodes) add(id);
  sort_hosts(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return compress_hostlist(names);
}

std::vector<std::string> node_names(const JobLine& line) {
  std::vector<std::string> names;
  if (!ran(*line.job))
    return names;
  std::unordered_set<NodeId> seen;  // an elastic group may have several grants on a node, or have left it
  for (const Grant& grant : line.job->allocation->grants)
    if (grant.group == line.group && occupies(grant) && seen.insert(grant.node).second)
      if (const Node* node = line.context->tables.node(grant.node))
        names.push_back(node->meta.name);
  return names;
}

std::string first_node(const JobLine& line) {
  if (ran(*line.job))
    for (const Grant& grant : line.job->allocation->grants)
      if (grant.group == line.group && occupies(grant))
        if (const Node* node = line.context->tables.node(grant.node))
          return node->meta.name;
  return {};
}

std::string node_list(const JobLine& line) {
  if (!ran(*line.job))
    return line.job->ran_on;
  const auto& grants = line.job->allocation->grants;
  if (grants.size() == 1) {  // most jobs: no list to compress
    const Node* node = line.context->tables.node(grants[0].node);
    return node ? node->meta.name : std::string();
  }
  return compress_hostlist(node_names(line));
}

std::string user_name(const ReadContext& context, UserId user) {
  const User* record = context.tables.user(user);
  return record ? record->meta.name : "nobody";
}

std::string account_of(const JobLine& line) {
  if (!line.spec().account.empty())
    return line.spec().account;
  const User* user = line.context->tables.user(line.spec().user);
  return user ? user->account : std::string();
}

std::string memory_text(std::int64_t megabytes) {
  constexpr std::array kUnits = {'M', 'G', 'T', 'P'};
  if (megabytes == 0)
    return "0";
  std::size_t unit = 0;
  double value = static_cast<double>(megabytes);
  while (unit + 1 < kUnits.size() && value >= 1024 && static_cast<std::int64_t>(value) % 512 == 0 &&
         value == static_cast<double>(static_cast<std::int64_t>(value))) {
    value /= 1024;
    ++unit;
  }
  if (value == static_cast<double>(static_cast<std::int64_t>(value)))
    return format("{}{}", static_cast<std::int64_t>(value), kUnits[unit]);
  return format("{:.2f}{}", value, kUnits[unit]);
}

const Partition* partition_of(const JobLine& line) {
  const Tables& tables = line.context->tables;
  if (line.job->allocation)
    return tables.partition(line.job->allocation->partition);
  return line.spec().partitions.empty() ? tables.default_partition() : tables.partition(line.spec().partitions[0]);
}

std::int64_t billing_in(const Partition* partition, const JobCounts& counts) {
  if (!partition || partition->billing.empty())
    return counts.cpus;
  Tres tres;
  tres.cpu = counts.cpus, tres.memory_mb = counts.memory_mb, tres.nodes = counts.nodes, tres.gpus = counts.gpus;
  if (counts.gpus > 0 && !counts.gpu_type.empty())
    set_count(tres, "gres/gpu:" + counts.gpu_type, counts.gpus);
  return billing_of(tres, partition->billing);
}

std::string tres_text(const JobCounts& counts, const Partition* partition) {
  std::string out = format("cpu={}", counts.cpus);
  if (counts.memory_mb > 0)
    out += ",mem=" + memory_text(counts.memory_mb);
  out += format(",node={},billing={}", counts.nodes, billing_in(partition, counts));
  if (counts.gpus > 0)
    out += format(",gres/gpu={}", counts.gpus);
  if (counts.gpus > 0 && !counts.gpu_type.empty())
    out += format(",gres/gpu:{}={}", counts.gpu_type, counts.gpus);
  if (counts.shared_milli > 0)
    out += counts.in_turns ? format(",gres/shard={}", counts.shared_milli * kShardsOfGpu / kWholeDevice)
                           : format(",gres/mps={}", counts.shared_milli / 10);
  return out;
}

std::uint32_t min_cores_on_node(const GroupSpec& group) {
  const std::uint32_t tasks = std::max(1u, group.tasks_per_node);
  return std::max({1u, group.contiguous_cores_min, group.per_node.cores, tasks * std::max(1u, group.per_task.cores)});
}

std::string dependency_text(const Job& job) {
  if (job.state != JobState::kPending || (job.hold != Hold::kDependency && job.hold != Hold::kDependencyNever))
    return {};
  const char* const word = job.hold == Hold::kDependencyNever ? "failed" : "unfulfilled";
  std::string out;
  for (const Dependency& dependency : job.spec->dependencies) {
    if (!out.empty())
      out += job.spec->dependency_any ? '?' : ',';
    out += dependency_word(dependency.type);
    if (dependency.job)
      out.append(":").append(std::to_string(dependency.job.value));
    if (dependency.element)
      out.append("_").append(std::to_string(*dependency.element));
    if (dependency.delay.us > 0)
      out.append("+").append(std::to_string(dependency.delay.seconds() / 60));
    out.append("(").append(word).append(")");
  }
  return out;
}

const std::string* size_option(const JobSpec& spec, std::string_view name) {
  constexpr std::string_view kSizes[] = {"gpus", "gpus-per-node", "gpus-per-task", "gres", "ntasks-per-node"};
  CHECK(std::find(std::begin(kSizes), std::end(kSizes), name) != std::end(kSizes), name);
  return option_of(spec.options, name);
}

std::string tres_per_node(const JobSpec& spec) {
  if (const std::string* gpus = size_option(spec, "gpus-per-node"))
    return "gres/gpu:" + *gpus;
  if (const std::string* gres = size_option(spec, "gres")) {
    std::string out;
    for (const std::string& part : split(*gres, ',')) out += (out.empty() ? "gres/" : ",gres/") + part;
    return out;
  }
  return {};
}

std::int64_t limit_seconds(const JobLine& line) {
  Duration limit = line.spec().time_limit;
  if (limit.us == 0) {
    const Partition* partition = partition_of(line);
    if (!partition)
      return kPartitionLimit;
    limit = partition->time_default.us > 0 ? partition->time_default : partition->time_max;
  }
  return limit >= kForever ? kUnlimited : limit.seconds();
}

std::int64_t used_seconds(const JobLine& line) {
  const Job& job = *line.job;
  if (!job.started || job.state == JobState::kPending)
    return 0;
  const Instant until = job.ended ? job.ended : job.suspended_at ? job.suspended_at : line.context->now;
  // Between whole seconds, as Slurm counts: EndTime - StartTime where both are shown.
  return std::max<std::int64_t>(0, wall_seconds(*line.context, until) - wall_seconds(*line.context, job.started) -
                                       job.suspended_before.seconds());
}

std::uint32_t restarts_of(const Job& job) { return job.restarts + job.preemptions; }

std::int64_t wall_seconds(const ReadContext& context, Instant instant) {
  if (!instant || instant >= kNever)
    return 0;
  return (instant + context.wall_offset).us / 1'000'000;
}

namespace {

// Not before it was asked for, nor before the pause after a requeue.
std::int64_t earliest_seconds(const JobLine& line) {
  return std::max<std::int64_t>({0, line.spec().begin.seconds(), wall_seconds(*line.context, line.job->begin_after)});
}

}  // namespace

std::int64_t eligible_seconds(const JobLine& line) {
  const std::int64_t since = wall_seconds(*line.context, line.job->eligible);
  return since == 0 && line.job->state == JobState::kPending ? earliest_seconds(line) : since;
}

std::int64_t start_seconds(const JobLine& line) {
  const Job& job = *line.job;
  if (job.state != JobState::kPending)
    return wall_seconds(*line.context, job.started);
  if (line.expected_start)
    return wall_seconds(*line.context, line.expected_start);
  return earliest_seconds(line);
}

std::int64_t end_seconds(const JobLine& line) {
  const Job& job = *line.job;
  if (is_final(job.state) || (job.state == JobState::kCompleting && job.ended))
    return wall_seconds(*line.context, job.ended);
  if (job.state != JobState::kPending)
    return wall_seconds(*line.context, job.limit_end);
  const std::int64_t start = start_seconds(line), limit = limit_seconds(line);
  return start > 0 && limit >= 0 && line.note ? start + limit : 0;
}

std::uint64_t shown_priority(const Job& job) {
  const bool held = job.state == JobState::kPending && (job.hold == Hold::kUser || job.hold == Hold::kAdmin);
  return held ? 0 : job.priority;
}

std::map<NodeId, NodeHolding> node_holdings(const ReadContext& context) {
  std::map<NodeId, NodeHolding> out;
  const auto count = [&](const Job& job) {
    const bool ending = job.state == JobState::kCompleting;
    for (const Grant& grant : job.allocation->grants) {
      NodeHolding& holding = out[grant.node];
      holding.cores = holding.cores | grant.cores;
      holding.devices = holding.devices | grant.devices;
      holding.memory_mb += grant.memory_mb;
      holding.whole |= grant.whole_node;
      ++(ending ? holding.completing : holding.running);
    }
  };
  if (context.index)
    for (const auto& [id, nothing] : context.index->placed()) count(*context.tables.jobs.at(id));
  else
    for (const auto& [id, job] : context.tables.jobs)
      if (job->allocation)
        count(*job);
  context.notes.for_each([&](JobId, const PlanNote& note, Instant expected_start) {
    if (note.wait == Wait::kResources && expected_start)
      for (const NodeId node : note.expected_nodes) out[node].planned = true;
  });
  return out;
}

PlaceInTree place_in_tree(const JobLine& line) {
  const Tables& tables = line.context->tables;
  PlaceInTree out;
  if (!line.job->allocation || !tables.topology)
    return out;
  std::vector<const Node*> held, all;
  for (const Grant& grant : line.job->allocation->grants)
    if (const Node* node = tables.node(grant.node); node && grant.group == line.group)
      held.push_back(node);
  if (held.empty())
    return out;
  const Partition* partition = tables.partition(line.job->allocation->partition);
  for (const auto& [id, node] : tables.nodes)
    if (partition && eligible(*node, *partition, line.group_spec()))
      all.push_back(node.get());
  const std::vector<std::string>& levels = tables.topology->levels;
  out.level = level_word(depth_reached(held), held.size(), levels);
  out.best = level_word(best_depth(all, held.size()), held.size(), levels);
  out.leaves = leaves_of(held);
  return out;
}

std::string switches_text(const GroupSpec& group) {
  if (group.switches_max == 0)
    return {};
  return group.switches_wait >= kForever
             ? format("{}", group.switches_max)
             : format("{}@{}", group.switches_max, show_span(group.switches_wait.seconds()));
}

}  // namespace lockstep::slurm
