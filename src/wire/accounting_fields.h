// Internal to wire: the fields of accounts, associations, QOS, past use, licences, reservations and the policy. See
// fields.h.
#pragma once

#include "wire/fields.h"

namespace lockstep::wire {

inline constexpr Between kAmount{0, std::int64_t{1} << 40};  // sums of many stay in 64 bits
inline constexpr Between kBound{kNoLimit, kAmount.high};     // kNoLimit = none

template <class V>
constexpr void describe(V& v, const NamedCount*) {
  v.always("name", &NamedCount::name);
  v.always("count", &NamedCount::count, kBound);
}

template <class V>
constexpr void describe(V& v, const Tres*) {
  v("cpu", &Tres::cpu, kAmount);
  v("memory_mb", &Tres::memory_mb, kAmount);
  v("nodes", &Tres::nodes, kAmount);
  v("gpus", &Tres::gpus, kAmount);
  v("billing", &Tres::billing, kAmount);
  v("others", &Tres::others);
}

template <class V>
constexpr void describe(V& v, const TresLimit*) {
  v("cpu", &TresLimit::cpu, kBound);
  v("memory_mb", &TresLimit::memory_mb, kBound);
  v("nodes", &TresLimit::nodes, kBound);
  v("gpus", &TresLimit::gpus, kBound);
  v("billing", &TresLimit::billing, kBound);
  v("others", &TresLimit::others);
}

template <class V>
constexpr void describe(V& v, const TresWeight*) {
  v.always("name", &TresWeight::name);
  v.always("milli", &TresWeight::milli, kAmount);
}

template <class V>
constexpr void describe(V& v, const Limits*) {
  v("grp_tres", &Limits::grp_tres);
  v("grp_tres_mins", &Limits::grp_tres_mins);
  v("grp_tres_run_mins", &Limits::grp_tres_run_mins);
  v("grp_jobs", &Limits::grp_jobs, kBound);
  v("grp_submit_jobs", &Limits::grp_submit_jobs, kBound);
  v("grp_wall_mins", &Limits::grp_wall_mins, kBound);
  v("max_tres_per_job", &Limits::max_tres_per_job);
  v("max_tres_per_node", &Limits::max_tres_per_node);
  v("max_tres_mins_per_job", &Limits::max_tres_mins_per_job);
  v("max_wall_mins_per_job", &Limits::max_wall_mins_per_job, kBound);
  v("max_jobs", &Limits::max_jobs, kBound);
  v("max_submit_jobs", &Limits::max_submit_jobs, kBound);
  v("max_tres_per_user", &Limits::max_tres_per_user);
  v("max_tres_per_account", &Limits::max_tres_per_account);
  v("max_jobs_per_user", &Limits::max_jobs_per_user, kBound);
  v("max_jobs_per_account", &Limits::max_jobs_per_account, kBound);
  v("max_submit_jobs_per_user", &Limits::max_submit_jobs_per_user, kBound);
  v("max_submit_jobs_per_account", &Limits::max_submit_jobs_per_account, kBound);
  v("min_tres_per_job", &Limits::min_tres_per_job);
  v("min_priority", &Limits::min_priority, kBound);
}

template <class V>
constexpr void describe(V& v, const Quota*) {
  v("nominal", &Quota::nominal);
  v("borrow", &Quota::borrow);
  v("lend", &Quota::lend);
}

template <class V>
constexpr void describe(V& v, const Account*) {
  v("meta", &Account::meta);
  v("parent", &Account::parent);
  v("shares", &Account::shares);
  v("description", &Account::description);
  v("organization", &Account::organization);
  v("default_qos", &Account::default_qos);
  v("qos", &Account::qos);
  v("coordinators", &Account::coordinators);
  v("limits", &Account::limits);
  v("quota", &Account::quota);
}

template <class V>
constexpr void describe(V& v, const Association*) {
  v("meta", &Association::meta);
  v.always("account", &Association::account);
  v.always("user", &Association::user);
  v("partition", &Association::partition);
  v("is_default", &Association::is_default);
  v("shares", &Association::shares);
  v("default_qos", &Association::default_qos);
  v("qos", &Association::qos);
  v("priority", &Association::priority, kAmount);
  v("limits", &Association::limits);
}

template <class V>
constexpr void describe(V& v, const Qos*) {
  v("meta", &Qos::meta);
  v("description", &Qos::description);
  v("priority", &Qos::priority);
  v("usage_factor_milli", &Qos::usage_factor_milli);
  v("preempts", &Qos::preempts);
  v("preempt_mode", &Qos::preempt_mode);
  v("grace_us", &Qos::grace, kSpan);
  v("preempt_exempt_us", &Qos::preempt_exempt, kSpan);
  v("scavenger", &Qos::scavenger);
  v("limits", &Qos::limits);
  v("deny_on_limit", &Qos::deny_on_limit);
  v("enforce_threshold", &Qos::enforce_threshold);
  v("threshold_ppm", &Qos::threshold_ppm, Between{-1, 1'000'000});
  v("no_decay", &Qos::no_decay);
  v("no_reserve", &Qos::no_reserve);
  v("override_partition", &Qos::override_partition);
  v("partition_nodes_max", &Qos::partition_nodes_max);
  v("partition_time", &Qos::partition_time);
  v("requires_reservation", &Qos::requires_reservation);
  v("usage_factor_safe", &Qos::usage_factor_safe);
}

template <class V>
constexpr void describe(V& v, const Usage*) {
  v("meta", &Usage::meta);
  v.always("account", &Usage::account);
  v.always("user", &Usage::user);
  v("partition", &Usage::partition);
  v("qos", &Usage::qos);
  v("as_of_us", &Usage::as_of);
  v("spent", &Usage::spent);
  v("wall_ms", &Usage::wall_ms);
}

template <class V>
constexpr void describe(V& v, const Licence*) {
  v("meta", &Licence::meta);
  v.always("total", &Licence::total, kAmount);
}

template <class V>
constexpr void describe(V& v, const Policy*) {
  v("meta", &Policy::meta);
  v("weight_age", &Policy::weight_age);
  v("weight_fair_share", &Policy::weight_fair_share);
  v("weight_job_size", &Policy::weight_job_size);
  v("weight_partition", &Policy::weight_partition);
  v("weight_qos", &Policy::weight_qos);
  v("weight_assoc", &Policy::weight_assoc);
  v("weight_tres", &Policy::weight_tres);
  v("age_max_us", &Policy::age_max, kSpan);
  v("half_life_us", &Policy::half_life, kSpan);
  v("reset", &Policy::reset);
  v("reset_at_us", &Policy::reset_at);
  v("favor_small", &Policy::favor_small);
  v("calc_period_us", &Policy::calc_period, kSpan);
  v("enforce_associations", &Policy::enforce_associations);
  v("enforce_qos", &Policy::enforce_qos);
  v("enforce_safe", &Policy::enforce_safe);
  v("preempt_by_tier", &Policy::preempt_by_tier);
  v("preempt_for_quota", &Policy::preempt_for_quota);
  v("preempt_mode", &Policy::preempt_mode);
  v("preempt_exempt_us", &Policy::preempt_exempt, kSpan);
}

template <class V>
constexpr void describe(V& v, const Reservation*) {
  v("meta", &Reservation::meta);
  v.always("start_us", &Reservation::start);
  v.always("duration_us", &Reservation::duration, kSpan);
  v("recurrence", &Reservation::recurrence);
  v("zone_s", &Reservation::zone_s, Between{-86'400, 86'400});
  v("nodes", &Reservation::nodes);
  v("node_count", &Reservation::node_count);
  v("tres", &Reservation::tres);
  v("partition", &Reservation::partition);
  v("features", &Reservation::features);
  v("licenses", &Reservation::licenses);
  v("users", &Reservation::users);
  v("accounts", &Reservation::accounts);
  v("groups", &Reservation::groups);
  v("qos", &Reservation::qos);
  v("maint", &Reservation::maint);
  v("overlap", &Reservation::overlap);
  v("ignore_jobs", &Reservation::ignore_jobs);
  v("flex", &Reservation::flex);
  v("any_nodes", &Reservation::any_nodes);
  v("spec_nodes", &Reservation::spec_nodes);
  v("part_nodes", &Reservation::part_nodes);
  v("magnetic", &Reservation::magnetic);
  v("replace", &Reservation::replace);
  v("replace_down", &Reservation::replace_down);
  v("static_alloc", &Reservation::static_alloc);
  v("no_hold_jobs_after", &Reservation::no_hold_jobs_after);
  v("purge_comp", &Reservation::purge_comp);
  v("purge_after_us", &Reservation::purge_after, kSpan);
  v("unused_since_us", &Reservation::unused_since);
  v("start_delay_max_us", &Reservation::start_delay_max, kSpan);
}

}  // namespace lockstep::wire
