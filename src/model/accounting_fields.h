// The fields of accounts, associations, QOS, past use, licences, reservations and the policy. See model/bounded.h.
#pragma once

#include "model/accounting.h"
#include "model/reservation.h"
#include "model/told_to.h"

namespace lockstep {

template <class V>
constexpr void describe(V& v, const NamedCount*) {
  v.always("name", &NamedCount::name, bounded::kName);
  v.always("count", &NamedCount::count, bounded::kLimit);
}

template <class V>
constexpr void describe(V& v, const Tres*) {
  v("cpu", &Tres::cpu, bounded::kSum);
  v("memory_mb", &Tres::memory_mb, bounded::kSum);
  v("nodes", &Tres::nodes, bounded::kSum);
  v("gpus", &Tres::gpus, bounded::kSum);
  v("billing", &Tres::billing, bounded::kSum);
  v("others", &Tres::others, bounded::Items{kTresMax});
}

template <class V>
constexpr void describe(V& v, const TresLimit*) {
  v("cpu", &TresLimit::cpu, bounded::kLimit);
  v("memory_mb", &TresLimit::memory_mb, bounded::kLimit);
  v("nodes", &TresLimit::nodes, bounded::kLimit);
  v("gpus", &TresLimit::gpus, bounded::kLimit);
  v("billing", &TresLimit::billing, bounded::kLimit);
  v("others", &TresLimit::others, bounded::Items{kTresMax});
}

template <class V>
constexpr void describe(V& v, const TresWeight*) {
  v.always("name", &TresWeight::name, bounded::kName);
  v.always("milli", &TresWeight::milli, bounded::kSum);
}

template <class V>
constexpr void describe(V& v, const Limits*) {
  v("grp_tres", &Limits::grp_tres);
  v("grp_tres_mins", &Limits::grp_tres_mins);
  v("grp_tres_run_mins", &Limits::grp_tres_run_mins);
  v("grp_jobs", &Limits::grp_jobs, bounded::kLimit);
  v("grp_submit_jobs", &Limits::grp_submit_jobs, bounded::kLimit);
  v("grp_wall_mins", &Limits::grp_wall_mins, bounded::kLimit);
  v("max_tres_per_job", &Limits::max_tres_per_job);
  v("max_tres_per_node", &Limits::max_tres_per_node);
  v("max_tres_mins_per_job", &Limits::max_tres_mins_per_job);
  v("max_wall_mins_per_job", &Limits::max_wall_mins_per_job, bounded::kLimit);
  v("max_jobs", &Limits::max_jobs, bounded::kLimit);
  v("max_submit_jobs", &Limits::max_submit_jobs, bounded::kLimit);
  v("max_tres_per_user", &Limits::max_tres_per_user);
  v("max_tres_per_account", &Limits::max_tres_per_account);
  v("max_jobs_per_user", &Limits::max_jobs_per_user, bounded::kLimit);
  v("max_jobs_per_account", &Limits::max_jobs_per_account, bounded::kLimit);
  v("max_submit_jobs_per_user", &Limits::max_submit_jobs_per_user, bounded::kLimit);
  v("max_submit_jobs_per_account", &Limits::max_submit_jobs_per_account, bounded::kLimit);
  v("min_tres_per_job", &Limits::min_tres_per_job);
  v("min_priority", &Limits::min_priority, bounded::kLimit);
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
  v("parent", &Account::parent, bounded::kName);
  v("shares", &Account::shares);
  v("description", &Account::description, bounded::kLines);
  v("organization", &Account::organization, bounded::kLines);
  v("default_qos", &Account::default_qos, bounded::kName);
  v("qos", &Account::qos, bounded::kNames);
  v("coordinators", &Account::coordinators, bounded::kManyNames);
  v("limits", &Account::limits);
  v("quota", &Account::quota);
}
constexpr void told_whole(const Account*) {}

template <class V>
constexpr void describe(V& v, const Association*) {
  v("meta", &Association::meta);
  v.always("account", &Association::account, bounded::kName);
  v.always("user", &Association::user, bounded::kName);
  v("partition", &Association::partition, bounded::kName);
  v("is_default", &Association::is_default);
  v("shares", &Association::shares);
  v("default_qos", &Association::default_qos, bounded::kName);
  v("qos", &Association::qos, bounded::kNames);
  v("priority", &Association::priority, bounded::kSum);
  v("limits", &Association::limits);
}
constexpr void told_whole(const Association*) {}

template <class V>
constexpr void describe(V& v, const Qos*) {
  v("meta", &Qos::meta);
  v("description", &Qos::description, bounded::kLines);
  v("priority", &Qos::priority);
  v("usage_factor_milli", &Qos::usage_factor_milli);
  v("preempts", &Qos::preempts, bounded::kNames);
  v("preempt_mode", &Qos::preempt_mode);
  v("grace_us", &Qos::grace, bounded::kSpan);
  v("preempt_exempt_us", &Qos::preempt_exempt, bounded::kSpan);
  v("scavenger", &Qos::scavenger);
  v("limits", &Qos::limits);
  v("deny_on_limit", &Qos::deny_on_limit);
  v("enforce_threshold", &Qos::enforce_threshold);
  v("threshold_ppm", &Qos::threshold_ppm, bounded::Between{-1, 1'000'000});
  v("no_decay", &Qos::no_decay);
  v("no_reserve", &Qos::no_reserve);
  v("override_partition", &Qos::override_partition);
  v("partition_nodes_max", &Qos::partition_nodes_max);
  v("partition_time", &Qos::partition_time);
  v("requires_reservation", &Qos::requires_reservation);
  v("usage_factor_safe", &Qos::usage_factor_safe);
}
constexpr void told_whole(const Qos*) {}

template <class V>
constexpr void describe(V& v, const Usage*) {
  v("meta", &Usage::meta);
  v.always("account", &Usage::account, bounded::kName);
  v.always("user", &Usage::user);
  v("partition", &Usage::partition, bounded::kName);
  v("qos", &Usage::qos, bounded::kName);
  v("as_of_us", &Usage::as_of);
  v("spent", &Usage::spent);
  v("wall_ms", &Usage::wall_ms);
}
constexpr void told_whole(const Usage*) {}

template <class V>
constexpr void describe(V& v, const Licence*) {
  v("meta", &Licence::meta);
  v.always("total", &Licence::total, bounded::kSum);
}
constexpr void told_whole(const Licence*) {}

template <class V>
constexpr void describe(V& v, const Policy*) {
  v("meta", &Policy::meta);
  v("weight_age", &Policy::weight_age);
  v("weight_fair_share", &Policy::weight_fair_share);
  v("weight_job_size", &Policy::weight_job_size);
  v("weight_partition", &Policy::weight_partition);
  v("weight_qos", &Policy::weight_qos);
  v("weight_assoc", &Policy::weight_assoc);
  v("weight_tres", &Policy::weight_tres, bounded::Items{kTresMax});
  v("age_max_us", &Policy::age_max, bounded::kSpan);
  v("half_life_us", &Policy::half_life, bounded::kSpan);
  v("reset", &Policy::reset);
  v("reset_at_us", &Policy::reset_at);
  v("favor_small", &Policy::favor_small);
  v("calc_period_us", &Policy::calc_period, bounded::kSpan);
  v("enforce_associations", &Policy::enforce_associations);
  v("enforce_qos", &Policy::enforce_qos);
  v("enforce_safe", &Policy::enforce_safe);
  v("preempt_by_tier", &Policy::preempt_by_tier);
  v("preempt_for_quota", &Policy::preempt_for_quota);
  v("preempt_mode", &Policy::preempt_mode);
  v("preempt_exempt_us", &Policy::preempt_exempt, bounded::kSpan);
}
constexpr void told_whole(const Policy*) {}

template <class V>
constexpr void describe(V& v, const Reservation*) {
  v("meta", &Reservation::meta);
  v.always("start_us", &Reservation::start);
  v.always("duration_us", &Reservation::duration, bounded::kSpan);
  v("recurrence", &Reservation::recurrence);
  v("zone_s", &Reservation::zone_s, bounded::Between{-86'400, 86'400});
  v("nodes", &Reservation::nodes, bounded::kAllNodes);
  v("node_count", &Reservation::node_count);
  v("tres", &Reservation::tres);
  v("partition", &Reservation::partition, bounded::kName);
  v("features", &Reservation::features, bounded::kPhrase);
  v("licenses", &Reservation::licenses, bounded::Items{kTresMax});
  v("users", &Reservation::users, bounded::kManyNames);
  v("accounts", &Reservation::accounts, bounded::kManyNames);
  v("groups", &Reservation::groups, bounded::kManyNames);
  v("qos", &Reservation::qos, bounded::kNames);
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
  v("purge_after_us", &Reservation::purge_after, bounded::kSpan);
  v("unused_since_us", &Reservation::unused_since);
  v("start_delay_max_us", &Reservation::start_delay_max, bounded::kSpan);
}
constexpr void told_whole(const Reservation*) {}

}  // namespace lockstep
