#include "rules/minutes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/text.h"
#include "rules/limits.h"

namespace lockstep {

namespace {

constexpr double kMsOfMinute = 60'000;
constexpr double kHorizonMs = 3.2e11;  // ten years

double ms_of(Duration d) { return static_cast<double>(d.us) / 1000; }

double amount_of(const Tres& tres, const std::string& resource) {
  return resource.empty() ? 1 : static_cast<double>(count_of(tres, resource));
}

// What is spent of one resource under one holder, in ms × amount, as a function of the ms since a reference instant:
// flat + slope × t + fading × 2^-(t / half-life). What runs and fades tends to rate × half-life / ln 2.
struct Curve {
  double flat = 0, slope = 0, fading = 0;

  double at(double t, double half_ms) const {
    return flat + slope * t + (fading == 0 ? 0 : fading * std::exp2(-t / half_ms));
  }
  // The first whole ms from which on it is not below the bound; nullopt: never.
  std::optional<double> reaches(double bound, double now, double half_ms) const {
    if (at(now, half_ms) >= bound)
      return now;
    double low = 0;  // it grows from here on
    if (fading > 0) {
      if (slope <= 0)
        return std::nullopt;
      low = std::floor(std::max(0.0, half_ms * std::log2(fading * M_LN2 / (slope * half_ms))));
    }
    double high = kHorizonMs;
    if (at(high, half_ms) < bound)
      return std::nullopt;
    while (high - low > 1) {
      const double middle = std::floor(low + (high - low) / 2);
      (at(middle, half_ms) >= bound ? high : low) = middle;
    }
    return std::max(high, now);
  }
};

// By holder and resource ("" = wall time).
using Curves = std::map<std::pair<std::string, std::string>, Curve>;

class Spender {
 public:
  Spender(const Directory& directory, Curves& curves, Instant reference)
      : directory_(directory), curves_(curves), reference_(reference) {}

  void add(const Usage& usage) {
    Tres in_ms = usage.spent;
    in_ms.memory_mb *= 1000;
    const double half_ms = ms_of(half_life_of(directory_, usage.qos));
    const double left = half_ms > 0 ? std::exp2(-ms_of(reference_ - usage.as_of) / half_ms) : 1;
    each(usage.account, usage.user, usage.partition, usage.qos, [&](const std::string& resource, Curve& curve) {
      const double spent = resource.empty() ? static_cast<double>(usage.wall_ms) : amount_of(in_ms, resource);
      (half_ms > 0 ? curve.fading : curve.flat) += spent * left;
    });
  }
  void add(const RunningUse& use, Instant floor) {
    const JobSpec& spec = *use.spec;
    const Association* own = directory_.association(spec.account, spec.user, use.allocation->partition);
    const double ran = ms_of(reference_ - std::max(use.allocation->granted, floor));
    const double half_ms = ms_of(half_life_of(directory_, spec.qos));
    const double factor = usage_factor_of(directory_, spec.qos) / 1000.0;
    each(spec.account, spec.user, own ? own->partition : "", spec.qos, [&](const std::string& resource, Curve& curve) {
      const double rate = amount_of(use.allocation->tres, resource) * factor;
      if (half_ms > 0) {
        const double in_the_end = rate * half_ms / M_LN2;
        curve.flat += in_the_end;
        curve.fading -= in_the_end * std::exp2(-ran / half_ms);
      } else {
        curve.flat += rate * ran;
        curve.slope += rate;
      }
    });
  }

 private:
  template <class F>
  void of_holder(const std::string& holder, F&& change) {
    for (auto it = curves_.lower_bound({holder, ""}); it != curves_.end() && it->first.first == holder; ++it)
      change(it->first.second, it->second);
  }
  // The same holders as rules/usage.h adds it to.
  template <class F>
  void each(const std::string& account, UserId user, const std::string& partition, const std::string& qos, F&& change) {
    of_holder("QOS " + qos, change);
    for (const Account* above : directory_.chain_of(account)) of_holder("account " + above->meta.name, change);
    const User* record = directory_.user(user);
    if (record)
      of_holder("association " + association_name(account, record->meta.name, partition), change);
  }

  const Directory& directory_;
  Curves& curves_;
  Instant reference_;
};

}  // namespace

bool bounds_minutes(const Limits& limits) {
  return !bounds_nothing(limits.grp_tres_mins) || limits.grp_wall_mins != kNoLimit ||
         !bounds_nothing(limits.max_tres_mins_per_job);
}

namespace {

// When limits of minutes are used up. Everything follows from the records alone, so that the answer does not hang on
// when it is asked for.
class UsedUpSearch {
 public:
  UsedUpSearch(const Directory& directory, std::span<const MinuteUse> running, Instant now, Instant floor)
      : directory_(directory), running_(running), now_(now) {
    find_bounds();
    if (bounds_anything())
      follow_use(floor);
  }

  bool bounds_anything() const {
    return std::any_of(bounds_.begin(), bounds_.end(), [](const auto& entry) { return !entry.second.empty(); });
  }

  // The bound of the job that is used up first, and when; null: none ever is.
  std::pair<Instant, const MinuteBound*> first_of(const MinuteUse& job) {
    std::pair<Instant, const MinuteBound*> first{kNever, nullptr};
    for (const MinuteBound& bound : bounds_.at(like(job.use)))
      if (const Instant at = used_up(job, bound); at < first.first)
        first = {at, &bound};
    return first;
  }

 private:
  // Jobs alike are bounded alike.
  using Like = std::tuple<std::string, UserId, std::string, std::string>;
  static Like like(const RunningUse& use) {
    return {use.spec->account, use.spec->user, use.spec->qos, use.allocation->partition};
  }

  void find_bounds() {
    for (const MinuteUse& job : running_) {
      if (!job.may_end)
        continue;
      const auto [it, fresh] = bounds_.try_emplace(like(job.use));
      if (!fresh)
        continue;
      it->second = minute_bounds(directory_, *job.use.spec, job.partition);
      for (const MinuteBound& bound : it->second)
        if (!bound.per_job)
          curves_[{bound.holder, bound.resource}];
    }
  }

  // The curves of all that was spent, and of what runs. They begin at a moment that no record is later than.
  void follow_use(Instant floor) {
    reference_ = floor;
    for (const auto& [name, usage] : directory_.usages) reference_ = std::max(reference_, usage->as_of);
    for (const MinuteUse& job : running_)
      if (!job.is_paused)
        reference_ = std::max(reference_, job.use.allocation->granted);
    if (curves_.empty())
      return;
    Spender spender(directory_, curves_, reference_);
    for (const auto& [name, usage] : directory_.usages)
      if (usage->as_of >= floor)
        spender.add(*usage);
    for (const MinuteUse& job : running_)
      if (!job.is_paused)
        spender.add(job.use, floor);
  }

  Instant used_up(const MinuteUse& job, const MinuteBound& bound) {
    if (bound.per_job) {
      const double rate = amount_of(job.use.allocation->tres, bound.resource);
      if (rate <= 0 || job.is_paused)
        return kNever;
      const double span_us = std::min(static_cast<double>(bound.bound) * 60e6 / rate, 3e17);
      return std::max(now_, job.since + micros(static_cast<std::int64_t>(span_us)));
    }
    const auto [it, fresh] = when_.try_emplace({bound.holder, bound.resource, bound.bound}, kNever);
    if (fresh) {
      const double half_ms = ms_of(directory_.policy().half_life), now_ms = ms_of(now_ - reference_);
      if (const auto ms = curves_.at({bound.holder, bound.resource})
                              .reaches(static_cast<double>(bound.bound) * kMsOfMinute, now_ms, half_ms))
        it->second = std::max(now_, reference_ + micros(static_cast<std::int64_t>(*ms * 1000)));
    }
    return it->second;
  }

  const Directory& directory_;
  std::span<const MinuteUse> running_;
  Instant now_, reference_;
  std::map<Like, std::vector<MinuteBound>> bounds_;
  Curves curves_;  // of what several jobs use together
  std::map<std::tuple<std::string, std::string, std::int64_t>, Instant> when_;
};

std::string words_of(const MinuteBound& bound) {
  const char* limit = bound.per_job ? "MaxTRESMins" : bound.resource.empty() ? "GrpWall" : "GrpTRESMins";
  return format("{} of {}: {} minutes of {}", limit, bound.holder, bound.bound,
                bound.resource.empty() ? "wall time" : bound.resource);
}

}  // namespace

UsedUp next_used_up(const Directory& directory, std::span<const MinuteUse> running, Instant now, Instant floor) {
  UsedUp out;
  if (directory.policy().enforce_safe)
    return out;
  UsedUpSearch search(directory, running, now, floor);
  if (!search.bounds_anything())
    return out;
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (!running[i].may_end)
      continue;
    const auto [first, which] = search.first_of(running[i]);
    if (!which || first > out.at)
      continue;
    if (first < out.at) {
      out.at = first;
      out.jobs.clear();
      out.words.clear();
    }
    out.jobs.push_back(i);
    out.words.push_back(words_of(*which));
  }
  return out;
}

}  // namespace lockstep
