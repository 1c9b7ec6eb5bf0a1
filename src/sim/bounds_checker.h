// BoundsChecker: what bounds starts beside nodes, counted again from the committed records alone: limits of QOS,
// accounts and associations, licences, reservations, and what was charged for past use. Shares no code with the rules.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/allocation.h"
#include "model/spec.h"
#include "model/tables.h"
#include "model/tres.h"
#include "sim/verdict.h"

namespace lockstep::sim {

class BoundsChecker {
 public:
  // requeue_delay: from the end of an attempt to Job::begin_after.
  BoundsChecker(Verdict& verdict, Duration requeue_delay) : verdict_(verdict), requeue_delay_(requeue_delay) {}

  // Changes as readers see them, in their order.
  void saw(std::span<const Change> changes);
  // Nothing runs any more.
  void finish();

  std::uint64_t starts_in_reservations() const { return in_reservations_; }
  std::uint64_t growths() const { return growths_; }
  std::uint64_t shrinks() const { return shrinks_; }

 private:
  struct InUse {
    std::int64_t cpu = 0, gpus = 0, memory_mb = 0, jobs = 0;
    std::map<NodeId, std::int64_t> nodes;  // and how many of the jobs are on each: one that several share counts once
    void operator+=(const InUse& o) {
      cpu += o.cpu, gpus += o.gpus, memory_mb += o.memory_mb, jobs += o.jobs;
      for (const auto& [node, count] : o.nodes) nodes[node] += count;
    }
  };
  struct Use {
    std::int64_t cpu_ms = 0, gpu_ms = 0, wall_ms = 0, charges = 0;
  };

  void job_changed(const Job* before, const Job* after);
  void check_start(const Job& job);
  void check_bound(const Job& job, const std::string& whose, const TresLimit& bound, const InUse& all);
  void check_count(const Job& job, const std::string& whose, std::int64_t bound, std::int64_t count);
  void check_reservations(const Job& job, const Allocation* before);
  // from, to: in the time that the calendar shows, in us.
  void check_reserved(const Job& job, const std::string& node, const Reservation* own, std::int64_t from,
                      std::int64_t to);
  bool lets_in(const Reservation& r, const JobSpec& spec) const;
  const Reservation* own_reservation(const JobSpec& spec, std::int64_t at) const;
  void check_licences(const Job& job);
  void charge_change(const Job& before, const Job& after);
  void charge(const Job& job, Instant from, Instant until);
  bool below(const std::string& account, const std::string& above) const;
  template <class F>
  InUse sum(F&& counts) const;
  void complain(const Job& job, const std::string& words);
  static InUse in_use(const Job& job);
  static std::map<std::string, std::int64_t> licences_of(const JobSpec& spec);

  Verdict& verdict_;
  Duration requeue_delay_;
  Tables tables_;
  std::map<std::string, Use> used_;  // by account, user and QOS
  bool accounts_from_the_start_ = true;
  std::uint64_t in_reservations_ = 0, growths_ = 0, shrinks_ = 0;
};

}  // namespace lockstep::sim
