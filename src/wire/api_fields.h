// Internal to wire: the fields of the API's requests and answers. See fields.h.
#pragma once

#include "model/command_fields.h"
#include "wire/api.h"
#include "wire/fields.h"

namespace lockstep::wire {

template <class V>
constexpr void describe(V& v, const SubmitRequest*) {
  v("spec", &SubmitRequest::spec);
  v("script", &SubmitRequest::script, Text{kScriptBytesMax, Characters::kAny});
  v("environment", &SubmitRequest::environment, Text{kEnvironmentBytesMax, Characters::kAny});
  v("array", &SubmitRequest::array);
  v("first_step", &SubmitRequest::first_step);
  v("first_step_environment", &SubmitRequest::first_step_environment, Text{kEnvironmentBytesMax, Characters::kAny});
  v("test_only", &SubmitRequest::test_only);
}

template <class V>
constexpr void describe(V& v, const StepRequest*) {
  v("job", &StepRequest::job);
  v("spec", &StepRequest::spec);
  v("environment", &StepRequest::environment, Text{kEnvironmentBytesMax, Characters::kAny});
}

template <class V>
constexpr void describe(V& v, const Error*) {
  v.always("code", &Error::code);
  v.always("message", &Error::message);
  v("field", &Error::field);
}

// The path of the request names these.
template <>
inline constexpr std::size_t kUnwritten<CancelJob> = 1;
template <>
inline constexpr std::size_t kUnwritten<HoldJob> = 1;
template <>
inline constexpr std::size_t kUnwritten<RequeueJob> = 1;
template <>
inline constexpr std::size_t kUnwritten<SignalStep> = 2;

template <class V>
constexpr void describe(V& v, const CancelJob*) {
  v("signal", &CancelJob::signal, kSignal);
  v("reach", &CancelJob::reach);
}

template <class V>
constexpr void describe(V& v, const CancelMany*) {
  v("targets", &CancelMany::targets, Texts{kTargetsMax, kTargetsBytesMax, kPhrase});
  v("users", &CancelMany::users, kManyNames);
  v("states", &CancelMany::states, kNames);
  v("partitions", &CancelMany::partitions, kNames);
  v("names", &CancelMany::names, kManyNames);
  v("accounts", &CancelMany::accounts, kManyNames);
  v("qos", &CancelMany::qos, kNames);
  v("reservations", &CancelMany::reservations, kNames);
  v("wckeys", &CancelMany::wckeys, kManyNames);
  v("nodes", &CancelMany::nodes, Text{kHostListBytesMax});
  v("signal", &CancelMany::signal, kSignal);
  v("reach", &CancelMany::reach);
}

template <class V>
constexpr void describe(V& v, const CancelledMany::Failure*) {
  v.always("target", &CancelledMany::Failure::target);
  v.always("error", &CancelledMany::Failure::error);
}

template <class V>
constexpr void describe(V& v, const CancelledMany*) {
  v.always("done", &CancelledMany::done);
  v.always("failed", &CancelledMany::failed);
}

template <class V>
constexpr void describe(V& v, const HoldJob*) {
  v("by_admin", &HoldJob::by_admin);
}

template <class V>
constexpr void describe(V& v, const RequeueJob*) {
  v("hold", &RequeueJob::hold);
}

template <class V>
constexpr void describe(V& v, const SignalStep*) {
  v("signal", &SignalStep::signal, kSignal);
}

template <class V>
constexpr void describe(V& v, const TokenRequest*) {
  v.always("role", &TokenRequest::role);
  v("realm", &TokenRequest::realm, kName);
  v("node", &TokenRequest::node, Text{kHostListBytesMax});
  v("any_name", &TokenRequest::any_name);
  v("ttl_s", &TokenRequest::ttl_s, Between{1, kTokenLifeMax.seconds()});
  v("uses", &TokenRequest::uses, Between{1, kTokenUsesMax});
  v("replace", &TokenRequest::replace);
  v("trust_administrators", &TokenRequest::trust_administrators);
  v("address", &TokenRequest::address, kName);
  v("task_range", &TokenRequest::task_range, kName);
}

template <class V>
constexpr void describe(V& v, const JoinRequest*) {
  v("token", &JoinRequest::token, kPhrase);
  v("node", &JoinRequest::node, kName);
  v("csr", &JoinRequest::csr, kBytes);
}

template <class V>
constexpr void describe(V& v, const RenewRequest*) {
  v("csr", &RenewRequest::csr, kBytes);
}

template <class V>
constexpr void describe(V& v, const JoinAnswer*) {
  v("certificate", &JoinAnswer::certificate);
  v("ca", &JoinAnswer::ca);
  v.always("role", &JoinAnswer::role);
  v("address", &JoinAnswer::address);
  v("task_range", &JoinAnswer::task_range);
}

template <class V>
constexpr void describe(V& v, const JobRow*) {
  v.always("job", &JobRow::job);
  v("attempt", &JobRow::attempt);
  v("step", &JobRow::step);
  v("array_job", &JobRow::array_job);
  v("is_element", &JobRow::is_element);
  v("array_index", &JobRow::array_index);
  v("ends_array", &JobRow::ends_array);
  v("name", &JobRow::name);
  v("user", &JobRow::user);
  v("account", &JobRow::account);
  v("partition", &JobRow::partition);
  v("qos", &JobRow::qos);
  v.always("state", &JobRow::state);
  v("node_list", &JobRow::node_list);
  v("work_dir", &JobRow::work_dir);
  v("comment", &JobRow::comment);
  v("command", &JobRow::command);
  v("reason", &JobRow::reason);
  v("wckey", &JobRow::wckey);
  v("uid", &JobRow::uid);
  v("gid", &JobRow::gid);
  v("submitted_us", &JobRow::submitted_us);
  v("eligible_us", &JobRow::eligible_us);
  v("started_us", &JobRow::started_us);
  v("ended_us", &JobRow::ended_us);
  v("suspended_us", &JobRow::suspended_us);
  v("paused_us", &JobRow::paused_us);
  v("limit_s", &JobRow::limit_s);
  v("exit_code", &JobRow::exit_code);
  v("exit_signal", &JobRow::exit_signal);
  v("derived_code", &JobRow::derived_code);
  v("derived_signal", &JobRow::derived_signal);
  v("nodes", &JobRow::nodes);
  v("cores", &JobRow::cores);
  v("tasks", &JobRow::tasks);
  v("devices", &JobRow::devices);
  v("restarts", &JobRow::restarts);
  v("memory_mb", &JobRow::memory_mb);
  v("asked_memory_mb", &JobRow::asked_memory_mb);
  v("priority", &JobRow::priority);
  v("use", &JobRow::use);
  v("cpu_us", &JobRow::cpu_us);
  v("devices_text", &JobRow::devices_text);
  v("cancelled_by", &JobRow::cancelled_by);
}

template <class V>
constexpr void describe(V& v, const Ping*) {
  v.always("cluster", &Ping::cluster);
  v.always("version", &Ping::version);
  v.always("seq", &Ping::seq);
  v.always("read_only", &Ping::read_only);
  v.always("pid", &Ping::pid);
  v("wall_us", &Ping::wall_us);
  v("protocol_min", &Ping::protocol_min);
  v("protocol_max", &Ping::protocol_max);
  v("node", &Ping::node);
  v("node_state", &Ping::node_state);
  v("node_reason", &Ping::node_reason);
  v("cores", &Ping::cores);
  v("memory_mb", &Ping::memory_mb);
  v("gpus", &Ping::gpus);
  v("gpu_type", &Ping::gpu_type);
}

template <class V>
constexpr void describe(V& v, const PlanNote*) {
  v("job", &PlanNote::job);
  v.always("wait", &PlanNote::wait);
  v("detail", &PlanNote::detail);
  v("expected_start_us", &PlanNote::expected_start);
  v("expected_nodes", &PlanNote::expected_nodes);
}

template <class V>
constexpr void describe(V& v, const Started*) {
  v("job", &Started::job);
  v("step", &Started::step);
}

template <class V>
constexpr void describe(V& v, const JobDetail*) {
  v("job", &JobDetail::job);
  v.always("steps", &JobDetail::steps);
  v.always("tasks", &JobDetail::tasks);
  v("note", &JobDetail::note);
}

}  // namespace lockstep::wire

namespace lockstep {

inline std::optional<Fault> unacceptable(const SubmitRequest& request) {
  if (request.spec.groups.empty())
    return Fault{"spec", "is missing: a job needs at least one group"};
  std::uint64_t nodes = 0;  // at least; each is sent the environment
  for (const GroupSpec& group : request.spec.groups.get()) nodes += std::max(1u, group.nodes.min);
  if (request.environment.size() > kLaunchBytesMax / std::max<std::uint64_t>(1, nodes))
    return Fault{"environment",
                 format("has {} bytes for each of {} nodes; {} are allowed for all together: export less",
                        request.environment.size(), nodes, kLaunchBytesMax)};
  return {};
}

}  // namespace lockstep
