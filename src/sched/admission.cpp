#include "sched/admission.h"

#include <algorithm>

#include "base/text.h"
#include "rules/usage.h"

namespace lockstep {

namespace {

constexpr std::size_t kWindowsMax = 256;  // of one reservation that a calendar looks at

}  // namespace

void Admission::look_again() {
  const bool before = counts_;
  const Policy& policy = directory_.policy();
  static const Limits kNoLimits;
  static const Quota kNoQuota;
  const auto any = [](const auto& records, const auto& bounds) {
    return std::any_of(records.begin(), records.end(), [&](const auto& named) { return bounds(*named.second); });
  };
  counts_ = !directory_.licences.empty() ||
            any(directory_.qos, [](const Qos& q) { return q.limits != kNoLimits || q.requires_reservation; }) ||
            any(directory_.accounts, [](const Account& a) { return a.limits != kNoLimits || a.quota != kNoQuota; }) ||
            any(directory_.associations, [](const Association& a) { return a.limits != kNoLimits; });
  const auto spent = [](const Limits& l) { return !bounds_nothing(l.grp_tres_mins) || l.grp_wall_mins != kNoLimit; };
  minutes_ = any(directory_.qos, [&](const Qos& q) { return spent(q.limits); }) ||
             any(directory_.accounts, [&](const Account& a) { return spent(a.limits); }) ||
             any(directory_.associations, [&](const Association& a) { return spent(a.limits); });
  ++counted_;
  bounded_ = counts_ || partitions_choose_ || !directory_.reservations.empty();
  turned_ = turned_ || (counts_ && !before);
  if (counts_ != before)
    ledger_.forget_jobs();
  const bool ranks = any(directory_.qos, [](const Qos& q) { return q.priority > 0; });
  weighted_ = policy.weight_age > 0 || policy.weight_job_size > 0 || !policy.weight_tres.empty() ||
              (policy.weight_assoc > 0 && !directory_.associations.empty()) ||
              (policy.weight_fair_share > 0 && !directory_.accounts.empty()) || (policy.weight_qos > 0 && ranks);
}

void Admission::count_anew(bool needed) {
  if (!needed)
    return;
  ledger_.forget_jobs();
  turned_ = counts_;
  ++counted_;
}

void Admission::index(const Partition* before, const Partition* after) { count_anew(ledger_.index(before, after)); }

void Admission::partitions_choose(bool some_do) {
  if (partitions_choose_ == some_do)
    return;
  partitions_choose_ = some_do;
  look_again();
}

Admission::Effect Admission::observe(const Change& change) {
  if (const auto* cluster = std::get_if<Ref<Cluster>>(&change.record)) {
    const Duration offset = change.removed ? Duration{} : (*cluster)->wall_offset;
    if (offset == wall_offset_)
      return Effect::kNone;
    wall_offset_ = offset;
    return reserves() ? Effect::kBounds : Effect::kNone;
  }
  if (std::holds_alternative<Ref<Usage>>(change.record)) {
    directory_.apply_directory(change);
    spendings_.reset();
    return Effect::kUsage;
  }
  const auto take_over = [&]<class T>(const Ref<T>& record, const Ref<T>& before) {
    directory_.apply_directory(change);
    count_anew(ledger_.index(before.get(), change.removed ? nullptr : record.get()));
  };
  const auto held = [](const auto& records, const std::string& name) {
    const auto it = records.find(name);
    return it == records.end() ? nullptr : it->second;
  };
  if (const auto* account = std::get_if<Ref<Account>>(&change.record))
    take_over(*account, held(directory_.accounts, (*account)->meta.name));
  else if (const auto* association = std::get_if<Ref<Association>>(&change.record))
    take_over(*association, held(directory_.associations, (*association)->meta.name));
  else if (const auto* qos = std::get_if<Ref<Qos>>(&change.record))
    take_over(*qos, held(directory_.qos, (*qos)->meta.name));
  else if (!directory_.apply_directory(change))
    return Effect::kNone;
  look_again();
  spendings_.reset();
  return std::holds_alternative<Ref<Reservation>>(change.record) ? Effect::kReservations : Effect::kBounds;
}

void Admission::index(const Job* before, const Job* after) {
  if (!counts_)
    return;
  ++counted_;
  ledger_.index(before, after);
}

Instant Admission::usage_floor_at(Instant t) const {
  const WallTime floor = usage_floor(directory_.policy(), wall_at(t));
  return floor ? of_wall(floor) : Instant{};
}

std::optional<Bar> Admission::bar(const StartAsk& ask, Instant now, const AskRunning& running) {
  if (!bounded_)
    return std::nullopt;
  const auto spendings = [&]() -> const Spendings& {
    if (!spendings_ || spendings_at_ != now) {
      const std::vector<RunningUse> uses = running();
      spendings_.emplace(directory_, uses, now, usage_floor_at(now));
      spendings_at_ = now;
    }
    return *spendings_;
  };
  return first_bar(directory_, ledger_, ask, now, wall_at(now), spendings);
}

bool Admission::open_to(const JobSpec& spec, const std::string& node, Instant from, Instant to) const {
  return !reservation_denial(directory_, spec, {node}, wall_at(from), wall_at(to));
}

std::vector<Span> Admission::closed_to(const JobSpec& spec, const std::vector<std::string>& kept_by, WallTime from,
                                       WallTime to) const {
  std::vector<Span> closed;
  const auto close = [&](WallTime a, WallTime b) {
    if (a < b)
      closed.push_back({std::max(a, from), std::min(b, to)});
  };
  std::vector<const Reservation*> own;
  for (const std::string& name : split(spec.reservation, ','))
    if (const Reservation* r = directory_.reservation(name); r && admits(directory_, *r, spec))
      own.push_back(r);
  const auto mine = [&](const Reservation* r) { return std::find(own.begin(), own.end(), r) != own.end(); };
  for (const std::string& name : kept_by) {
    const Reservation* r = directory_.reservation(name);
    if (!r || mine(r) || (spec.reservation.empty() && r->magnetic && admits(directory_, *r, spec)))
      continue;
    const bool shared = !r->maint && std::any_of(own.begin(), own.end(), [&](const Reservation* o) {
      return (r->overlap || o->overlap) && std::find(kept_by.begin(), kept_by.end(), o->meta.name) != kept_by.end();
    });
    if (!shared)
      for (const Window& w : windows_between(*r, from, to, kWindowsMax)) close(w.start, w.end);
  }
  if (!spec.reservation.empty()) {
    // Open only while one of its own is in force there; a flexible one is so everywhere and always.
    std::vector<Span> open;
    bool always = false;
    for (const Reservation* r : own) {
      const bool here = (r->any_nodes && r->nodes.empty()) ||
                        std::find(kept_by.begin(), kept_by.end(), r->meta.name) != kept_by.end();
      always = always || r->flex;
      if (here && !r->flex)
        for (const Window& w : windows_between(*r, from, to, kWindowsMax)) open.push_back({w.start, w.end});
    }
    if (!always) {
      std::sort(open.begin(), open.end(), [](const Span& a, const Span& b) { return a.from < b.from; });
      WallTime at = from;
      for (const Span& span : open) {
        close(at, span.from);
        at = std::max(at, span.to);
      }
      close(at, to);
    }
  }
  std::sort(closed.begin(), closed.end(), [](const Span& a, const Span& b) { return a.from < b.from; });
  std::vector<Span> out;
  for (const Span& span : closed) {
    if (!out.empty() && span.from <= out.back().to)
      out.back().to = std::max(out.back().to, span.to);
    else
      out.push_back(span);
  }
  return out;
}

std::vector<std::string> Admission::keepers_of(const std::string& node) const {
  std::vector<std::string> out;
  for (const auto& [name, reservation] : directory_.reservations)
    if (keeps_node(*reservation, node))
      out.push_back(name);
  return out;
}

Instant Admission::next_boundary(Instant now) const {
  const WallTime wall = wall_at(now);
  Instant next = kNever;
  for (const auto& [name, reservation] : directory_.reservations)
    if (const auto window = window_after(*reservation, wall))
      next = std::min(next, of_wall(window->start > wall ? window->start : window->end));
  return next;
}

Instant Admission::priorities_as_of(Instant now) const {
  const Duration period = std::max(seconds(1), directory_.policy().calc_period);
  return Instant{now.us / period.us * period.us};
}

std::unique_ptr<Priorities> Admission::priorities(Instant as_of, const Tres& cluster, std::uint32_t most_partition,
                                                  const AskRunning& running) const {
  std::vector<RunningUse> uses = directory_.accounts.empty() ? std::vector<RunningUse>() : running();
  std::erase_if(uses, [&](const RunningUse& use) { return use.allocation->granted >= as_of; });
  return std::make_unique<Priorities>(directory_, Spendings(directory_, uses, as_of, usage_floor_at(as_of)), cluster,
                                      most_partition, as_of);
}

}  // namespace lockstep
