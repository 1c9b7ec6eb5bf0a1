#include "sched/admission.h"

#include <algorithm>

#include "base/text.h"
#include "rules/usage.h"

namespace lockstep {

namespace {

constexpr std::size_t kWindowsMax = 256;  // of one reservation that a calendar looks at

// Whether something beside the turn orders jobs: a weight counts where there is something for it to weigh.
bool weighs_jobs(const Directory& directory, const Bounding& bounding) {
  const Policy& policy = directory.policy();
  if (policy.weight_age > 0 || policy.weight_job_size > 0 || !policy.weight_tres.empty())
    return true;
  if (policy.weight_assoc > 0 && !directory.associations.empty())
    return true;
  if (policy.weight_fair_share > 0 && !directory.accounts.empty())
    return true;
  return policy.weight_qos > 0 && bounding.prefers();
}

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<Span> joined(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.from < b.from; });
  std::vector<Span> out;
  for (const Span& span : spans) {
    if (!out.empty() && span.from <= out.back().to)
      out.back().to = std::max(out.back().to, span.to);
    else
      out.push_back(span);
  }
  return out;
}

// What is left of [from, to) beside the spans.
std::vector<Span> between(std::vector<Span> spans, WallTime from, WallTime to) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.from < b.from; });
  std::vector<Span> out;
  WallTime at = from;
  for (const Span& span : spans) {
    out.push_back({at, span.from});
    at = std::max(at, span.to);
  }
  out.push_back({at, to});
  return out;
}

using Reservations = std::vector<const Reservation*>;

// Those that the job names and may use.
Reservations own_of(const Directory& directory, const JobSpec& spec) {
  Reservations out;
  for (const std::string& name : split(spec.reservation, ','))
    if (const Reservation* r = directory.reservation(name); r && admits(directory, *r, spec))
      out.push_back(r);
  return out;
}

// The windows of those that the job has on nodes which these reservations keep; nullopt: one of them is in force
// everywhere and always.
std::optional<std::vector<Span>> own_windows(const Reservations& own, const std::vector<std::string>& kept_by,
                                             WallTime from, WallTime to) {
  std::vector<Span> open;
  for (const Reservation* r : own) {
    if (r->flex)
      return std::nullopt;
    if ((r->any_nodes && r->nodes.empty()) || holds(kept_by, r->meta.name))
      for (const Window& w : windows_between(*r, from, to, kWindowsMax)) open.push_back({w.start, w.end});
  }
  return open;
}

// Whether the job may share nodes that the reservation keeps because one of its own overlaps with it there.
bool shares_with(const Reservation& r, const Reservations& own, const std::vector<std::string>& kept_by) {
  return !r.maint && std::any_of(own.begin(), own.end(), [&](const Reservation* o) {
    return (r.overlap || o->overlap) && holds(kept_by, o->meta.name);
  });
}

}  // namespace

void Admission::look_again() {
  const bool before = counts_;
  counts_ = !directory_.licences.empty() || bounding_.counts();
  minutes_ = bounding_.limits_minutes();
  ++counted_;
  bounded_ = counts_ || partitions_choose_ || !directory_.reservations.empty();
  turned_ = turned_ || (counts_ && !before);
  if (counts_ != before)
    ledger_.forget_jobs();
  weighted_ = weighs_jobs(directory_, bounding_);
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
    const T* const after = change.removed ? nullptr : record.get();
    directory_.apply_directory(change);
    bounding_.note(before.get(), after);
    count_anew(ledger_.index(before.get(), after));
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
  const Reservations own = own_of(directory_, spec);
  const auto keeps_away = [&](const Reservation& r) {
    const bool draws = spec.reservation.empty() && r.magnetic && admits(directory_, r, spec);
    return !draws && std::find(own.begin(), own.end(), &r) == own.end() && !shares_with(r, own, kept_by);
  };
  for (const std::string& name : kept_by)
    if (const Reservation* r = directory_.reservation(name); r && keeps_away(*r))
      for (const Window& w : windows_between(*r, from, to, kWindowsMax)) close(w.start, w.end);
  // Who names reservations finds the nodes open only while one of them is in force there.
  if (!spec.reservation.empty())
    if (auto open = own_windows(own, kept_by, from, to))
      for (const Span& span : between(std::move(*open), from, to)) close(span.from, span.to);
  return joined(std::move(closed));
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
