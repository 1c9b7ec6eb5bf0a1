// The fields of the envelope and of every record but the job. See model/bounded.h.
#pragma once

#include "model/accounting_fields.h"
#include "model/bounded.h"
#include "model/records.h"

namespace lockstep {

template <class V>
constexpr void describe(V& v, const OwnerRef*) {
  v.always("kind", &OwnerRef::kind);
  v("uid", &OwnerRef::uid);
  v("name", &OwnerRef::name, bounded::kName);
  v("controller", &OwnerRef::controller);
  v("blocks", &OwnerRef::blocks);
}

template <class V>
constexpr void describe(V& v, const MetaExtra*) {
  v("labels", &MetaExtra::labels, bounded::kLabels);
  v("annotations", &MetaExtra::annotations, bounded::kLabels);
  v("owners", &MetaExtra::owners, bounded::Items{kOwnersMax});
  v("finalizers", &MetaExtra::finalizers, bounded::kNames);
  v("deleting_us", &MetaExtra::deleting);
}

template <class V>
constexpr void describe(V& v, const Meta*) {
  v("ns", &Meta::ns, bounded::kName);
  v("name", &Meta::name, bounded::kName);
  v("uid", &Meta::uid);
  v("seq", &Meta::seq);
  v("generation", &Meta::generation);
  v("created_us", &Meta::created);
  v("extra", &Meta::extra);
}

template <class V>
constexpr void describe(V& v, const Cluster*) {
  v("meta", &Cluster::meta);
  v("name", &Cluster::name, bounded::kName);
  v("next_job", &Cluster::next_job);
  v("next_node", &Cluster::next_node);
  v("next_user", &Cluster::next_user);
  v("wall_offset_us", &Cluster::wall_offset);
  v("clock_us", &Cluster::clock);
  v("epoch", &Cluster::epoch);
  v("away_since_us", &Cluster::away_since);
  v("back_at_us", &Cluster::back_at);
}

template <class V>
constexpr void describe(V& v, const User*) {
  v("meta", &User::meta);
  v.always("id", &User::id);
  v("realm", &User::realm, bounded::kName);
  v.always("uid", &User::uid);
  v.always("gid", &User::gid);
  v("groups", &User::groups, bounded::Items{kGroupIdsMax});
  v("home", &User::home, bounded::kPath);
  v("shell", &User::shell, bounded::kPath);
  v("account", &User::account, bounded::kName);
  v("admin", &User::admin);
}

template <class V>
constexpr void describe(V& v, const TopologyLeaf*) {
  v("path", &TopologyLeaf::path, bounded::kLevels);
  v("nodes", &TopologyLeaf::nodes, bounded::kAllNodes);
}

template <class V>
constexpr void describe(V& v, const Topology*) {
  v("meta", &Topology::meta);
  v("levels", &Topology::levels, bounded::kLevels);
  v("leaves", &Topology::leaves, bounded::Items{kLeavesMax});
  v("blocks", &Topology::blocks);
}

template <class V>
constexpr void describe(V& v, const PackingClass*) {
  v("cpu_milli", &PackingClass::cpu_milli);
  v("devices", &PackingClass::devices);
  v("milli", &PackingClass::milli);
  v("models", &PackingClass::models, bounded::Ours{});
  v("weight", &PackingClass::weight);
  v("price", &PackingClass::price);
}

template <class V>
constexpr void describe(V& v, const Packing*) {
  v("meta", &Packing::meta);
  v("through", &Packing::through);
  v("arrivals", &Packing::arrivals);
  v("steps", &Packing::steps);
  v("classes", &Packing::classes, bounded::Ours{});
}

template <class V>
constexpr void describe(V& v, const Partition*) {
  v("meta", &Partition::meta);
  v("nodes", &Partition::nodes, bounded::kAllNodes);
  v("is_default", &Partition::is_default);
  v("up", &Partition::up);
  v("closed", &Partition::closed);
  v("tier", &Partition::tier);
  v("priority", &Partition::priority);
  v("time_default_us", &Partition::time_default, bounded::kSpan);
  v("time_max_us", &Partition::time_max, bounded::kSpan);
  v("nodes_max", &Partition::nodes_max);
  v("memory_per_core_mb", &Partition::memory_per_core_mb, bounded::kMegabytes);
  v("allow_accounts", &Partition::allow_accounts, bounded::kManyNames);
  v("deny_accounts", &Partition::deny_accounts, bounded::kManyNames);
  v("allow_qos", &Partition::allow_qos, bounded::kNames);
  v("deny_qos", &Partition::deny_qos, bounded::kNames);
  v("qos", &Partition::qos, bounded::kName);
  v("billing", &Partition::billing, bounded::Items{kTresMax});
  v("preempt_mode", &Partition::preempt_mode);
  v("grace_us", &Partition::grace, bounded::kSpan);
  v("segment", &Partition::segment);
}

template <class V>
constexpr void describe(V& v, const Device*) {
  v("kind", &Device::kind, bounded::kName);
  v("type", &Device::type, bounded::kName);
  v("uuid", &Device::uuid, bounded::kName);
  v("minor", &Device::minor);
  v("memory_mb", &Device::memory_mb, bounded::kMegabytes);
  v("numa", &Device::numa);
  v("island", &Device::island);
  v("bus_id", &Device::bus_id, bounded::kName);
  v("healthy", &Device::healthy);
  v("mig", &Device::mig);
}

template <class V>
constexpr void describe(V& v, const Unconfirmed*) {
  v.always("job", &Unconfirmed::job);
  v("pauses", &Unconfirmed::pauses);
  v("since_us", &Unconfirmed::since);
  v("forgiven", &Unconfirmed::forgiven);
}

template <class V>
constexpr void describe(V& v, const HealthFinding*) {
  v.always("check", &HealthFinding::check, bounded::kName);
  v("verdict", &HealthFinding::verdict);
  v("began_us", &HealthFinding::began);
  v("at_us", &HealthFinding::at);
  v("job", &HealthFinding::job);
  v("exit", &HealthFinding::exit);
  v("timed_out", &HealthFinding::timed_out);
  v("closes", &HealthFinding::closes);
}

template <class V>
constexpr void describe(V& v, const HealthCheck*) {
  v("meta", &HealthCheck::meta);
  v("user", &HealthCheck::user, bounded::kName);
  v("account", &HealthCheck::account, bounded::kName);
  v("script", &HealthCheck::script, bounded::kLines);
  v("every_us", &HealthCheck::every, bounded::kSpan);
  v("time_limit_us", &HealthCheck::time_limit, bounded::kSpan);
  v("nodes", &HealthCheck::nodes, bounded::kAllNodes);
  v("node_class", &HealthCheck::node_class, bounded::kName);
  v("partition", &HealthCheck::partition, bounded::kName);
  v("gpus", &HealthCheck::gpus);
  v("output", &HealthCheck::output, bounded::Text{kPathBytesMax});
  v("on_failure", &HealthCheck::on_failure);
  v("changed_us", &HealthCheck::changed);
}

template <class V>
constexpr void describe(V& v, const Shortage*) {
  v.always("what", &Shortage::what);
  v("acute", &Shortage::acute);
  v("available", &Shortage::available, bounded::Between{0, INT64_MAX});
  v("threshold", &Shortage::threshold, bounded::Between{0, INT64_MAX});
  v("since_us", &Shortage::since);
  v("measured_us", &Shortage::measured);
}

template <class V>
constexpr void describe(V& v, const Node*) {
  v("meta", &Node::meta);
  v.always("id", &Node::id);
  v("address", &Node::address, bounded::kName);
  v("task_range", &Node::task_range, bounded::kName);
  v("hostname", &Node::hostname, bounded::kName);
  v("boot_id", &Node::boot_id, bounded::kName);
  v("version", &Node::version, bounded::kName);
  v("sockets", &Node::sockets, bounded::Between{0, CoreSet::kCapacity});
  v.always("cores", &Node::cores, bounded::Between{1, CoreSet::kCapacity});
  v("threads_per_core", &Node::threads_per_core, bounded::Between{0, CoreSet::kCapacity});
  v.always("memory_mb", &Node::memory_mb, bounded::kMegabytes);
  v("tmp_disk_mb", &Node::tmp_disk_mb, bounded::kMegabytes);
  v("numa", &Node::numa, bounded::Items{CoreSet::kCapacity});
  v("devices", &Node::devices, bounded::Items{DeviceSet::kCapacity});
  v("counted", &Node::counted, bounded::Items{2 * kAsksMax});
  v("added_counted", &Node::added_counted, bounded::Items{kAsksMax});
  v("labels", &Node::labels, bounded::kLabels);
  v("marks", &Node::marks, bounded::Items{kRulesMax});
  v("features", &Node::features, bounded::kNames);
  v("domains", &Node::domains, bounded::kLevels);
  v("weight", &Node::weight);
  v.always("link", &Node::link);
  v("drain", &Node::drain);
  v("unfit", &Node::unfit);
  v("unconfirmed", &Node::unconfirmed, bounded::Items{kUnconfirmedMax});
  v("health", &Node::health, bounded::Items{kHealthChecksMax});
  v("reason", &Node::reason, bounded::kLines);
  v("reason_by", &Node::reason_by);
  v("word", &Node::word, bounded::kLines);
  v("word_at_us", &Node::word_at);
  v("reason_at_us", &Node::reason_at);
  v("boot_at_us", &Node::boot_at);
  v("seen_at_us", &Node::seen_at);
  v("shortages", &Node::shortages, bounded::Items{kShortagesMax});
  v("has_fence_hook", &Node::has_fence_hook);
  v("hooks_take_us", &Node::hooks_take);
  v("certificate", &Node::certificate, bounded::kName);
  v("next_certificate", &Node::next_certificate, bounded::kName);
  v("replaced", &Node::replaced);
  v("trust_administrators", &Node::trust_administrators);
  v("node_class", &Node::node_class, bounded::kName);
  v("own_features", &Node::own_features, bounded::kNames);
  v("own_weight", &Node::own_weight);
}

template <class V>
constexpr void describe(V& v, const NodeClass*) {
  v("meta", &NodeClass::meta);
  v("nodes", &NodeClass::nodes, bounded::kAllNodes);
  v("features", &NodeClass::features, bounded::Texts{kClassFeaturesMax, kNamesBytesMax, bounded::kName});
  v("weight", &NodeClass::weight);
  v("cores", &NodeClass::cores);
  v("memory_mb", &NodeClass::memory_mb, bounded::kMegabytes);
  v("gpus", &NodeClass::gpus);
  v("gpu_type", &NodeClass::gpu_type, bounded::kName);
}

template <class V>
constexpr void describe(V& v, const IssuedCertificate*) {
  v.always("node", &IssuedCertificate::node, bounded::kName);
  v.always("certificate", &IssuedCertificate::certificate, bounded::kName);
  v("until_us", &IssuedCertificate::until);
}

template <class V>
constexpr void describe(V& v, const JoinToken*) {
  v("meta", &JoinToken::meta);
  v("secret_sha256", &JoinToken::secret_sha256, bounded::kName);
  v.always("role", &JoinToken::role);
  v("realm", &JoinToken::realm, bounded::kName);
  v("node", &JoinToken::node, bounded::Text{kHostListBytesMax});
  v("expires_us", &JoinToken::expires);
  v("used", &JoinToken::used);
  v("uses_left", &JoinToken::uses_left);
  v("replace", &JoinToken::replace);
  v("trust_administrators", &JoinToken::trust_administrators);
  v("issued", &JoinToken::issued, bounded::Items{kTokenUsesMax});
}

template <class V>
constexpr void describe(V& v, const StepSpec*) {
  v("name", &StepSpec::name, bounded::kName);
  v("argv", &StepSpec::argv, bounded::kArgv);
  v("environment", &StepSpec::environment, bounded::kName);
  v("work_dir", &StepSpec::work_dir, bounded::kPath);
  v("std_in", &StepSpec::std_in, bounded::kPath);
  v("std_out", &StepSpec::std_out, bounded::kPath);
  v("std_err", &StepSpec::std_err, bounded::kPath);
  v("append", &StepSpec::append);
  v("nodes", &StepSpec::nodes);
  v("tasks", &StepSpec::tasks, bounded::Between{0, kStepTasksMax});
  v("tasks_per_node", &StepSpec::tasks_per_node, bounded::Between{0, kTasksPerNodeMax});
  v("cores_per_task", &StepSpec::cores_per_task, bounded::kCount);
  v("devices_per_node", &StepSpec::devices_per_node, bounded::Items{kAsksMax});
  v("devices_per_task", &StepSpec::devices_per_task, bounded::Items{kAsksMax});
  v("devices_total", &StepSpec::devices_total, bounded::kCount);
  v("memory_mb", &StepSpec::memory_mb, bounded::Between{-1, kMegabytesMax});
  v("only_nodes", &StepSpec::only_nodes, bounded::kNodeNames);
  v("exclude_nodes", &StepSpec::exclude_nodes, bounded::kNodeNames);
  v("relative", &StepSpec::relative);
  v("overlap", &StepSpec::overlap);
  v("exact", &StepSpec::exact);
  v("overcommit", &StepSpec::overcommit);
  v("whole", &StepSpec::whole);
  v("sole", &StepSpec::sole);
  v("immediate", &StepSpec::immediate);
  v("distribution", &StepSpec::distribution, bounded::kName);
  v("group", &StepSpec::group);
  v("pty", &StepSpec::pty);
  v("pty_rows", &StepSpec::pty_rows);
  v("pty_columns", &StepSpec::pty_columns);
  v("label", &StepSpec::label);
  v("unbuffered", &StepSpec::unbuffered);
  v("kill_on_bad_exit", &StepSpec::kill_on_bad_exit);
  v("wait_after_first_us", &StepSpec::wait_after_first, bounded::kSpan);
  v("umask", &StepSpec::umask, bounded::kUmask);
  v("multi_prog", &StepSpec::multi_prog, bounded::TextLists{2 * kArgvWordsMax, kArgvBytesMax});
  v("options", &StepSpec::options, bounded::kVariables);
  v("container", &StepSpec::container);
  v("pmi", &StepSpec::pmi);
}

template <class V>
constexpr void describe(V& v, const StepPlace*) {
  v.always("node", &StepPlace::node);
  v("grant", &StepPlace::grant);
  v("ranks", &StepPlace::ranks, bounded::RankList{});
  v("cores", &StepPlace::cores);
  v("devices", &StepPlace::devices);
  v("slices", &StepPlace::slices, bounded::Ours{});
  v("memory_mb", &StepPlace::memory_mb);
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
  v("places", &Step::places, bounded::Ours{});
  v("members", &Step::members, bounded::MemberLetters{});
  v("created_us", &Step::created);
  v("started_us", &Step::started);
  v("ended_us", &Step::ended);
  v("exit", &Step::exit);
  v("failures", &Step::failures, bounded::Ours{});
  v("cancelled", &Step::cancelled);
  v("use", &Step::use);
}

template <class V>
constexpr void describe(V& v, const ContainerStatus*) {
  v.always("name", &ContainerStatus::name, bounded::kName);
  v.always("state", &ContainerStatus::state);
  v("ready", &ContainerStatus::ready);
  v("restarts", &ContainerStatus::restarts);
  v("started_us", &ContainerStatus::started);
  v("ended_us", &ContainerStatus::ended);
  v("exit", &ContainerStatus::exit);
  v("reason", &ContainerStatus::reason, bounded::kPhrase);
  v("message", &ContainerStatus::message, bounded::kPhrase);
  v("begun", &ContainerStatus::begun);
  v("last_started_us", &ContainerStatus::last_started);
  v("last_ended_us", &ContainerStatus::last_ended);
  v("last_reason", &ContainerStatus::last_reason, bounded::kPhrase);
  v("last_message", &ContainerStatus::last_message, bounded::kPhrase);
  v("image_digest", &ContainerStatus::image_digest, bounded::kName);
  v("milli_cores", &ContainerStatus::milli_cores);
  v("cpu_weight", &ContainerStatus::cpu_weight);
  v("memory_bytes", &ContainerStatus::memory_bytes);
  v("uid", &ContainerStatus::uid);
  v("gid", &ContainerStatus::gid);
  v("groups", &ContainerStatus::groups, bounded::Items{kNamesMax});
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
  v("ready_us", &Task::ready_at);
  v("ended_us", &Task::ended);
  v("retry_at_us", &Task::retry_at);
  v("exit", &Task::exit);
  v("address", &Task::address, bounded::kName);
  v("containers", &Task::containers, bounded::Items{kContainersMax});
  v("reason", &Task::reason, bounded::kPhrase);
}

template <class V>
constexpr void describe(V& v, const Shown*) {
  v.always("kind", &Shown::kind);
  v("job", &Shown::job);
  v("group", &Shown::group);
  v("index", &Shown::index);
  v("node", &Shown::node);
}

template <class V>
constexpr void describe(V& v, const EndedWork*) {
  v.always("what", &EndedWork::what);
  v("attempt", &EndedWork::attempt);
  v("incarnation", &EndedWork::incarnation);
  v("restarts", &EndedWork::restarts);
  v.always("state", &EndedWork::state);
  v("started_us", &EndedWork::started);
  v("ended_us", &EndedWork::ended);
  v("exit", &EndedWork::exit);
  v("ran_on", &EndedWork::ran_on, bounded::Ours{});
}

template <class V>
constexpr void describe(V& v, const Object*) {
  v("meta", &Object::meta);
  v.always("type", &Object::type, bounded::kName);
  v("body", &Object::body, bounded::Text{kObjectBytesMax, bounded::Characters::kAny});
  v("shows", &Object::shows, bounded::Items{kShowsMax});
  v("ended", &Object::ended, bounded::Items{kShowsMax});
}

}  // namespace lockstep
