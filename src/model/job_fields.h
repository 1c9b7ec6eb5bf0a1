// The fields of a job: what was asked for, and how far it has come. See model/bounded.h.
#pragma once

#include "model/job.h"
#include "model/told_to.h"

namespace lockstep {

template <class V>
constexpr void describe(V& v, const DeviceAsk*) {
  v("kind", &DeviceAsk::kind, bounded::kName);
  v("type", &DeviceAsk::type, bounded::kName);
  v.always("count", &DeviceAsk::count, bounded::kCount);
  v("milli", &DeviceAsk::milli, bounded::Between{1, kWholeDevice});
  v("memory_mb", &DeviceAsk::memory_mb, bounded::kMegabytes);
  v("mig", &DeviceAsk::mig, bounded::kName);
}
constexpr void told_whole(const DeviceAsk*) {}

template <class V>
constexpr void describe(V& v, const Counted*) {
  v.always("name", &Counted::name, bounded::kName);
  v.always("count", &Counted::count, bounded::kMegabytes);
}
constexpr void told_whole(const Counted*) {}

template <class V>
constexpr void describe(V& v, const DevicePart*) {
  v.always("device", &DevicePart::device, bounded::Between{0, DeviceSet::kCapacity - 1});
  v("milli", &DevicePart::milli, bounded::Between{0, kWholeDevice});
  v("memory_mb", &DevicePart::memory_mb, bounded::kMegabytes);
  v("mig", &DevicePart::mig, bounded::kName);
  v("slice", &DevicePart::slice, bounded::Between{0, 7});
}
constexpr void told_whole(const DevicePart*) {}

template <class V>
constexpr void describe(V& v, const LabelRule*) {
  v("key", &LabelRule::key, bounded::kLabelName);
  v("is", &LabelRule::is);
  v("values", &LabelRule::values, bounded::Texts{kRuleValuesMax, kNamesBytesMax, bounded::kLabelName});
}

template <class V>
constexpr void describe(V& v, const NodeWish*) {
  v("weight", &NodeWish::weight, bounded::Between{0, 100});
  v("rules", &NodeWish::rules, bounded::Items{kRulesMax});
}

template <class V>
constexpr void describe(V& v, const NodeMark*) {
  v.always("key", &NodeMark::key, bounded::kLabelName);
  v("value", &NodeMark::value, bounded::kName);
  v("effect", &NodeMark::effect);
}
constexpr void told_whole(const NodeMark*) {}

template <class V>
constexpr void describe(V& v, const BornMark*) {
  v("key", &BornMark::key, bounded::kLabelName);
  v("value", &BornMark::value, bounded::kName);
  v("any_value", &BornMark::any_value);
  v("any_effect", &BornMark::any_effect);
  v("effect", &BornMark::effect);
}

template <class V>
constexpr void describe(V& v, const NeighbourTerm*) {
  v.always("wish", &NeighbourTerm::wish);
  v("weight", &NeighbourTerm::weight, bounded::Between{0, 100});
  v("level", &NeighbourTerm::level, bounded::kLabelName);
  v("every_scope", &NeighbourTerm::every_scope);
  v("scopes", &NeighbourTerm::scopes, bounded::kNames);
  v("jobs", &NeighbourTerm::jobs, bounded::Items{kRulesMax});
  v("skew_max", &NeighbourTerm::skew_max, bounded::Between{1, INT32_MAX});
  v("places_min", &NeighbourTerm::places_min, bounded::Between{0, INT32_MAX});
  v("all_nodes", &NeighbourTerm::all_nodes);
  v("heeds_marks", &NeighbourTerm::heeds_marks);
}

template <class V>
constexpr void describe(V& v, const Resources*) {
  v("cores", &Resources::cores, bounded::kCount);
  v("shared_milli", &Resources::shared_milli, bounded::Between{0, 1000 * std::int64_t{kAmountMax}});
  v("memory_mb", &Resources::memory_mb, bounded::kMegabytes);
  v("devices", &Resources::devices, bounded::Items{kAsksMax});
  v("counted", &Resources::counted, bounded::Items{kAsksMax});
}
constexpr void told_whole(const Resources*) {}

template <class V>
constexpr void describe(V& v, const Port*) {
  v("name", &Port::name, bounded::kName);
  v.always("port", &Port::port);
}

template <class V>
constexpr void describe(V& v, const Probe*) {
  v.always("what", &Probe::what);
  v.always("how", &Probe::how);
  v("path", &Probe::path, bounded::kPath);
  v("port", &Probe::port);
  v("argv", &Probe::argv, bounded::kArgv);
  v("post_data", &Probe::post_data, bounded::kBytes);
  v("initial_delay_us", &Probe::initial_delay, bounded::kSpan);
  v("period_us", &Probe::period, bounded::kSpan);
  v("timeout_us", &Probe::timeout, bounded::kSpan);
  v("failures", &Probe::failures);
  v("successes", &Probe::successes);
  v("host", &Probe::host, bounded::kName);
  v("tls", &Probe::tls);
  v("headers", &Probe::headers, bounded::kVariables);
  v("service", &Probe::service, bounded::kName);
  v("kill_wait_us", &Probe::kill_wait, bounded::kSpan);
}

template <class V>
constexpr void describe(V& v, const Mount*) {
  v("source", &Mount::source, bounded::kPath);
  v("target", &Mount::target, bounded::kPath);
  v("read_only", &Mount::read_only);
  v("options", &Mount::options, bounded::kNames);
}

template <class V>
constexpr void describe(V& v, const Container*) {
  v("image", &Container::image, bounded::kPhrase);
  v("mounts", &Container::mounts, bounded::Items{kNamesMax});
  v("work_dir", &Container::work_dir, bounded::kPath);
  v("name", &Container::name, bounded::kName);
  v("reuse", &Container::reuse);
  v("save", &Container::save, bounded::kPath);
  v("keep_env", &Container::keep_env, bounded::kNames);
  v("mount_home", &Container::mount_home);
  v("writable", &Container::writable);
  v("remap_root", &Container::remap_root);
  v("entrypoint", &Container::entrypoint);
  v("bundle", &Container::bundle, bounded::kPath);
}

template <class V>
constexpr void describe(V& v, const Placement*) {
  v("tasks", &Placement::tasks, to_all());
  v("nodes", &Placement::nodes, to_all());
  v("tasks_per_node", &Placement::tasks_per_node, to_all(bounded::Between{0, kTasksPerNodeMax}));
  v("tasks_per_node_exact", &Placement::tasks_per_node_exact, to_all());
  v("per_task", &Placement::per_task, to_all());
  v("per_node", &Placement::per_node, to_all());
  v("per_job", &Placement::per_job, to_all(bounded::Items{kAsksMax}));
  v("memory_per_core_mb", &Placement::memory_per_core_mb, to_all(bounded::kMegabytes));
  v("memory_per_device_mb", &Placement::memory_per_device_mb, to_all(bounded::kMegabytes));
  v("cores_per_device", &Placement::cores_per_device, to_all(bounded::kCount));
  v("all_memory", &Placement::all_memory, to_all());
  v("overcommit", &Placement::overcommit, to_all());
  v("sharing", &Placement::sharing, to_all());
  v("all_cores", &Placement::all_cores, to_all());
  v("constraint", &Placement::constraint, to_all(bounded::kPhrase));
  v("only_nodes", &Placement::only_nodes, to_all(bounded::kNodeNames));
  v("exclude_nodes", &Placement::exclude_nodes, to_all(bounded::kNodeNames));
  v("contiguous_cores_min", &Placement::contiguous_cores_min, to_all(bounded::kCount));
  v("tmp_disk_mb", &Placement::tmp_disk_mb, to_all(bounded::kMegabytes));
  v("topology_level", &Placement::topology_level, to_all(bounded::kName));
  v("switches_max", &Placement::switches_max, to_all());
  v("switches_wait_us", &Placement::switches_wait, to_all(bounded::kSpan));
  v("segment", &Placement::segment, to_all());
  v("launch", &Placement::launch, to_all());
  v("endless", &Placement::endless, to_all());
  v("spread", &Placement::spread, to_all());
  v("minds_marks", &Placement::minds_marks, to_all());
  v("bears", &Placement::bears, to_owner(bounded::Items{kRulesMax}));
  v("node_rules", &Placement::node_rules, to_owner(bounded::Items{kRulesMax}));
  v("node_wishes", &Placement::node_wishes, to_owner(bounded::Items{kRulesMax}));
  v("neighbours", &Placement::neighbours, to_owner(bounded::Items{kNeighbourTermsMax}));
}

template <class V>
constexpr void describe(V& v, const Program*) {
  v("argv", &Program::argv, to_owner(bounded::kArgv));
  v("env", &Program::env, to_owner(bounded::kVariables));
  v("container", &Program::container, to_owner());
}

template <class V>
constexpr void describe(V& v, const Service*) {
  v("restart", &Service::restart, to_all());
  v("restarts_max", &Service::restarts_max, to_all());
  v("one_failure_restarts_all", &Service::one_failure_restarts_all, to_all());
  v("ports", &Service::ports, to_owner(bounded::Items{kAsksMax}));
  v("probes", &Service::probes, to_owner(bounded::Items{kAsksMax}));
}

template <class V>
constexpr void describe(V& v, const ContainerRights*) {
  v("uid", &ContainerRights::uid);
  v("gid", &ContainerRights::gid);
  v("groups", &ContainerRights::groups, bounded::Items{kNamesMax});
  v("add_capabilities", &ContainerRights::add_capabilities, bounded::kNames);
  v("drop_capabilities", &ContainerRights::drop_capabilities, bounded::kNames);
  v("privileged", &ContainerRights::privileged);
  v("no_new_privileges", &ContainerRights::no_new_privileges);
  v("read_only_root", &ContainerRights::read_only_root);
  v("seccomp", &ContainerRights::seccomp, bounded::kPath);
  v("never_root", &ContainerRights::never_root);
  v("only_given_groups", &ContainerRights::only_given_groups);
}

template <class V>
constexpr void describe(V& v, const ContainerHook*) {
  v("how", &ContainerHook::how);
  v("argv", &ContainerHook::argv, bounded::kArgv);
  v("host", &ContainerHook::host, bounded::kName);
  v("path", &ContainerHook::path, bounded::kPath);
  v("port", &ContainerHook::port);
  v("tls", &ContainerHook::tls);
  v("headers", &ContainerHook::headers, bounded::kVariables);
  v("sleep_us", &ContainerHook::sleep, bounded::kSpan);
}

template <class V>
constexpr void describe(V& v, const PlacedVariable*) {
  v("what", &PlacedVariable::what);
  v.always("name", &PlacedVariable::name, bounded::kName);
}

template <class V>
constexpr void describe(V& v, const SandboxContainer*) {
  v.always("name", &SandboxContainer::name, bounded::kName);
  v("kind", &SandboxContainer::kind);
  v("restart", &SandboxContainer::restart);
  v("restarts_max", &SandboxContainer::restarts_max);
  v("probes", &SandboxContainer::probes, bounded::Items{kAsksMax});
  v("std_out", &SandboxContainer::std_out, bounded::kPath);
  v("std_err", &SandboxContainer::std_err, bounded::kPath);
  v("rights", &SandboxContainer::rights);
  v("begun", &SandboxContainer::begun);
  v("ending", &SandboxContainer::ending);
  v("milli_cores", &SandboxContainer::milli_cores);
  v("cpu_weight", &SandboxContainer::cpu_weight);
  v("memory_bytes", &SandboxContainer::memory_bytes);
  v("message_file", &SandboxContainer::message_file, bounded::kPath);
  v("message_from_log", &SandboxContainer::message_from_log);
  v("keeps_input", &SandboxContainer::keeps_input);
  v("input_ends_once", &SandboxContainer::input_ends_once);
  v("terminal", &SandboxContainer::terminal);
  v("fetch", &SandboxContainer::fetch);
  v("placed_env", &SandboxContainer::placed_env, bounded::Items{kAsksMax});
  v("disk_bytes", &SandboxContainer::disk_bytes);
  v("anew_for_cores", &SandboxContainer::anew_for_cores);
  v("anew_for_memory", &SandboxContainer::anew_for_memory);
  v("sees_processes_of", &SandboxContainer::sees_processes_of, bounded::kName);
  describe(v, static_cast<const Program*>(nullptr));
}

template <class V>
constexpr void describe(V& v, const SandboxVolume*) {
  v.always("name", &SandboxVolume::name, bounded::kName);
  v("kind", &SandboxVolume::kind);
  v("bytes_max", &SandboxVolume::bytes_max);
  v("path", &SandboxVolume::path, bounded::kPath);
  v("path_type", &SandboxVolume::path_type, bounded::kName);
}

template <class V>
constexpr void describe(V& v, const HostAlias*) {
  v("address", &HostAlias::address, bounded::kName);
  v("names", &HostAlias::names, bounded::kNames);
}

template <class V>
constexpr void describe(V& v, const NameLookup*) {
  v("servers", &NameLookup::servers, bounded::kNames);
  v("searches", &NameLookup::searches, bounded::kNames);
  v("options", &NameLookup::options, bounded::kNames);
}

template <class V>
constexpr void describe(V& v, const PublishedPort*) {
  v("node_port", &PublishedPort::node_port);
  v("port", &PublishedPort::port);
  v("protocol", &PublishedPort::protocol, bounded::kName);
  v("node_address", &PublishedPort::node_address, bounded::kName);
}

template <class V>
constexpr void describe(V& v, const Sandbox*) {
  v("network", &Sandbox::network);
  v("containers", &Sandbox::containers, bounded::Items{kContainersMax});
  v("volumes", &Sandbox::volumes, bounded::Items{kVolumesMax});
  v("front_end_files", &Sandbox::front_end_files);
  v("host_name", &Sandbox::host_name, bounded::kName);
  v("named_as_job", &Sandbox::named_as_job);
  v("domain", &Sandbox::domain, bounded::kName);
  v("aliases", &Sandbox::aliases, bounded::Items{kAsksMax});
  v("lookup", &Sandbox::lookup);
  v("published", &Sandbox::published, bounded::Items{kAsksMax});
  v("sysctls", &Sandbox::sysctls, bounded::kVariables);
  v("files_group", &Sandbox::files_group);
  v("files_group_where_other", &Sandbox::files_group_where_other);
  v("disk_bytes", &Sandbox::disk_bytes);
  v("shared_processes", &Sandbox::shared_processes);
  v("node_processes", &Sandbox::node_processes);
  v("node_ipc", &Sandbox::node_ipc);
}

template <class V>
constexpr void describe(V& v, const GroupSpec*) {
  v("name", &GroupSpec::name, to_all(bounded::kName));
  v("sandbox", &GroupSpec::sandbox, to_owner());
  describe(v, static_cast<const Placement*>(nullptr));
  describe(v, static_cast<const Program*>(nullptr));
  describe(v, static_cast<const Service*>(nullptr));
}

template <class V>
constexpr void describe(V& v, const Dependency*) {
  v.always("type", &Dependency::type);
  v("job", &Dependency::job);
  v("delay_us", &Dependency::delay, bounded::kSpan);
  v("element", &Dependency::element);
  v("failed", &Dependency::failed);
}
constexpr void told_whole(const Dependency*) {}

template <class V>
constexpr void describe(V& v, const SignalAhead*) {
  v("signal", &SignalAhead::signal, bounded::kSignal);
  v("ahead_us", &SignalAhead::ahead, bounded::kSpan);
  v("script_only", &SignalAhead::script_only);
}
constexpr void told_whole(const SignalAhead*) {}

template <class V>
constexpr void describe(V& v, const StagedPath*) {
  v.always("from", &StagedPath::from, bounded::kPath);
  v.always("to", &StagedPath::to, bounded::kPath);
}

template <class V>
constexpr void describe(V& v, const JobSpec*) {
  v("name", &JobSpec::name, to_all(bounded::kName));
  v("front_end", &JobSpec::front_end, to_all(bounded::kName));
  v("user", &JobSpec::user, to_all());
  v("account", &JobSpec::account, to_all(bounded::kName));
  v("qos", &JobSpec::qos, to_all(bounded::kName));
  v("reservation", &JobSpec::reservation, to_all(bounded::kPhrase));
  v("licenses", &JobSpec::licenses, to_all(bounded::kPhrase));
  v("comment", &JobSpec::comment, to_all(bounded::kLines));
  v("wckey", &JobSpec::wckey, to_all(bounded::kName));
  v("partitions", &JobSpec::partitions, to_all(bounded::kNames));
  v("groups", &JobSpec::groups, to_all(bounded::Items{kGroupsMax}));
  v("time_limit_us", &JobSpec::time_limit, to_all(bounded::kSpan));
  v("time_min_us", &JobSpec::time_min, to_all(bounded::kSpan));
  v("begin_us", &JobSpec::begin, to_all());
  v("deadline_us", &JobSpec::deadline, to_all());
  v("dependencies", &JobSpec::dependencies, to_all(bounded::Items{kDependenciesMax}));
  v("dependency_any", &JobSpec::dependency_any, to_all());
  v("kill_on_invalid_dependency", &JobSpec::kill_on_invalid_dependency, to_all());
  v("hold", &JobSpec::hold, to_all());
  v("nice", &JobSpec::nice, to_all());
  v("priority", &JobSpec::priority, to_all());
  v("requeue", &JobSpec::requeue, to_all());
  v("requeue_set", &JobSpec::requeue_set, to_all());
  v("survive_node_loss", &JobSpec::survive_node_loss, to_all());
  v("signal_ahead", &JobSpec::signal_ahead, to_all());
  v("kill_wait_us", &JobSpec::kill_wait, to_all(bounded::Between{0, kKillWaitMax.us}));
  v("checkpoint_signal", &JobSpec::checkpoint_signal, to_all(bounded::kSignal));
  v("checkpoint_file", &JobSpec::checkpoint_file, to_owner(bounded::kPath));
  v("checkpoint_line", &JobSpec::checkpoint_line, to_owner(bounded::kName));
  v("stage_in", &JobSpec::stage_in, to_owner(bounded::Items{kStagedPathsMax}));
  v("stage_out", &JobSpec::stage_out, to_owner(bounded::Items{kStagedPathsMax}));
  v("script", &JobSpec::script, to_owner(bounded::kName));
  v("environment", &JobSpec::environment, to_owner(bounded::kName));
  v("work_dir", &JobSpec::work_dir, to_all(bounded::kPath));
  v("std_in", &JobSpec::std_in, to_owner(bounded::kPath));
  v("std_out", &JobSpec::std_out, to_owner(bounded::kPath));
  v("std_err", &JobSpec::std_err, to_owner(bounded::kPath));
  v("append", &JobSpec::append, to_all());
  v("umask", &JobSpec::umask, to_all(bounded::kUmask));
  v("submit_host", &JobSpec::submit_host, to_all(bounded::kName));
  v("command", &JobSpec::command, to_all(bounded::kBytes));
  v("interactive", &JobSpec::interactive, to_all());
  v("options", &JobSpec::options, to_owner(bounded::kVariables));
  v("precedence", &JobSpec::precedence, to_all());
  v("waits_its_turn", &JobSpec::waits_its_turn, to_all());
  v("labels", &JobSpec::labels, to_owner(bounded::kLabels));
  v("scope", &JobSpec::scope, to_owner(bounded::kName));
  v("health_check", &JobSpec::health_check, to_all(bounded::kName));
}

inline std::optional<Fault> unacceptable(const JobSpec& spec) {
  if (spec.groups.empty())
    return Fault{"groups", "must have at least one group"};
  constexpr const char* kWithin = "must be a path in the job's scratch: relative and without \"..\"";
  std::size_t bytes = 0;
  for (const auto* paths : {&spec.stage_in, &spec.stage_out})
    for (const StagedPath& path : *paths) bytes += path.from.size() + path.to.size();
  if (bytes > kTextBytesMax)
    return Fault{spec.stage_in.empty() ? "stage_out" : "stage_in",
                 format("and its kin have {} bytes; {} are allowed", bytes, kTextBytesMax)};
  for (const StagedPath& path : spec.stage_in)
    if (path.from.empty() || !stays_below(path.to))
      return Fault{"stage_in", path.from.empty() ? "must name what is copied" : kWithin};
  for (const StagedPath& path : spec.stage_out)
    if (path.to.empty() || !stays_below(path.from))
      return Fault{"stage_out", path.to.empty() ? "must name where it is copied to" : kWithin};
  return {};
}

template <class V>
constexpr void describe(V& v, const WorkUse*) {
  v("user_us", &WorkUse::user, bounded::kSpan);
  v("system_us", &WorkUse::system, bounded::kSpan);
  v("read_bytes", &WorkUse::read_bytes);
  v("written_bytes", &WorkUse::written_bytes);
  v("tasks", &WorkUse::tasks);
  v("memory_peak", &WorkUse::memory_peak);
  v("memory_sum", &WorkUse::memory_sum);
  v("memory_peak_rank", &WorkUse::memory_peak_rank);
  v("least_cpu_us", &WorkUse::least_cpu, bounded::kSpan);
  v("least_cpu_rank", &WorkUse::least_cpu_rank);
  v("gpu_us", &WorkUse::gpu, bounded::kSpan);
  v("gpu_memory_peak", &WorkUse::gpu_memory_peak);
}
constexpr void told_whole(const WorkUse*) {}

template <class V>
constexpr void describe(V& v, const ExitStatus*) {
  v("code", &ExitStatus::code, bounded::Between{0, 255});
  v("signal", &ExitStatus::signal, bounded::kSignal);
  v("oom", &ExitStatus::oom);
  v("not_opened", &ExitStatus::not_opened);
}
constexpr void told_whole(const ExitStatus*) {}

template <class V>
constexpr void describe(V& v, const Grant*) {
  v.always("node", &Grant::node);
  v("group", &Grant::group);
  v("tasks", &Grant::tasks);
  v("cores", &Grant::cores);
  v("shared_milli", &Grant::shared_milli);
  v("memory_mb", &Grant::memory_mb, bounded::kMegabytes);
  v("devices", &Grant::devices);
  v("parts", &Grant::parts, bounded::Ours{});
  v("counted", &Grant::counted, bounded::Ours{});
  v("whole_node", &Grant::whole_node);
  v("more_seats", &Grant::more_seats);
}
constexpr void told_whole(const Grant*) {}

template <class V>
constexpr void describe(V& v, const Allocation*) {
  v("attempt", &Allocation::attempt);
  v("partition", &Allocation::partition, bounded::kName);
  v("fence_after_us", &Allocation::fence_after, bounded::kSpan);
  v("grants", &Allocation::grants, bounded::Ours{});
  v("tres", &Allocation::tres);
  v("granted_us", &Allocation::granted);
  v("limit_us", &Allocation::limit, bounded::kSpan);
}
constexpr void told_whole(const Allocation*) {}

template <class V>
constexpr void describe(V& v, const Promise*) {
  v.always("at_us", &Promise::at);
  v("partition", &Promise::partition, bounded::kName);
  v("grants", &Promise::grants, bounded::Ours{});
  v("held", &Promise::held);
}
constexpr void told_whole(const Promise*) {}

template <class V>
constexpr void describe(V& v, const Eviction*) {
  v.always("by", &Eviction::by);
  v.always("mode", &Eviction::mode);
  v("at_us", &Eviction::at);
  v("nodes", &Eviction::nodes, bounded::Ours{});
}
constexpr void told_whole(const Eviction*) {}

template <class V>
constexpr void describe(V& v, const ArrayState*) {
  v("asked", &ArrayState::asked, bounded::Items{kPiecesMax});
  v("waiting", &ArrayState::waiting, bounded::Ours{});
  v("throttle", &ArrayState::throttle);
  v("running", &ArrayState::running);
  v("unfinished", &ArrayState::unfinished);
  v("worst_code", &ArrayState::worst_code);
  v("step", &ArrayState::step);
  v("cut_short", &ArrayState::cut_short);
}
constexpr void told_whole(const ArrayState*) {}

template <class V>
constexpr void describe(V& v, const Job*) {
  v("meta", &Job::meta, to_all());
  v.always("id", &Job::id, to_all());
  v("spec", &Job::spec, to_all());
  v.always("state", &Job::state, to_all());
  v("hold", &Job::hold, to_all());
  v("priority", &Job::priority, to_all());
  v("attempt", &Job::attempt, to_all());
  v("restarts", &Job::restarts, to_all());
  v("preemptions", &Job::preemptions, to_all());
  v("submitted_us", &Job::submitted, to_all());
  v("eligible_us", &Job::eligible, to_all());
  v("started_us", &Job::started, to_all());
  v("ended_us", &Job::ended, to_all());
  v("limit_end_us", &Job::limit_end, to_all());
  v("begin_after_us", &Job::begin_after, to_all());
  v("confirm_by_us", &Job::confirm_by, to_all());
  v("hangs", &Job::hangs, to_all());
  v("staged", &Job::staged, to_all());
  v("warned", &Job::warned, to_all());
  v("allocation", &Job::allocation, to_all());
  v("members", &Job::members, to_all(bounded::MemberLetters{}));
  v("ending", &Job::ending, to_all());
  v("requeue_after", &Job::requeue_after, to_all());
  v("exit", &Job::exit, to_all());
  v("derived_exit", &Job::derived_exit, to_all());
  v("ran_on", &Job::ran_on, to_all(bounded::Ours{}));
  v("end_reason", &Job::end_reason, to_owner_and_the_word_to_all(bounded::Ours{}));
  v("cancelled_by", &Job::cancelled_by, to_all());
  v("next_step", &Job::next_step, to_all());
  v("script_use", &Job::script_use, to_all());
  v("first_step", &Job::first_step, to_all());
  v("turn_us", &Job::turn, to_all());
  v("predicted_us", &Job::predicted, to_all(bounded::kSpan));
  v("promise", &Job::promise, to_all());
  v("eviction", &Job::eviction, to_all());
  v("checkpointed_us", &Job::checkpointed, to_all());
  v("suspended_at_us", &Job::suspended_at, to_all());
  v("suspended_before_us", &Job::suspended_before, to_all(bounded::kSpan));
  v("pauses", &Job::pauses, to_all());
  v("array", &Job::array, to_all());
  v("array_job", &Job::array_job, to_all());
  v("array_index", &Job::array_index, to_all());
}

}  // namespace lockstep
