// Reservations: when they are in force, whom they let in, and what they keep from others. Times are the calendar's; the
// caller turns cluster time into it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/directory.h"
#include "rules/ledger.h"

namespace lockstep {

struct Window {
  WallTime start, end;  // [start, end)
  friend bool operator==(const Window&, const Window&) = default;
};

// The first window that ends after t; nullopt when all are over. Weekdays and weekends are counted in the calendar of
// Reservation::zone_s. Windows of one reservation never overlap (check_reservation()).
std::optional<Window> window_after(const Reservation& reservation, WallTime t);
// All windows that overlap [from, to), at most `count_max` of them, in order.
std::vector<Window> windows_between(const Reservation& reservation, WallTime from, WallTime to, std::size_t count_max);
bool in_force(const Reservation& reservation, WallTime t);
// The longest time between two of its windows; nullopt: it does not come again, so that it is over one day.
std::optional<Duration> longest_gap(const Reservation& reservation);
// Whether any window of one overlaps any of the other, looking as far as both repeat themselves (four weeks).
bool overlap(const Reservation& a, const Reservation& b);

// What is wrong with a reservation as such, in itself: empty, too long for its recurrence, flags that contradict.
Result<void> check_reservation(const Reservation& reservation);

bool keeps_node(const Reservation& reservation, std::string_view node);
// Whether the user, or the account, group or QOS of the job is let in.
bool admits(const Directory& directory, const Reservation& reservation, const JobSpec& spec);

// The reservation under which the job would run over [from, to): one it names, or one that draws it (magnetic). Null:
// none. A named one counts if it is in force at the start, or at any time when it is flex: what runs under it ends with
// it. One that draws counts if it is in force for all of that time.
const Reservation* reservation_of(const Directory& directory, const JobSpec& spec, WallTime from, WallTime to);

// Why a job may not start on these nodes for [from, to); nullopt = it may. The hard rule the core checks.
struct ReservationDenial {
  std::string reason;       // "Reservation", "ReservationDeleted", "ReqNodeNotAvail"
  std::string reservation;  // whose
  std::string node;         // which is kept, if one is
  WallTime until;           // when the window that stands in the way is over, or the own one begins; 0 = unknown
};
std::optional<ReservationDenial> reservation_denial(const Directory& directory, const JobSpec& spec,
                                                    const std::vector<std::string>& nodes, WallTime from, WallTime to);
// The reservation that keeps the node from the job for some of [from, to); null = none does. For a planner that looks
// node by node; `own` is reservation_of() for the same time.
const Reservation* keeps_away(const Directory& directory, const JobSpec& spec, const Reservation* own,
                              std::string_view node, WallTime from, WallTime to);

// What is told of a job that a reservation keeps from its nodes: "Reserved for maintenance".
std::string reserved_words(const Reservation& reservation);
// Whether the reservation never leaves a node it keeps to the job for as long as it may run: it comes again too soon.
bool shuts_for_good(const Directory& directory, const Reservation& reservation, const JobSpec& spec, Duration limit);

// Licences that reservations other than the job's own keep during [from, to) and that their jobs do not use yet.
std::vector<NamedCount> reserved_licences(const Directory& directory, const Ledger& ledger, const Reservation* own,
                                          WallTime from, WallTime to);

}  // namespace lockstep
