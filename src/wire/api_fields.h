// Internal to wire: the fields of the API's requests and answers. See fields.h.
#pragma once

#include "wire/api.h"
#include "wire/fields.h"

namespace lockstep::wire {

template <class V>
constexpr void describe(V& v, const ArrayAsk*) {
  v("indices", &ArrayAsk::indices);
  v("throttle", &ArrayAsk::throttle);
  v("step", &ArrayAsk::step, Between{1, UINT32_MAX});
}

inline bool acceptable(Reader& r, const ArrayAsk& ask) {
  return !ask.indices.empty() || (r.fail("must name at least one index"), r.under("indices"));
}

template <class V>
constexpr void describe(V& v, const SubmitRequest*) {
  v("spec", &SubmitRequest::spec);
  v("script", &SubmitRequest::script);
  v("environment", &SubmitRequest::environment);
  v("array", &SubmitRequest::array);
  v("first_step", &SubmitRequest::first_step);
  v("first_step_environment", &SubmitRequest::first_step_environment);
  v("test_only", &SubmitRequest::test_only);
}

inline bool acceptable(Reader& r, const SubmitRequest& request) {
  return !request.spec.groups.empty() || (r.fail("is missing: a job needs at least one group"), r.under("spec"));
}

template <class V>
constexpr void describe(V& v, const StepRequest*) {
  v("job", &StepRequest::job);
  v("spec", &StepRequest::spec);
  v("environment", &StepRequest::environment);
}

template <class V>
constexpr void describe(V& v, const JobTarget*) {
  v("job", &JobTarget::job);
  v("elements", &JobTarget::elements);
}

template <class V>
constexpr void describe(V& v, const UpdateJob*) {
  v("target", &UpdateJob::target);
  v("if_seq", &UpdateJob::if_seq);
  v("name", &UpdateJob::name);
  v("account", &UpdateJob::account);
  v("qos", &UpdateJob::qos);
  v("comment", &UpdateJob::comment);
  v("reservation", &UpdateJob::reservation);
  v("constraint", &UpdateJob::constraint);
  v("partitions", &UpdateJob::partitions);
  v("only_nodes", &UpdateJob::only_nodes);
  v("exclude_nodes", &UpdateJob::exclude_nodes);
  v("time_limit_us", &UpdateJob::time_limit, kSpan);
  v("begin_us", &UpdateJob::begin);
  v("deadline_us", &UpdateJob::deadline);
  v("nice", &UpdateJob::nice);
  v("priority", &UpdateJob::priority);
  v("throttle", &UpdateJob::throttle);
  v("nodes", &UpdateJob::nodes);
  v("tasks", &UpdateJob::tasks);
  v("dependencies", &UpdateJob::dependencies);
  v("requeue", &UpdateJob::requeue);
}

template <class V>
constexpr void describe(V& v, const UpdateNode*) {
  v("name", &UpdateNode::name);
  v("drain", &UpdateNode::drain);
  v("reason", &UpdateNode::reason);
  v("weight", &UpdateNode::weight);
  v("features", &UpdateNode::features);
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
  v("targets", &CancelMany::targets);
  v("users", &CancelMany::users);
  v("states", &CancelMany::states);
  v("partitions", &CancelMany::partitions);
  v("names", &CancelMany::names);
  v("accounts", &CancelMany::accounts);
  v("qos", &CancelMany::qos);
  v("reservations", &CancelMany::reservations);
  v("wckeys", &CancelMany::wckeys);
  v("nodes", &CancelMany::nodes);
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
  v("realm", &TokenRequest::realm);
  v("node", &TokenRequest::node);
  v("ttl_s", &TokenRequest::ttl_s, Between{1, 10ll * 365 * 86400});
}

template <class V>
constexpr void describe(V& v, const JoinRequest*) {
  v("token", &JoinRequest::token);
  v("node", &JoinRequest::node);
  v("csr", &JoinRequest::csr);
}

template <class V>
constexpr void describe(V& v, const JoinAnswer*) {
  v("certificate", &JoinAnswer::certificate);
  v("ca", &JoinAnswer::ca);
  v.always("role", &JoinAnswer::role);
}

template <class V>
constexpr void describe(V& v, const JobRow*) {
  v.always("job", &JobRow::job);
  v("attempt", &JobRow::attempt);
  v("step", &JobRow::step);
  v("array_job", &JobRow::array_job);
  v("is_element", &JobRow::is_element);
  v("array_index", &JobRow::array_index);
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
