// Internal to wire: the fields of what controller and agents say to each other. See fields.h.
#pragma once

#include "model/job_fields.h"
#include "wire/fields.h"

namespace lockstep::wire {

template <class V>
constexpr void describe(V&, const ScriptPart*) {}

template <class V>
constexpr void describe(V& v, const StepPart*) {
  v.always("step", &StepPart::step, Between{0, INT32_MAX});
}

template <class V>
constexpr void describe(V& v, const TaskPart*) {
  v("group", &TaskPart::group);
  v("index", &TaskPart::index);
  v("incarnation", &TaskPart::incarnation);
}

template <class V>
constexpr void describe(V& v, const Holding*) {
  v.always("job", &Holding::job);
  v.always("attempt", &Holding::attempt);
  v("stopping", &Holding::stopping);
  v("paused", &Holding::paused);
  v("steps", &Holding::steps, Items{kHeldWorkMax});
  v("tasks", &Holding::tasks, Items{kHeldWorkMax});
  v("next_step", &Holding::next_step);
}

template <class V>
constexpr void describe(V& v, const Hello*) {
  v.always("protocol_min", &Hello::protocol_min);
  v.always("protocol_max", &Hello::protocol_max);
  v("facts", &Hello::facts);
  v("peer_port", &Hello::peer_port);
  v("highest_job", &Hello::highest_job);
  v("holdings", &Hello::holdings, Items{kHoldingsMax});
}

template <class V>
constexpr void describe(V& v, const Renew*) {
  v.always("sent_boot_us", &Renew::sent_boot_us);
  v("holdings", &Renew::holdings, Items{kHoldingsMax});
}

template <class V>
constexpr void describe(V&, const AttemptStarted*) {}

template <class V>
constexpr void describe(V&, const StagedIn*) {}

template <class V>
constexpr void describe(V&, const CheckpointSeen*) {}

template <class V>
constexpr void describe(V& v, const LaunchFailed*) {
  v("why", &LaunchFailed::why, kBytes);
  v("node_at_fault", &LaunchFailed::node_at_fault);
}

template <class V>
constexpr void describe(V& v, const ScriptEnded*) {
  v("exit", &ScriptEnded::exit);
  v("by_itself", &ScriptEnded::by_itself);
  v("use", &ScriptEnded::use);
}

template <class V>
constexpr void describe(V& v, const MemberStopped*) {
  v("fenced", &MemberStopped::fenced);
  v("refused", &MemberStopped::refused);
  v("trouble", &MemberStopped::trouble, kBytes);
}

template <class V>
constexpr void describe(V& v, const MemberPaused*) {
  v.always("paused", &MemberPaused::paused);
  v.always("number", &MemberPaused::number);
}

template <class V>
constexpr void describe(V& v, const StepStarted*) {
  v.always("step", &StepStarted::step);
}

template <class V>
constexpr void describe(V& v, const TaskResult*) {
  v.always("rank", &TaskResult::rank);
  v("exit", &TaskResult::exit);
}

template <class V>
constexpr void describe(V& v, const StepEnded*) {
  v.always("step", &StepEnded::step);
  v("results", &StepEnded::results, ByRank{kTasksPerNodeMax});
  v("use", &StepEnded::use);
}

template <class V>
constexpr void describe(V& v, const TaskStarted*) {
  v("group", &TaskStarted::group);
  v("index", &TaskStarted::index);
  v("incarnation", &TaskStarted::incarnation);
}

template <class V>
constexpr void describe(V& v, const TaskReady*) {
  v("group", &TaskReady::group);
  v("index", &TaskReady::index);
  v("incarnation", &TaskReady::incarnation);
  v("ready", &TaskReady::ready);
}

template <class V>
constexpr void describe(V& v, const TaskEnded*) {
  v("group", &TaskEnded::group);
  v("index", &TaskEnded::index);
  v("incarnation", &TaskEnded::incarnation);
  v("exit", &TaskEnded::exit);
  v("use", &TaskEnded::use);
}

template <class V>
constexpr void describe(V& v, const TaskContainers*) {
  v("group", &TaskContainers::group);
  v("index", &TaskContainers::index);
  v("incarnation", &TaskContainers::incarnation);
  v("address", &TaskContainers::address, kName);
  v("containers", &TaskContainers::containers, Items{kContainersMax + kAddedContainersMax});
  v("reason", &TaskContainers::reason, kPhrase);
}

template <class V>
constexpr void describe(V& v, const Report*) {
  v.always("number", &Report::number);
  v.always("job", &Report::job);
  v.always("attempt", &Report::attempt);
  v("body", &Report::body);
  v("made_boot_us", &Report::made_boot_us);
  v("ago", &Report::ago);
}

template <class V>
constexpr void describe(V& v, const DeviceSample*) {
  v.always("device", &DeviceSample::device, Between{0, DeviceSet::kCapacity - 1});
  v("busy_percent", &DeviceSample::busy_percent, Between{0, 100});
  v("memory_mb", &DeviceSample::memory_mb, kMegabytes);
  v("watts", &DeviceSample::watts);
  v("celsius", &DeviceSample::celsius);
}

template <class V>
constexpr void describe(V& v, const WorkSample*) {
  v.always("job", &WorkSample::job);
  v.always("attempt", &WorkSample::attempt);
  v("part", &WorkSample::part);
  v("use", &WorkSample::use);
}

template <class V>
constexpr void describe(V& v, const ContainerSample*) {
  v.always("job", &ContainerSample::job);
  v.always("attempt", &ContainerSample::attempt);
  v("part", &ContainerSample::part);
  v("container", &ContainerSample::container, bounded::kName);
  v("cpu_us", &ContainerSample::cpu, kSpan);
  v("memory", &ContainerSample::memory, Between{0, INT64_MAX});
  v("disk", &ContainerSample::disk, Between{-1, INT64_MAX});
}

template <class V>
constexpr void describe(V& v, const StagingSample*) {
  v.always("job", &StagingSample::job);
  v.always("attempt", &StagingSample::attempt);
  v("out", &StagingSample::out);
  v("bytes_done", &StagingSample::bytes_done, Between{0, INT64_MAX});
  v("bytes_total", &StagingSample::bytes_total, Between{0, INT64_MAX});
  v("files_done", &StagingSample::files_done, Between{0, INT64_MAX});
  v("files_total", &StagingSample::files_total, Between{0, INT64_MAX});
}

template <class V>
constexpr void describe(V& v, const Telemetry*) {
  v("load_percent", &Telemetry::load_percent);
  v("memory_free_mb", &Telemetry::memory_free_mb, kMegabytes);
  v("devices", &Telemetry::devices, Items{DeviceSet::kCapacity});
  v("work", &Telemetry::work, Items{kHeldWorkMax});
  v("staging", &Telemetry::staging, Items{kHoldingsMax});
  v("seen_boot_us", &Telemetry::seen_boot_us, Between{0, INT64_MAX});
  v("cpu_us", &Telemetry::cpu, kSpan);
  v("memory_used_mb", &Telemetry::memory_used_mb, kMegabytes);
  v("containers", &Telemetry::containers, Items{kHeldWorkMax});
}

template <class V>
constexpr void describe(V& v, const Welcome*) {
  v.always("protocol", &Welcome::protocol);
  v.always("node", &Welcome::node);
  v("renew_every_us", &Welcome::renew_every, kSpan);
  v("cluster", &Welcome::cluster);
  v("ticket_key", &Welcome::ticket_key);
  v("now_us", &Welcome::now_us);
}

template <class V>
constexpr void describe(V& v, const Revoked*) {
  v.always("node", &Revoked::node);
  v("certificate", &Revoked::certificate);
  v("ticket_key", &Revoked::ticket_key);
  v("now_us", &Revoked::now_us);
}

template <class V>
constexpr void describe(V& v, const TaskRoute*) {
  v.always("range", &TaskRoute::range);
  v("via", &TaskRoute::via);
}

template <class V>
constexpr void describe(V& v, const TaskRoutes*) {
  v("all", &TaskRoutes::all);
  v("routes", &TaskRoutes::routes);
}

template <class V>
constexpr void describe(V& v, const Refused*) {
  v("why", &Refused::why);
}

template <class V>
constexpr void describe(V& v, const RenewAck*) {
  v.always("sent_boot_us", &RenewAck::sent_boot_us);
  v("wall_us", &RenewAck::wall_us);
}

template <class V>
constexpr void describe(V& v, const ReportAck*) {
  v("numbers", &ReportAck::numbers);
}

template <class V>
constexpr void describe(V& v, const ProcessSpec*) {
  v.always("uid", &ProcessSpec::uid);
  v.always("gid", &ProcessSpec::gid);
  v("groups", &ProcessSpec::groups);
  v("argv", &ProcessSpec::argv);
  v("env", &ProcessSpec::env);
  v("env_base", &ProcessSpec::env_base);
  v("task_env", &ProcessSpec::task_env);
  v("work_dir", &ProcessSpec::work_dir);
  v("std_in", &ProcessSpec::std_in);
  v("std_out", &ProcessSpec::std_out);
  v("std_err", &ProcessSpec::std_err);
  v("append", &ProcessSpec::append);
  v("umask", &ProcessSpec::umask, kUmask);
  v("container", &ProcessSpec::container);
  v("task_prologs", &ProcessSpec::task_prologs);
  v("task_epilogs", &ProcessSpec::task_epilogs);
}

template <class V>
constexpr void describe(V& v, const WorldNode*) {
  v("name", &WorldNode::name);
  v("ranks", &WorldNode::ranks, RankList{});
}

template <class V>
constexpr void describe(V& v, const LaunchAttempt*) {
  v.always("job", &LaunchAttempt::job);
  v.always("attempt", &LaunchAttempt::attempt);
  v("job_name", &LaunchAttempt::job_name);
  v("fence_after_us", &LaunchAttempt::fence_after, kSpan);
  v("kill_wait_us", &LaunchAttempt::kill_wait, kSpan);
  v("cores", &LaunchAttempt::cores);
  v("devices", &LaunchAttempt::devices);
  v("parts", &LaunchAttempt::parts, Items{kPartsPerNodeMax});
  v("memory_mb", &LaunchAttempt::memory_mb, kMegabytes);
  v("scratch_mb", &LaunchAttempt::scratch_mb, kMegabytes);
  v("user_name", &LaunchAttempt::user_name);
  v("user_home", &LaunchAttempt::user_home);
  v("user_shell", &LaunchAttempt::user_shell);
  v("has_script", &LaunchAttempt::has_script);
  v("script", &LaunchAttempt::script);
  v("process", &LaunchAttempt::process);
  v("stage_in", &LaunchAttempt::stage_in, Items{kStagedPathsMax});
  v("stage_out", &LaunchAttempt::stage_out, Items{kStagedPathsMax});
  v("script_waits", &LaunchAttempt::script_waits);
  v("checkpoint_file", &LaunchAttempt::checkpoint_file);
  v("checkpoint_line", &LaunchAttempt::checkpoint_line);
}

template <class V>
constexpr void describe(V& v, const TaskProcesses*) {
  v("node_index", &TaskProcesses::node_index);
  v("ranks", &TaskProcesses::ranks, RankList{});
  v("process", &TaskProcesses::process);
  v("argv_by_rank", &TaskProcesses::argv_by_rank);
  v("env_by_rank", &TaskProcesses::env_by_rank);
  v("to_client", &TaskProcesses::to_client);
  v("pty", &TaskProcesses::pty);
  v("rows", &TaskProcesses::rows);
  v("columns", &TaskProcesses::columns);
  v("cores", &TaskProcesses::cores);
  v("devices", &TaskProcesses::devices);
  v("memory_mb", &TaskProcesses::memory_mb, kMegabytes);
  v("cores_by_rank", &TaskProcesses::cores_by_rank);
  v("memory_bind", &TaskProcesses::memory_bind);
  v("pmi", &TaskProcesses::pmi);
  v("world", &TaskProcesses::world);
  v("world_secret", &TaskProcesses::world_secret);
  v("kill_wait_us", &TaskProcesses::kill_wait, kSpan);
}

template <class V>
constexpr void describe(V& v, const LaunchStep*) {
  v.always("job", &LaunchStep::job);
  v.always("attempt", &LaunchStep::attempt);
  v.always("step", &LaunchStep::step, Between{0, INT32_MAX});
  describe(v, static_cast<const TaskProcesses*>(nullptr));
}

template <class V>
constexpr void describe(V& v, const LaunchTask*) {
  v.always("job", &LaunchTask::job);
  v.always("attempt", &LaunchTask::attempt);
  v("task", &LaunchTask::task);
  v("process", &LaunchTask::process);
  v("cores", &LaunchTask::cores);
  v("devices", &LaunchTask::devices);
  v("sandbox", &LaunchTask::sandbox);
  v("host_name", &LaunchTask::host_name);
}

template <class V>
constexpr void describe(V& v, const StopWork*) {
  v.always("job", &StopWork::job);
  v.always("attempt", &StopWork::attempt);
  v("part", &StopWork::part);
  v("kill_wait_us", &StopWork::kill_wait, kSpan);
  v("why", &StopWork::why);
}

template <class V>
constexpr void describe(V& v, const SignalWork*) {
  v.always("job", &SignalWork::job);
  v.always("attempt", &SignalWork::attempt);
  v("part", &SignalWork::part);
  v("reach", &SignalWork::reach);
  v.always("signal", &SignalWork::signal, kSignal);
  v("why", &SignalWork::why);
  v("stops_in_us", &SignalWork::stops_in, kSpan);
}

template <class V>
constexpr void describe(V& v, const PauseWork*) {
  v.always("job", &PauseWork::job);
  v.always("attempt", &PauseWork::attempt);
  v.always("paused", &PauseWork::paused);
  v.always("number", &PauseWork::number);
}

}  // namespace lockstep::wire

namespace lockstep {

inline std::optional<Fault> unacceptable(const LaunchStep& launch) {
  const auto fits = [&](const auto& by_rank) { return by_rank.empty() || by_rank.size() == launch.ranks.size(); };
  if (!fits(launch.argv_by_rank))
    return Fault{"argv_by_rank", "must have one entry per rank"};
  if (!fits(launch.env_by_rank))
    return Fault{"env_by_rank", "must have one entry per rank"};
  if (!fits(launch.cores_by_rank))
    return Fault{"cores_by_rank", "must have one entry per rank"};
  return {};
}

}  // namespace lockstep
