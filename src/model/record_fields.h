// The fields of the envelope and of every record but the job. See model/bounded.h.
#pragma once

#include "model/accounting_fields.h"
#include "model/records.h"
#include "model/told_to.h"

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
  v("labels", &MetaExtra::labels, to_owner(bounded::kLabels));
  v("annotations", &MetaExtra::annotations, to_owner(bounded::kLabels));
  v("owners", &MetaExtra::owners, to_owner(bounded::Items{kOwnersMax}));
  v("finalizers", &MetaExtra::finalizers, to_owner(bounded::kNames));
  v("deleting_us", &MetaExtra::deleting, to_all());
}

template <class V>
constexpr void describe(V& v, const Meta*) {
  v("ns", &Meta::ns, to_all(bounded::kName));
  v("name", &Meta::name, to_all(bounded::kName));
  v("uid", &Meta::uid, to_all());
  v("seq", &Meta::seq, to_all());
  v("generation", &Meta::generation, to_all());
  v("created_us", &Meta::created, to_all());
  v("extra", &Meta::extra, to_all());
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
constexpr void told_whole(const Cluster*) {}

template <class V>
constexpr void describe(V& v, const User*) {
  v("meta", &User::meta, to_all());
  v.always("id", &User::id, to_all());
  v("realm", &User::realm, to_all(bounded::kName));
  v.always("uid", &User::uid, to_all());
  v.always("gid", &User::gid, to_all());
  v("groups", &User::groups, to_owner(bounded::Items{kGroupIdsMax}));
  v("home", &User::home, to_owner(bounded::kPath));
  v("shell", &User::shell, to_owner(bounded::kPath));
  v("account", &User::account, to_all(bounded::kName));
  v("admin", &User::admin, to_all());
}

template <class V>
constexpr void describe(V& v, const TopologyLeaf*) {
  v("path", &TopologyLeaf::path, bounded::kLevels);
  v("nodes", &TopologyLeaf::nodes, bounded::kAllNodes);
}
constexpr void told_whole(const TopologyLeaf*) {}

template <class V>
constexpr void describe(V& v, const Topology*) {
  v("meta", &Topology::meta);
  v("levels", &Topology::levels, bounded::kLevels);
  v("leaves", &Topology::leaves, bounded::Items{kLeavesMax});
  v("blocks", &Topology::blocks);
}
constexpr void told_whole(const Topology*) {}

template <class V>
constexpr void describe(V& v, const PackingClass*) {
  v("cpu_milli", &PackingClass::cpu_milli);
  v("devices", &PackingClass::devices);
  v("milli", &PackingClass::milli);
  v("models", &PackingClass::models, bounded::Ours{});
  v("weight", &PackingClass::weight);
  v("price", &PackingClass::price);
}
constexpr void told_whole(const PackingClass*) {}

template <class V>
constexpr void describe(V& v, const Packing*) {
  v("meta", &Packing::meta);
  v("through", &Packing::through);
  v("arrivals", &Packing::arrivals);
  v("steps", &Packing::steps);
  v("classes", &Packing::classes, bounded::Ours{});
}
constexpr void told_whole(const Packing*) {}

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
constexpr void told_whole(const Partition*) {}

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
constexpr void told_whole(const Device*) {}

template <class V>
constexpr void describe(V& v, const Unconfirmed*) {
  v.always("job", &Unconfirmed::job);
  v("pauses", &Unconfirmed::pauses);
  v("since_us", &Unconfirmed::since);
  v("forgiven", &Unconfirmed::forgiven);
}
constexpr void told_whole(const Unconfirmed*) {}

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
constexpr void told_whole(const HealthFinding*) {}

template <class V>
constexpr void describe(V& v, const HealthCheck*) {
  v("meta", &HealthCheck::meta, to_all());
  v("user", &HealthCheck::user, to_all(bounded::kName));
  v("account", &HealthCheck::account, to_all(bounded::kName));
  v("script", &HealthCheck::script, to_admins(bounded::kLines));
  v("every_us", &HealthCheck::every, to_all(bounded::kSpan));
  v("time_limit_us", &HealthCheck::time_limit, to_all(bounded::kSpan));
  v("nodes", &HealthCheck::nodes, to_all(bounded::kAllNodes));
  v("node_class", &HealthCheck::node_class, to_all(bounded::kName));
  v("partition", &HealthCheck::partition, to_all(bounded::kName));
  v("gpus", &HealthCheck::gpus, to_all());
  v("output", &HealthCheck::output, to_admins(bounded::Text{kPathBytesMax}));
  v("on_failure", &HealthCheck::on_failure, to_all());
  v("changed_us", &HealthCheck::changed, to_all());
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
constexpr void told_whole(const Shortage*) {}

template <class V>
constexpr void describe(V& v, const NodeTerms*) {
  v("settled", &NodeTerms::settled);
  v("open", &NodeTerms::open);
  v("address", &NodeTerms::address, bounded::kName);
  v("task_range", &NodeTerms::task_range, bounded::kName);
  v("counted", &NodeTerms::counted, bounded::Items{2 * kAsksMax});
  v("domains", &NodeTerms::domains, bounded::kLevels);
}
constexpr void told_whole(const NodeTerms*) {}

template <class V>
constexpr void describe(V& v, const Node*) {
  v("meta", &Node::meta, to_all());
  v.always("id", &Node::id, to_all());
  v("address", &Node::address, to_all(bounded::kName));
  v("task_range", &Node::task_range, to_all(bounded::kName));
  v("hostname", &Node::hostname, to_all(bounded::kName));
  v("boot_id", &Node::boot_id, to_admins(bounded::kName));
  v("version", &Node::version, to_all(bounded::kName));
  v("sockets", &Node::sockets, to_all(bounded::Between{0, CoreSet::kCapacity}));
  v.always("cores", &Node::cores, to_all(bounded::Between{1, CoreSet::kCapacity}));
  v("threads_per_core", &Node::threads_per_core, to_all(bounded::Between{0, CoreSet::kCapacity}));
  v.always("memory_mb", &Node::memory_mb, to_all(bounded::kMegabytes));
  v("tmp_disk_mb", &Node::tmp_disk_mb, to_all(bounded::kMegabytes));
  v("numa", &Node::numa, to_all(bounded::Items{CoreSet::kCapacity}));
  v("devices", &Node::devices, to_all(bounded::Items{DeviceSet::kCapacity}));
  v("counted", &Node::counted, to_all(bounded::Items{2 * kAsksMax}));
  v("added_counted", &Node::added_counted, to_all(bounded::Items{kAsksMax}));
  v("labels", &Node::labels, to_all(bounded::kLabels));
  v("marks", &Node::marks, to_all(bounded::Items{kRulesMax}));
  v("features", &Node::features, to_all(bounded::kNames));
  v("domains", &Node::domains, to_all(bounded::kLevels));
  v("weight", &Node::weight, to_all());
  v.always("link", &Node::link, to_all());
  v("drain", &Node::drain, to_all());
  v("unfit", &Node::unfit, to_all());
  v("unconfirmed", &Node::unconfirmed, to_all(bounded::Items{kUnconfirmedMax}));
  v("health", &Node::health, to_all(bounded::Items{kHealthChecksMax}));
  v("reason", &Node::reason, to_all(bounded::kLines));
  v("reason_by", &Node::reason_by, to_all());
  v("word", &Node::word, to_all(bounded::kLines));
  v("word_at_us", &Node::word_at, to_all());
  v("reason_at_us", &Node::reason_at, to_all());
  v("boot_at_us", &Node::boot_at, to_all());
  v("seen_at_us", &Node::seen_at, to_all());
  v("shortages", &Node::shortages, to_all(bounded::Items{kShortagesMax}));
  v("has_fence_hook", &Node::has_fence_hook, to_all());
  v("hooks_take_us", &Node::hooks_take, to_all());
  v("certificate", &Node::certificate, to_admins(bounded::kName));
  v("next_certificate", &Node::next_certificate, to_admins(bounded::kName));
  v("replaced", &Node::replaced, to_all());
  v("trust_administrators", &Node::trust_administrators, to_admins());
  v("node_class", &Node::node_class, to_all(bounded::kName));
  v("own_features", &Node::own_features, to_all(bounded::kNames));
  v("own_weight", &Node::own_weight, to_all());
  v("terms", &Node::terms, to_all());
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
constexpr void told_whole(const NodeClass*) {}

template <class V>
constexpr void describe(V& v, const IssuedCertificate*) {
  v.always("node", &IssuedCertificate::node, bounded::kName);
  v.always("certificate", &IssuedCertificate::certificate, bounded::kName);
  v("until_us", &IssuedCertificate::until);
  v("task_range", &IssuedCertificate::task_range, bounded::kName);
}
constexpr void told_whole(const IssuedCertificate*) {}

template <class V>
constexpr void describe(V& v, const JoinToken*) {
  v("meta", &JoinToken::meta, to_admins());
  v("secret_sha256", &JoinToken::secret_sha256, to_nobody(bounded::kName));
  v.always("role", &JoinToken::role, to_admins());
  v("realm", &JoinToken::realm, to_admins(bounded::kName));
  v("node", &JoinToken::node, to_admins(bounded::Text{kHostListBytesMax}));
  v("expires_us", &JoinToken::expires, to_admins());
  v("used", &JoinToken::used, to_admins());
  v("uses_left", &JoinToken::uses_left, to_admins());
  v("replace", &JoinToken::replace, to_admins());
  v("trust_administrators", &JoinToken::trust_administrators, to_admins());
  v("issued", &JoinToken::issued, to_admins(bounded::Items{kTokenUsesMax}));
  v("address", &JoinToken::address, to_admins(bounded::kName));
  v("task_range", &JoinToken::task_range, to_admins(bounded::kName));
}

template <class V>
constexpr void describe(V& v, const StepSpec*) {
  v("name", &StepSpec::name, to_all(bounded::kName));
  v("argv", &StepSpec::argv, to_owner(bounded::kArgv));
  v("environment", &StepSpec::environment, to_owner(bounded::kName));
  v("work_dir", &StepSpec::work_dir, to_all(bounded::kPath));
  v("std_in", &StepSpec::std_in, to_owner(bounded::kPath));
  v("std_out", &StepSpec::std_out, to_owner(bounded::kPath));
  v("std_err", &StepSpec::std_err, to_owner(bounded::kPath));
  v("append", &StepSpec::append, to_all());
  v("nodes", &StepSpec::nodes, to_all());
  v("tasks", &StepSpec::tasks, to_all(bounded::Between{0, kStepTasksMax}));
  v("tasks_per_node", &StepSpec::tasks_per_node, to_all(bounded::Between{0, kTasksPerNodeMax}));
  v("cores_per_task", &StepSpec::cores_per_task, to_all(bounded::kCount));
  v("devices_per_node", &StepSpec::devices_per_node, to_all(bounded::Items{kAsksMax}));
  v("devices_per_task", &StepSpec::devices_per_task, to_all(bounded::Items{kAsksMax}));
  v("devices_total", &StepSpec::devices_total, to_all(bounded::kCount));
  v("memory_mb", &StepSpec::memory_mb, to_all(bounded::Between{-1, kMegabytesMax}));
  v("only_nodes", &StepSpec::only_nodes, to_all(bounded::kNodeNames));
  v("exclude_nodes", &StepSpec::exclude_nodes, to_all(bounded::kNodeNames));
  v("relative", &StepSpec::relative, to_all());
  v("overlap", &StepSpec::overlap, to_all());
  v("exact", &StepSpec::exact, to_all());
  v("overcommit", &StepSpec::overcommit, to_all());
  v("whole", &StepSpec::whole, to_all());
  v("sole", &StepSpec::sole, to_all());
  v("immediate", &StepSpec::immediate, to_all());
  v("distribution", &StepSpec::distribution, to_all(bounded::kName));
  v("group", &StepSpec::group, to_all());
  v("pty", &StepSpec::pty, to_all());
  v("pty_rows", &StepSpec::pty_rows, to_all());
  v("pty_columns", &StepSpec::pty_columns, to_all());
  v("label", &StepSpec::label, to_all());
  v("unbuffered", &StepSpec::unbuffered, to_all());
  v("kill_on_bad_exit", &StepSpec::kill_on_bad_exit, to_all());
  v("wait_after_first_us", &StepSpec::wait_after_first, to_all(bounded::kSpan));
  v("umask", &StepSpec::umask, to_all(bounded::kUmask));
  v("multi_prog", &StepSpec::multi_prog, to_owner(bounded::TextLists{2 * kArgvWordsMax, kArgvBytesMax}));
  v("options", &StepSpec::options, to_owner(bounded::kVariables));
  v("container", &StepSpec::container, to_owner());
  v("pmi", &StepSpec::pmi, to_all());
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
constexpr void told_whole(const StepPlace*) {}

template <class V>
constexpr void describe(V& v, const Step*) {
  v("meta", &Step::meta, to_all());
  v.always("job", &Step::job, to_all());
  v.always("number", &Step::number, to_all());
  v("attempt", &Step::attempt, to_all());
  v("spec", &Step::spec, to_all());
  v("user", &Step::user, to_all());
  v.always("state", &Step::state, to_all());
  v("places", &Step::places, to_all(bounded::Ours{}));
  v("members", &Step::members, to_all(bounded::MemberLetters{}));
  v("created_us", &Step::created, to_all());
  v("started_us", &Step::started, to_all());
  v("ended_us", &Step::ended, to_all());
  v("exit", &Step::exit, to_all());
  v("failures", &Step::failures, to_all(bounded::Ours{}));
  v("cancelled", &Step::cancelled, to_all());
  v("use", &Step::use, to_all());
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
  v("meta", &Task::meta, to_all());
  v.always("job", &Task::job, to_all());
  v("user", &Task::user, to_all());
  v("group", &Task::group, to_all());
  v.always("index", &Task::index, to_all());
  v("attempt", &Task::attempt, to_all());
  v("incarnation", &Task::incarnation, to_all());
  v("grant", &Task::grant, to_all());
  v.always("state", &Task::state, to_all());
  v("ready", &Task::ready, to_all());
  v("restarts", &Task::restarts, to_all());
  v("started_us", &Task::started, to_all());
  v("ready_us", &Task::ready_at, to_all());
  v("ended_us", &Task::ended, to_all());
  v("retry_at_us", &Task::retry_at, to_all());
  v("exit", &Task::exit, to_all());
  v("address", &Task::address, to_owner(bounded::kName));
  v("containers", &Task::containers, to_owner(bounded::Items{kContainersMax}));
  v("reason", &Task::reason, to_owner(bounded::kPhrase));
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
constexpr void told_whole(const Object*) {}

}  // namespace lockstep
