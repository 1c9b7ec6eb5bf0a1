#include "rules/reservation.h"

#include <algorithm>

#include "base/text.h"
#include "model/reservation.h"
#include "model/spec.h"

namespace lockstep {

namespace {

constexpr std::int64_t kHour = std::int64_t{3600} * 1'000'000;
constexpr std::int64_t kDay = 24 * kHour;
constexpr std::int64_t kWeek = 7 * kDay;

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0); }

// 0 = Sunday.
int weekday_of(const Reservation& r, std::int64_t us) {
  const std::int64_t days = floor_div(us + std::int64_t{r.zone_s} * 1'000'000, kDay);
  return static_cast<int>(((days + 4) % 7 + 7) % 7);  // 1970-01-01 was a Thursday
}

bool on_such_a_day(const Reservation& r, std::int64_t us) {
  const int day = weekday_of(r, us);
  const bool weekend = day == 0 || day == 6;
  return r.recurrence == Recurrence::kWeekend ? weekend : r.recurrence != Recurrence::kWeekday || !weekend;
}

std::int64_t period_of(Recurrence recurrence) {
  switch (recurrence) {
    case Recurrence::kNone: return 0;
    case Recurrence::kHourly: return kHour;
    case Recurrence::kDaily:
    case Recurrence::kWeekday:
    case Recurrence::kWeekend: return kDay;
    case Recurrence::kWeekly: return kWeek;
  }
  return 0;
}

bool contains(const std::vector<std::string>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// "-name" shuts out; with only such entries everybody else is let in.
struct Passes {
  bool named = false, shut_out = false, any_listed = false;
};
Passes passes(const std::vector<std::string>& list, const std::vector<std::string>& names) {
  Passes out;
  for (const std::string& entry : list) {
    if (entry.starts_with('-')) {
      out.shut_out = out.shut_out || contains(names, std::string_view(entry).substr(1));
    } else {
      out.any_listed = true;
      out.named = out.named || contains(names, entry);
    }
  }
  return out;
}

// Whether a job that names it may start under it. As in Slurm it may be one that runs longer than the window is open:
// it ends with the window.
bool lets_start(const Reservation& r, WallTime from) { return r.flex || in_force(r, from); }

// Until when a job that names it runs, at most.
WallTime end_under(const Reservation& r, WallTime from, WallTime to) {
  const auto window = r.flex ? std::nullopt : window_after(r, from);
  return window ? std::min(to, window->end) : to;
}

// Whether a job that it draws may run under it for all of [from, to).
bool has_room(const Reservation& r, WallTime from, WallTime to) {
  if (r.flex)
    return true;
  const auto window = window_after(r, from);
  return window && window->start <= from && to <= window->end;
}

}  // namespace

std::optional<Window> window_after(const Reservation& r, WallTime t) {
  const std::int64_t period = period_of(r.recurrence);
  std::int64_t start = r.start.us;
  if (period != 0 && start + r.duration.us <= t.us)
    start += floor_div(t.us - start - r.duration.us, period) * period + period;
  // At most a weekend or five weekdays are skipped.
  for (int tries = 0; tries < 8; ++tries, start += period) {
    if (start + r.duration.us <= t.us) {
      if (period == 0)
        return std::nullopt;
      continue;
    }
    if (on_such_a_day(r, start) || period == 0)
      return Window{{start}, {start + r.duration.us}};
  }
  return std::nullopt;
}

std::vector<Window> windows_between(const Reservation& r, WallTime from, WallTime to, std::size_t count_max) {
  std::vector<Window> out;
  WallTime t = from;
  while (out.size() < count_max) {
    const auto window = window_after(r, t);
    if (!window || window->start >= to)
      break;
    out.push_back(*window);
    t = window->end;
  }
  return out;
}

std::optional<Duration> longest_gap(const Reservation& r) {
  if (r.recurrence == Recurrence::kNone)
    return std::nullopt;
  // Gaps repeat themselves within a week at the latest.
  constexpr std::size_t kWindowsOfAWeek = 24 * 7;
  const std::vector<Window> windows = windows_between(r, r.start, {r.start.us + 3 * kWeek}, 2 * kWindowsOfAWeek);
  Duration longest;
  for (std::size_t i = 1; i < windows.size(); ++i)
    longest = std::max(longest, Duration{windows[i].start.us - windows[i - 1].end.us});
  return longest;
}

bool in_force(const Reservation& r, WallTime t) {
  const auto window = window_after(r, t);
  return window && window->start <= t;
}

bool overlap(const Reservation& a, const Reservation& b) {
  const WallTime from = std::max(a.start, b.start);
  const WallTime to{from.us + 4 * kWeek};
  const auto one = windows_between(a, from, to, 1024), other = windows_between(b, from, to, 1024);
  for (auto x = one.begin(), y = other.begin(); x != one.end() && y != other.end();) {
    if (x->start < y->end && y->start < x->end)
      return true;
    (x->end < y->end ? x : y)++;
  }
  return false;
}

namespace {

Result<void> check_dates(const Reservation& r) {
  const std::string& name = r.meta.name;
  if (r.duration.us <= 0 || r.duration >= kForever)
    return invalid(format("Requested end time is not after the start of reservation {}", name), "duration_us");
  const std::int64_t period = period_of(r.recurrence);
  if (period != 0 && r.duration.us > period)
    return invalid(format("reservation {} would overlap with its own next occurrence: the longest duration is {} s",
                          name, period / 1'000'000),
                   "duration_us");
  const bool by_weekday = r.recurrence == Recurrence::kWeekday || r.recurrence == Recurrence::kWeekend;
  if (by_weekday && !on_such_a_day(r, r.start.us))
    return invalid(format("reservation {} begins on a day it does not recur on", name), "start_us");
  return {};
}

// It keeps something, and for somebody.
Result<void> check_purpose(const Reservation& r) {
  const std::string& name = r.meta.name;
  if (r.nodes.empty() && r.licenses.empty())
    return invalid(format("reservation {} keeps nothing: name nodes, a number of nodes or licences", name), "nodes");
  if (!r.any_nodes && r.nodes.empty())
    return invalid(format("reservation {} names no nodes: ANY_NODES keeps licences alone", name), "nodes");
  if (r.users.empty() && r.accounts.empty() && r.groups.empty() && r.qos.empty())
    return invalid(format("reservation {} lets nobody in: name users, accounts or groups", name), "users");
  return {};
}

}  // namespace

Result<void> check_reservation(const Reservation& r) {
  if (r.meta.name.empty() || r.meta.name.find_first_of(" ,/") != std::string::npos)
    return invalid("a reservation needs a name without blanks, commas and slashes", "name");
  TRY(check_dates(r));
  TRY(check_purpose(r));
  if (r.static_alloc && (r.replace || r.replace_down))
    return invalid("STATIC_ALLOC contradicts REPLACE and REPLACE_DOWN", "static_alloc");
  if (r.purge_after.us < 0 || r.start_delay_max.us < 0)
    return invalid("a span of time is negative", "purge_after_us");
  return {};
}

bool keeps_node(const Reservation& r, std::string_view node) {
  if (r.any_nodes && r.nodes.empty())
    return false;
  if (r.nodes.size() == 1 && r.nodes.front() == "ALL")
    return true;
  return std::binary_search(r.nodes.begin(), r.nodes.end(), node);
}

bool admits(const Directory& directory, const Reservation& r, const JobSpec& spec) {
  const User* user = directory.user(spec.user);
  std::vector<std::string> users, accounts, groups;
  if (user) {
    users = {user->meta.name, std::to_string(user->uid)};
    groups.push_back(std::to_string(user->gid));
    for (std::uint32_t gid : user->groups) groups.push_back(std::to_string(gid));
  }
  accounts.push_back(spec.account);
  for (const Account* account : directory.chain_of(spec.account)) accounts.push_back(account->meta.name);
  bool any_listed = false, named = false;
  for (const Passes& p :
       {passes(r.users, users), passes(r.accounts, accounts), passes(r.groups, groups), passes(r.qos, {spec.qos})}) {
    if (p.shut_out)
      return false;
    any_listed = any_listed || p.any_listed;
    named = named || p.named;
  }
  return named || !any_listed;
}

const Reservation* reservation_of(const Directory& directory, const JobSpec& spec, WallTime from, WallTime to) {
  if (directory.reservations.empty())
    return nullptr;
  if (!spec.reservation.empty()) {
    for (const std::string& name : split(spec.reservation, ',')) {
      const Reservation* r = directory.reservation(name);
      if (r && admits(directory, *r, spec) && lets_start(*r, from))
        return r;
    }
    return nullptr;
  }
  for (const auto& [name, r] : directory.reservations)
    if (r->magnetic && has_room(*r, from, to) && admits(directory, *r, spec))
      return r.get();
  return nullptr;
}

const Reservation* keeps_away(const Directory& directory, const JobSpec& spec, const Reservation* own,
                              std::string_view node, WallTime from, WallTime to) {
  if (own && !spec.reservation.empty())
    to = end_under(*own, from, to);
  for (const auto& [name, r] : directory.reservations) {
    if (r.get() == own || !keeps_node(*r, node))
      continue;
    const auto window = window_after(*r, from);
    if (!window || window->start >= to)
      continue;
    // Where two overlap, the jobs of each may use what it keeps, but nobody runs through a maintenance.
    if (own && keeps_node(*own, node) && !r->maint && (r->overlap || own->overlap))
      continue;
    // A job that it lets in may run up to its end even without naming it, when it draws such jobs.
    if (r->magnetic && spec.reservation.empty() && has_room(*r, from, to) && admits(directory, *r, spec))
      continue;
    return r.get();
  }
  return nullptr;
}

namespace {

// Of several that a job names each will do; its nodes may be of one or of another.
std::vector<const Reservation*> usable_ones(const Directory& directory, const JobSpec& spec, const Reservation* own,
                                            WallTime from) {
  if (spec.reservation.empty())
    return {own};
  std::vector<const Reservation*> out;
  for (const std::string& name : split(spec.reservation, ','))
    if (const Reservation* r = directory.reservation(name); r && admits(directory, *r, spec) && lets_start(*r, from))
      out.push_back(r);
  return out;
}

std::optional<ReservationDenial> node_denial(const Directory& directory, const JobSpec& spec, const Reservation* own,
                                             const std::string& node, WallTime from, WallTime to) {
  const bool inside = own && !spec.reservation.empty() && !own->flex && !(own->any_nodes && own->nodes.empty());
  if (inside && !keeps_node(*own, node))
    return ReservationDenial{"Reservation", own->meta.name, node, {}};
  if (const Reservation* other = keeps_away(directory, spec, own, node, from, to))
    return ReservationDenial{"ReqNodeNotAvail", other->meta.name, node, window_after(*other, from)->end};
  return std::nullopt;
}

// None of those that the job names lets it in now: until the last of them does, or begins again.
ReservationDenial outside_denial(const Directory& directory, const JobSpec& spec, WallTime from) {
  ReservationDenial no{"Reservation", spec.reservation, "", {}};
  bool any = false;
  for (const std::string& name : split(spec.reservation, ','))
    if (const Reservation* r = directory.reservation(name)) {
      any = true;
      if (const auto window = window_after(*r, from))
        no.until = window->start > from ? window->start : window->end;
    }
  if (!any)
    no.reason = "ReservationDeleted";
  return no;
}

}  // namespace

std::optional<ReservationDenial> reservation_denial(const Directory& directory, const JobSpec& spec,
                                                    const std::vector<std::string>& nodes, WallTime from, WallTime to) {
  if (directory.reservations.empty() && spec.reservation.empty())
    return std::nullopt;
  const Reservation* own = reservation_of(directory, spec, from, to);
  if (!spec.reservation.empty() && !own)
    return outside_denial(directory, spec, from);
  const std::vector<const Reservation*> any = usable_ones(directory, spec, own, from);
  for (const std::string& node : nodes) {
    std::optional<ReservationDenial> first;
    bool open = false;
    for (const Reservation* r : any) {
      auto no = node_denial(directory, spec, r, node, from, to);
      open = open || !no;
      if (no && !first)
        first = std::move(no);
    }
    if (!open)
      return first;
  }
  return std::nullopt;
}

std::string reserved_words(const Reservation& reservation) {
  return reservation.maint ? "Reserved for maintenance" : "Reserved for " + reservation.meta.name;
}

bool shuts_for_good(const Directory& directory, const Reservation& r, const JobSpec& spec, Duration limit) {
  if (!spec.reservation.empty() || (r.magnetic && admits(directory, r, spec)))
    return false;
  const auto gap = longest_gap(r);
  return gap && *gap < limit;
}

std::vector<NamedCount> reserved_licences(const Directory& directory, const Ledger& ledger, const Reservation* own,
                                          WallTime from, WallTime to) {
  std::vector<NamedCount> out;
  for (const auto& [name, r] : directory.reservations) {
    if (r.get() == own || r->licenses.empty())
      continue;
    const auto window = window_after(*r, from);
    if (!window || window->start >= to)
      continue;
    for (NamedCount licence : r->licenses) {
      licence.count = std::max<std::int64_t>(0, licence.count - ledger.licences_in_use_under(name, licence.name));
      const auto it = std::find_if(out.begin(), out.end(), [&](const NamedCount& n) { return n.name == licence.name; });
      if (it == out.end())
        out.push_back(licence);
      else
        it->count += licence.count;
    }
  }
  return out;
}

}  // namespace lockstep
