// The fields of a job: what was asked for, and how far it has come. See model/bounded.h.
#pragma once

#include "model/bounded.h"
#include "model/job.h"

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

template <class V>
constexpr void describe(V& v, const Counted*) {
  v.always("name", &Counted::name, bounded::kName);
  v.always("count", &Counted::count, bounded::kMegabytes);
}

template <class V>
constexpr void describe(V& v, const DevicePart*) {
  v.always("device", &DevicePart::device, bounded::Between{0, DeviceSet::kCapacity - 1});
  v("milli", &DevicePart::milli, bounded::Between{0, kWholeDevice});
  v("memory_mb", &DevicePart::memory_mb, bounded::kMegabytes);
  v("mig", &DevicePart::mig, bounded::kName);
  v("slice", &DevicePart::slice, bounded::Between{0, 7});
}

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
  v("tasks", &Placement::tasks);
  v("nodes", &Placement::nodes);
  v("tasks_per_node", &Placement::tasks_per_node, bounded::Between{0, kTasksPerNodeMax});
  v("tasks_per_node_exact", &Placement::tasks_per_node_exact);
  v("per_task", &Placement::per_task);
  v("per_node", &Placement::per_node);
  v("per_job", &Placement::per_job, bounded::Items{kAsksMax});
  v("memory_per_core_mb", &Placement::memory_per_core_mb, bounded::kMegabytes);
  v("memory_per_device_mb", &Placement::memory_per_device_mb, bounded::kMegabytes);
  v("cores_per_device", &Placement::cores_per_device, bounded::kCount);
  v("all_memory", &Placement::all_memory);
  v("overcommit", &Placement::overcommit);
  v("sharing", &Placement::sharing);
  v("all_cores", &Placement::all_cores);
  v("constraint", &Placement::constraint, bounded::kPhrase);
  v("only_nodes", &Placement::only_nodes, bounded::kNodeNames);
  v("exclude_nodes", &Placement::exclude_nodes, bounded::kNodeNames);
  v("contiguous_cores_min", &Placement::contiguous_cores_min, bounded::kCount);
  v("tmp_disk_mb", &Placement::tmp_disk_mb, bounded::kMegabytes);
  v("topology_level", &Placement::topology_level, bounded::kName);
  v("switches_max", &Placement::switches_max);
  v("switches_wait_us", &Placement::switches_wait, bounded::kSpan);
  v("segment", &Placement::segment);
  v("launch", &Placement::launch);
  v("endless", &Placement::endless);
  v("spread", &Placement::spread);
  v("minds_marks", &Placement::minds_marks);
  v("bears", &Placement::bears, bounded::Items{kRulesMax});
  v("node_rules", &Placement::node_rules, bounded::Items{kRulesMax});
  v("node_wishes", &Placement::node_wishes, bounded::Items{kRulesMax});
  v("neighbours", &Placement::neighbours, bounded::Items{kNeighbourTermsMax});
}

template <class V>
constexpr void describe(V& v, const Program*) {
  v("argv", &Program::argv, bounded::kArgv);
  v("env", &Program::env, bounded::kVariables);
  v("container", &Program::container);
}

template <class V>
constexpr void describe(V& v, const Service*) {
  v("restart", &Service::restart);
  v("restarts_max", &Service::restarts_max);
  v("one_failure_restarts_all", &Service::one_failure_restarts_all);
  v("ports", &Service::ports, bounded::Items{kAsksMax});
  v("probes", &Service::probes, bounded::Items{kAsksMax});
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
  v("name", &GroupSpec::name, bounded::kName);
  v("sandbox", &GroupSpec::sandbox);
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

template <class V>
constexpr void describe(V& v, const SignalAhead*) {
  v("signal", &SignalAhead::signal, bounded::kSignal);
  v("ahead_us", &SignalAhead::ahead, bounded::kSpan);
  v("script_only", &SignalAhead::script_only);
}

template <class V>
constexpr void describe(V& v, const StagedPath*) {
  v.always("from", &StagedPath::from, bounded::kPath);
  v.always("to", &StagedPath::to, bounded::kPath);
}

template <class V>
constexpr void describe(V& v, const JobSpec*) {
  v("name", &JobSpec::name, bounded::kName);
  v("front_end", &JobSpec::front_end, bounded::kName);
  v("user", &JobSpec::user);
  v("account", &JobSpec::account, bounded::kName);
  v("qos", &JobSpec::qos, bounded::kName);
  v("reservation", &JobSpec::reservation, bounded::kPhrase);
  v("licenses", &JobSpec::licenses, bounded::kPhrase);
  v("comment", &JobSpec::comment, bounded::kLines);
  v("wckey", &JobSpec::wckey, bounded::kName);
  v("partitions", &JobSpec::partitions, bounded::kNames);
  v("groups", &JobSpec::groups, bounded::Items{kGroupsMax});
  v("time_limit_us", &JobSpec::time_limit, bounded::kSpan);
  v("time_min_us", &JobSpec::time_min, bounded::kSpan);
  v("begin_us", &JobSpec::begin);
  v("deadline_us", &JobSpec::deadline);
  v("dependencies", &JobSpec::dependencies, bounded::Items{kDependenciesMax});
  v("dependency_any", &JobSpec::dependency_any);
  v("kill_on_invalid_dependency", &JobSpec::kill_on_invalid_dependency);
  v("hold", &JobSpec::hold);
  v("nice", &JobSpec::nice);
  v("priority", &JobSpec::priority);
  v("requeue", &JobSpec::requeue);
  v("requeue_set", &JobSpec::requeue_set);
  v("survive_node_loss", &JobSpec::survive_node_loss);
  v("signal_ahead", &JobSpec::signal_ahead);
  v("kill_wait_us", &JobSpec::kill_wait, bounded::Between{0, kKillWaitMax.us});
  v("checkpoint_signal", &JobSpec::checkpoint_signal, bounded::kSignal);
  v("checkpoint_file", &JobSpec::checkpoint_file, bounded::kPath);
  v("checkpoint_line", &JobSpec::checkpoint_line, bounded::kName);
  v("stage_in", &JobSpec::stage_in, bounded::Items{kStagedPathsMax});
  v("stage_out", &JobSpec::stage_out, bounded::Items{kStagedPathsMax});
  v("script", &JobSpec::script, bounded::kName);
  v("environment", &JobSpec::environment, bounded::kName);
  v("work_dir", &JobSpec::work_dir, bounded::kPath);
  v("std_in", &JobSpec::std_in, bounded::kPath);
  v("std_out", &JobSpec::std_out, bounded::kPath);
  v("std_err", &JobSpec::std_err, bounded::kPath);
  v("append", &JobSpec::append);
  v("umask", &JobSpec::umask, bounded::kUmask);
  v("submit_host", &JobSpec::submit_host, bounded::kName);
  v("command", &JobSpec::command, bounded::kBytes);
  v("interactive", &JobSpec::interactive);
  v("options", &JobSpec::options, bounded::kVariables);
  v("precedence", &JobSpec::precedence);
  v("waits_its_turn", &JobSpec::waits_its_turn);
  v("labels", &JobSpec::labels, bounded::kLabels);
  v("scope", &JobSpec::scope, bounded::kName);
  v("health_check", &JobSpec::health_check, bounded::kName);
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

template <class V>
constexpr void describe(V& v, const ExitStatus*) {
  v("code", &ExitStatus::code, bounded::Between{0, 255});
  v("signal", &ExitStatus::signal, bounded::kSignal);
  v("oom", &ExitStatus::oom);
  v("not_opened", &ExitStatus::not_opened);
}

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

template <class V>
constexpr void describe(V& v, const Promise*) {
  v.always("at_us", &Promise::at);
  v("partition", &Promise::partition, bounded::kName);
  v("grants", &Promise::grants, bounded::Ours{});
  v("held", &Promise::held);
}

template <class V>
constexpr void describe(V& v, const Eviction*) {
  v.always("by", &Eviction::by);
  v.always("mode", &Eviction::mode);
  v("at_us", &Eviction::at);
  v("nodes", &Eviction::nodes, bounded::Ours{});
}

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

template <class V>
constexpr void describe(V& v, const Job*) {
  v("meta", &Job::meta);
  v.always("id", &Job::id);
  v("spec", &Job::spec);
  v.always("state", &Job::state);
  v("hold", &Job::hold);
  v("priority", &Job::priority);
  v("attempt", &Job::attempt);
  v("restarts", &Job::restarts);
  v("preemptions", &Job::preemptions);
  v("submitted_us", &Job::submitted);
  v("eligible_us", &Job::eligible);
  v("started_us", &Job::started);
  v("ended_us", &Job::ended);
  v("limit_end_us", &Job::limit_end);
  v("begin_after_us", &Job::begin_after);
  v("confirm_by_us", &Job::confirm_by);
  v("hangs", &Job::hangs);
  v("staged", &Job::staged);
  v("warned", &Job::warned);
  v("allocation", &Job::allocation);
  v("members", &Job::members, bounded::MemberLetters{});
  v("ending", &Job::ending);
  v("requeue_after", &Job::requeue_after);
  v("exit", &Job::exit);
  v("derived_exit", &Job::derived_exit);
  v("ran_on", &Job::ran_on, bounded::Ours{});
  v("end_reason", &Job::end_reason, bounded::Ours{});
  v("cancelled_by", &Job::cancelled_by);
  v("next_step", &Job::next_step);
  v("script_use", &Job::script_use);
  v("first_step", &Job::first_step);
  v("turn_us", &Job::turn);
  v("predicted_us", &Job::predicted, bounded::kSpan);
  v("promise", &Job::promise);
  v("eviction", &Job::eviction);
  v("checkpointed_us", &Job::checkpointed);
  v("suspended_at_us", &Job::suspended_at);
  v("suspended_before_us", &Job::suspended_before, bounded::kSpan);
  v("pauses", &Job::pauses);
  v("array", &Job::array);
  v("array_job", &Job::array_job);
  v("array_index", &Job::array_index);
}

}  // namespace lockstep
