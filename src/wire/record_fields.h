// Internal to wire: the fields of the envelope and of every record but the job. See fields.h.
#pragma once

#include "wire/accounting_fields.h"
#include "wire/fields.h"

namespace lockstep::wire {

template <class V>
constexpr void describe(V& v, const OwnerRef*) {
  v.always("kind", &OwnerRef::kind);
  v("uid", &OwnerRef::uid);
  v("name", &OwnerRef::name);
  v("controller", &OwnerRef::controller);
}

template <class V>
constexpr void describe(V& v, const MetaExtra*) {
  v("labels", &MetaExtra::labels);
  v("annotations", &MetaExtra::annotations);
  v("owners", &MetaExtra::owners);
  v("finalizers", &MetaExtra::finalizers);
  v("deleting_us", &MetaExtra::deleting);
}

template <class V>
constexpr void describe(V& v, const Meta*) {
  v("ns", &Meta::ns);
  v("name", &Meta::name);
  v("uid", &Meta::uid);
  v("seq", &Meta::seq);
  v("generation", &Meta::generation);
  v("created_us", &Meta::created);
  v("extra", &Meta::extra);
}

template <class V>
constexpr void describe(V& v, const Cluster*) {
  v("meta", &Cluster::meta);
  v("name", &Cluster::name);
  v("next_job", &Cluster::next_job);
  v("next_node", &Cluster::next_node);
  v("next_user", &Cluster::next_user);
  v("wall_offset_us", &Cluster::wall_offset);
  v("clock_us", &Cluster::clock);
  v("epoch", &Cluster::epoch);
}

template <class V>
constexpr void describe(V& v, const User*) {
  v("meta", &User::meta);
  v.always("id", &User::id);
  v("realm", &User::realm);
  v.always("uid", &User::uid);
  v.always("gid", &User::gid);
  v("groups", &User::groups);
  v("home", &User::home);
  v("shell", &User::shell);
  v("account", &User::account);
  v("admin", &User::admin);
}

template <class V>
constexpr void describe(V& v, const TopologyLeaf*) {
  v("path", &TopologyLeaf::path);
  v("nodes", &TopologyLeaf::nodes);
}

template <class V>
constexpr void describe(V& v, const Topology*) {
  v("meta", &Topology::meta);
  v("levels", &Topology::levels);
  v("leaves", &Topology::leaves);
  v("blocks", &Topology::blocks);
}

template <class V>
constexpr void describe(V& v, const PackingClass*) {
  v("cpu_milli", &PackingClass::cpu_milli);
  v("devices", &PackingClass::devices);
  v("milli", &PackingClass::milli);
  v("models", &PackingClass::models);
  v("weight", &PackingClass::weight);
  v("price", &PackingClass::price);
}

template <class V>
constexpr void describe(V& v, const Packing*) {
  v("meta", &Packing::meta);
  v("through", &Packing::through);
  v("arrivals", &Packing::arrivals);
  v("steps", &Packing::steps);
  v("classes", &Packing::classes);
}

template <class V>
constexpr void describe(V& v, const Partition*) {
  v("meta", &Partition::meta);
  v("nodes", &Partition::nodes);
  v("is_default", &Partition::is_default);
  v("up", &Partition::up);
  v("tier", &Partition::tier);
  v("priority", &Partition::priority);
  v("time_default_us", &Partition::time_default, kSpan);
  v("time_max_us", &Partition::time_max, kSpan);
  v("nodes_max", &Partition::nodes_max);
  v("memory_per_core_mb", &Partition::memory_per_core_mb, kMegabytes);
  v("allow_accounts", &Partition::allow_accounts);
  v("deny_accounts", &Partition::deny_accounts);
  v("allow_qos", &Partition::allow_qos);
  v("deny_qos", &Partition::deny_qos);
  v("qos", &Partition::qos);
  v("billing", &Partition::billing);
  v("preempt_mode", &Partition::preempt_mode);
  v("grace_us", &Partition::grace, kSpan);
  v("segment", &Partition::segment);
}

template <class V>
constexpr void describe(V& v, const Device*) {
  v("kind", &Device::kind);
  v("type", &Device::type);
  v("uuid", &Device::uuid);
  v("minor", &Device::minor);
  v("memory_mb", &Device::memory_mb, kMegabytes);
  v("numa", &Device::numa);
  v("island", &Device::island);
  v("bus_id", &Device::bus_id);
  v("healthy", &Device::healthy);
  v("mig", &Device::mig);
}

template <class V>
constexpr void describe(V& v, const Node*) {
  v("meta", &Node::meta);
  v.always("id", &Node::id);
  v("address", &Node::address);
  v("hostname", &Node::hostname);
  v("boot_id", &Node::boot_id);
  v("version", &Node::version);
  v("sockets", &Node::sockets);
  v.always("cores", &Node::cores);
  v("threads_per_core", &Node::threads_per_core);
  v.always("memory_mb", &Node::memory_mb, kMegabytes);
  v("tmp_disk_mb", &Node::tmp_disk_mb, kMegabytes);
  v("devices", &Node::devices);
  v("counted", &Node::counted);
  v("features", &Node::features);
  v("domains", &Node::domains);
  v("weight", &Node::weight);
  v.always("link", &Node::link);
  v("drain", &Node::drain);
  v("reason", &Node::reason);
  v("reason_by", &Node::reason_by);
  v("reason_at_us", &Node::reason_at);
  v("boot_at_us", &Node::boot_at);
  v("seen_at_us", &Node::seen_at);
  v("has_fence_hook", &Node::has_fence_hook);
}

// An agent's facts go straight into the state, whose sets have room for so many.
inline bool acceptable(Reader& r, const Node& node) {
  if (node.cores == 0 || node.cores > CoreSet::kCapacity)
    return r.fail(format("must be between 1 and {}", CoreSet::kCapacity)), r.under("cores");
  if (node.devices.size() > DeviceSet::kCapacity)
    return r.fail(format("has more than {} entries", DeviceSet::kCapacity)), r.under("devices");
  return true;
}

template <class V>
constexpr void describe(V& v, const JoinToken*) {
  v("meta", &JoinToken::meta);
  v("secret_sha256", &JoinToken::secret_sha256);
  v.always("role", &JoinToken::role);
  v("realm", &JoinToken::realm);
  v("node", &JoinToken::node);
  v("expires_us", &JoinToken::expires);
  v("used", &JoinToken::used);
}

template <class V>
constexpr void describe(V& v, const StepSpec*) {
  v("name", &StepSpec::name);
  v("argv", &StepSpec::argv);
  v("environment", &StepSpec::environment);
  v("work_dir", &StepSpec::work_dir);
  v("std_in", &StepSpec::std_in);
  v("std_out", &StepSpec::std_out);
  v("std_err", &StepSpec::std_err);
  v("append", &StepSpec::append);
  v("nodes", &StepSpec::nodes);
  v("tasks", &StepSpec::tasks);
  v("tasks_per_node", &StepSpec::tasks_per_node);
  v("cores_per_task", &StepSpec::cores_per_task);
  v("devices_per_node", &StepSpec::devices_per_node);
  v("devices_per_task", &StepSpec::devices_per_task);
  v("devices_total", &StepSpec::devices_total);
  v("memory_mb", &StepSpec::memory_mb, Between{-1, kMegabytes.high});
  v("only_nodes", &StepSpec::only_nodes);
  v("exclude_nodes", &StepSpec::exclude_nodes);
  v("relative", &StepSpec::relative);
  v("overlap", &StepSpec::overlap);
  v("exact", &StepSpec::exact);
  v("overcommit", &StepSpec::overcommit);
  v("whole", &StepSpec::whole);
  v("immediate", &StepSpec::immediate);
  v("distribution", &StepSpec::distribution);
  v("group", &StepSpec::group);
  v("pty", &StepSpec::pty);
  v("pty_rows", &StepSpec::pty_rows);
  v("pty_columns", &StepSpec::pty_columns);
  v("label", &StepSpec::label);
  v("unbuffered", &StepSpec::unbuffered);
  v("kill_on_bad_exit", &StepSpec::kill_on_bad_exit);
  v("wait_after_first_us", &StepSpec::wait_after_first, kSpan);
  v("umask", &StepSpec::umask, kUmask);
  v("multi_prog", &StepSpec::multi_prog);
  v("options", &StepSpec::options);
  v("container", &StepSpec::container);
}

template <class V>
constexpr void describe(V& v, const StepPlace*) {
  v.always("node", &StepPlace::node);
  v("grant", &StepPlace::grant);
  v("ranks", &StepPlace::ranks, Numbers{});
  v("cores", &StepPlace::cores);
  v("devices", &StepPlace::devices);
  v("memory_mb", &StepPlace::memory_mb);
  v("member", &StepPlace::member);
}

template <class V>
constexpr void describe(V& v, const Step*) {
  v("meta", &Step::meta);
  v.always("job", &Step::job);
  v.always("number", &Step::number);
  v("attempt", &Step::attempt);
  v("spec", &Step::spec);
  v("user", &Step::user);
  v.always("state", &Step::state);
  v("places", &Step::places);
  v("created_us", &Step::created);
  v("started_us", &Step::started);
  v("ended_us", &Step::ended);
  v("exit", &Step::exit);
  v("failures", &Step::failures);
  v("cancelled", &Step::cancelled);
}

template <class V>
constexpr void describe(V& v, const Task*) {
  v("meta", &Task::meta);
  v.always("job", &Task::job);
  v("group", &Task::group);
  v.always("index", &Task::index);
  v("attempt", &Task::attempt);
  v("incarnation", &Task::incarnation);
  v("grant", &Task::grant);
  v.always("state", &Task::state);
  v("ready", &Task::ready);
  v("restarts", &Task::restarts);
  v("started_us", &Task::started);
  v("ended_us", &Task::ended);
  v("retry_at_us", &Task::retry_at);
  v("exit", &Task::exit);
}

template <class V>
constexpr void describe(V& v, const Object*) {
  v("meta", &Object::meta);
  v.always("type", &Object::type);
  v("body", &Object::body);
}

}  // namespace lockstep::wire
