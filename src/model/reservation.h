// Reservation: nodes (or licences) kept for some users during a window, once or again and again.
#pragma once

#include <string>
#include <vector>

#include "model/meta.h"
#include "model/tres.h"

namespace lockstep {

enum class Recurrence : unsigned char { kNone, kHourly, kDaily, kWeekday, kWeekend, kWeekly };

struct Reservation {
  Meta meta;       // meta.name
  WallTime start;  // of the first window
  Duration duration;
  Recurrence recurrence = Recurrence::kNone;
  std::int32_t zone_s = 0;  // seconds east of Greenwich of the calendar its weekdays are counted in

  std::vector<std::string> nodes;  // host names, sorted; {"ALL"} = every node
  std::uint32_t node_count = 0;    // asked for instead of names: the core chooses
  Tres tres;                       // the same by amount: cpu, gpus
  std::string partition;           // nodes are chosen here; "" = the default one
  std::string features;            // … and satisfy this constraint
  std::vector<NamedCount> licenses;

  // Who may use it: a user passes who is named, or whose account or group is. A leading "-" shuts out instead.
  std::vector<std::string> users, accounts, groups, qos;

  bool maint = false;         // maintenance: its nodes show as such, what was planned over it does not count as use
  bool overlap = false;       // may overlap with others
  bool ignore_jobs = false;   // may be made over nodes that are busy
  bool flex = false;          // its jobs may start before it, end after it and use other nodes too
  bool any_nodes = false;     // for licences alone: keeps no node
  bool spec_nodes = false;    // made of named nodes
  bool part_nodes = false;    // all nodes of its partition
  bool magnetic = false;      // draws every job that may use it, without being named
  bool replace = false;       // nodes that are down or in use by its jobs are replaced by others
  bool replace_down = false;  // only those that are down
  bool static_alloc = false;  // never replaced
  bool no_hold_jobs_after = false;  // jobs that wait for it may run elsewhere once it is over
  bool purge_comp = false;          // removed when unused for purge_after within its window
  Duration purge_after;
  Instant unused_since;      // purge_comp: no job has named it since; 0 = some do
  Duration start_delay_max;  // jobs that start no later may be delayed this long to use it (MaxStartDelay)
};

}  // namespace lockstep
