// scontrol show job and show step: the same keys in the same order as Slurm, since people cut them out with sed.
#include <algorithm>
#include <ctime>

#include "base/hostlist.h"
#include "frontends/slurm/server/environment.h"
#include "frontends/slurm/server/job_filter.h"
#include "frontends/slurm/server/patterns.h"
#include "frontends/slurm/server/show.h"
#include "frontends/slurm/server/show_text.h"
#include "model/spec.h"
#include "rules/fit.h"
#include "rules/growth.h"

namespace lockstep::slurm {

std::string show_time(std::int64_t wall_seconds, std::string_view none) {
  if (wall_seconds <= 0)
    return std::string(none);
  const std::time_t when = wall_seconds;
  std::tm parts{};
  localtime_r(&when, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts)};
}

ShowLook show_look(const PageRequest& request) {
  return {flag_of(request, "oneline"), query_of(request, "times") == "marked"};
}

ShowText& ShowText::add_time(std::int64_t wall_seconds, std::string_view none, std::string_view suffix) {
  out_ += marks_times_ && wall_seconds > 0 ? format("{}{}{}", kTimeMark, wall_seconds, kTimeMark)
                                           : show_time(wall_seconds, none);
  out_ += suffix;
  return *this;
}

std::string show_span(std::int64_t seconds) {
  if (seconds == kUnlimited)
    return "UNLIMITED";
  if (seconds == kPartitionLimit)
    return "Partition_Limit";
  const std::string clock = format("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
  return seconds >= 86400 ? format("{}-{}", seconds / 86400, clock) : clock;
}

namespace {

std::string underscored(std::string text) {
  std::replace(text.begin(), text.end(), ' ', '_');
  return text;
}

std::string exit_text(const ExitStatus& exit) { return format("{}:{}", exit.code, exit.signal); }

PatternFacts file_facts(const JobLine& line) {
  PatternFacts facts;
  facts.job = line.job->id;
  facts.array_job = line.job->array_job;
  facts.array_index = line.job->array_index;
  facts.user = user_name(*line.context, line.spec().user);
  facts.job_name = line.spec().name;
  facts.node = first_node(line);
  facts.node.resize(std::min(facts.node.size(), facts.node.find('.')));
  return facts;
}

std::string user_text(const User* user) {
  return user ? format("{}({})", user->meta.name, user->uid) : std::string("nobody(65534)");
}

// "gpu:1g.10gb:1(IDX:0)", "shard:1(IDX:0)": slices, and shares of GPUs that others use too.
std::vector<std::string> parts_held(const JobLine& line, const Grant& grant, const Node* node) {
  std::vector<std::string> out;
  const bool in_turns = gpu_sharing(line.spec()) == GpuSharing::kTimeSlices;
  for (const DevicePart& part : grant.parts) {
    const std::string at =
        node && part.device < node->devices.size() ? std::to_string(node->devices[part.device].minor) : "?";
    if (!part.mig.empty())
      out.push_back(format("gpu:{}:1(IDX:{})", part.mig, at));
    else if (in_turns)
      out.push_back(format("shard:{}(IDX:{})", part.milli * kShardsOfGpu / kWholeDevice, at));
    else
      out.push_back(format("mps:{}(IDX:{})", part.milli / 10, at));
  }
  return out;
}

// -d: what is held on each node.
void detail_lines(ShowText& out, const JobLine& line) {
  if (!line.job->allocation)
    return;
  for (const Grant& grant : line.job->allocation->grants) {
    if (grant.group != line.group || !occupies(grant))
      continue;
    const Node* node = line.context->tables.node(grant.node);
    IntervalSet cores, gpus;
    grant.cores.for_each([&](std::uint32_t i) { cores.insert(i); });
    std::string type;
    grant.devices.for_each([&](std::uint32_t i) {
      if (node && i < node->devices.size() && node->devices[i].kind == "gpu")
        gpus.insert(node->devices[i].minor), type = node->devices[i].type;
    });
    out.next_line();
    out.pair("  Nodes", node ? node->meta.name : std::string("?")).pair("CPU_IDs", cores.text());
    out.pair("Mem", grant.memory_mb);
    std::string gres = gpus.empty()
                           ? std::string()
                           : format("gpu:{}:{}(IDX:{})", type.empty() ? "(null)" : type, gpus.size(), gpus.text());
    for (const std::string& part : parts_held(line, grant, node)) gres += (gres.empty() ? "" : ",") + part;
    out.pair("GRES", gres);
  }
}

std::string dependency_or_null(const Job& job) {
  const std::string text = dependency_text(job);
  return text.empty() ? "(null)" : text;
}

void identity_lines(ShowText& out, const JobLine& line) {
  const Job& job = *line.job;
  out.pair("JobId", job.id.value);
  if (job.array_job || job.array || line.one_waiting) {
    out.pair("ArrayJobId", job.array_job ? job.array_job.value : job.id.value);
    out.pair("ArrayTaskId", array_indices(line));
    if (job.array && job.array->throttle)
      out.pair("ArrayTaskThrottle", job.array->throttle);
  }
  if (line.spec().groups.size() > 1)
    out.pair("HetJobId", job.id.value).pair("HetJobOffset", line.group);
  out.text_or_null("JobName", line.spec().name);
  out.next_line();
  const User* user = line.context->tables.user(line.spec().user);
  out.pair("UserId", user_text(user));
  out.pair("GroupId", format("{}({})", user ? user->meta.name : "nobody", user ? user->gid : 65534));
  out.pair("MCS_label", "N/A");
  out.next_line();
  out.pair("Priority", shown_priority(job)).pair("Nice", line.spec().nice).text_or_null("Account", account_of(line));
  out.pair("QOS", line.spec().qos.empty() ? "normal" : line.spec().qos);
  if (!line.spec().wckey.empty())
    out.pair("WCKey", line.spec().wckey);
}

void time_lines(ShowText& out, const JobLine& line) {
  const Job& job = *line.job;
  const ReadContext& context = *line.context;
  out.next_line();
  out.pair("RunTime", show_span(used_seconds(line))).pair("TimeLimit", show_span(limit_seconds(line)));
  out.pair("TimeMin", line.spec().time_min.us ? show_span(line.spec().time_min.seconds()) : "N/A");
  out.next_line();
  out.time("SubmitTime", wall_seconds(context, job.submitted));
  out.time("EligibleTime", eligible_seconds(line));
  out.next_line();
  out.time("AccrueTime", wall_seconds(context, job.eligible));
  out.next_line();
  out.time("StartTime", start_seconds(line)).time("EndTime", end_seconds(line));
  out.time("Deadline", line.spec().deadline.seconds(), "N/A");
  out.next_line();
  if (job.suspended_at)
    out.time("SuspendTime", wall_seconds(context, job.suspended_at)).pair("SecsPreSuspend", used_seconds(line));
  else
    out.pair("SuspendTime", "None").pair("SecsPreSuspend", 0);
  out.time("LastSchedEval", wall_seconds(context, job.started ? job.started : job.submitted));
  out.pair("Scheduler", "Main");
}

void resource_lines(ShowText& out, const JobLine& line) {
  const GroupSpec& group = line.group_spec();
  const JobCounts held = job_counts(line);
  out.next_line();
  out.pair("NumNodes", held.nodes).pair("NumCPUs", held.cpus).pair("NumTasks", held.tasks);
  out.pair("CPUs/Task", std::max(1u, group.per_task.cores)).pair("ReqB:S:C:T", "0:0:*:*");
  if (is_elastic(group))
    out.pair("TaskRange", group.tasks.max == UINT32_MAX ? format("{}-", group.tasks.min)
                                                        : format("{}-{}", group.tasks.min, group.tasks.max));
  out.next_line();
  out.pair("ReqTRES", tres_text(asked_counts(line.spec(), group), partition_of(line)));
  out.next_line();
  out.pair("AllocTRES", line.job->allocation ? tres_text(held, partition_of(line)) : std::string("(null)"));
  out.next_line();
  const std::string* per_node = size_option(line.spec(), "ntasks-per-node");
  out.pair("Socks/Node", "*").pair("NtasksPerN:B:S:C", format("{}:0:*:*", per_node ? *per_node : "0"));
  out.pair("CoreSpec", "*");
}

void place_lines(ShowText& out, const JobLine& line) {
  const GroupSpec& group = line.group_spec();
  const std::vector<std::string> nodes = node_names(line);
  out.next_line();
  out.pair("Partition", partition_text(line)).pair("AllocNode:Sid", format("{}:0", line.spec().submit_host));
  out.next_line();
  out.text_or_null("ReqNodeList", compress_hostlist(group.only_nodes));
  out.text_or_null("ExcNodeList", compress_hostlist(group.exclude_nodes));
  out.next_line();
  out.text_or_null("NodeList", nodes.empty() ? line.job->ran_on.get() : compress_hostlist(nodes));
  if (const std::string expected = expected_node_list(line); !expected.empty() && line.job->state == JobState::kPending)
    out.pair("SchedNodeList", expected);
  if (!nodes.empty()) {
    out.next_line();
    out.pair("BatchHost", nodes[0]);
  }
  const std::string switches = switches_text(group);
  if (!switches.empty() || group.segment != 0 || !group.topology_level.empty()) {
    out.next_line();
    if (!switches.empty())
      out.pair("Switches", switches);
    if (group.segment != 0)
      out.pair("SegmentSize", group.segment);
    if (!group.topology_level.empty())
      out.pair("ReqTopology", group.topology_level.starts_with('!') ? group.topology_level.substr(1)
                                                                    : group.topology_level + ":preferred");
  }
  if (const PlaceInTree place = place_in_tree(line); !place.level.empty()) {
    out.next_line();
    out.pair("Topology", place.level).pair("BestTopology", place.best).pair("Leaves", place.leaves);
  }
}

// Where a script's output goes, as far as it is the asker's.
void file_lines(ShowText& out, const JobLine& line) {
  const JobSpec& spec = line.spec();
  const PatternFacts facts = file_facts(line);
  const std::string std_out =
      spec.std_out.empty() ? std::string(default_output_pattern(*line.job)) : spec.std_out.get();
  out.next_line();
  out.pair("StdErr", expand_path(spec.std_err.empty() ? std_out : spec.std_err.get(), facts, spec.work_dir));
  out.next_line();
  out.pair("StdIn", spec.std_in.empty() ? "/dev/null" : expand_path(spec.std_in, facts, spec.work_dir));
  out.next_line();
  out.pair("StdOut", expand_path(std_out, facts, spec.work_dir));
}

std::string staged_text(const std::vector<StagedPath>& paths) {
  std::vector<std::string> words;
  for (const StagedPath& path : paths) words.push_back(format("{}:{}", path.from, path.to));
  return join(words, ",");
}

std::string gigabytes(std::int64_t bytes) { return format("{:.1f}", static_cast<double>(bytes) / (1 << 30)); }

// What of the job is copied at present, and what could not be.
void staging_lines(ShowText& out, const JobLine& line) {
  const JobSpec& spec = line.spec();
  if (line.tells(&JobSpec::stage_in) && line.tells(&JobSpec::stage_out)) {
    for (const auto& [name, paths] : {std::pair("StageIn", &spec.stage_in), std::pair("StageOut", &spec.stage_out)})
      if (!paths->empty()) {
        out.next_line();
        out.pair(name, staged_text(*paths));
      }
  }
  const LiveUse* live = line.context->live;
  for (const auto& [id, sample] : live ? live->staging(*line.job) : std::vector<std::pair<NodeId, StagingSample>>()) {
    const Node* node = line.context->tables.node(id);
    out.next_line();
    out.pair("Staging", format("{}:{}_of_{}_GiB,{}_of_{}_files,{}", sample.out ? "out" : "in",
                               gigabytes(sample.bytes_done), gigabytes(sample.bytes_total), sample.files_done,
                               sample.files_total, node ? node->meta.name : "?"));
  }
  const std::string_view reason(line.job->end_reason);
  for (const std::string_view word : {std::string_view("StageInFailed"), std::string_view("StageOutFailed")})
    if (const auto at = reason.find(word); at != reason.npos) {
      out.next_line();
      out.pair(std::string(word),
               line.tells(&Job::end_reason) ? reason.substr(std::min(reason.size(), at + word.size() + 1)) : "");
    }
}

// When the job last said that its work is saved.
void checkpoint_line(ShowText& out, const JobLine& line) {
  if (!line.job->checkpointed)
    return;
  out.next_line();
  out.time("LastCheckpoint", wall_seconds(*line.context, line.job->checkpointed));
}

void job_record(ShowText& out, const JobLine& line, bool detail) {
  const Job& job = *line.job;
  const GroupSpec& group = line.group_spec();
  const JobSpec& spec = line.spec();
  identity_lines(out, line);
  out.next_line();
  out.pair("JobState", slurm_state(job)).pair("Reason", underscored(slurm_reason(job, line.note)));
  out.pair("Dependency", dependency_or_null(job));
  out.next_line();
  out.pair("Requeue", spec.requeue ? 1 : 0).pair("Restarts", restarts_of(job));
  out.pair("BatchFlag", group.launch == Launch::kScript ? 1 : 0)
      .pair("Reboot", 0)
      .pair("ExitCode", exit_text(job.exit));
  if (detail) {
    out.next_line();
    out.pair("DerivedExitCode", exit_text(job.derived_exit));
  }
  time_lines(out, line);
  place_lines(out, line);
  resource_lines(out, line);
  if (detail)
    detail_lines(out, line);
  out.next_line();
  out.pair("MinCPUsNode", min_cores_on_node(group));
  if (group.memory_per_core_mb > 0)
    out.pair("MinMemoryCPU", memory_text(group.memory_per_core_mb));
  else
    out.pair("MinMemoryNode", memory_text(group.per_node.memory_mb));
  out.pair("MinTmpDiskNode", group.tmp_disk_mb);
  out.next_line();
  out.text_or_null("Features", group.constraint).pair("DelayBoot", "00:00:00");
  if (!spec.reservation.empty())
    out.pair("Reservation", spec.reservation);
  out.next_line();
  out.pair("OverSubscribe", group.sharing == Sharing::kShared      ? "OK"
                            : group.sharing == Sharing::kExclusive ? "NO"
                                                                   : "USER");
  out.pair("Contiguous", 0).text_or_null("Licenses", spec.licenses).pair("Network", "(null)");
  out.next_line();
  out.text_or_null("Command", spec.command);
  out.next_line();
  out.pair("WorkDir", spec.work_dir);
  if (!spec.comment.empty()) {
    out.next_line();
    out.pair("Comment", spec.comment);
  }
  if (group.launch == Launch::kScript && line.tells(&JobSpec::std_out))
    file_lines(out, line);
  staging_lines(out, line);
  checkpoint_line(out, line);
  if (const std::string tres = tres_per_node(spec); !tres.empty()) {
    out.next_line();
    out.pair("TresPerNode", tres);
  }
  for (const auto& [option, key] : {std::pair("gpus", "TresPerJob"), std::pair("gpus-per-task", "TresPerTask")})
    if (const std::string* value = size_option(spec, option)) {
      out.next_line();
      out.pair(key, "gres/gpu:" + *value);
    }
  out.end_record();
}

void step_record(ShowText& out, const ReadContext& context, const Job& job, const Step& step) {
  const JobLine line = job_line(context, job);
  const User* user = context.tables.user(step.user);
  std::vector<std::string> nodes;
  JobCounts counts;
  for (const StepPlace& place : step.places) {
    if (const Node* node = context.tables.node(place.node))
      nodes.push_back(node->meta.name);
    counts.cpus += place.cores.count();
    counts.tasks += static_cast<std::uint32_t>(place.ranks.size());
    counts.gpus += place.devices.count();
    counts.memory_mb += place.memory_mb;
  }
  counts.nodes = static_cast<std::uint32_t>(nodes.size());
  out.pair("StepId", format("{}.{}", job.id.value, step.number)).pair("UserId", user ? user->uid : 65534);
  out.time("StartTime", wall_seconds(context, step.started)).pair("TimeLimit", "UNLIMITED");
  out.next_line();
  out.pair("State", step.state == StepState::kPending ? "PENDING"
                    : step.state == StepState::kEnded ? "COMPLETED"
                                                      : "RUNNING");
  out.pair("Partition", partition_text(line)).text_or_null("NodeList", compress_hostlist(nodes));
  out.next_line();
  out.pair("Nodes", counts.nodes).pair("CPUs", counts.cpus).pair("Tasks", counts.tasks);
  out.text_or_null("Name", step.spec->name).pair("Network", "(null)");
  out.next_line();
  out.pair("TRES", tres_text(counts, partition_of(line)));
  out.next_line();
  out.pair("ResvPorts", "(null)");
  out.next_line();
  out.pair("CPUFreqReq", "Default");
  out.end_record();
}

}  // namespace

PageReply show_job_page(const ReadContext& context, const PageRequest& request) {
  const std::string& name = query_of(request, "name");
  const PageRequest wider{request.path, {{"states", "all"}, {"jobs", name}}};
  auto filter = JobFilter::parse(context, wider);
  if (!filter)
    return refusal(filter.error().code == Errc::kNotFound ? 404 : 400, "Invalid job id specified");
  const ShowLook look = show_look(request);
  const bool detail = flag_of(request, "detail");
  const auto cursor = std::make_shared<JobCursor>(context, std::move(*filter));
  const auto more = [cursor, look, detail](std::string& body) {
    return cursor->next([&](const JobLine& line) {
      ShowText out(look);
      job_record(out, line, detail);
      body += out.take();
    });
  };
  // Up to the first record at once: that there is none is another answer.
  PageReply reply;
  bool is_more = true;
  while (reply.body.empty() && is_more) is_more = more(reply.body);
  if (reply.body.empty() && !name.empty())
    return refusal(404, "Invalid job id specified");
  if (reply.body.empty())
    reply.body = "No jobs in the system\n";
  if (is_more)
    reply.more = more;
  return reply;
}

PageReply show_step_page(const ReadContext& context, const PageRequest& request) {
  const std::string& name = query_of(request, "name");
  const auto dot = name.find('.');
  const auto job_id = parse_uint(std::string_view(name).substr(0, dot));
  const auto number = dot == std::string::npos ? std::nullopt : parse_int(std::string_view(name).substr(dot + 1));
  if (!name.empty() && (!job_id || (dot != std::string::npos && !number)))
    return refusal(400, "Invalid job id specified");
  if (!name.empty()) {
    std::vector<Ref<Step>> steps = context.tables.steps_of(JobId(*job_id));
    std::erase_if(steps, [&](const Ref<Step>& step) {
      return step->state == StepState::kEnded || (number && step->number != *number);
    });
    if (steps.empty())
      return refusal(404, format("Job step {} not found", name));
  }
  // All of them, or those of the job, from the one behind the last that was shown.
  struct Range {
    StepKey next, last;
  };
  const JobId first = name.empty() ? JobId(0) : JobId(*job_id), last = name.empty() ? JobId(UINT64_MAX) : first;
  Range range{{first, number ? static_cast<StepNo>(*number) : INT32_MIN},
              {last, number ? static_cast<StepNo>(*number) : INT32_MAX}};
  PageReply reply;
  reply.more = [&context, range, look = show_look(request)](std::string& body) mutable {
    constexpr std::size_t kAtOnce = 128;
    ShowText out(look);
    auto at = context.tables.steps.lower_bound(range.next);
    const auto in_range = [&] { return at != context.tables.steps.end() && at->first <= range.last; };
    for (std::size_t n = 0; n < kAtOnce && in_range(); ++n, ++at) {
      const auto& [key, step] = *at;
      range.next = {key.first, key.second + 1};
      const Job* job = context.tables.job(key.first);
      if (job && step->state != StepState::kEnded)
        step_record(out, context, *job, *step);
    }
    body += out.take();
    if (!in_range() && body.empty())
      body = "No job steps in the system\n";
    return in_range();
  };
  return reply;
}

}  // namespace lockstep::slurm
