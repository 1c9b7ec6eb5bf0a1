#include "foresight/reserved.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/text.h"
#include "foresight/cluster_copy.h"
#include "rules/fit.h"
#include "rules/reservation.h"

namespace lockstep {

namespace {

std::string_view how_often(Recurrence recurrence) {
  switch (recurrence) {
    case Recurrence::kNone: return "once";
    case Recurrence::kHourly: return "every hour";
    case Recurrence::kDaily: return "every day";
    case Recurrence::kWeekday: return "every weekday";
    case Recurrence::kWeekend: return "every day of the weekend";
    case Recurrence::kWeekly: return "every week";
  }
  return "";
}

Duration limit_on(const JobSpec& spec, const Partition& partition) {
  if (spec.time_min.us != 0)
    return spec.time_min;
  if (spec.time_limit.us != 0)
    return spec.time_limit;
  return partition.time_default.us != 0 ? partition.time_default : partition.time_max;
}

// Whether without the nodes these keep some group has too few.
bool too_few(const Tables& tables, const JobSpec& spec, const Partition& partition,
             const std::vector<const Reservation*>& shut) {
  return std::any_of(spec.groups.begin(), spec.groups.end(), [&](const GroupSpec& group) {
    std::uint32_t left = 0;
    for (const auto& [id, node] : tables.nodes) {
      const auto keeps = [&](const Reservation* r) { return keeps_node(*r, node->meta.name); };
      left += eligible(*node, partition, group) && std::none_of(shut.begin(), shut.end(), keeps);
      if (left >= std::max(1u, group.nodes.min))
        return false;
    }
    return true;
  });
}

// The reservation that lets a job run for the shortest time.
struct Shut {
  const Reservation* by = nullptr;
  Duration gap;    // between two of its windows
  Duration asked;  // how long the job may run
};

// nullopt: in this partition the job can start one day.
std::optional<Shut> shut_in(const Tables& tables, const JobSpec& spec, const Partition& partition) {
  const Duration limit = limit_on(spec, partition);
  std::vector<const Reservation*> shut;
  for (const auto& [name, r] : tables.reservations)
    if (shuts_for_good(tables, *r, spec, limit))
      shut.push_back(r.get());
  if (shut.empty() || !too_few(tables, spec, partition, shut))
    return std::nullopt;
  Shut out;
  for (const Reservation* r : shut)
    if (const Duration gap = *longest_gap(*r); !out.by || gap < out.gap)
      out = {r, gap, limit};
  return out;
}

// "06:30:00", "6-20:00:00"
std::string span(Duration length) {
  const std::int64_t s = length.seconds(), days = s / 86'400;
  const std::string clock = format("{:02}:{:02}:{:02}", s / 3600 % 24, s / 60 % 60, s % 60);
  return days > 0 ? format("{}-{}", days, clock) : clock;
}

}  // namespace

std::string shut_out_for_good(const Tables& tables, const JobSpec& spec) {
  if (tables.reservations.empty() || !spec.reservation.empty())
    return "";
  std::optional<Shut> tightest;
  for (const Partition* partition : partitions_asked(tables, spec)) {
    const auto here = shut_in(tables, spec, *partition);
    if (!here)
      return "";
    if (!tightest || here->gap < tightest->gap)
      tightest = here;
  }
  if (!tightest)
    return "";
  const std::string may = tightest->asked >= kForever ? "may run without limit" : "may run " + span(tightest->asked);
  return format(
      "reservation {} comes again {} and leaves its nodes for {} at a time, but the job {}: it can never start; give "
      "it a time limit of {} or less",
      tightest->by->meta.name, how_often(tightest->by->recurrence), span(tightest->gap), may, span(tightest->gap));
}

}  // namespace lockstep
