#include "io/history_rows.h"

#include <signal.h>

#include <map>

#include "base/hostlist.h"
#include "base/text.h"
#include "model/job.h"
#include "model/spec.h"

namespace lockstep {

namespace {

constexpr std::string_view kStates[] = {"pending",   "starting",      "running",   "suspended", "completing",
                                        "completed", "failed",        "cancelled", "timeout",   "node_fail",
                                        "preempted", "out_of_memory", "deadline",  "boot_fail"};
static_assert(std::size(kStates) == static_cast<std::size_t>(JobState::kBootFail) + 1);

using DeviceCounts = std::map<std::string, std::uint32_t>;  // "gpu:h100"

std::string device_name(const std::string& kind, const std::string& type) {
  return type.empty() ? kind : kind + ":" + type;
}

void count_asked(DeviceCounts& counts, const std::vector<DeviceAsk>& asks, std::uint32_t times) {
  for (const auto& ask : asks) counts[device_name(ask.kind, ask.type)] += ask.count * times;
}

void count_held(DeviceCounts& counts, const DeviceSet& held, NodeId id, const Tables& tables) {
  const Node* node = tables.node(id);
  held.for_each([&](std::uint32_t i) {
    if (node != nullptr && i < node->devices.size())
      ++counts[device_name(node->devices[i].kind, node->devices[i].type)];
    else
      ++counts["gpu"];
  });
}

void set_devices(JobRow& row, const DeviceCounts& counts) {
  row.devices = 0;
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts)
    if (count > 0) {
      row.devices += count;
      parts.push_back(format("{}={}", name, count));
    }
  row.devices_text = join(parts, ",");
}

std::string node_name(NodeId id, const Tables& tables) {
  const Node* node = tables.node(id);
  return node != nullptr ? node->meta.name : format("node-{}", id.value);
}

std::string node_list(std::vector<std::string> names) {
  sort_hosts(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return compress_hostlist(names);
}

void add_wishes(JobRow& row, const JobSpec& spec) {
  DeviceCounts devices;
  for (const auto& group : spec.groups) {
    const std::uint32_t tasks = std::max(1u, group.tasks.min);
    const std::uint32_t nodes =
        std::max({1u, group.nodes.min, group.tasks_per_node > 0 ? (tasks - 1) / group.tasks_per_node + 1 : 0u});
    const std::uint32_t cores = std::max(nodes, group.per_task.cores * tasks + group.per_node.cores * nodes);
    DeviceCounts here;
    count_asked(here, group.per_task.devices, tasks);
    count_asked(here, group.per_node.devices, nodes);
    count_asked(here, group.per_job, 1);
    std::int64_t count = 0;
    for (const auto& [name, n] : here) {
      devices[name] += n;
      count += n;
    }
    row.nodes += nodes;
    row.tasks += tasks;
    row.cores += cores;
    row.asked_memory_mb += group.per_task.memory_mb * tasks + group.per_node.memory_mb * nodes +
                           group.memory_per_core_mb * cores + group.memory_per_device_mb * count;
  }
  row.memory_mb = row.asked_memory_mb;
  set_devices(row, devices);
}

std::string partition_of(const Job& job, const Tables& tables) {
  if (job.allocation)
    return job.allocation->partition;
  if (!job.spec->partitions.empty())
    return join(job.spec->partitions, ",");
  const Partition* fallback = tables.default_partition();
  return fallback != nullptr ? fallback->meta.name : std::string();
}

std::string step_name(const StepSpec& spec) {
  if (!spec.name.empty() || spec.argv.empty())
    return spec.name;
  const std::string& program = spec.argv.front();
  return program.substr(program.rfind('/') + 1);
}

// Accounting is kept for ever, and read row by row by everybody: a text of megabytes would be paid for again and again.
constexpr std::size_t kLongest = 4096;

std::string shortened(std::string_view text) {
  return text.size() <= kLongest ? std::string(text) : std::string(text.substr(0, kLongest)) + " ...";
}

std::string command_line(const std::vector<std::string>& argv) {
  std::string out;
  for (const std::string& word : argv) {
    if (!out.empty())
      out += ' ';
    out += word.substr(0, kLongest);
    if (out.size() > kLongest) {
      out.resize(kLongest);
      return out += " ...";
    }
  }
  return out;
}

// A signal ended it, and its job had been told to end.
bool ended_with_its_job(const Step& step, const Tables& tables) {
  const Job* job = tables.job(step.job);
  if (!job || job->attempt != step.attempt || step.exit.signal == 0 || !job->ended || step.ended < job->ended)
    return false;
  if (job->state == JobState::kPending || job->requeue_after)
    return true;
  switch (job->state == JobState::kCompleting ? job->ending : job->state) {
    case JobState::kCancelled:
    case JobState::kTimeout:
    case JobState::kDeadline:
    case JobState::kPreempted: return true;
    default: return false;
  }
}

}  // namespace

std::string_view history_state(JobState state) { return kStates[static_cast<std::size_t>(state)]; }

std::int64_t wall_us(Instant at, const Tables& tables) {
  if (!at || at == kNever)
    return 0;
  return at.us + (tables.cluster ? tables.cluster->wall_offset.us : 0);
}

RunRow run_row(const Job& job, const Tables& tables) {
  const JobSpec& spec = *job.spec;
  RunRow run;
  JobRow& row = run.row;
  row.job = job.id;
  row.attempt = job.attempt;
  row.array_job = job.array_job;
  row.is_element = static_cast<bool>(job.array_job);
  row.array_index = job.array_index;
  row.name = spec.name;
  row.account = spec.account;
  row.partition = partition_of(job, tables);
  row.qos = spec.qos;
  row.state = history_state(job.state);
  row.work_dir = spec.work_dir;
  row.comment = shortened(spec.comment);
  row.command = spec.command;
  row.reason = job.end_reason;
  row.wckey = spec.wckey;
  if (const User* user = tables.user(spec.user)) {
    row.user = user->meta.name;
    row.uid = user->uid;
    row.gid = user->gid;
  }
  if (job.cancelled_by)
    if (const User* by = tables.user(job.cancelled_by))
      row.cancelled_by = by->meta.name;
  row.submitted_us = wall_us(job.submitted, tables);
  row.eligible_us = wall_us(job.eligible, tables);
  row.started_us = wall_us(job.started, tables);
  row.ended_us = is_final(job.state) ? wall_us(job.ended, tables) : 0;
  row.suspended_us = job.suspended_before.us;
  row.paused_us = wall_us(job.suspended_at, tables);
  row.limit_s = spec.time_limit >= kForever ? -1 : spec.time_limit.seconds();
  row.exit_code = job.exit.code;
  row.exit_signal = job.exit.signal;
  row.derived_code = job.derived_exit.code;
  row.derived_signal = job.derived_exit.signal;
  row.restarts = job.restarts + job.preemptions;
  row.priority = job.priority;
  add_wishes(row, spec);
  if (job.state == JobState::kCompleting)
    run.ending = job.requeue_after && job.ending == JobState::kCancelled && !job.cancelled_by
                     ? kRequeued
                     : history_state(job.ending);
  if (job.script_use)
    run.script_used = text_of(*job.script_use);
  run.has_script = std::any_of(spec.groups.begin(), spec.groups.end(),
                               [](const GroupSpec& group) { return group.launch == Launch::kScript; });
  return run;
}

void add_allocation(RunRow& run, const Job& job, const Tables& tables) {
  const auto& grants = job.allocation->grants;
  JobRow& row = run.row;
  run.has_allocation = true;
  row.partition = job.allocation->partition;
  row.cores = row.tasks = 0;
  row.memory_mb = 0;
  DeviceCounts devices;
  std::vector<std::string> names;
  for (const auto& grant : grants) {
    std::string name = node_name(grant.node, tables);
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
    row.cores += grant.cores.count();
    row.tasks += grant.tasks;
    row.memory_mb += grant.memory_mb;
    count_held(devices, grant.devices, grant.node, tables);
    for (const DevicePart& part : grant.parts)
      if (!part.mig.empty())
        ++devices[device_name("gpu", part.mig)];
  }
  set_devices(row, devices);
  if (!grants.empty()) {
    run.first_node = names.front();
    run.first_cores = grants.front().cores.count();
    run.first_devices = grants.front().devices.count();
    run.first_memory_mb = grants.front().memory_mb;
  }
  row.node_list = node_list(std::move(names));
  std::vector<NodeId> distinct;
  for (const auto& grant : grants) distinct.push_back(grant.node);
  std::sort(distinct.begin(), distinct.end());
  row.nodes = static_cast<std::uint32_t>(std::unique(distinct.begin(), distinct.end()) - distinct.begin());
}

JobRow step_row(const Step& step, const Tables& tables) {
  JobRow row;
  row.job = step.job;
  row.attempt = step.attempt;
  row.step = step.number;
  row.name = step_name(*step.spec);
  switch (step.state) {
    case StepState::kPending: row.state = "pending"; break;
    case StepState::kStarting: row.state = "starting"; break;
    case StepState::kRunning: row.state = "running"; break;
    case StepState::kEnded:
      row.state = step.cancelled || ended_with_its_job(step, tables) ? "cancelled"
                  : step.exit.oom                                    ? "out_of_memory"
                  : step.exit.ok()                                   ? "completed"
                                                                     : "failed";
      break;
  }
  row.work_dir = step.spec->work_dir;
  row.command = command_line(step.spec->argv);
  row.submitted_us = wall_us(step.created, tables);
  row.eligible_us = row.submitted_us;
  row.started_us = wall_us(step.started, tables);
  row.ended_us = step.state == StepState::kEnded ? wall_us(step.ended, tables) : 0;
  row.exit_code = step.exit.code;
  row.exit_signal = step.exit.signal;
  row.use = step.use;
  DeviceCounts devices;
  std::vector<std::string> names;
  for (const auto& place : step.places) {
    names.push_back(node_name(place.node, tables));
    row.cores += place.cores.count();
    row.tasks += static_cast<std::uint32_t>(place.ranks.size());
    row.memory_mb += place.memory_mb;
    count_held(devices, place.devices, place.node, tables);
  }
  set_devices(row, devices);
  row.nodes = static_cast<std::uint32_t>(names.size());
  row.node_list = node_list(std::move(names));
  return row;
}

JobRow batch_row(const RunRow& run) {
  JobRow row = run.row;
  row.step = kBatchStep;
  row.name = "batch";
  row.node_list = run.first_node;
  row.nodes = row.tasks = 1;
  row.cores = run.first_cores;
  row.devices = run.first_devices;
  row.devices_text =
      run.first_devices > 0 && run.row.devices > 0
          ? format("{}={}", run.row.devices_text.substr(0, run.row.devices_text.find('=')), run.first_devices)
          : std::string();
  row.memory_mb = run.first_memory_mb;
  row.asked_memory_mb = 0;
  row.use = parse_work_use(run.script_used).value_or(WorkUse{});
  row.cpu_us = (row.use.user + row.use.system).us;
  if (row.ended_us != 0) {
    // How a script took it is not kept where its job starts again: the job's record tells of the next run by then.
    if (row.state == kRequeued && row.exit_code == 0 && row.exit_signal == 0)
      row.exit_signal = SIGTERM;
    const bool from_outside = row.state == "cancelled" || row.state == "timeout" || row.state == "preempted" ||
                              row.state == "node_fail" || row.state == "deadline" || row.state == kRequeued;
    row.state = row.state == "out_of_memory"                 ? "out_of_memory"
                : from_outside                               ? "cancelled"
                : row.exit_code == 0 && row.exit_signal == 0 ? "completed"
                                                             : "failed";
  } else {
    row.state = "running";
  }
  return row;
}

}  // namespace lockstep
