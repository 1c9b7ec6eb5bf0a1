// Internal to wire: the fields of a job: what was asked for, and how far it has come. See fields.h.
#pragma once

#include "wire/fields.h"

namespace lockstep::wire {

inline constexpr std::size_t kGroupsMax = 1024;

template <class V>
constexpr void describe(V& v, const DeviceAsk*) {
  v("kind", &DeviceAsk::kind);
  v("type", &DeviceAsk::type);
  v.always("count", &DeviceAsk::count);
  v("milli", &DeviceAsk::milli, Between{1, kWholeDevice});
  v("memory_mb", &DeviceAsk::memory_mb, kMegabytes);
  v("mig", &DeviceAsk::mig);
}

template <class V>
constexpr void describe(V& v, const Counted*) {
  v.always("name", &Counted::name);
  v.always("count", &Counted::count, kMegabytes);
}

template <class V>
constexpr void describe(V& v, const DevicePart*) {
  v.always("device", &DevicePart::device, Between{0, DeviceSet::kCapacity - 1});
  v("milli", &DevicePart::milli, Between{0, kWholeDevice});
  v("memory_mb", &DevicePart::memory_mb, kMegabytes);
  v("mig", &DevicePart::mig);
  v("slice", &DevicePart::slice, Between{0, 7});
}

template <class V>
constexpr void describe(V& v, const Resources*) {
  v("cores", &Resources::cores);
  v("memory_mb", &Resources::memory_mb, kMegabytes);
  v("devices", &Resources::devices);
  v("counted", &Resources::counted);
}

template <class V>
constexpr void describe(V& v, const Port*) {
  v("name", &Port::name);
  v.always("port", &Port::port);
}

template <class V>
constexpr void describe(V& v, const Probe*) {
  v.always("what", &Probe::what);
  v.always("how", &Probe::how);
  v("path", &Probe::path);
  v("port", &Probe::port);
  v("argv", &Probe::argv);
  v("post_data", &Probe::post_data);
  v("initial_delay_us", &Probe::initial_delay, kSpan);
  v("period_us", &Probe::period, kSpan);
  v("timeout_us", &Probe::timeout, kSpan);
  v("failures", &Probe::failures);
}

template <class V>
constexpr void describe(V& v, const Mount*) {
  v("source", &Mount::source);
  v("target", &Mount::target);
  v("read_only", &Mount::read_only);
}

template <class V>
constexpr void describe(V& v, const Container*) {
  v("image", &Container::image);
  v("mounts", &Container::mounts);
  v("work_dir", &Container::work_dir);
}

template <class V>
constexpr void describe(V& v, const GroupSpec*) {
  v("name", &GroupSpec::name);
  v("tasks", &GroupSpec::tasks);
  v("nodes", &GroupSpec::nodes);
  v("tasks_per_node", &GroupSpec::tasks_per_node);
  v("tasks_per_node_exact", &GroupSpec::tasks_per_node_exact);
  v("per_task", &GroupSpec::per_task);
  v("per_node", &GroupSpec::per_node);
  v("per_job", &GroupSpec::per_job);
  v("memory_per_core_mb", &GroupSpec::memory_per_core_mb, kMegabytes);
  v("memory_per_device_mb", &GroupSpec::memory_per_device_mb, kMegabytes);
  v("cores_per_device", &GroupSpec::cores_per_device);
  v("all_memory", &GroupSpec::all_memory);
  v("overcommit", &GroupSpec::overcommit);
  v("sharing", &GroupSpec::sharing);
  v("all_cores", &GroupSpec::all_cores);
  v("constraint", &GroupSpec::constraint);
  v("only_nodes", &GroupSpec::only_nodes);
  v("exclude_nodes", &GroupSpec::exclude_nodes);
  v("contiguous_cores_min", &GroupSpec::contiguous_cores_min);
  v("tmp_disk_mb", &GroupSpec::tmp_disk_mb, kMegabytes);
  v("topology_level", &GroupSpec::topology_level);
  v("switches_max", &GroupSpec::switches_max);
  v("switches_wait_us", &GroupSpec::switches_wait, kSpan);
  v("segment", &GroupSpec::segment);
  v("launch", &GroupSpec::launch);
  v("argv", &GroupSpec::argv);
  v("env", &GroupSpec::env);
  v("container", &GroupSpec::container);
  v("restart", &GroupSpec::restart);
  v("restarts_max", &GroupSpec::restarts_max);
  v("one_failure_restarts_all", &GroupSpec::one_failure_restarts_all);
  v("endless", &GroupSpec::endless);
  v("ports", &GroupSpec::ports);
  v("probes", &GroupSpec::probes);
}

template <class V>
constexpr void describe(V& v, const Dependency*) {
  v.always("type", &Dependency::type);
  v("job", &Dependency::job);
  v("delay_us", &Dependency::delay, kSpan);
}

template <class V>
constexpr void describe(V& v, const SignalAhead*) {
  v("signal", &SignalAhead::signal, kSignal);
  v("ahead_us", &SignalAhead::ahead, kSpan);
  v("script_only", &SignalAhead::script_only);
}

template <class V>
constexpr void describe(V& v, const JobSpec*) {
  v("name", &JobSpec::name);
  v("front_end", &JobSpec::front_end);
  v("user", &JobSpec::user);
  v("account", &JobSpec::account);
  v("qos", &JobSpec::qos);
  v("reservation", &JobSpec::reservation);
  v("licenses", &JobSpec::licenses);
  v("comment", &JobSpec::comment);
  v("wckey", &JobSpec::wckey);
  v("partitions", &JobSpec::partitions);
  v("groups", &JobSpec::groups);
  v("time_limit_us", &JobSpec::time_limit, kSpan);
  v("time_min_us", &JobSpec::time_min, kSpan);
  v("begin_us", &JobSpec::begin);
  v("deadline_us", &JobSpec::deadline);
  v("dependencies", &JobSpec::dependencies);
  v("dependency_any", &JobSpec::dependency_any);
  v("kill_on_invalid_dependency", &JobSpec::kill_on_invalid_dependency);
  v("hold", &JobSpec::hold);
  v("nice", &JobSpec::nice);
  v("priority", &JobSpec::priority);
  v("requeue", &JobSpec::requeue);
  v("requeue_set", &JobSpec::requeue_set);
  v("survive_node_loss", &JobSpec::survive_node_loss);
  v("signal_ahead", &JobSpec::signal_ahead);
  v("kill_wait_us", &JobSpec::kill_wait, kSpan);
  v("checkpoint_signal", &JobSpec::checkpoint_signal, kSignal);
  v("script", &JobSpec::script);
  v("environment", &JobSpec::environment);
  v("work_dir", &JobSpec::work_dir);
  v("std_in", &JobSpec::std_in);
  v("std_out", &JobSpec::std_out);
  v("std_err", &JobSpec::std_err);
  v("append", &JobSpec::append);
  v("umask", &JobSpec::umask, kUmask);
  v("submit_host", &JobSpec::submit_host);
  v("command", &JobSpec::command);
  v("interactive", &JobSpec::interactive);
  v("options", &JobSpec::options);
  v("labels", &JobSpec::labels);
}

inline bool acceptable(Reader& r, const JobSpec& spec) {
  if (spec.groups.empty())
    r.fail("must have at least one group");
  else if (spec.groups.size() > kGroupsMax)
    r.fail(format("has more than {} groups", kGroupsMax));
  else
    return true;
  return r.under("groups");
}

template <class V>
constexpr void describe(V& v, const ExitStatus*) {
  v("code", &ExitStatus::code, Between{0, 255});
  v("signal", &ExitStatus::signal, kSignal);
  v("oom", &ExitStatus::oom);
}

template <class V>
constexpr void describe(V& v, const Grant*) {
  v.always("node", &Grant::node);
  v("group", &Grant::group);
  v("tasks", &Grant::tasks);
  v("cores", &Grant::cores);
  v("memory_mb", &Grant::memory_mb, kMegabytes);
  v("devices", &Grant::devices);
  v("parts", &Grant::parts);
  v("counted", &Grant::counted);
  v("whole_node", &Grant::whole_node);
}

template <class V>
constexpr void describe(V& v, const Allocation*) {
  v("attempt", &Allocation::attempt);
  v("partition", &Allocation::partition);
  v("fence_after_us", &Allocation::fence_after, kSpan);
  v("grants", &Allocation::grants);
  v("tres", &Allocation::tres);
  v("granted_us", &Allocation::granted);
  v("limit_us", &Allocation::limit, kSpan);
}

template <class V>
constexpr void describe(V& v, const Promise*) {
  v.always("at_us", &Promise::at);
  v("partition", &Promise::partition);
  v("grants", &Promise::grants);
  v("held", &Promise::held);
}

template <class V>
constexpr void describe(V& v, const Eviction*) {
  v.always("by", &Eviction::by);
  v.always("mode", &Eviction::mode);
  v("at_us", &Eviction::at);
  v("nodes", &Eviction::nodes);
}

template <class V>
constexpr void describe(V& v, const ArrayState*) {
  v("asked", &ArrayState::asked);
  v("waiting", &ArrayState::waiting);
  v("throttle", &ArrayState::throttle);
  v("running", &ArrayState::running);
  v("unfinished", &ArrayState::unfinished);
  v("worst_code", &ArrayState::worst_code);
  v("step", &ArrayState::step);
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
  v("warned", &Job::warned);
  v("allocation", &Job::allocation);
  v("members", &Job::members, MemberLetters{});
  v("ending", &Job::ending);
  v("requeue_after", &Job::requeue_after);
  v("exit", &Job::exit);
  v("derived_exit", &Job::derived_exit);
  v("ran_on", &Job::ran_on);
  v("end_reason", &Job::end_reason);
  v("cancelled_by", &Job::cancelled_by);
  v("next_step", &Job::next_step);
  v("first_step", &Job::first_step);
  v("turn_us", &Job::turn);
  v("predicted_us", &Job::predicted, kSpan);
  v("promise", &Job::promise);
  v("eviction", &Job::eviction);
  v("checkpointed_us", &Job::checkpointed);
  v("suspended_at_us", &Job::suspended_at);
  v("suspended_before_us", &Job::suspended_before, kSpan);
  v("pauses", &Job::pauses);
  v("array", &Job::array);
  v("array_job", &Job::array_job);
  v("array_index", &Job::array_index);
}

}  // namespace lockstep::wire
