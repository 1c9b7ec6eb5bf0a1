// The only way cluster state changes. No I/O, no clock, no threads, no globals.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/action.h"
#include "model/command.h"
#include "model/object_share.h"
#include "model/tables.h"
#include "rules/fit.h"

namespace lockstep {

struct Outcome {
  Answer answer;
  std::vector<Change> changes;  // in seq order, already in the state
  std::vector<Event> events;
  std::vector<Action> actions;
  // Set when the command was cut: this much is done and stays done. Apply it again with this part before its caller is
  // answered; an error of a later part takes back that part alone.
  std::optional<CommandPart> rest;
  std::size_t bytes = 0;  // about so many take the records that were made or grew, as they are stored
};

// A job that ended by itself or by its limit, long ago: what predictions may learn from it.
struct PastRun {
  UserId user;
  std::string name;
  std::int64_t size = 1;  // devices; cores where it had none
  Duration limit = kForever, ran;
};

// Settings of decisions that are not records. Read once at start.
struct CoreSettings {
  Duration requeue_delay = seconds(2);  // a requeued job's begin_after
  std::uint32_t requeues_max = 5;       // automatic ones; then held (Slurm's MaxBatchRequeue)
  Duration keep_ended = seconds(300);   // ended jobs stay listed this long (Slurm's MinJobAge)
  Duration fence_after = minutes(15);   // for attempts that may be requeued; longer than any pause that costs nothing
  // A node confirms in this time that what it was told to stop has stopped, its kill_wait aside, or it takes no new
  // work (Slurm's UnkillableStepTimeout). kForever: nobody asks.
  Duration unkillable_after = seconds(60);
  std::uint32_t jobs_max = 2'000'000;  // records
  std::uint32_t array_size_max = 1'000'000'000;
  std::uint64_t user_elements_max = 1'000'000'000;  // of a user's arrays, without a record of their own yet
  Duration default_time_limit = kForever;
  bool kill_invalid_dependency = false;  // Slurm's DependencyParameters=kill_invalid_depend
  bool defragment = false;               // running jobs may be moved so that a waiting one fits
  Duration move_after = minutes(10);     // since their start
  ObjectShares object_shares = {};
  std::uint64_t first_job = 1;  // no job gets a lower id: those were given out, though the log may have lost them
};

class ClusterState {
 public:
  explicit ClusterState(CoreSettings settings = {});
  ~ClusterState();
  ClusterState(ClusterState&&) noexcept;
  ClusterState& operator=(ClusterState&&) noexcept;

  // Rebuilds from committed changes (snapshot first, then the tail).
  void restore(std::span<const Change> changes);
  // What predictions of jobs to come are made from is no record: it is taught at a start, the oldest first.
  void teach(std::span<const PastRun> runs);
  // What is no record is handed on when the state is rebuilt in the middle of a life: that, and what was learned of
  // nodes since the start. Whoever said hello after the last stored() has not been heard.
  void inherit(const ClusterState& before);
  void stored();  // every change so far is on disk

  const Tables& tables() const;
  const CoreSettings& settings() const;
  const NodeLoad& load(NodeId node) const;  // sum of the grants held there
  Instant next_timer() const;               // when a Tick would do something; kNever if nothing is due

  // Opaque to everyone but apply() and check_invariants().
  struct Inner;
  Inner& inner() { return *inner_; }
  const Inner& inner() const { return *inner_; }

 private:
  std::unique_ptr<Inner> inner_;
};

// Applies one command at cluster time now (never earlier than the last). An error changes nothing.
// ApplyPlan never fails as a whole: each start is re-checked (job still pending and unchanged since `read` in what
// matters, nodes usable, devices, cores and memory free, check_allocation) and applied or dropped on its own.
Result<Outcome> apply(ClusterState& state, const Command& command, Instant now);

// Stops with a CHECK when a promise is broken: loads equal the sum of grants, no device or core held twice, gangs
// whole, allocation set exactly in the states that hold one, array counts, every index agrees with the tables, seqs
// unique.
void check_invariants(const ClusterState& state);

// What the node should be told, given what it says it holds: launches it misses, stops for what should not be there.
std::vector<Action> reconcile(const ClusterState& state, NodeId node, std::span<const Holding> holdings);

}  // namespace lockstep
