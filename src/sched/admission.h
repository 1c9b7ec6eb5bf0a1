// Admission: what bounds a start beside nodes, as the planner sees it: limits, quotas, licences, reservations, and the
// weights of priority. Keeps the directory and the ledger that rules/admission.h and rules/priorities.h ask for,
// brought forward by the same changes as the core's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/directory.h"
#include "rules/admission.h"
#include "rules/priorities.h"
#include "sched/bounding.h"

namespace lockstep {

// A span of the calendar, [from, to).
struct Span {
  WallTime from, to;
  friend bool operator==(const Span&, const Span&) = default;
};

class Admission {
 public:
  enum class Effect : unsigned char {
    kNone,
    kBounds,        // what may start, or its priority, may be different
    kUsage,         // what was spent changed: so do priorities, and what limits of minutes allow
    kReservations,  // nodes are kept for others than before
  };
  // Takes over a change of a record it keeps. Jobs come through index().
  Effect observe(const Change& change);
  void index(const Job* before, const Job* after);
  void index(const Partition* before, const Partition* after);
  void partitions_choose(bool some_do);  // some partition takes only some accounts or QOS
  void count(const Claim& claim, std::int64_t times) {
    ++counted_;
    ledger_.count(claim, times);
  }
  std::uint64_t counted() const { return counted_; }  // clock of changes of the ledger

  // Anything that could bar a start; while false, bar() says nothing.
  bool bounded() const { return bounded_; }
  // Limits, quotas or licences among it: else the ledger is not kept. turned_counting: it has just become so, or jobs
  // count for others than before, and every job and every proposal is to be counted once.
  bool counts() const { return counts_; }
  // Anything that could bar one who names neither a licence nor a reservation, and wants no nodes that are kept.
  bool bars_all() const { return counts_ || partitions_choose_; }
  bool counts_minutes() const { return minutes_; }  // that were spent
  bool turned_counting() { return std::exchange(turned_, false); }
  bool reserves() const { return !directory_.reservations.empty(); }

  const Directory& directory() const { return directory_; }
  const Bounding& bounding() const { return bounding_; }
  const Ledger& ledger() const { return ledger_; }
  WallTime wall_at(Instant t) const { return {t.us + wall_offset_.us}; }
  Instant of_wall(WallTime t) const { return {t.us - wall_offset_.us}; }

  // Jobs that hold an allocation; asked for only where a limit of minutes or fair share looks at what they used.
  using AskRunning = std::function<std::vector<RunningUse>()>;
  std::optional<Bar> bar(const StartAsk& ask, Instant now, const AskRunning& running);
  // Whether the reservations that keep `node` leave it to the job for [from, to).
  bool open_to(const JobSpec& spec, const std::string& node, Instant from, Instant to) const;
  // When they do not, within [from, to): sorted, apart. For a calendar: that a magnetic reservation draws the job at
  // some times only is not seen.
  std::vector<Span> closed_to(const JobSpec& spec, const std::vector<std::string>& kept_by, WallTime from,
                              WallTime to) const;
  // Names of the reservations that keep the node at one time or another, sorted.
  std::vector<std::string> keepers_of(const std::string& node) const;
  // The moments after `now` at which a node may open to a job that it is closed to now: windows begin and end.
  Instant next_boundary(Instant now) const;

  // Priority. weighted: it may differ from the one in the record; most_partition is the highest Partition::priority. It
  // counts as of whole Policy::calc_period of cluster time, so that it does not hang on when it was worked out.
  bool weighted(std::uint32_t most_partition) const {
    return weighted_ || (most_partition > 0 && directory_.policy().weight_partition > 0);
  }
  Instant priorities_as_of(Instant now) const;
  std::unique_ptr<Priorities> priorities(Instant as_of, const Tres& cluster, std::uint32_t most_partition,
                                         const AskRunning& running) const;

 private:
  Instant usage_floor_at(Instant t) const;
  void look_again();
  void count_anew(bool needed);

  Directory directory_;
  Bounding bounding_;
  Ledger ledger_;
  Duration wall_offset_;
  bool bounded_ = false, counts_ = false, minutes_ = false, turned_ = false, weighted_ = false,
       partitions_choose_ = false;
  std::uint64_t counted_ = 1;
  std::optional<Spendings> spendings_;
  Instant spendings_at_;
};

}  // namespace lockstep
