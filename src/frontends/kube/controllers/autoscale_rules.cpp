#include "frontends/kube/controllers/autoscale_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"

namespace lockstep::kube {

namespace {

constexpr std::int64_t kReplicasMost = std::numeric_limits<std::int32_t>::max();

// Sums are of any size: what is measured and requested comes from outside.
struct ScaleSum {
  double used = 0, requested = 0;
  std::int64_t pods = 0;
  void add(std::int64_t use, std::int64_t request) {
    used += static_cast<double>(use);
    requested += static_cast<double>(request);
    ++pods;
  }
  double percent() const { return requested > 0 ? std::floor(used * 100 / requested) : 0; }
  double average() const { return pods > 0 ? std::floor(used / static_cast<double>(pods)) : 0; }
  double ratio(const ScaleTarget& target) const {
    return (target.utilization ? percent() : average()) / static_cast<double>(target.value);
  }
};

bool tolerated(double ratio, const Tolerances& t) { return ratio >= 1 - t.down && ratio <= 1 + t.up; }

std::int64_t as_replicas(double number) {
  return static_cast<std::int64_t>(std::clamp(std::ceil(number), 0.0, static_cast<double>(kReplicasMost)));
}

std::int64_t sum_since(const std::vector<ScaleNote>& notes, Instant since) {
  std::int64_t sum = 0;
  for (const ScaleNote& note : notes)
    if (note.at > since)
      sum += note.number;
  return sum;
}

// The least and the most that was wanted in the window, what is wanted now among it.
std::int64_t extreme(const std::vector<ScaleNote>& wanted, std::int64_t now_wanted, Instant since, bool least) {
  std::int64_t out = now_wanted;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const bool over = i + 1 < wanted.size() && wanted[i + 1].at <= since;
    if (!over)
      out = least ? std::min(out, wanted[i].number) : std::max(out, wanted[i].number);
  }
  return out;
}

std::int64_t up_limit(std::int64_t current, const ScaleBehavior& behavior, const ScaleHistory& history, Instant now) {
  using Select = ScaleDirection::Select;
  if (behavior.plain)
    return std::max<std::int64_t>(2 * current, 4);
  if (behavior.up.select == Select::kDisabled)
    return current;
  std::optional<std::int64_t> out;
  for (const ScalePolicy& policy : behavior.up.policies) {
    const std::int64_t start =
        current - sum_since(history.ups, now - policy.period) + sum_since(history.downs, now - policy.period);
    const std::int64_t proposed =
        policy.percent ? as_replicas(static_cast<double>(start) * (1 + static_cast<double>(policy.value) / 100))
                       : start + policy.value;
    out = !out ? proposed : behavior.up.select == Select::kLeast ? std::min(*out, proposed) : std::max(*out, proposed);
  }
  return std::max(current, out.value_or(current));
}

std::int64_t down_limit(std::int64_t current, const ScaleBehavior& behavior, const ScaleHistory& history, Instant now) {
  using Select = ScaleDirection::Select;
  if (behavior.plain)
    return 0;
  if (behavior.down.select == Select::kDisabled)
    return current;
  std::optional<std::int64_t> out;
  for (const ScalePolicy& policy : behavior.down.policies) {
    const std::int64_t start =
        current - sum_since(history.ups, now - policy.period) + sum_since(history.downs, now - policy.period);
    const std::int64_t proposed =
        policy.percent
            ? static_cast<std::int64_t>(static_cast<double>(start) * (1 - static_cast<double>(policy.value) / 100))
            : start - policy.value;
    out = !out                                     ? proposed
          : behavior.down.select == Select::kLeast ? std::max(*out, proposed)
                                                   : std::min(*out, proposed);
  }
  return std::min(current, out.value_or(current));
}

}  // namespace

Result<ScaleProposal> propose_replicas(std::int64_t current, const std::vector<ScalePod>& pods,
                                       const ScaleTarget& target, const Tolerances& tolerances) {
  ScaleSum measured;
  std::int64_t ready = 0, unready = 0, missing = 0;
  for (const ScalePod& pod : pods) {
    if (!pod.ready) {
      ++unready;
    } else if (!pod.used) {
      ++missing;
    } else {
      ++ready;
      measured.add(*pod.used, pod.requested);
    }
  }
  if (measured.pods == 0)
    return not_found("did not receive metrics for targeted pods (pods might be unready)");
  if (target.utilization && measured.requested <= 0)
    return not_found("no metrics returned matched known pods");
  ScaleProposal out{current, {}, static_cast<std::int64_t>(measured.average())};
  if (target.utilization)
    out.utilization = static_cast<std::int64_t>(measured.percent());
  const double ratio = measured.ratio(target);
  const bool grows_with_unready = unready > 0 && ratio > 1;
  if (!grows_with_unready && missing == 0) {
    if (!tolerated(ratio, tolerances))
      out.replicas = as_replicas(ratio * static_cast<double>(ready));
    return out;
  }
  // Where it would shrink, those that are not measured count as at their target; where it would grow, as idle.
  ScaleSum all;
  for (const ScalePod& pod : pods) {
    if (pod.ready && pod.used) {
      all.add(*pod.used, pod.requested);
    } else if (pod.ready) {
      const double full = target.utilization ? static_cast<double>(pod.requested) *
                                                   static_cast<double>(std::max<std::int64_t>(100, target.value)) / 100
                                             : static_cast<double>(target.value);
      all.add(ratio < 1 ? static_cast<std::int64_t>(full) : 0, pod.requested);
    } else if (grows_with_unready) {
      all.add(0, pod.requested);
    }
  }
  const double with_all = all.ratio(target);
  if (tolerated(with_all, tolerances) || (ratio < 1 && with_all > 1) || (ratio > 1 && with_all < 1))
    return out;
  const std::int64_t wanted = as_replicas(with_all * static_cast<double>(all.pods));
  if ((with_all < 1 && wanted > current) || (with_all > 1 && wanted < current))
    return out;
  out.replicas = wanted;
  return out;
}

ScaleStep next_step(std::int64_t current, std::int64_t wanted, std::int64_t least, std::int64_t most,
                    const ScaleBehavior& behavior, const ScaleHistory& history, Instant now) {
  const Duration up_window = behavior.plain ? Duration{} : behavior.up.window;
  const std::int64_t floor =
      extreme(up_window.us > 0 ? history.wanted : std::vector<ScaleNote>(), wanted, now - up_window, true);
  const std::int64_t ceiling = extreme(behavior.down.window.us > 0 ? history.wanted : std::vector<ScaleNote>(), wanted,
                                       now - behavior.down.window, false);
  std::int64_t steady = std::max(current, floor);
  steady = std::min(steady, ceiling);
  ScaleStep out{steady, nullptr, "the desired count is within the acceptable range"};
  if (steady != wanted)
    out.held = wanted < steady ? "ScaleDownStabilized" : "ScaleUpStabilized";
  const auto limit = [&](std::int64_t to, const char* reason, const char* message) {
    out.replicas = to;
    out.limited = reason;
    out.limited_message = message;
  };
  if (steady > current || steady > most) {
    const std::int64_t fastest = up_limit(current, behavior, history, now);
    if (steady > std::min(most, fastest))
      fastest < most
          ? limit(fastest, "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
          : limit(most, "TooManyReplicas", "the desired replica count is more than the maximum replica count");
  }
  if (steady < current || steady < least) {
    const std::int64_t fastest = down_limit(current, behavior, history, now);
    if (steady < std::max(least, fastest))
      fastest > least
          ? limit(fastest, "ScaleDownLimit",
                  "the desired replica count is decreasing faster than the maximum scale rate")
          : limit(least, "TooFewReplicas", "the desired replica count is less than the minimum replica count");
  }
  return out;
}

void note_wanted(ScaleHistory& history, std::int64_t wanted, const ScaleBehavior& behavior, Instant now) {
  if (history.wanted.empty() || history.wanted.back().number != wanted)
    history.wanted.push_back({now, wanted});
  const Duration longest = std::max(behavior.down.window, behavior.up.window);
  auto& all = history.wanted;
  while (all.size() > 1 && (all[1].at <= now - longest || all.size() > kScaleNotesMax)) all.erase(all.begin());
  Duration period = seconds(15);
  for (const auto* way : {&behavior.up, &behavior.down})
    for (const ScalePolicy& policy : way->policies) period = std::max(period, policy.period);
  for (auto* notes : {&history.ups, &history.downs}) {
    std::erase_if(*notes, [&](const ScaleNote& note) { return note.at <= now - period; });
    if (notes->size() > kScaleNotesMax)
      notes->erase(notes->begin(), notes->end() - static_cast<std::ptrdiff_t>(kScaleNotesMax));
  }
}

void note_scaled(ScaleHistory& history, std::int64_t from, std::int64_t to, Instant now) {
  if (to > from)
    history.ups.push_back({now, to - from});
  else if (to < from)
    history.downs.push_back({now, from - to});
}

}  // namespace lockstep::kube
