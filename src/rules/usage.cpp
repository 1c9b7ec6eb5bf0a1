#include "rules/usage.h"

#include <algorithm>
#include <cmath>

#include "rules/tres.h"

namespace lockstep {

namespace {

std::int64_t rounded(double value) {
  if (value >= 9.2e18)
    return INT64_MAX;
  if (value <= -9.2e18)
    return INT64_MIN;
  return std::llround(value);
}

template <class F>
Tres each(const Tres& tres, F&& f) {
  Tres out;
  for (const TresField& field : kTresFields) out.*field.count = f(tres.*field.count);
  for (const NamedCount& other : tres.others)
    if (const std::int64_t count = f(other.count); count != 0)
      out.others.push_back({other.name, count});
  return out;
}

void add_spent(Spent& to, const Spent& amount) {
  add(to.tres, amount.tres);
  to.wall_ms += amount.wall_ms;
}

// Days since 1970-01-01 to year and month (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
struct Day {
  std::int64_t year;
  unsigned month, day;
};
Day day_of(std::int64_t days) {
  days += 719468;
  const std::int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  const auto of_era = static_cast<unsigned>(days - era * 146097);
  const unsigned year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  const unsigned of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const unsigned shifted = (5 * of_year + 2) / 153;
  const unsigned month = shifted < 10 ? shifted + 3 : shifted - 9;
  return {era * 400 + year_of_era + (month <= 2), month, of_year - (153 * shifted + 2) / 5 + 1};
}
std::int64_t days_of(std::int64_t year, unsigned month, unsigned day) {
  year -= month <= 2;
  const std::int64_t era = (year >= 0 ? year : year - 399) / 400;
  const auto year_of_era = static_cast<unsigned>(year - era * 400);
  const unsigned of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719468;
}

constexpr std::int64_t kDayUs = std::int64_t{86'400} * 1'000'000;

}  // namespace

std::int64_t decayed(std::int64_t value, Duration elapsed, Duration half_life) {
  if (value == 0 || half_life.us <= 0 || elapsed.us == 0)
    return value;
  return rounded(static_cast<double>(value) *
                 std::exp2(-static_cast<double>(elapsed.us) / static_cast<double>(half_life.us)));
}

Spent decayed(const Spent& spent, Duration elapsed, Duration half_life) {
  if (half_life.us <= 0 || elapsed.us == 0)
    return spent;
  return {each(spent.tres, [&](std::int64_t v) { return decayed(v, elapsed, half_life); }),
          decayed(spent.wall_ms, elapsed, half_life)};
}

std::int64_t accrued_ms(std::int64_t rate, Duration span, Duration half_life) {
  if (span.us <= 0)
    return 0;
  double worth_ms = static_cast<double>(span.us) / 1000;
  if (half_life.us > 0) {
    const double rate_per_us = M_LN2 / static_cast<double>(half_life.us);
    worth_ms = -std::expm1(-static_cast<double>(span.us) * rate_per_us) / rate_per_us / 1000;
  }
  return rounded(static_cast<double>(rate) * worth_ms);
}

Spent accrued(const Tres& tres, Duration span, Duration half_life, std::uint32_t factor_milli) {
  // One number for all amounts; its own rounding (to a microsecond) is far below what anybody looks at.
  const double worth_ms = static_cast<double>(accrued_ms(1000, span, half_life)) / 1000 * factor_milli / 1000;
  Spent out{each(tres, [&](std::int64_t v) { return rounded(static_cast<double>(v) * worth_ms); }), rounded(worth_ms)};
  out.tres.memory_mb = rounded(static_cast<double>(tres.memory_mb) * worth_ms / 1000);
  return out;
}

WallTime usage_floor(const Policy& policy, WallTime now) {
  const std::int64_t today = now.us >= 0 ? now.us / kDayUs : -1;
  const Day day = day_of(today);
  switch (policy.reset) {
    case Policy::Reset::kNone: return {};
    case Policy::Reset::kNow: return policy.reset_at;
    case Policy::Reset::kDaily: return {today * kDayUs};
    case Policy::Reset::kWeekly: return {(today - (today + 4) % 7) * kDayUs};  // 1970-01-01 was a Thursday
    case Policy::Reset::kMonthly: return {days_of(day.year, day.month, 1) * kDayUs};
    case Policy::Reset::kQuarterly: return {days_of(day.year, (day.month - 1) / 3 * 3 + 1, 1) * kDayUs};
    case Policy::Reset::kYearly: return {days_of(day.year, 1, 1) * kDayUs};
  }
  return {};
}

Duration half_life_of(const Directory& directory, std::string_view qos) {
  const Qos* record = directory.qos_named(qos);
  return record && record->no_decay ? Duration{} : directory.policy().half_life;
}

std::uint32_t usage_factor_of(const Directory& directory, std::string_view qos) {
  const Qos* record = directory.qos_named(qos);
  return record ? record->usage_factor_milli : 1000;
}

namespace {
Usage fresh_usage(const Directory& directory, const RunningUse& use) {
  Usage usage;
  usage.account = use.spec->account;
  usage.user = use.spec->user;
  usage.qos = use.spec->qos;
  const Association* own = directory.association(use.spec->account, use.spec->user, use.allocation->partition);
  usage.partition = own ? own->partition : "";
  usage.meta.name = usage_name(usage);
  return usage;
}
}  // namespace

std::string usage_name_of(const Directory& directory, const RunningUse& use) {
  return fresh_usage(directory, use).meta.name;
}

Usage charged(const Directory& directory, const Usage* before, const RunningUse& ended, Instant now, Instant floor,
              Instant until) {
  const std::string& qos = ended.spec->qos;
  const Allocation& allocation = *ended.allocation;
  Usage usage = before ? *before : fresh_usage(directory, ended);
  Spent spent;
  if (before && before->as_of >= floor)
    spent = decayed(Spent{before->spent, before->wall_ms}, now - before->as_of, half_life_of(directory, qos));
  add_spent(spent, accrued(allocation.tres, std::max(Duration{}, until - std::max(allocation.granted, floor)),
                           half_life_of(directory, qos), usage_factor_of(directory, qos)));
  usage.spent = std::move(spent.tres);
  usage.wall_ms = spent.wall_ms;
  usage.as_of = now;
  return usage;
}

Usage refunded(const Directory& directory, const Usage& before, const RunningUse& ended, Instant now, Instant floor,
               Instant from, Instant until) {
  if (before.as_of < floor || before.meta.created > until)
    return before;  // that is forgotten already
  const std::string& qos = ended.spec->qos;
  const Duration half_life = half_life_of(directory, qos);
  const Duration span = until - std::max({from, ended.allocation->granted, floor});
  const Spent back =
      decayed(accrued(ended.allocation->tres, std::max(Duration{}, span), half_life, usage_factor_of(directory, qos)),
              now - until, half_life);
  Spent spent = decayed(Spent{before.spent, before.wall_ms}, now - before.as_of, half_life);
  subtract(spent.tres, back.tres);
  Usage usage = before;
  usage.spent = each(spent.tres, [](std::int64_t v) { return std::max<std::int64_t>(0, v); });
  usage.wall_ms = std::max<std::int64_t>(0, spent.wall_ms - back.wall_ms);
  usage.as_of = now;
  return usage;
}

Spendings::Spendings(const Directory& directory, std::span<const RunningUse> running, Instant now, Instant floor) {
  for (const auto& [name, usage] : directory.usages)
    if (usage->as_of >= floor)
      add(directory, {usage->account, usage->user, usage->partition}, usage->qos,
          decayed(Spent{usage->spent, usage->wall_ms}, now - usage->as_of, half_life_of(directory, usage->qos)));
  for (const RunningUse& use : running) {
    const JobSpec& spec = *use.spec;
    const Association* own = directory.association(spec.account, spec.user, use.allocation->partition);
    add(directory, {spec.account, spec.user, own ? own->partition : ""}, spec.qos,
        accrued(use.allocation->tres, now - std::max(use.allocation->granted, floor), half_life_of(directory, spec.qos),
                usage_factor_of(directory, spec.qos)));
  }
}

void Spendings::add(const Directory& directory, const Key& key, const std::string& qos, const Spent& spent) {
  add_spent(leaves_[key], spent);
  add_spent(qos_[qos], spent);
  for (const Account* account : directory.chain_of(std::get<0>(key))) add_spent(accounts_[account->meta.name], spent);
}

namespace {
Spent found(const auto& map, std::string_view name) {
  const auto it = map.find(name);
  return it == map.end() ? Spent{} : it->second;
}
}  // namespace

Spent Spendings::of_account(std::string_view account) const { return found(accounts_, account); }
Spent Spendings::of_qos(std::string_view qos) const { return found(qos_, qos); }

Spent Spendings::of_user(std::string_view account, UserId user) const {
  Spent out;
  for (auto it = leaves_.lower_bound({std::string(account), user, ""});
       it != leaves_.end() && std::get<0>(it->first) == account && std::get<1>(it->first) == user; ++it)
    add_spent(out, it->second);
  return out;
}

Spent Spendings::of_association(const Directory& directory, const Association& association) const {
  for (const auto& [id, user] : directory.users)
    if (user->meta.name == association.user) {
      const auto it = leaves_.find({association.account, id, association.partition});
      if (it != leaves_.end())
        return it->second;
    }
  return {};
}

}  // namespace lockstep
